"""Sentences about a leaderboard."""

import math
from typing import Any

from lookalike.discovery.standing import Number, leaders_of
from lookalike.discovery.standing_text import named, who_leads
from lookalike.report.leaderboard.standing import Standing, called
from lookalike.report.numbers import number, plural

__all__ = ["interval", "signed", "summary"]


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


def summary(standing: Standing) -> list[str]:
    """A sentence for what was measured, who leads, who built the pool, and who else leads."""
    about, positive = standing.board.about, standing.board.contest.judgements.positive
    judged = f"{plural(about['pairs'], 'judged pair')}, {about['positives']:,} of them {positive}"
    searched = f"{plural(about['queries'], 'query')} × {plural(about['items'], 'item')}"
    measured = f"{plural(len(standing.models), 'model')} on {judged}; {searched}.{_by_chance(about)}"
    leads = who_leads(standing.placing, lambda number: called(*number)).replace("95 %", "95\u202f%")
    return [measured, leads, _builders(standing), *_by_hits(standing)]


def _by_chance(about: dict[str, Any]) -> str:
    """A sentence on judged pairs that were drawn by chance: whether they count; empty if there are none."""
    if about["random_left_out"]:
        pairs = plural(about["random_left_out"], "more pair")
        return f" {pairs} drawn by chance only say how many positives there are, and count for no metric."
    counted = about["random_counted"]
    return f" {counted:,} of the judged pairs were drawn by chance, and count too." if counted else ""


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
        f"{named(built)} built the pool of judged pairs; {named(later)} came later, so {whose} best finds may be "
        "unjudged, and metrics of ranks count those as wrong."
    )


def _by_hits(standing: Standing) -> list[str]:
    """A sentence on who leads by hit rate, if it is another model."""
    if standing.hits is None or standing.hits == standing.main:
        return []
    by_hits = leaders_of(standing.board, Number(standing.hits))
    if not by_hits or set(by_hits) & set(standing.placing.leaders):
        return []
    value = standing.value(by_hits[0], standing.hits)
    whom = ", which favours those that built the pool" if standing.has_pool else ""
    leads = "leads" if len(by_hits) == 1 else "lead"
    return [f"By {called(standing.hits)}{whom}, {named(by_hits)} {leads} instead ({number(value)})."]
