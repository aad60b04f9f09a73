"""The section on the pool: overlap of the models' proposals, cost of judging them, share of positives."""

import math
from typing import TYPE_CHECKING

from lookalike.core.text_table import times
from lookalike.discovery.prevalence import SECONDS, Prevalence, Share, cost, pace, prevalence
from lookalike.evaluation.results import shown
from lookalike.report.html import Card, cards, short, text
from lookalike.report.leaderboard.standing import Standing
from lookalike.report.numbers import MISSING, listed, percent, plural

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Pool, Votes

__all__ = ["pool_section"]


def pool_section(
    standing: Standing, pool: "Pool | None", judgements: "Judgements | None", votes: "Votes | None"
) -> str:
    """The section; empty without a pool of models."""
    if pool is None or not pool.models:
        return ""
    shares = prevalence(judgements, pool) if judgements is not None else None
    chance = f" and {int(pool.random.sum()):,} drawn by chance" if pool.random.any() else ""
    reading = (
        f"The top {pool.k} of {plural(len(pool.models), 'model')}{chance}. A cell is the share of the pairs of the "
        "model in its row that the model in its column proposed too; alone: pairs that nobody else proposed. Where "
        "shares are low, each model finds pairs that the others miss."
    )
    return (
        f'<section id="pool"><h2>The pool: who proposed what</h2><p class="reading">{reading}</p>'
        f"{cards('The pool in short', _cards(pool, shares, votes))}{_richness(shares)}"
        '<div class="scroll fit" tabindex="0" role="region" aria-label="Overlap of proposals">'
        f"{_overlap(standing, pool, shares)}</div></section>"
    )


def _cards(pool: "Pool", shares: Prevalence | None, votes: "Votes | None") -> list[Card]:
    measured = pace(votes)
    each, paced = (measured, "as experts took") if measured is not None else (SECONDS, "by assumption")
    proposals = int(pool.proposed.sum())
    time = f"an expert, at {each:.3g} seconds a pair, {paced}; all pairs: {cost(pool.all_pairs, each)}"
    out = [
        Card("Pairs to judge", f"{len(pool):,}", f"{times(pool.saving)} times fewer than all {pool.all_pairs:,}"),
        Card("Duplicates", percent(pool.duplication), f"of {proposals:,} proposals repeat another model’s"),
        Card("Time to judge", cost(len(pool), each), time),
    ]
    if shares is not None and shares.pool.judged:
        span = f"{percent(shares.pool.low)} to {percent(shares.pool.high)}"
        why = f"of {shares.pool.judged:,} judged proposals ({span})"
        out.append(Card("Positive", percent(shares.pool.share), why))
    return out


def _richness(shares: Prevalence | None) -> str:
    """A sentence on how much richer the pool is than all pairs; empty without judged pairs drawn by chance."""
    if shares is None or not shares.random.judged or not math.isfinite(shares.enrichment):
        return ""
    low, high = shares.enrichment_interval
    span = f"{times(low)} to {times(high)}" if math.isfinite(high) else f"{times(low)} at least"
    drawn = f"{plural(shares.random.judged, 'judged pair')} drawn by chance"
    return (
        f'<p class="reading">Of {drawn} {shares.random.positives:,} are positive, so of all pairs about '
        f"{text(percent(shares.p_estimate))}: the pool is about {times(shares.enrichment)} times richer ({span}). "
        f"At least {shown(shares.p_lower)} of all pairs are positive, or {shown(shares.p_lower_proposed)} if only "
        "proposed pairs are counted, as in Barkan et al. 2023.</p>"
    )


def _overlap(standing: Standing, pool: "Pool", estimates: Prevalence | None) -> str:
    """The overlap as a table with shaded cells."""
    shares = {share.name: share for share in estimates.models} if estimates is not None else {}
    columns = "".join(
        f"<th scope='col' class='turned' title='{text(name)}'><span class='name'>{_mark(standing, name)} "
        f"{text(short(name, 18))}"
        "</span></th>"
        for name in pool.models
    )
    named = ["pairs", "alone", *(["positive"] if shares else [])]
    counts = "".join(f"<th scope='col'>{name}</th>" for name in named)
    rows = []
    for index, name in enumerate(pool.models):
        sticky = f"<th scope='row' class='stick' title='{text(name)}'>{_mark(standing, name)}"
        cells = [f"{sticky} <span class='name'>{text(short(name, 24))}</span></th>"]
        cells += [_heat(share, other == index) for other, share in enumerate(pool.overlap[index].tolist())]
        masks = pool.proposed[:, index], pool.alone(name, or_random=True)
        cells += [f"<td>{int(mask.sum()):,}</td>" for mask in masks]
        cells += [_positive(shares[name])] if shares else []
        rows.append(f"<tr>{''.join(cells)}</tr>")
    told = f"Share of each model’s pairs that the others proposed too: {listed(list(pool.models))}"
    return (
        f"<table class='overlap'><caption class='unseen'>{text(told)}</caption>"
        f"<thead><tr><td class='stick'></td>{columns}{counts}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _heat(share: float, itself: bool) -> str:
    if itself:
        return f"<td class='itself'>{MISSING}</td>"
    return f"<td class='heat' style='--share:{share:.3f}'>{text(percent(share))}</td>"


def _positive(share: Share) -> str:
    span = f"{percent(share.low)} to {percent(share.high)}"
    description = f"{share.positives:,} of {share.judged:,} judged; 95 % interval {span}"
    return f"<td title='{text(description)}'>{text(percent(share.share))}</td>"


def _mark(standing: Standing, name: str) -> str:
    return standing.mark(name) if name in standing.models else ""
