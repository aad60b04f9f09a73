"""How many similar pairs there are: in the pool, among all pairs, and what finding them costs (Barkan et al. 2023)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.text_table import aligned, times
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import Pool
from lookalike.discovery.votes import Votes, as_pairs
from lookalike.evaluation.results import as_table, shown

if TYPE_CHECKING:
    import pandas

SECONDS = 15.0  # of a judgement, where nobody measured it (Barkan et al. 2023)
UNITS = (("year", 365.25 * 86_400), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0))

__all__ = [
    "SECONDS",
    "Prevalence",
    "Share",
    "chebyshev_error",
    "chebyshev_size",
    "cost",
    "enrichment",
    "estimate",
    "exact_interval",
    "lower_bound",
    "pace",
    "pairs_saved",
    "prevalence",
]


def lower_bound(positives: int, n_queries: int, n_items: int) -> float:
    """p_LB, the share of all pairs that is known to be positive: positives / (|Q|·(|D| - 1)).

    A query is not paired with itself. Where queries are not among the items, all |D| can be found: pass n_items + 1.

    >>> round(lower_bound(45_920, 2_000, 52_712), 6)        # Barkan et al. 2023 print 0.00045
    0.000436
    """
    return positives / _all_pairs(n_queries, n_items)


def estimate(a: int, b: int, floor: float = 0.0) -> float:
    """p̂ = max(p_LB, a/b): the share of positives, of which `a` were among `b` random pairs (Barkan et al. 2023, eq. 2).

    floor: p_LB, below which the share cannot be; it is the estimate where no random pair was judged.

    >>> estimate(2, 2_000, 0.000436), estimate(0, 2_000, 0.000436)
    (0.001, 0.000436)
    """
    _check_counts(a, b, floor)
    return max(floor, a / b) if b else floor


def exact_interval(a: int, b: int, level: float = 0.95, floor: float = 0.0) -> tuple[float, float]:
    """The exact interval of a share, from `a` positives among `b` pairs (Clopper and Pearson 1934).

    floor: what the share is known to be at least.

    >>> low, high = exact_interval(0, 10)       # high: (1 - high)^10 = 0.025
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    from scipy.special import betaincinv

    _check_counts(a, b, floor)
    if not 0 < level < 1:
        raise InputError(f"the level of an interval must be between 0 and 1, got {level}")
    outside = (1 - level) / 2
    low = float(betaincinv(a, b - a + 1, outside)) if a else 0.0
    high = float(betaincinv(a + 1, b - a, 1 - outside)) if a < b else 1.0
    return max(floor, low), max(floor, high)


def chebyshev_size(error: float, risk: float) -> int:
    """b = 1/(ε·q): the number of random pairs that is enough for a rare share (Barkan et al. 2023, after eq. 3).

    With p the true share, a positives among b random pairs and p̂ = max(p_LB, a/b), Chebyshev's inequality is
    P(|p̂ - p| ≥ ε) ≤ p(1 - p)/(b·ε²) ≤ p/(b·ε²). Where p < ε that is below 1/(b·ε), which is q for b = 1/(ε·q).

    error: ε, the error to stay below, itself above the true share. risk: q, the probability that it is exceeded.

    >>> chebyshev_size(0.001, 0.05)
    20000
    """
    for name, value in (("error", error), ("risk", risk)):
        if not 0 < value < 1:
            raise InputError(Option(name), f" must be between 0 and 1, got {value}")
    return math.ceil(1 / (error * risk))


def chebyshev_error(b: int, risk: float) -> float:
    """ε = 1/(b·q): what Chebyshev's inequality promises of b random pairs, before any is judged (Barkan et al. 2023).

    Whatever the true share is below ε, the estimate p̂ is off by ε or more with a probability of at most q, the risk. It
    is `chebyshev_size` the other way round; from 1 on it promises nothing.

    >>> chebyshev_error(2_000, 0.05)
    0.01
    """
    if not 0 < risk < 1:
        raise InputError(Option("risk"), f" must be between 0 and 1, got {risk}")
    return 1 / (b * risk) if b > 0 else math.inf


def enrichment(p_pool: float, p_all: float) -> float:
    """How many times richer in positives the pool is than all pairs: p_k/p̂; nan where neither has any.

    >>> round(enrichment(45_920 / 54_170, 2 / 2_000)), round(enrichment(45_920 / 54_170, 8 * 2 / 2_000))
    (848, 106)
    """
    if p_all > 0:
        return p_pool / p_all
    return math.inf if p_pool > 0 else math.nan


def cost(pairs: float, seconds: float = SECONDS) -> str:
    """The time that one expert takes to judge pairs without a break, as text. seconds: of one pair.

    >>> cost(10**7), cost(100_000), cost(2)
    ('4.75 years', '17.4 days', '30 seconds')
    """
    if not pairs >= 0 or not 0 < seconds < math.inf:
        raise InputError(f"pairs must be from 0 and seconds above 0, got {pairs} and {seconds}")
    total = pairs * seconds
    unit, size = next(((name, size) for name, size in UNITS if total >= size), ("second", 1.0))
    text = f"{total / size:,.0f}" if total >= 100 * size else f"{total / size:.3g}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


def pairs_saved(n_queries: int, n_items: int, n_pairs: int) -> float:
    """How many times fewer pairs there are to judge than pairs of a query and another item: |Q|·(|D| - 1)/|S_k|.

    >>> round(pairs_saved(2_000, 52_712, 2_000 * 6 * 6))        # the top 6 of 6 models, were none shared: 52,711/36
    1464
    """
    return _all_pairs(n_queries, n_items) / n_pairs if n_pairs else math.inf


def pace(votes: Votes | None) -> float | None:
    """The median of the seconds that a vote took; None where nobody measured them."""
    measured = votes.seconds[votes.seconds > 0] if votes is not None else np.zeros(0)  # nan is not above 0
    return float(np.median(measured)) if len(measured) else None


@dataclass(frozen=True)
class Share:
    """The share of positives among the judged ones of some pairs."""

    name: str
    pairs: int
    judged: int
    positives: int
    share: float  # of judged pairs; nan where none is
    low: float
    high: float

    @property
    def unjudged(self) -> int:
        """The number of pairs that are not judged."""
        return self.pairs - self.judged


@dataclass(frozen=True)
class Prevalence:
    """How many positives there are in the pool and among all pairs; intervals are exact, at `level`.

    pool: p_k, of what any model proposed. models: p_k of each. random: of the random pairs. to_judge: how many pairs
    were proposed or drawn. p_lower: p_LB; p_lower_proposed: the same of proposed pairs alone, as Barkan et al. 2023
    count. p_estimate, interval: p̂ of all `n_pairs` pairs. enrichment: p_k/p̂, nan where no random pair is judged; its
    interval has both shares at the ends of theirs, each at a level that makes it hold for both at once. seconds: of one
    judgement.
    """

    pool: Share
    models: tuple[Share, ...]
    random: Share
    n_queries: int
    n_items: int
    n_pairs: int
    to_judge: int
    p_lower: float
    p_lower_proposed: float
    p_estimate: float
    interval: tuple[float, float]
    enrichment: float
    enrichment_interval: tuple[float, float]
    level: float
    seconds: float

    @property
    def saved(self) -> float:
        """How many times fewer pairs there are to judge than pairs at all."""
        return self.n_pairs / self.to_judge if self.to_judge else math.inf

    def rows(self) -> list[dict[str, Any]]:
        """A row for the pool, for each model and for the random pairs."""
        shares = (self.pool, *self.models, self.random)
        return [{**vars(share), "unjudged": share.unjudged} for share in shares]

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for the pool, for each model and for the random pairs."""
        return as_table(self.rows()).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values."""
        pool, *models, random = self.rows()
        plain = {name: value for name, value in vars(self).items() if not isinstance(value, Share | tuple)}
        return {
            **plain,
            "pool": pool,
            "models": models,
            "random": random,
            "interval": list(self.interval),
            "enrichment_interval": list(self.enrichment_interval),
            "saved": self.saved,
        }

    def __str__(self) -> str:
        table = [["", "pairs", "unjudged", "positive", "share", f"{self.level:.0%} interval"]]
        for s in (self.pool, *self.models, self.random):
            counts = [f"{count:,}" for count in (s.pairs, s.unjudged, s.positives)]
            table.append([s.name, *counts, _shown(s.share), f"{_shown(s.low)} to {_shown(s.high)}"])
        low, high = (_shown(bound) for bound in self.interval)
        least, most = (_times(bound) for bound in self.enrichment_interval)
        by_chance = f"by estimate {_shown(self.p_estimate)} ({low} to {high})"
        more = by_chance if self.random.judged else "no random pair is judged to say how many more"
        proposed = _shown(self.p_lower_proposed)
        least_positive = f"at least {_shown(self.p_lower)} are positive ({proposed} of proposed pairs alone)"
        in_all = f"of all {self.n_pairs:,} pairs {least_positive}, {more}"
        richer = f"the pool is {_times(self.enrichment)} times richer ({least} to {most})"
        takes = (
            f"judging {self.to_judge:,} takes {cost(self.to_judge, self.seconds)} at {self.seconds:.3g} seconds a pair"
        )
        whole = f"judging all {cost(self.n_pairs, self.seconds)}, {times(self.saved)} times as long"
        return "\n".join([aligned(table), in_all, *([richer] if self.random.judged else []), f"{takes}, {whole}"])

    __repr__ = __str__


def prevalence(
    judgements: Any,
    proposals: Pool | Mapping[str, Any],
    *,
    n_queries: int = 0,
    n_items: int = 0,
    random: Any = (),
    n_pairs: int | None = None,
    level: float = 0.95,
    seconds: float = SECONDS,
) -> Prevalence:
    """How many positives models found, how many there are, and how much richer the pool is than chance.

    judgements: `Judgements`, or rows (query, item, grade). proposals: a pool, which knows all the rest; or {model: rows
    (query, item)}. random: rows (query, item) drawn by chance from all pairs. n_pairs: how many pairs there are, if not
    n_queries·(n_items - 1). Pairs that are not judged do not count.

    >>> shares = prevalence([("q", "a", 1), ("q", "b", 0), ("q", "c", 0)], {"one": [("q", "a"), ("q", "b")]},
    ...     n_queries=1, n_items=11, random=[("q", "b"), ("q", "c"), ("q", "d")])
    >>> print(shares)
            pairs  unjudged  positive   share      95% interval
    pool        2         0         1  0.5000  0.0126 to 0.9874
    one         2         0         1  0.5000  0.0126 to 0.9874
    random      3         1         0  0.0000  0.0000 to 0.8419
    of all 10 pairs at least 0.1000 are positive (0.1000 of proposed pairs alone), by estimate 0.1000 (0.1000 to 0.8419)
    the pool is 5.00 times richer (0.01 to 9.94)
    judging 4 takes 1 minute at 15 seconds a pair, judging all 2.5 minutes, 2.5 times as long
    """
    if isinstance(proposals, Pool):
        sets = _pooled(proposals)
    else:
        sets = _proposed(proposals, random, n_queries, n_items, n_pairs)
    return _estimated(Judgements.of(judgements).binary.by_pair, sets, level, seconds)


@dataclass(frozen=True)
class ProposedPairs:
    """Pairs that each model proposed and pairs drawn by chance, out of `n_pairs` pairs that there are."""

    by_model: dict[str, set[tuple[str, str]]]
    random: set[tuple[str, str]]
    n_queries: int
    n_items: int
    n_pairs: int

    @property
    def proposed(self) -> set[tuple[str, str]]:
        """Pairs that any model proposed."""
        return set().union(*self.by_model.values())


def _pooled(pool: Pool) -> ProposedPairs:
    """The pairs of a pool."""
    collection = pool.collection
    return _proposed(pool.proposals, pool.drawn, collection.n_queries, collection.n_items, pool.all_pairs)


def _proposed(proposals: Any, random: Any, n_queries: int, n_items: int, n_pairs: int | None) -> ProposedPairs:
    """The pairs of {model: rows}; raises where there are more than there can be."""
    if not isinstance(proposals, Mapping) or not proposals:
        raise InputTypeError('proposals must have the models\' names: pass {"model": rows (query, item)}')
    by_model = {str(name): set(as_pairs(pairs, f"proposals of {name!r}")) for name, pairs in proposals.items()}
    whole = _all_pairs(n_queries, n_items) if n_pairs is None else n_pairs
    sets = ProposedPairs(by_model, set(as_pairs(random, "random pairs")), n_queries, n_items, whole)
    n_proposed, n_seen = len(sets.proposed), len({query for query, _ in sets.proposed})
    if n_seen > n_queries or not n_proposed <= whole >= 1:
        raise InputError(
            f"{n_proposed:,} pairs of {n_seen:,} queries are proposed, more than the {whole:,} pairs "
            f"of {n_queries:,} queries that there are"
        )
    return sets


def _estimated(grades: dict[tuple[str, str], int], pairs: ProposedPairs, level: float, seconds: float) -> Prevalence:
    """Shares of positives and their intervals."""
    proposed = pairs.proposed
    asked = proposed | pairs.random
    pool, by_chance = _share("pool", proposed, grades, level), _share("random", pairs.random, grades, level)
    floor = _share("all", asked, grades, level).positives / pairs.n_pairs
    a, b = by_chance.positives, by_chance.judged
    p_estimate = estimate(a, b, floor)
    joint = (1 + level) / 2  # each misses half as often, so that both hold at the level
    low, high = exact_interval(a, b, joint, floor)
    pool_low, pool_high = exact_interval(pool.positives, pool.judged, joint)
    return Prevalence(
        pool=pool,
        models=tuple(_share(name, proposals, grades, level) for name, proposals in pairs.by_model.items()),
        random=by_chance,
        n_queries=pairs.n_queries,
        n_items=pairs.n_items,
        n_pairs=pairs.n_pairs,
        to_judge=len(asked),
        p_lower=floor,
        p_lower_proposed=pool.positives / pairs.n_pairs,
        p_estimate=p_estimate,
        interval=exact_interval(a, b, level, floor),
        enrichment=enrichment(pool.share, p_estimate) if b else math.nan,
        enrichment_interval=(enrichment(pool_low, high), enrichment(pool_high, low)) if b else (math.nan, math.nan),
        level=level,
        seconds=seconds,
    )


def _share(name: str, pairs: set[tuple[str, str]], grades: dict[tuple[str, str], int], level: float) -> Share:
    positive = [grades[pair] > 0 for pair in pairs if pair in grades]  # of judged pairs
    judged, positives = len(positive), sum(positive)
    share = positives / judged if judged else math.nan
    return Share(name, len(pairs), judged, positives, share, *exact_interval(positives, judged, level))


def _all_pairs(n_queries: int, n_items: int) -> int:
    if n_queries < 1 or n_items < 2:
        raise InputError(f"pairs need a query and two items, got {n_queries} queries and {n_items} items")
    return n_queries * (n_items - 1)


def _check_counts(a: int, b: int, floor: float) -> None:
    if not 0 <= a <= b:
        raise InputError(f"positives must be from 0 to the number of pairs, got {a} of {b}")
    if not 0 <= floor <= 1:
        raise InputError(f"a share is known to be from 0 to 1, got a floor of {floor}")


def _shown(share: float) -> str:
    return "-" if share != share else shown(share)


def _times(factor: float) -> str:
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.2f}"
