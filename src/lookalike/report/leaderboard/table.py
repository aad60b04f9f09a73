"""The leaderboard's table: a row for each model, in the groups of Barkan et al. 2023, table 5."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lookalike.discovery.leaderboard import effect
from lookalike.metrics.metric import Metric
from lookalike.report.html import header, short, sortable, text
from lookalike.report.leaderboard.standing import Number, Standing, called, kind
from lookalike.report.leaderboard.words import interval
from lookalike.report.numbers import MISSING, number, percent

EVEN, TOP, GUARDS, UNJUDGED, OTHERS = (
    "On equal terms",
    "In the top k",
    "How much was judged",
    "For gaps in judging",
    "Others",
)
TITLED = (EVEN, "AUC", "PRAUC")  # groups whose columns are unclear without the group's name
PLACES = {"VSDHR": TOP, "VSDMRR": TOP, "AUC": "AUC", "PRAUC": "PRAUC", "Judged": GUARDS, "P": GUARDS}
PLACES |= {"Bpref": UNJUDGED, "RBP": UNJUDGED}
MEANINGS = {
    "VSDHR": "positives in the top k of all queries, over k for each; what nobody judged counts as wrong",
    "VSDMRR": "1/rank of every positive in the top k, over 1 + 1/2 + … + 1/k; what nobody judged counts as wrong",
    "AUC": "share of (positive, negative) pairs that the scores put in the right order",
    "PRAUC": "area under the curve of precision over recall",
    "Judged": "share of the top k that somebody judged: below 80 % metrics of ranks say little",
    "P": "share of positives in the top k, from none of the unjudged being one to all of them",
    "Bpref": "how often judged positives rank above judged negatives; unjudged items do not matter",
    "nDCG": "grades in the top k, discounted by rank, over those of the best order; what nobody judged counts as 0",
    "RBP": "chance to look at each positive in turn, summed; the residual is what unjudged items could add",
}

__all__ = ["LeaderboardColumn", "columns", "leaderboard_table", "meanings"]


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column of numbers."""

    group: str
    title: str
    meaning: str
    value: Callable[[str], float]  # of a model
    of: Number | None = None  # whose value it is, unless it is derived from it
    shown: Callable[[float], str] = number
    until: Callable[[str], float] | None = None  # where a range ends that the value begins
    best: bool = True  # whether the best number is marked


def columns(standing: Standing) -> list[LeaderboardColumn]:
    """The columns of the board's metrics, group by group."""
    made = [column for metric in _ordered(standing.metrics) for column in _of(standing, metric)]
    order = [TOP, "AUC", "PRAUC", GUARDS, UNJUDGED, OTHERS]
    both = [*_equal_terms(standing), *sorted(made, key=lambda column: order.index(column.group))]
    lead = next((index for index, column in enumerate(both) if column.of == standing.lead), None)
    if lead is not None and both[lead].group in TITLED:
        both.insert(lead + 1, _span(standing, both[lead].group))
    return both


def leaderboard_table(standing: Standing) -> str:
    """The table, groups of models below each other, the best of a column bold."""
    shown = columns(standing)
    bodies = "".join(_body(standing, name, models, shown) for name, models in standing.groups)
    return (
        "<table id='comparison'><caption class='unseen'>Models compared; press a header to sort</caption>"
        f"<thead>{_head(shown, standing.lead)}</thead>{bodies}</table>"
    )


def meanings(standing: Standing) -> str:
    """What the columns mean."""
    items = "".join(f"<dt>{text(_full(column))}</dt><dd>{text(column.meaning)}</dd>" for column in columns(standing))
    return f"<dl>{items}</dl>"


def _ordered(metrics: list[Metric]) -> list[Metric]:
    """Areas of judged negatives first, then those of sampled ones; macro before micro; all others as they came."""

    def key(metric: Metric) -> tuple[bool, bool]:
        options = metric.options()
        return options.get("negatives", "judged") != "judged", metric.micro

    return sorted(metrics, key=key)


def _of(standing: Standing, metric: Metric) -> list[LeaderboardColumn]:
    """The columns of a metric."""
    group = PLACES.get(metric.name, OTHERS)
    meaning = MEANINGS.get(metric.name, metric.measure.summary)
    options = metric.options()

    def value(model: str) -> float:
        return standing.value(model, metric)

    if metric.name == "Judged":
        return [LeaderboardColumn(group, called(metric), meaning, value, Number(metric), percent, best=False)]
    if metric.name == "P":
        end = partial(standing.upper, metric=metric)
        return [LeaderboardColumn(group, called(metric), meaning, value, Number(metric), until=end)]
    if group not in TITLED:
        residual = options.get("part") == "residual"
        return [LeaderboardColumn(group, called(metric), meaning, value, Number(metric), best=not residual)]
    title = kind(metric)
    each = "of each query, averaged" if options["average"] == "macro" else "over the pairs of all queries together"
    among = {"judged": "judged negatives", "sampled": "items far down as negatives", "both": "both kinds of negatives"}
    made = [LeaderboardColumn(group, title, f"{meaning}; {each}; {among[options['negatives']]}", value, Number(metric))]
    if (own_out := Number(metric, True)) in standing.numbers:
        without = "the same without the judged pairs that the model alone proposed"
        made.insert(
            0, LeaderboardColumn(group, f"{title}, own out", without, partial(standing.own_out, metric=metric), own_out)
        )
    return made


def _equal_terms(standing: Standing) -> list[LeaderboardColumn]:
    """The columns of numbers that compare each two models on equal terms."""
    how = (
        "two models that both built the pool, or both came later, on all pairs; others without the builder's own pairs"
    )
    made = []
    for of in standing.numbers:
        if of.equal_terms:
            meaning = f"{MEANINGS[of.metric.name]}; {how}"
            made.append(LeaderboardColumn(EVEN, of.metric.name, meaning, partial(_value, standing, of), of))
    return made


def _value(standing: Standing, of: Number, model: str) -> float:
    return standing.value(model, *of)


def _span(standing: Standing, group: str) -> LeaderboardColumn:
    """The column of the leading number's interval."""
    meaning = "interval that other queries like these might have given (bootstrap)"
    ends = [partial(_end, standing, index) for index in (0, 1)]
    return LeaderboardColumn(group, "95 %", meaning, ends[0], until=ends[1], best=False)


def _end(standing: Standing, index: int, model: str) -> float:
    """The low or the high end of the interval of the number that models are ranked by."""
    return standing.interval(model, *standing.lead)[index]


def _head(shown: list[LeaderboardColumn], lead: Number) -> str:
    groups = ["<td class='stick'></td>"]
    for group in dict.fromkeys(column.group for column in shown):
        span = sum(column.group == group for column in shown)
        groups.append(f"<th colspan='{span}' scope='colgroup'>{group}</th>")
    cells = [header("model", "Model", "the model's name", "stick", words=True)]
    for column in shown:
        order = "descending" if column.of == lead else "none"
        cells.append(header(_full(column), column.title, _hover(column), _first(column, shown), order=order))
    words = (effect(*column.of) if column.of is not None else "" for column in shown)
    effects = "".join(f"<td class='{_first(c, shown)}'>{word}</td>" for c, word in zip(shown, words, strict=True))
    builders = f"<tr class='effects'><th scope='row' class='stick'>to builders</th>{effects}</tr>"
    return f"<tr class='groups'>{''.join(groups)}</tr>{builders}<tr>{''.join(cells)}</tr>"


def _hover(column: LeaderboardColumn) -> str:
    return column.meaning if column.of is None else f"{column.of.metric.label}: {column.meaning}"


def _full(column: LeaderboardColumn) -> str:
    """A header, with its group where it is unclear without."""
    return f"{column.group}, {column.title}" if column.group in TITLED else column.title


def _first(column: LeaderboardColumn, shown: list[LeaderboardColumn]) -> str:
    """The class of a group's first column."""
    return "first" if next(other for other in shown if other.group == column.group) is column else ""


def _body(standing: Standing, name: str, models: list[str], shown: list[LeaderboardColumn]) -> str:
    label = f"<tr class='group'><th scope='rowgroup' class='stick'>{name}</th><td colspan='{len(shown)}'></td></tr>"
    best = [_best(standing, column) for column in shown]
    rows = "".join(_row(standing, model, shown, best) for model in models)
    return f"<tbody>{label if name else ''}{rows}</tbody>"


def _best(standing: Standing, column: LeaderboardColumn) -> float:
    """The best number of a column, which all models that share it win; nan if all models have the same."""
    values = [round(column.value(model), 12) for model in standing.models]
    defined = [value for value in values if not math.isnan(value)]
    best = max if column.of is None or column.of.metric.sign > 0 else min
    return best(defined) if column.best and defined and len(set(values)) > 1 else math.nan


def _row(standing: Standing, model: str, shown: list[LeaderboardColumn], best: list[float]) -> str:
    name = text(model)
    sticky = f"<th scope='row' class='stick' data-v='{name}' title='{name}'>{standing.mark(model)}"
    cells = [f"{sticky} <span class='name'>{text(short(model, 40))}</span></th>"]
    for column, highest in zip(shown, best, strict=True):
        cells.append(_cell(standing, model, column, round(column.value(model), 12) == highest, _first(column, shown)))
    return f"<tr data-model='{standing.models.index(model)}'>{''.join(cells)}</tr>"


def _cell(standing: Standing, model: str, column: LeaderboardColumn, won: bool, first: str) -> str:
    value = column.value(model)
    shown = text(column.shown(value))
    if column.until is not None and not math.isnan(value):
        end = text(column.shown(column.until(model)))
        shown = shown if shown == end else f"{shown}–{end}"
    classes, notes = [first] if first else [], []
    if column.of is not None:
        if ends := interval(standing.interval(model, *column.of)):
            notes.append(f"95 % interval {ends}")
        if standing.doubtful(model, column.of.metric) and shown != MISSING:
            classes.append("doubt")
            notes.append(f"only {percent(standing.judged(model))} of its top was judged")
    if column.of is None and column.until is not None:
        classes.append("range")
    hover = f" title='{text('; '.join(notes))}'" if notes else ""
    inner = f"<b>{shown}</b>" if won else shown
    return f"<td data-v='{sortable(value)}' class='{' '.join(classes)}'{hover}>{inner}</td>"
