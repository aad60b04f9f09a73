"""A table of results as a value: heads, rows of numbers and text, and which numbers are the best of their column."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lookalike.core.errors import InputError
from lookalike.core.figures import shown

DAGGER = "†"
BEST, SECOND = 1, 2

__all__ = ["BEST", "DAGGER", "SECOND", "ResultTable", "TableCell", "TableHead", "TieRange", "ValueRange", "cell_of"]


class TieRange(NamedTuple):
    """A number, and the best and worst that an order of tied items can give."""

    expected: float
    best: float
    worst: float


class ValueRange(NamedTuple):
    """The low and the high end of an interval."""

    low: float
    high: float


class TableHead(NamedTuple):
    """The head of a column.

    higher_is_better: whether a higher number is better; None: the column says nothing of good and bad, and no number of
    it is marked. main: the numbers to report, bold on a terminal.
    """

    name: str
    align: str = "right"  # or "left"
    higher_is_better: bool | None = None
    main: bool = False


class TableCell(NamedTuple):
    """What is in a place of a table.

    text: how it is shown, where the digits of the table do not say that. place: BEST or SECOND of its column, or 0.
    sign: a mark behind it, such as a dagger. signed: a number shows its plus too.
    """

    value: float | str | TieRange | ValueRange | None
    text: str | None = None
    place: int = 0
    sign: str = ""
    signed: bool = False

    @property
    def number(self) -> float | None:
        """What it is compared by; None for text, for what is missing, and for nan."""
        value = self.value.expected if isinstance(self.value, TieRange) else self.value
        return value if isinstance(value, int | float) and not math.isnan(value) else None

    def shown(self, digits: int) -> str:
        """It as plain text, nan for nan, without its marks."""
        if self.text is not None:
            return self.text
        if isinstance(self.value, TieRange):
            expected, best, worst = (self.figure(part, digits) for part in self.value)
            return f"{expected} ({worst} to {best})"
        if isinstance(self.value, ValueRange):
            return " to ".join(self.figure(part, digits) for part in self.value)
        if isinstance(self.value, float):
            return self.figure(self.value, digits)
        return "" if self.value is None else str(self.value)

    def figure(self, number: float, digits: int) -> str:
        """A number of it as text."""
        return f"{number:+.{digits}f}" if self.signed else shown(number, digits)

    @property
    def missing(self) -> bool:
        """Whether there is no value to show."""
        value = self.value.expected if isinstance(self.value, TieRange) else self.value
        if isinstance(value, ValueRange):
            value = value.low
        return self.text is None and (value is None or (isinstance(value, float) and math.isnan(value)))


def cell_of(value: Any) -> TableCell:
    """A cell of a value: a number, text, nothing, an interval, or a cell already."""
    return value if isinstance(value, TableCell) else TableCell(value)


def _plain(value: Any) -> Any:
    """A value as a table takes it: yes or no, text, or a number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if value is None or isinstance(value, str | int | float | tuple) else str(value)


@dataclass(frozen=True)
class ResultTable:
    """A table of results that is not yet text.

    legend: what readers must know to read the table, in sentences. notes: where the numbers come from. by_row: numbers
    are compared within a row, not within a column. lying: it is better shown with a column for each row. across: what
    the heads of numbers are, the head of the first column then.
    """

    heads: tuple[TableHead, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    title: str = ""
    legend: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    digits: int = 4
    by_row: bool = False
    lying: bool = False
    across: str = "metric"

    @classmethod
    def of(cls, heads: Sequence[Any], rows: Sequence[Sequence[Any]], **facts: Any) -> "ResultTable":
        """A table of heads and plain values. A head that is only a name is that of a column of text, to the left."""
        full = tuple(TableHead(head, "left") if isinstance(head, str) else head for head in heads)
        names = [head.name for head in full]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"a table cannot have two columns named {twice!r}: give one of them another name")
        return cls(full, tuple(tuple(map(cell_of, row)) for row in rows), **facts)

    @classmethod
    def of_rows(
        cls, rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None, **facts: Any
    ) -> "ResultTable":
        """A table of dictionaries; text is to the left, numbers are to the right. names: of the columns, if not all."""
        keys = list(dict.fromkeys(key for row in rows for key in row)) if names is None else names
        numbers = {key for key in keys if any(isinstance(row.get(key), int | float) for row in rows)}
        heads = [TableHead(key) if key in numbers else key for key in keys]
        return cls.of(heads, [[_plain(row.get(key)) for key in keys] for row in rows], **facts)

    def with_column(self, head: TableHead, cells: Sequence[Any]) -> "ResultTable":
        """The same with one more column at its end."""
        rows = ((*row, cell_of(cell)) for row, cell in zip(self.rows, cells, strict=True))
        return replace(self, heads=(*self.heads, head), rows=tuple(rows))

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.heads), f"{len(row)} cells below {len(self.heads)} heads"

    def legend_with(self, best: str, second: str) -> tuple[str, ...]:
        """The legend, and before it what marks the best and the second number, where some are marked."""
        places = {cell.place for row in self.rows for cell in row}
        if BEST not in places:
            return self.legend
        what = f"The best number of each {'row' if self.by_row else 'column'} is {best}"
        return (what + f", the second {second}" * (SECOND in places) + ".", *self.legend)

    def with_marks(self) -> "ResultTable":
        """The same with the best and the second number of each column marked, as far as its head allows it.

        Numbers are compared as they are shown: what looks equal is marked alike. A number that stands alone is not
        marked, and a second is only marked where there are three numbers or more.

        >>> heads = ["system", TableHead("AP", higher_is_better=True), TableHead("FNMR", higher_is_better=False)]
        >>> marked = ResultTable.of(heads, [["a", 0.9, 0.3], ["b", 0.8, 0.1], ["c", 0.7, 0.2]]).with_marks()
        >>> [[cell.place for cell in row] for row in marked.rows]
        [[0, 1, 0], [0, 2, 1], [0, 0, 2]]
        """
        columns = [self._places(index, head) for index, head in enumerate(self.heads)]
        rows = [
            tuple(cell._replace(place=place) for cell, place in zip(row, places, strict=True))
            for row, places in zip(self.rows, zip(*columns, strict=True), strict=True)
        ]
        return replace(self, rows=tuple(rows))

    def _places(self, index: int, head: TableHead) -> list[int]:
        numbers = [row[index].number for row in self.rows]
        present = [number for number in numbers if number is not None]
        if head.higher_is_better is None or len(present) < 2:
            return [0] * len(numbers)
        seen = [None if number is None else float(shown(number, self.digits)) for number in numbers]
        order = sorted({number for number in seen if number is not None}, reverse=head.higher_is_better)
        places = {order[0]: BEST}
        if len(order) > 1 and len(present) > 2:
            places[order[1]] = SECOND
        return [0 if number is None else places.get(number, 0) for number in seen]

    def transposed(self) -> "ResultTable":
        """The same with a column for each row; marks stay with their numbers."""
        names = [row[0].shown(self.digits) for row in self.rows]
        heads = [self.across, *(TableHead(name) for name in names)]
        rows = [
            [TableCell(head.name), *(row[index] for row in self.rows)]
            for index, head in enumerate(self.heads)
            if index > 0
        ]
        facts = {name: getattr(self, name) for name in ("title", "legend", "notes", "digits")}
        return ResultTable.of(heads, rows, by_row=not self.by_row, across=self.heads[0].name, **facts)
