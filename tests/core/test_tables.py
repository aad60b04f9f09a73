"""Tables of results: marks, escapes, round trips, and LaTeX that compiles where LaTeX is installed."""

from __future__ import annotations

import html
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.core.csv_files import read_csv
from lookalike.core.errors import InputError
from lookalike.core.tables.latex import as_latex, in_latex, unprintable
from lookalike.core.tables.render import as_csv, as_html, as_markdown, as_text
from lookalike.core.tables.table import DAGGER, ResultTable, TableCell, TableHead, TieRange, ValueRange

NAN = math.nan
UP, DOWN = TableHead("AP", higher_is_better=True), TableHead("FNMR", higher_is_better=False)


def places(values: list[float | None], head: TableHead = UP, digits: int = 4) -> list[int]:
    """The marks of a column: 1 best, 2 second, 0 nothing."""
    rows = [[f"s{i}", value] for i, value in enumerate(values)]
    return [row[1].place for row in ResultTable.of(["system", head], rows, digits=digits).with_marks().rows]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.3, 0.2], [0, 1, 2]),
        ([0.3, 0.3, 0.2], [1, 1, 2]),
        ([0.3, 0.2, 0.2], [1, 2, 2]),
        ([0.3, 0.3, 0.3], [1, 1, 1]),
        ([0.3, 0.2], [1, 0]),  # the other of two is not marked as the second
        ([0.3], [0]),
        ([0.3, NAN], [0, 0]),
        ([NAN, 0.1, None, 0.3, 0.2], [0, 0, 0, 1, 2]),
        ([0.30001, 0.30002, 0.2], [1, 1, 2]),  # equal as they are shown
        ([NAN, NAN], [0, 0]),
        ([], []),
    ],
)
def test_marks_by_hand(values: list[float | None], expected: list[int]) -> None:
    assert places(values) == expected
    lower = [value if value is None else -value for value in values]
    assert places(lower, DOWN) == expected
    assert places(values, TableHead("bits")) == [0] * len(values)


def test_marks_go_by_the_digits_that_are_shown() -> None:
    assert places([0.301, 0.302, 0.2], digits=2) == [1, 1, 2]
    assert places([0.301, 0.302, 0.2], digits=3) == [2, 1, 0]


def test_a_table_that_lies_down_keeps_its_marks() -> None:
    table = ResultTable.of(["system", UP, DOWN], [["a", 0.9, 0.5], ["b", 0.8, 0.1]]).with_marks().transposed()
    assert [head.name for head in table.heads] == ["metric", "a", "b"]
    assert [[cell.place for cell in row] for row in table.rows] == [[0, 1, 0], [0, 0, 1]]
    assert "of each row" in as_html(table)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two columns named 'AP'"):
        ResultTable.of(["system", UP, UP], [])


def some_table() -> ResultTable:
    rows = [
        ["a_b", TableCell(0.5, sign=DAGGER), TieRange(0.2, 0.3, 0.1), ValueRange(-0.1, 0.2), 3],
        ["c|d", TableCell(0.75), TieRange(NAN, NAN, NAN), ValueRange(NAN, NAN), None],
    ]
    heads = ["system", UP, TableHead("RR"), TableHead("interval"), TableHead("n")]
    return ResultTable.of(heads, rows, legend=("What it is.",), notes=("100 % of it",)).with_marks()


def test_each_format() -> None:
    table = some_table()
    assert as_text(table).splitlines()[1].split() == ["a_b", "0.5000†", *["0.2000", "(0.1000", "to", "0.3000)"],
                                                      "-0.1000", "to", "0.2000", "3"]  # fmt: skip
    markdown = as_markdown(table).splitlines()
    assert markdown[3].startswith("| c\\|d")
    assert "**0.7500**" in markdown[3]
    assert markdown[3].count("–") == 3
    assert len({len(line) for line in markdown[:4]}) == 1  # pipes are in line
    assert '<td style="text-align: right"><b>0.7500</b></td>' in as_html(table)
    latex = as_latex(table, "A caption", "tab:x")
    assert r"\textbf{0.7500}" in latex
    assert r"a\_b & 0.5000\rlap{$^{\dagger}$} & 0.2000$^{0.3000}_{0.1000}$" in latex
    assert r"\caption{A caption. The best number of each column is bold. What it is.}" in latex
    assert "% 100 % of it" in latex
    assert r"\label{tab:x}" in latex
    assert r"\begin{table}" not in as_latex(table)


def test_csv_has_a_column_for_each_part(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(as_csv(some_table()))
    columns = read_csv(path, ["system"]).columns
    assert list(columns) == ["system", "AP", "RR", "RR best", "RR worst", "interval low", "interval high", "n"]
    assert columns["RR best"] == ["0.3", ""]
    assert columns["n"] == ["3", ""]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.text(min_size=1), st.floats(allow_nan=True, allow_infinity=False)), max_size=5
    )
)  # fmt: skip
def test_csv_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    rows = [(name.encode("utf-8", "replace").decode(), value) for name, value in rows]
    path.write_bytes(as_csv(ResultTable.of(["system", UP], rows)).encode())
    table = read_csv(path, ["system", "AP"]).columns
    assert table["system"] == [name for name, _ in rows]
    read = [float(text) if text else NAN for text in table["AP"]]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, (_, b) in zip(read, rows, strict=True))


@given(st.text())
def test_no_text_opens_a_cell_or_a_tag(text: str) -> None:
    table = ResultTable.of(["system", "x"], [[text, "end"]])
    row = as_markdown(table).split("\n")[2]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    inside = as_html(table).split("<tbody>")[1]
    assert inside.count("<") == 8
    assert html.unescape(inside.split(">")[2].split("<")[0]) == (text or "")


@given(st.text())
def test_every_sign_of_latex_is_escaped(text: str) -> None:
    """Outside of math and commands, no sign is left that LaTeX reads; braces come in pairs, on one line."""
    latex = in_latex(text)
    assert "\n" not in latex
    assert "\r" not in latex
    bare = re.sub(r"\\[{}_%&#$]", "", latex)  # escaped signs are gone
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[%&#~]", re.sub(r"\\~", "", bare))
    assert not re.search(r"[_^]", re.sub(r"\$[^$]*\$|\\\^", "", bare))
    assert not latex.startswith(("[", "*"))  # which would belong to the end of the row before


def test_letters_that_stay_are_said() -> None:
    assert unprintable(["Ångström – naïve ≤ α", "plain"]) == set()
    table = ResultTable.of(["模型", UP], [["ресурс", 0.5]])
    latex = as_latex(table)
    assert latex.splitlines()[1].startswith("% needs XeLaTeX or LuaLaTeX, and a font that has")
    assert "模型 & AP" in latex
    assert len({len(line.encode("utf-16-le")) for line in as_text(table).splitlines()}) >= 1


@pytest.mark.parametrize(("caption", "sign"), [("50% of it", r"\\%"), ("a & b", r"\\&"), ("a {b", "braces")])
def test_a_caption_that_latex_cannot_read(caption: str, sign: str) -> None:
    with pytest.raises(InputError, match=sign):
        as_latex(some_table(), caption)


def test_a_label_that_latex_cannot_read() -> None:
    with pytest.raises(InputError, match="label must be"):
        as_latex(some_table(), label="a{b")


STRANGE = "_ % & # $ { } ~ ^ \\ < > | \" ' ` [x] *y a--b ''c'' ?` − × – … † ≤ é Łódź Ångström ï ǰ ß α ½ ©"


def structure(latex: str) -> None:
    """Assert that environments are closed, and that every row has as many cells as there are columns."""
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", latex):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", latex)
    assert columns is not None
    rows = [line for line in latex.splitlines() if line.endswith(r" \\")]
    assert rows
    assert all(len(re.findall(r"(?<!\\)&", row)) == len(columns[1]) - 1 for row in rows)


TABLES = {
    "usual": some_table(),
    "strange": ResultTable.of([STRANGE, TableHead(STRANGE[:9])], [[STRANGE, -1e-9], ["[a]", 0.5], ["*b", None]],
                              legend=(STRANGE,), notes=(STRANGE,)),
    "one row": ResultTable.of(["system", UP], [["a", 0.5]]),
    "no rows": ResultTable.of(["system", UP], []),
    "nan": ResultTable.of(["system", UP], [["a", NAN], ["b", 0.5]]).with_marks(),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_structure_of_latex(name: str) -> None:
    structure(as_latex(TABLES[name]))
    structure(as_latex(TABLES[name], "A caption", "tab:a_b"))


def has_latex() -> bool:
    """Whether pdflatex and booktabs are installed, as in Debian's texlive-latex-recommended."""
    if not shutil.which("pdflatex") or not shutil.which("kpsewhich"):
        return False
    return subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_latex(), reason="needs pdflatex and booktabs; the structure is checked without them")
def test_latex_compiles(tmp_path: Path) -> None:
    parts = [part for table in TABLES.values() for part in (as_latex(table), as_latex(table, "A caption", "tab:a"))]
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "t.tex").write_text(head + "\n\n".join(parts) + "\n\\end{document}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "t.log").read_text(errors="replace")
