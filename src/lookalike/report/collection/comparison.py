"""The section that compares models: how well each finds the same identity and category, and experts' judgements."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lookalike.metrics.metric import Metric
from lookalike.report.bars import Bar, interval_bars
from lookalike.report.collection.words import called
from lookalike.report.figure import Figure, FigurePanel
from lookalike.report.html import data_table, mark, short, text
from lookalike.report.leaderboard.standing import Number, Standing
from lookalike.report.leaderboard.standing import called as called_on_board
from lookalike.report.leaderboard.words import interval
from lookalike.report.numbers import MISSING, number, plural
from lookalike.study.survey import Retrieval, Survey

if TYPE_CHECKING:
    from lookalike.discovery import Leaderboard

__all__ = ["comparison_section"]

JUDGED = "Judged by experts"
DIFFERENT = (
    " To find the same thing again, to find its kind and to find what people call alike are different questions: the "
    "best model may not be the same."
)
GROUPS = {"identity": "Same identity, other image", "category": "Same category"}


@dataclass(frozen=True)
class _Column:
    group: str
    title: str
    value: Callable[[str], float]  # of a model
    interval: Callable[[str], tuple[float, float]]


def comparison_section(survey: Survey, board: "Leaderboard | None") -> tuple[str, Figure | None]:
    """The table of models, and the figure that belongs below it; nothing without labels."""
    if not survey.retrieval:
        return "", None
    columns = _columns(survey, board)
    asked = " ".join(_asked(retrieval) for retrieval in survey.retrieval)
    html = (
        '<section id="models"><h2>Which model finds what</h2>'
        f'<p class="reading">{text(asked)} Numbers are expected over ties; below them, 95\u202f% intervals over '
        'queries. Bold: best.</p><div class="scroll fit plain" tabindex="0" role="region" aria-label="Models compared">'
        f"{_table(survey, columns)}</div></section>"
    )
    return html, _figure(survey, columns)


def _asked(retrieval: Retrieval) -> str:
    drawn = f"{len(retrieval.queries):,} of the {plural(retrieval.eligible, 'item')}"
    if len(retrieval.queries) == retrieval.eligible:
        drawn = f"all {plural(retrieval.eligible, 'item')}"
    if retrieval.label == "identity":
        return f"Identity: {drawn} with another image of the same thing search for it; the query itself does not rank."
    out = "images of the query’s own identity do not rank" if retrieval.without_identity else "the query does not rank"
    return f"Category: {drawn} with others of their category search for these; {out}."


def _columns(survey: Survey, board: "Leaderboard | None") -> list[_Column]:
    columns = [
        _Column(
            GROUPS[retrieval.label],
            called(metric.label),
            partial(_retrieval_mean, retrieval, metric),
            partial(_retrieval_ends, retrieval, metric),
        )
        for retrieval in survey.retrieval
        for metric in retrieval.metrics
    ]
    if board is None:
        return columns
    standing = Standing(board)
    shown = dict.fromkeys([standing.lead, *([Number(standing.hits)] if standing.hits is not None else [])])
    return columns + [
        _Column(JUDGED, called_on_board(*of), partial(_on_board, standing, of), partial(_ends, standing, of))
        for of in shown
    ]


def _on_board(standing: Standing, of: Number, model: str) -> float:
    return standing.value(model, *of) if model in standing.models else math.nan


def _ends(standing: Standing, of: Number, model: str) -> tuple[float, float]:
    return standing.interval(model, *of)


def _retrieval_mean(retrieval: Retrieval, metric: Metric, model: str) -> float:
    return retrieval.evaluations[model][metric].mean if model in retrieval.evaluations else math.nan


def _retrieval_ends(retrieval: Retrieval, metric: Metric, model: str) -> tuple[float, float]:
    return retrieval.intervals[model][metric] if model in retrieval.intervals else (math.nan, math.nan)


def _table(survey: Survey, columns: list[_Column]) -> str:
    groups = "".join(
        f"<th colspan='{sum(column.group == group for column in columns)}' scope='colgroup'>{group}</th>"
        for group in dict.fromkeys(column.group for column in columns)
    )
    heads = "".join(
        f"<th scope='col'{_first(columns, index)}>{text(column.title)}</th>" for index, column in enumerate(columns)
    )
    best = [_highest(round(column.value(model), 12) for model in survey.models) for column in columns]
    ranked = survey.retrieval[0].ranking()
    models = [*ranked, *(model for model in survey.models if model not in ranked)]
    rows = "".join(_row(survey, model, columns, best) for model in models)
    return (
        f"<table class='models'><thead><tr class='heads'><td></td><td class='kind'></td>{groups}</tr>"
        f"<tr><th scope='col'>Model</th><th scope='col' class='kind'>Kind</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _kind(words: str) -> str:
    """The kind of a model, shortened.

    >>> _kind("embeddings of 1,280 numbers, cosine"), _kind("codes of 64 bits"), _kind("run")
    ('1,280 numbers, cosine', '64 bits', 'run')
    """
    return words.removeprefix("embeddings of ").removeprefix("codes of ")


def _highest(values: Iterable[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _first(columns: list[_Column], index: int) -> str:
    return " class='first'" if index == 0 or columns[index - 1].group != columns[index].group else ""


def _row(survey: Survey, model: str, columns: list[_Column], best: list[float]) -> str:
    index = list(survey.models).index(model)
    cells = [
        f"<th scope='row' title='{text(model)}'>{mark(index)} {text(short(model, 28))}</th>",
        f"<td class='kind'>{text(_kind(survey.models[model]))}</td>",
    ]
    for at, (column, highest) in enumerate(zip(columns, best, strict=True)):
        value = column.value(model)
        shown = text(number(value))
        ends = interval(column.interval(model)).replace(" to ", "–")
        below = f"<small>{text(ends)}</small>" if ends and not math.isnan(value) else ""
        inner = f"<b>{shown}</b>" if round(value, 12) == highest and len(survey.models) > 1 else shown
        cells.append(f"<td{_first(columns, at)}>{inner}{below}</td>")
    return f"<tr data-model='{index}'>{''.join(cells)}</tr>"


def _figure(survey: Survey, columns: list[_Column]) -> Figure:
    """Bars of each group's main number."""
    panels, rows = [], []
    mains = {column.group: column for column in reversed(columns) if column.title == "AP" or column.group == JUDGED}
    for column in reversed(mains.values()):
        models = sorted(
            (model for model in survey.models if not math.isnan(column.value(model))), key=lambda m: -column.value(m)
        )
        bars = [Bar(model, column.value(model), column.interval(model)) for model in models]
        title = f"{column.group}: {column.title}"
        told = "; ".join(f"{bar.model} {number(bar.value)} ({interval(bar.interval)})" for bar in bars)
        panels.append(FigurePanel(text(title), f"{title}. {told}.", interval_bars(bars)))
        rows += [(bar.model, title, number(bar.value), interval(bar.interval) or MISSING) for bar in bars]
    return Figure(
        "identification",
        "Bars",
        "Side by side",
        f"The best first; the whisker is the 95 % interval over queries.{DIFFERENT if len(panels) > 1 else ''}",
        panels,
        data_table(["model", "number", "expected", "95 % interval"], rows),
        least="20rem",
        most=min(3, len(panels)),
    )
