"""What every result that is a table can be written as."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lookalike.core.checks import whole_number
from lookalike.core.files import write_text
from lookalike.core.tables.latex import as_latex
from lookalike.core.tables.render import as_csv, as_html, as_markdown
from lookalike.core.tables.table import ResultTable

__all__ = ["FORMATS", "TableFormats", "written"]

FORMATS: dict[str, Callable[[ResultTable], str]] = {"csv": as_csv, "latex": as_latex, "markdown": as_markdown}


class TableFormats:
    """A result that is a table: LaTeX, Markdown, CSV and HTML of it.

    All take the options of the result's own `to_table`, digits (behind the point, 4; CSV has all of them) and transpose
    (rows become columns), write to `path` if it is given, and return the text.
    """

    def to_table(self, *_: Any, **options: Any) -> ResultTable:
        """The result as a table that is not yet text."""
        raise NotImplementedError

    def to_latex(
        self, path: str | Path | None = None, *, caption: str | None = None, label: str | None = None, **options: Any
    ) -> str:
        """The table for LaTeX with booktabs: the best number of a column bold, the second underlined.

        caption, label: with one of them, the tabular stands in a table. The caption is LaTeX, as it is.
        """
        return written(as_latex(self._marked(**options), caption, label) + "\n", path)

    def to_markdown(self, path: str | Path | None = None, **options: Any) -> str:
        """The table with pipes: the best number of a column bold, the second in italics."""
        return written(as_markdown(self._marked(**options)) + "\n", path)

    def to_csv(self, path: str | Path | None = None, **options: Any) -> str:
        """The table as CSV: all digits of every number, nan left empty; text that looks like a formula is marked."""
        return written(as_csv(self._marked(**options)), path)

    def to_html(self, path: str | Path | None = None, **options: Any) -> str:
        """The table as HTML without scripts: the best number of a column bold, the second underlined."""
        return written(as_html(self._marked(**options)) + "\n", path)

    def _repr_html_(self) -> str:
        return as_html(self._marked())

    def _marked(self, *, digits: int = 4, transpose: bool = False, **options: Any) -> ResultTable:
        places = whole_number("digits", digits, 0, 17)
        table = replace(self.to_table(**options), digits=places).with_marks()
        return table.transposed() if transpose != table.lying else table


def written(text: str, path: str | Path | None) -> str:
    """The text, written to a file if one is given."""
    if path is not None:
        write_text(path, text)
    return text
