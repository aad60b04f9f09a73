"""Which relevance each metric is of, as `--relevance` says it."""

import re

from lookalike.core.checks import choice, nearest
from lookalike.core.errors import InputError, Option
from lookalike.metrics.metric import ALIASES, MEASURES, Metric, our_name

KINDS = ("labels", "tags", "attributes")

__all__ = ["KINDS", "metrics_by_kind"]


def metrics_by_kind(text: str | None, metrics: list[Metric]) -> dict[str | None, list[Metric]]:
    """The metrics of each kind of relevance; None: of what the files have.

    text: one kind for all, or METRIC:KIND for some. AP is every AP, unless AP@10 is named too.

    >>> metrics_by_kind("AP:labels nDCG:attributes", [Metric.parse(name) for name in ("AP", "nDCG@10", "AP@5", "RR")])
    {'labels': [AP, AP@5], 'attributes': [nDCG@10], None: [RR]}
    >>> metrics_by_kind("map:labels P_5:tags", [Metric.parse(name) for name in ("map", "P_5", "P_10")])
    {'labels': [AP], 'tags': [P@5], None: [P@10]}
    """
    if text is None:
        return {None: metrics}
    words = re.split(r"[\s,]+(?![^()]*\))", text.strip())  # at what is not within parentheses
    if len(words) == 1 and ":" not in text:
        choice("relevance", text, KINDS)
        return {text: metrics}
    kinds: dict[Metric, str] = {}
    named = [_named(word, metrics) for word in words]
    names = [word.rpartition(":")[0] for word in words]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(
            Option("relevance"), f" names {twice[0]!r} twice: a metric has one relevance; run the command for each"
        )
    for _, of_word, kind in sorted(named, key=lambda entry: entry[0]):  # families first: one metric's own word wins
        kinds |= dict.fromkeys(of_word, kind)
    groups: dict[str | None, list[Metric]] = {}
    for metric in metrics:
        groups.setdefault(kinds.get(metric), []).append(metric)
    return groups


def _named(word: str, metrics: list[Metric]) -> tuple[bool, list[Metric], str]:
    """Whether a word such as AP@10:labels names one metric alone, the metrics that it names, and their relevance."""
    name, colon, kind = word.rpartition(":")
    if not colon:
        raise InputError(
            Option("relevance"), f" is one of {', '.join(KINDS)}, or METRIC:{KINDS[0]} for some, got {word!r}"
        )
    choice("relevance", kind, KINDS)
    of_family = re.fullmatch(r"\w+", name) is not None or name in {*MEASURES, *ALIASES}  # MAP@R is a name
    family = of_family and our_name(name) == name  # map_cut_10 is one metric
    wanted = [metric for metric in metrics if metric.name == ALIASES.get(name, name)]
    if not family:
        wanted = [metric for metric in metrics if metric == Metric.parse(name)]
    if not wanted:
        names = [*dict.fromkeys([metric.name for metric in metrics] + [str(metric) for metric in metrics])]
        similar = nearest(name, names)
        question = "" if similar is None else f", did you mean {similar!r}?"
        raise InputError(
            Option("relevance"),
            f" names {name!r}, which is not evaluated{question} (metrics are {', '.join(map(str, metrics))})",
        )
    return not family, wanted, kind
