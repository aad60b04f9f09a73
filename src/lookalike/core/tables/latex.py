"""A table of results as LaTeX with the rules of booktabs, and text that LaTeX prints as it is."""

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from lookalike.core.errors import InputError
from lookalike.core.tables.table import BEST, DAGGER, SECOND, ResultTable, TableCell, TieRange, ValueRange

_MARKS = {  # what means something to LaTeX, what its first fonts lack, and what it would join to another sign
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''",
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip
_JOINED = ("--", "``", "''", ",,", "?`", "!`")  # what LaTeX prints as one sign
_SIGNS = {
    "–": "--", "—": "---", "−": "$-$", "…": r"\dots{}", "×": r"$\times$", "·": r"$\cdot$", "±": r"$\pm$",
    "†": r"$\dagger$", "‡": r"$\ddagger$", "≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "≈": r"$\approx$",
    "→": r"$\rightarrow$", "←": r"$\leftarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "∞": r"$\infty$",
    "°": r"$^{\circ}$", "‘": "`", "’": "'", "“": "``", "”": "''", "„": ",,", "«": r"$\ll$", "»": r"$\gg$",
    "§": r"\S{}", "¶": r"\P{}", "©": r"\copyright{}", "£": r"\pounds{}", "½": r"$\frac12$", "¹": "$^1$", "²": "$^2$",
    "³": "$^3$", "√": r"$\surd$", "∈": r"$\in$", "∩": r"$\cap$", "∪": r"$\cup$", "•": r"$\bullet$", "¬": r"$\neg$",
    "÷": r"$\div$", "\u2011": "-", "¡": "!`", "¿": "?`", "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}",
    "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "å": r"\aa{}", "Å": r"\AA{}",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\varepsilon$", "κ": r"$\kappa$",
    "λ": r"$\lambda$", "µ": r"$\mu$", "μ": r"$\mu$", "π": r"$\pi$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "φ": r"$\varphi$", "Δ": r"$\Delta$", "Σ": r"$\Sigma$",
}  # fmt: skip
_ACCENTS = {  # combining accents: the commands that put them above a letter, or below it
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip

__all__ = ["as_latex", "in_latex", "unprintable"]


def as_latex(table: ResultTable, caption: str | None = None, label: str | None = None) -> str:
    """The table as a tabular with the rules of booktabs; with a caption or a label, within a table.

    The best number is bold, the second underlined. What readers must know of marks stands behind the caption; without
    one it is a comment, like where the numbers come from. caption: LaTeX, as it is.
    """
    legend = table.legend_with("bold", "underlined")
    if caption is not None:
        _check_caption(caption)
    if label is not None:
        _check_label(label)
    comments = [r"needs \usepackage{booktabs}", *([table.title] if table.title else []), *table.notes] + [*legend] * (
        caption is None
    )
    if strange := sorted(unprintable(_texts(table))):
        comments.append(f"needs XeLaTeX or LuaLaTeX, and a font that has {' '.join(strange)}")
    lines = [f"% {' '.join(comment.split())}" for comment in comments]
    if caption is None and label is None:
        return "\n".join([*lines, *_tabular(table)])
    lines += [r"\begin{table}", r"  \centering"]
    if caption is not None:
        words = [_sentence(" ".join(caption.split())), *map(in_latex, legend)]
        lines.append(f"  \\caption{{{' '.join(words)}}}\\smallskip")
    if label is not None:
        lines.append(f"  \\label{{{label}}}")
    return "\n".join([*lines, *(f"  {line}" for line in _tabular(table)), r"\end{table}"])


def in_latex(text: str) -> str:
    r"""A text as LaTeX prints it, on one line; letters that it has no command for stay.

    >>> print(in_latex("50 % of a_b – [é] ^2"))
    50 \% of a\_b -- {[}\'{e}{]} \textasciicircum{}2
    """
    letters = " ".join(_printing(text).split())
    apart = ("{}" if before + letter in _JOINED else "" for before, letter in pairwise(f" {letters}"))
    return "".join(space + _letter(letter) for space, letter in zip(apart, letters, strict=True))


def unprintable(texts: Iterable[str]) -> set[str]:
    """The letters that LaTeX cannot print without further packages."""
    return {letter for text in texts for letter in _printing(text) if not _letter(letter).isascii()}


def _printing(text: str) -> str:
    """A text of composed letters, without signs that have no shape of their own, such as control characters."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(
        " " if letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf", "Cs") else letter for letter in composed
    )


def _letter(letter: str) -> str:
    if letter.isascii():
        return _MARKS.get(letter, letter)
    if letter in _SIGNS:
        return _SIGNS[letter]
    base, *accents = list(unicodedata.normalize("NFD", letter))
    if len(accents) == 1 and base.isascii() and base.isalpha() and accents[0] in _ACCENTS:
        dotless = f"\\{base}{{}}" if base in "ij" and accents[0] != "\u0327" else base
        return f"\\{_ACCENTS[accents[0]]}{{{dotless}}}"
    return letter


def _texts(table: ResultTable) -> list[str]:
    cells = (part for row in table.rows for cell in row for part in (cell.shown(table.digits), cell.sign))
    return [*(head.name for head in table.heads), *cells]


def _tabular(table: ResultTable) -> list[str]:
    columns = "".join(head.align[0] for head in table.heads)
    heads = " & ".join(in_latex(head.name) for head in table.heads)
    rows = [" & ".join(_cell(cell, table.digits) for cell in row) for row in table.rows]
    lines = [r"\toprule", rf"{heads} \\", r"\midrule", *(rf"{row} \\" for row in rows), r"\bottomrule"]
    tabular = [rf"\begin{{tabular}}{{{columns}}}", *(f"  {line}" for line in lines), r"\end{tabular}"]
    if any(isinstance(cell.value, TieRange) for row in table.rows for cell in row):  # room for what is above and below
        return [r"\begingroup\renewcommand{\arraystretch}{1.3}%", *tabular, r"\endgroup"]
    return tabular


def _cell(cell: TableCell, digits: int) -> str:
    if cell.missing:
        return "--"
    value, scripts = cell.value, ""
    if cell.text is not None or isinstance(value, str | int | None):
        text = in_latex(cell.shown(digits))
    elif isinstance(value, TieRange):
        text, best, worst = (_number(cell.figure(part, digits)) for part in value)
        scripts = f"$^{{{best}}}_{{{worst}}}$".replace("{$", "{").replace("$}", "}")
    elif isinstance(value, ValueRange):
        text = " to ".join(_number(cell.figure(part, digits)) for part in value)
    else:
        text = _number(cell.figure(value, digits))
    command = {BEST: r"\textbf", SECOND: r"\underline"}.get(cell.place)
    sign = r"$^{\dagger}$" if cell.sign == DAGGER else in_latex(cell.sign)
    if sign and not scripts:
        sign = rf"\rlap{{{sign}}}"  # without a width, so that numbers stay in line
    return (text if command is None else f"{command}{{{text}}}") + sign + scripts


def _number(text: str) -> str:
    r"""A number as LaTeX prints it, with a minus sign and powers of ten.

    >>> print(_number("-0.50"), _number("1.0e-05"))
    $-0.50$ $1.0\cdot10^{-5}$
    """
    if "e" in text:
        mantissa, _, power = text.partition("e")
        return rf"${mantissa}\cdot10^{{{int(power)}}}$"
    return f"${text}$" if text[0] in "+-" else text


def _check_caption(caption: str) -> None:
    """Raise for a caption that LaTeX cannot read."""
    if sign := re.search(r"(?<!\\)[%#&]", caption):
        raise InputError(f"caption is LaTeX: write \\{sign[0]} for {sign[0]}, got {caption!r}")
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", caption):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            break
    if depth:
        raise InputError(f"caption is LaTeX: its braces must come in pairs, got {caption!r}")


def _check_label(label: str) -> None:
    """Raise for a label that LaTeX cannot refer to."""
    if not re.fullmatch(r"[\w :./+-]+", label, flags=re.ASCII):
        raise InputError(f"label must be letters, digits and : . / _ + - such as tab:results, got {label!r}")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
