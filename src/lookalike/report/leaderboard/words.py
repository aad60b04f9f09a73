"""Sentences about a leaderboard."""

import math
from dataclasses import replace

from lookalike.evaluation.compare import Difference
from lookalike.report.leaderboard.standing import Standing, called
from lookalike.report.numbers import listed, number, plural

NAMED = 6  # models named in a sentence
SURE = 0.05  # the p-value below which a lead is more than luck

__all__ = ["interval", "names", "signed", "summary"]


def signed(value: float, digits: int = 3) -> str:
    """A change, always with its sign.

    >>> signed(0.0123), signed(-0.5), signed(0.0), signed(0.00001)
    ('+0.012', '−0.500', '0.000', '0.000')
    """
    if math.isnan(value):
        return "–"
    shown = f"{value:+.{digits}f}"
    return shown[1:] if float(shown) == 0 else shown.replace("-", "−")


def interval(ends: tuple[float, float]) -> str:
    """An interval as text; empty for nan.

    >>> interval((0.25, 0.5)), interval((float("nan"), float("nan")))
    ('0.250 to 0.500', '')
    """
    return "" if math.isnan(ends[0]) else f"{number(ends[0])} to {number(ends[1])}"


def names(models: list[str]) -> str:
    """Names joined for a sentence; of many, only the first.

    >>> names(["a", "b"]), names(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e and 3 others')
    """
    return (
        listed(models) if len(models) <= NAMED else listed([*models[: NAMED - 1], f"{len(models) - NAMED + 1} others"])
    )


def summary(standing: Standing) -> list[str]:
    """A sentence for what was measured, who leads, who built the pool, and who else leads."""
    about = standing.board.about
    judged = f"{plural(about['pairs'], 'judged pair')}, {about['positives']:,} of them similar"
    searched = f"{plural(about['queries'], 'query')} × {plural(about['items'], 'item')}"
    measured = f"{plural(len(standing.models), 'model')} on {judged}; {searched}."
    return [measured, *_leader(standing), _builders(standing), *_by_hits(standing)]


def _leader(standing: Standing) -> list[str]:
    of = standing.lead
    ranked = [model for model in standing.ranking(*of) if not math.isnan(standing.value(model, *of))]
    if not ranked:
        return [f"No model has a value of {called(*of)}: no query has judged pairs of both kinds."]
    first = ranked[0]
    ends = interval(standing.interval(first, *of))
    sure = f" (95\u202f% interval over queries {ends})" if ends else ""
    lead = f"{first} leads by {called(*of)}: {number(standing.value(first, *of))}{sure}"
    if len(ranked) == 1:
        return [f"{lead}."]
    second = ranked[1]
    gap = _gap(standing, first, second)
    close = "more than other queries would change" if gap.corrected < SURE else "too close to call"
    correction = " with Holm’s correction for all pairs of models" if len(ranked) > 2 else ""
    by = f"{signed(gap.difference)} ({signed(gap.low)} to {signed(gap.high)}; p {number(gap.corrected)}{correction})"
    return [f"{lead}, against {second} ({number(standing.value(second, *of))}) by {by}: {close}."]


def _gap(standing: Standing, first: str, second: str) -> Difference:
    """The paired difference of two models, its p-value corrected for all pairs of models."""
    metric, own_out = standing.lead
    comparison = standing.board.compare(metric, own_out=own_out, random_state=standing.board.about["seed"])
    (gap,) = (each for each in comparison.differences if {each.first, each.second} == {first, second})
    if gap.first == first:
        return gap
    return replace(gap, first=first, second=second, difference=-gap.difference, low=-gap.high, high=-gap.low)


def _builders(standing: Standing) -> str:
    helped = standing.board.helped
    built = [model for model in standing.models if helped[model]]
    later = [model for model in standing.models if not helped[model]]
    if not built:
        return "Who built the pool of judged pairs is not known here, so it is unclear which models it favours."
    if not later:
        return "All of them built the pool, so numbers that favour its builders favour all of them equally."
    whose = "its" if len(later) == 1 else "their"
    return (
        f"{names(built)} built the pool of judged pairs; {names(later)} came later, so {whose} best finds may be "
        "unjudged, and metrics of ranks count those as wrong."
    )


def _by_hits(standing: Standing) -> list[str]:
    """A sentence on who leads by hit rate, if it is another model."""
    if standing.hits is None or standing.hits == standing.main:
        return []
    by_hits, by_lead = standing.ranking(standing.hits)[0], standing.ranking(*standing.lead)[0]
    value = standing.value(by_hits, standing.hits)
    if by_hits == by_lead or math.isnan(value):
        return []
    whom = ", which favours those that built the pool" if standing.has_pool else ""
    return [f"By {called(standing.hits)}{whom}, {by_hits} leads instead ({number(value)})."]
