"""Evaluations as tables: the metrics of one, or several systems side by side; and as numbers for trackers."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.tables.table import ResultTable, TableCell, TableHead, TieRange
from lookalike.metrics.metric import Metric

if TYPE_CHECKING:
    from lookalike.evaluation.results import Evaluation, Score

__all__ = [
    "cell_of_score",
    "direction",
    "log_key",
    "logged",
    "metrics_table",
    "norm_legend",
    "safe_names",
    "systems_table",
    "ties_legend",
]


def direction(metric: Metric) -> bool | None:
    """Whether a higher number of a metric is better; None for those that are not about good and bad.

    >>> direction(Metric.parse("AP")), direction(Metric.parse("Judged@10"))
    (True, None)
    """
    if metric.name == "Judged" or metric.options().get("part") == "residual":  # how much was judged
        return None
    return metric.measure.higher_is_better


def metrics_table(evaluation: "Evaluation", ties: bool) -> ResultTable:
    """A row for each metric of an evaluation. ties: best and worst stand beside the expected number, in its place."""
    heads = ["metric", TableHead("expected", main=True), *([] if ties else map(TableHead, ("best", "worst")))]
    rows: list[list[Any]] = []
    for metric, score in evaluation.scores.items():
        numbers = [cell_of_score(score, True)] if ties else [score.mean, score.best, score.worst]
        rows.append([metric.label, *numbers, score.undefined])
    notes = (evaluation.basis, *evaluation.conventions(), *(f"note: {note}" for note in evaluation.notes))
    return ResultTable.of([*heads, TableHead("undefined")], rows, legend=ties_legend(ties), notes=notes)


def systems_table(
    evaluations: Mapping[str, "Evaluation"],
    metrics: Iterable[Metric],
    ties: bool,
    signs: Mapping[tuple[str, Metric], str],
) -> ResultTable:
    """A row for each system, and a column for each metric. signs: marks of some numbers, such as daggers."""
    metrics = list(metrics)
    rows = [
        [
            TableCell(name),
            *(cell_of_score(e.scores.get(m), ties)._replace(sign=signs.get((name, m), "")) for m in metrics),
        ]
        for name, e in evaluations.items()
    ]
    heads = ["system", *(TableHead(str(metric), higher_is_better=direction(metric)) for metric in metrics)]
    return ResultTable.of(heads, rows, legend=(*norm_legend(metrics), *ties_legend(ties)))


def cell_of_score(score: "Score | None", ties: bool) -> TableCell:
    """The number to report of a score, with its best and worst if asked for."""
    if score is None:
        return TableCell(None)
    return TableCell(TieRange(score.mean, score.best, score.worst) if ties else score.mean)


def ties_legend(ties: bool) -> tuple[str, ...]:
    """What stands beside the numbers, where best and worst do."""
    return ("Numbers are expected over all orders of tied items, beside the worst and the best order.",) if ties else ()


def norm_legend(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """What AP with a cutoff divides by, where the short name of a column does not say so."""
    return tuple(f"{metric} is {metric.label}." for metric in metrics if metric.label != str(metric))


def logged(evaluation: "Evaluation", prefix: str = "") -> dict[str, float]:
    """Expected, best and worst of every metric by names that trackers accept."""
    check_prefix(prefix)
    numbers: dict[str, float] = {}
    for metric, score in evaluation.scores.items():
        key = f"{prefix}{log_key(metric)}"
        numbers |= {key: score.mean, f"{key}_best": score.best, f"{key}_worst": score.worst}
    return numbers


def log_key(metric: Metric) -> str:
    """The name of a metric of letters, digits and underscores, which every tracker accepts.

    >>> [log_key(Metric.parse(name)) for name in ("AP@1000", "AP(norm='total')@5", "P(radius=2)", "RBP(p=0.5)")]
    ['AP_at_1000', 'AP_norm_total_at_5', 'P_radius_2', 'RBP_p_0_5']
    """
    return re.sub(r"[\W_]+", "_", str(metric).replace("@", "_at_")).strip("_")


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Each name with what it is called in trackers: letters, digits and underscores.

    >>> safe_names(["ITQ 32", "2nd"])
    {'ITQ 32': 'ITQ_32', '2nd': '_2nd'}
    """
    safe: dict[str, str] = {}
    for name in names:
        key = re.sub(r"\W", "_", name, flags=re.ASCII)
        key = f"_{key}" if not key or key[0].isdigit() else key
        if other := next((before for before, taken in safe.items() if taken == key), None):
            raise InputError(f"{other!r} and {name!r} are both {key!r} in a tracker: give one of them another name")
        safe[name] = key
    return safe


def check_prefix(prefix: str) -> None:
    """Raise for a prefix with letters that some tracker refuses."""
    if not isinstance(prefix, str):
        raise InputTypeError(f"prefix must be text such as 'val/', got {prefix!r}")
    if not re.fullmatch(r"(?:[A-Za-z_]\w*/?)*", prefix, flags=re.ASCII):
        raise InputError(f"prefix must be letters, digits and _ with / between parts, such as 'val/', got {prefix!r}")
