"""The comparison table: a row for each hasher and length, with accuracy, ties, dispersion and use of codes."""

import math
from collections.abc import Callable
from typing import NamedTuple

from lookalike.report.hashers.entries import HasherComparison, HasherEntry
from lookalike.report.hashers.words import all_codes
from lookalike.report.html import header, mark, sortable, text
from lookalike.report.numbers import entropy, number, percent, seconds, whole

__all__ = ["COLUMNS", "TableColumn", "comparison_table", "meanings"]


class TableColumn(NamedTuple):
    """A column of numbers: its group, its header, what it means, how it is shown, and which end of it is good."""

    group: str
    key: str
    title: str
    meaning: str
    shown: Callable[[float], str] = number
    good: Callable[..., float] | None = None
    bar: bool = False  # a bar behind the number, of a share from 0 to 1


GLANCE, TIES, NEAR, USE, TIME = "At a glance", "Ties and queries", "Near the query", "Use of the code space", "Seconds"
COLUMNS = (
    TableColumn(GLANCE, "mAP", "mAP", "mean average precision, expected over all orders of tied items", good=max),
    TableColumn(
        GLANCE, "ties", "tie range", "best minus worst mAP: what the order of tied items alone decides", good=min
    ),
    TableColumn(
        GLANCE,
        "LGAP@2",
        "mLGAP@2",
        "within radius 2: high only if near items are relevant and spread",
        good=max,
        bar=True,
    ),
    TableColumn(GLANCE, "distinct", "codes", "distinct codes that carry an item", whole),
    TableColumn(
        GLANCE,
        "possible_utilisation",
        "of possible",
        "distinct codes over as many as there could be: 2ᵇ, or one for each item",
        percent,
        bar=True,
    ),
    TableColumn(TIES, "worst", "worst", "mAP if every tie were broken in the worst order"),
    TableColumn(TIES, "best", "best", "mAP if every tie were broken in the best order"),
    TableColumn(TIES, "low", "95 %", "interval of mAP that other queries like these might have given (bootstrap)"),
    TableColumn(NEAR, "LGAP@0", "mLGAP@0", "precision among items on the query's own code; 0 if there are none"),
    TableColumn(NEAR, "LGAP@1", "@1", "mLGAP within radius 1"),
    TableColumn(NEAR, "LGAP@3", "@3", "mLGAP within radius 3"),
    TableColumn(
        NEAR, "P(radius=2)", "P(r ≤ 2)", "share of relevant items within radius 2; 0 where a query finds none", good=max
    ),
    TableColumn(USE, "utilisation", "of all", "distinct codes over all 2ᵇ codes", percent),
    TableColumn(USE, "entropy", "entropy", "of the code of a random item, in bits", entropy, max),
    TableColumn(USE, "collision_rate", "collisions", "chance that two random items share a code", percent, min),
    TableColumn(USE, "largest", "fullest", "items on the fullest code", whole, min),
    TableColumn(USE, "mixed", "mixed", "items on codes that items of different labels share", whole, min),
    TableColumn(
        USE,
        "within_class",
        "within class",
        "rank correlation of Hamming and feature distance inside a class: 1 if codes keep the order, 0 if they lose it",
        good=max,
    ),
    TableColumn(TIME, "fit_seconds", "fit", "seconds to fit", seconds),
    TableColumn(TIME, "hash_seconds", "hash", "seconds to hash queries and gallery", seconds),
)


def comparison_table(comparison: HasherComparison) -> str:
    """The table, in the order of the trials. The last row has the scores without hashing."""
    scales = {"mAP": _ceiling(comparison), "possible_utilisation": 1.0, "LGAP@2": _largest(comparison, "LGAP@2")}
    winners = _winners(comparison)
    rows = "".join(_row(comparison, entry, scales, winners) for entry in comparison.entries)
    return (
        "<table id='comparison'><caption class='unseen'>Hashers compared; press a header to sort</caption>"
        f"<thead>{_head(scales['mAP'])}</thead><tbody>{rows}</tbody>{_foot(comparison, scales['mAP'])}</table>"
    )


def meanings() -> str:
    """What the columns mean."""
    items = "".join(f"<dt>{text(_full(column))}</dt><dd>{text(column.meaning)}</dd>" for column in COLUMNS)
    bar = (
        "<dt>mAP with its ties</dt><dd>the bar spans worst to best order of tied items, the dot is the expected value, "
        "the whisker its 95 % interval over queries</dd>"
    )
    return f"<dl>{bar}{items}</dl>"


def _full(column: TableColumn) -> str:
    return f"mLGAP{column.title}" if column.title.startswith("@") else column.title


def _head(ceiling: float) -> str:
    groups = ["<td class='stick'></td><td></td>"]
    for group in dict.fromkeys(column.group for column in COLUMNS):
        span = sum(column.group == group for column in COLUMNS) + (group == GLANCE)
        groups.append(f"<th colspan='{span}' scope='colgroup'>{group}</th>")
    names = [
        header("hasher", "Hasher", "the hasher's name", "stick", words=True),
        header("bits", "bits", "length of the codes", rising=True),
    ]
    for column in COLUMNS:
        names.append(header(column.key, column.title, column.meaning, _first(column)))
        if column.key == "mAP":
            scale = f"<span class='scale'><span>0</span><span>with its ties</span><span>{ceiling:g}</span></span>"
            names.append(f"<th scope='col' class='spans'>{scale}</th>")
    return f"<tr class='groups'>{''.join(groups)}</tr><tr>{''.join(names)}</tr>"


def _first(column: TableColumn) -> str:
    """The class of a group's first column."""
    return "first" if next(other for other in COLUMNS if other.group == column.group) is column else ""


def _row(
    comparison: HasherComparison, entry: HasherEntry, scales: dict[str, float], winners: dict[tuple[str, int], float]
) -> str:
    index = comparison.hashers.index(entry.hasher)
    name = text(entry.hasher)
    sticky = f"<th scope='row' class='stick' data-v='{name}' title='{name}'>{mark(index)}"
    cells = [
        f"{sticky} <span class='name'>{name}</span></th>",
        f"<td data-v='{entry.bits}'>{entry.bits}</td>",
    ]
    for column in COLUMNS:
        value = entry[column.key]
        won = column.good is not None and value == winners.get((column.key, entry.bits))
        if column.key == "low":
            cells.append(f"<td data-v='{sortable(value)}' class='range'>{_interval(value, entry['high'])}</td>")
            continue
        shown = f"<b title='best of {entry.bits} bits'>{text(column.shown(value))}</b>" if won else column.shown(value)
        if not won:
            shown = text(shown)
        if column.key == "distinct":
            shown = f"<span title='of {all_codes(entry.bits)}'>{shown}</span>"
        style = f" style='--share:{value / scales[column.key]:.3f}'" if column.bar and not math.isnan(value) else ""
        classes = " ".join(filter(None, [_first(column), "share" if column.bar else ""]))
        cells.append(f"<td data-v='{sortable(value)}' class='{classes}'{style}>{shown}</td>")
        if column.key == "mAP":
            cells.append(_spans(value, entry["worst"], entry["best"], entry["low"], entry["high"], scales["mAP"]))
    return f"<tr data-bits='{entry.bits}' data-hasher='{index}'>{''.join(cells)}</tr>"


def _winners(comparison: HasherComparison) -> dict[tuple[str, int], float]:
    """The best value of each column among the hashers of each length."""
    winners = {}
    for bits in comparison.lengths:
        rivals = comparison.of_length(bits)
        for column in COLUMNS:
            top = comparison.top(column.key, rivals, column.good) if column.good is not None else None  # type: ignore[arg-type]
            if top is not None and any(entry[column.key] != top[column.key] for entry in rivals):
                winners[column.key, bits] = top[column.key]
    return winners


def _foot(comparison: HasherComparison, ceiling: float) -> str:
    if comparison.exact is None:
        return ""
    score = comparison.exact["AP"]
    low, high = score.interval()
    numbers = {"mAP": score.mean, "worst": score.worst, "best": score.best, "ties": score.best - score.worst}
    cells = [f"<th scope='row' class='stick'><span class='name'>{comparison.exact_name}</span></th><td>–</td>"]
    for column in COLUMNS:
        if column.key == "low":
            cells.append(f"<td class='range'>{_interval(low, high)}</td>")
        else:
            cells.append(f"<td class='{_first(column)}'>{text(number(numbers.get(column.key, float('nan'))))}</td>")
        if column.key == "mAP":
            cells.append(_spans(score.mean, score.worst, score.best, low, high, ceiling))
    return f"<tfoot><tr>{''.join(cells)}</tr></tfoot>"


def _interval(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{number(low)}–{number(high)}"


def _largest(comparison: HasherComparison, name: str) -> float:
    """The largest number of a column, 1 if there is none above 0."""
    top = comparison.top(name)
    return (top[name] if top is not None else 0.0) or 1.0


def _ceiling(comparison: HasherComparison) -> float:
    """The end of the bars' scale: the next tenth above all values."""
    ends = [max(entry["best"], entry["high"]) for entry in comparison.entries]
    if comparison.exact is not None:
        ends += [comparison.exact["AP"].best, comparison.exact["AP"].interval()[1]]
    defined = [end for end in ends if not math.isnan(end)]
    return max(math.ceil(10 * max(defined, default=1.0)), 1) / 10


def _spans(mean: float, worst: float, best: float, low: float, high: float, ceiling: float) -> str:
    """A picture of the expected value between worst and best, with its interval."""
    if math.isnan(mean):
        return "<td class='spans'>–</td>"

    def at(value: float) -> str:
        return f"{100 * value / ceiling:.2f}%"

    told = (
        f"expected {number(mean)}, from {number(worst)} to {number(best)} by ties, 95 % interval {_interval(low, high)}"
    )
    return (
        f"<td class='spans'><svg class='spans' role='img' aria-label='{told}'><title>{told}</title>"
        f"<rect class='tie' x='{at(worst)}' width='{at(best - worst)}' y='3' height='12' rx='2'/>"
        f"<path class='track' d='M0 17.5h1000'/>"
        f"<line class='whisker' x1='{at(low)}' x2='{at(high)}' y1='9' y2='9'/>"
        f"<line class='whisker' x1='{at(low)}' x2='{at(low)}' y1='6' y2='12'/>"
        f"<line class='whisker' x1='{at(high)}' x2='{at(high)}' y1='6' y2='12'/>"
        f"<circle class='dot' cx='{at(mean)}' cy='9' r='3.2'/></svg></td>"
    )
