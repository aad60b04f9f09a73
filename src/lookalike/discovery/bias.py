"""Bias: how much a leaderboard depends on who built its pool, and on the rule that made judgements of votes."""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.errors import InputError
from lookalike.core.text_table import aligned
from lookalike.discovery.collection import Collection
from lookalike.discovery.contest import Contest, tally_of
from lookalike.discovery.leaderboard import OWN_OUT, Leaderboard, board_of, proposed_alone
from lookalike.discovery.pool import Pool
from lookalike.discovery.rankers import as_model
from lookalike.discovery.rules import judge_by_all
from lookalike.discovery.verdicts import Verdicts
from lookalike.discovery.votes import Votes
from lookalike.evaluation.evaluate import evaluate_tally
from lookalike.evaluation.relevance import Unranked
from lookalike.evaluation.results import Evaluation, as_table
from lookalike.metrics.metric import Metric, parse_all

if TYPE_CHECKING:
    import pandas

FEW = 8  # models: few enough to look at all their orders
EXACT = f"p: how often chance would order the models as alike; of up to {FEW} models exact, over all their orders"
BY_T = (
    "p: by Student's t, as Barkan et al. 2023 have it; too small for few models: 0 for any three that keep their order"
)
P_VALUES = {"exact": EXACT, "t": BY_T}

__all__ = ["LeftOut", "agree", "by_rule", "identification", "leave_one_out", "or_dash"]


@dataclass(frozen=True)
class LeftOut:
    """One metric without the pairs that one model alone proposed.

    mean, deviation: of that model over all subsets. spearman, kendall: correlation of the models' order on this subset
    with that on all pairs. p_value: of Spearman's coefficient, by all orders ("exact") or Student's t, as p_by says.
    change, shift: of the model itself, in the metric and in ranks (up is positive).
    """

    metric: Metric
    model: str
    dropped: int
    full: float
    value: float
    mean: float
    deviation: float
    spearman: float
    p_value: float
    kendall: float
    change: float
    shift: float
    p_by: str = "exact"


@dataclass(frozen=True)
class LeaveOneOut:
    """A row for each metric and model that was left out; prints as table 3 of Barkan et al. 2023 with more columns."""

    rows_: list[LeftOut]
    p: str = "exact"  # or "t", as was asked

    def rows(self) -> list[dict[str, Any]]:
        """A row for each metric and model."""
        return [vars(row) | {"metric": row.metric.label} for row in self.rows_]

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for each metric and model."""
        return as_table(self.rows())

    def __str__(self) -> str:
        head = ["metric", "left out", "pairs", "all pairs", "mean ± sd", "Spearman", "p", "Kendall", "change", "shift"]
        return "\n".join([aligned([head, *map(_cells, self.rows_)]), P_VALUES[self.p], *self.gaps])

    @property
    def gaps(self) -> list[str]:
        """A sentence on why some numbers are missing; nothing where none is."""
        why = []
        if any(math.isnan(row.value) or math.isnan(row.full) for row in self.rows_):
            why.append("no query has judged pairs of both kinds")
        if any(math.isnan(row.spearman) and not math.isnan(row.value + row.full) for row in self.rows_):
            why.append("there is no order where all models are equal, or one is alone")
        return [f"–: {', or '.join(why)}"] if why else []

    __repr__ = __str__


def _cells(row: LeftOut) -> list[str]:
    figures = [
        or_dash(row.spearman, ".3f"),
        "<0.001" if row.p_value < 0.0005 else or_dash(row.p_value, ".3f"),
        or_dash(row.kendall, ".3f"),
        or_dash(row.change, "+.4f"),
        or_dash(row.shift, "+g"),
    ]
    spread = f"{or_dash(row.mean, '.4f')} ± {or_dash(row.deviation, '.4f')}"
    return [row.metric.label, row.model, f"{row.dropped:,}", or_dash(row.full, ".4f"), spread, *figures]


def or_dash(value: float, form: str) -> str:
    """A number in a table; a dash where it could not be computed.

    >>> or_dash(0.5, ".3f"), or_dash(float("nan"), ".3f")
    ('0.500', '–')
    """
    return "–" if math.isnan(value) else f"{value:{form}}"


def leave_one_out(
    contest: Contest, pool: Pool, metrics: str | Iterable[str | Metric] = OWN_OUT, *, p: str = "exact"
) -> LeaveOneOut:
    """For each model of the pool, drop the pairs that it alone proposed and evaluate all models of the pool again.

    Models of the pool that are not in the contest, since they were removed, are left aside; their pairs stay. So are
    models of a top-up that nobody judged yet.
    Spearman's coefficient stays high even for plainly biased metrics, so look at the change and the shift of the model
    that was left out. p: how its p-value is computed, see `agree`.
    """
    choice("p", p, P_VALUES)
    contest.check_pool(pool)
    pool = contest.as_judged(pool)
    names = [name for name in pool.models if name in contest.entries]
    if not names:
        raise InputError(
            f"none of the models that built the pool is evaluated: {', '.join(pool.models) or 'it has none'}"
        )
    if len(pool.models) < 2:
        raise InputError("leaving one out needs a pool of at least two models whose proposals were judged")
    wanted = parse_all(metrics)
    masks = {name: ~proposed_alone(contest, pool, name) for name in names}

    def means(kept: np.ndarray | None) -> np.ndarray:
        evaluations = [contest.evaluate(name, wanted, kept=kept) for name in names]
        return np.array([[evaluation[metric].mean for evaluation in evaluations] for metric in wanted])

    full = means(None)
    subsets = np.array([means(masks[name]) for name in names])  # (left out, metric, model)
    rows = []
    for m, metric in enumerate(wanted):
        for i, name in enumerate(names):
            values, over_subsets = subsets[i, m], subsets[:, m, i]
            spearman, p_value, kendall = agree(full[m], values, p=p)
            shift = _ranks(full[m])[i] - _ranks(values)[i]
            row = LeftOut(
                metric=metric,
                model=name,
                dropped=int((~masks[name]).sum()),
                full=float(full[m, i]),
                value=float(values[i]),
                mean=float(over_subsets.mean()),
                deviation=float(over_subsets.std(ddof=1)) if len(over_subsets) > 1 else float("nan"),
                spearman=spearman,
                p_value=p_value,
                kendall=kendall,
                change=float(values[i] - full[m, i]),
                shift=float(shift),
                p_by="exact" if _is_exact(p, len(names)) else "t",
            )
            rows.append(row)
    return LeaveOneOut(rows, p)


def agree(first: Any, second: Any, *, p: str = "exact") -> tuple[float, float, float]:
    """Spearman's coefficient (ties have average ranks), its p-value, and Kendall's tau of two lists of values.

    The p-value is two-sided: of up to 8 values the share of all orders whose coefficient is at least as far from 0, of
    more by Student's t, which is wrong for few (of 3 it is 0 where 2 of 6 orders are as far). p: "t" for Student's t
    always, as Barkan et al. 2023 have it in table 3.

    >>> [round(value, 3) for value in agree([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5])]     # 42 of 720 orders
    [0.829, 0.058, 0.6]
    >>> round(agree([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5], p="t")[1], 3)
    0.042
    """
    choice("p", p, P_VALUES)
    first, second = (np.round(np.asarray(values, float), 12) for values in (first, second))  # ties but for rounding
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan"), float("nan"), float("nan")
    if len(first) == 2:  # in one order or in the other, which scipy takes for too few
        same = float(np.sign((first[1] - first[0]) * (second[1] - second[0])))
        return same, 1.0 + 0 * same, same
    if np.isnan([first, second]).any():
        return float("nan"), float("nan"), float("nan")
    ranks = np.column_stack([average_ranks(first), average_ranks(second)])
    spearman = float(np.corrcoef(ranks, rowvar=False)[1, 0])
    p_value = _share_of_orders(first, second) if _is_exact(p, len(first)) else _student_p(spearman, len(first))
    return spearman, p_value, _kendall(first, second)


def _student_p(spearman: float, n: int) -> float:
    """The two-sided p-value of Spearman's coefficient of n pairs by Student's t, as scipy.stats.spearmanr has it."""
    from scipy.special import stdtr  # scipy.stats itself takes half a second to load

    freedom = n - 2
    with np.errstate(divide="ignore"):
        t = spearman * np.sqrt((np.float64(freedom) / ((spearman + 1.0) * (1.0 - spearman))).clip(0))
    return float(np.clip(2 * stdtr(freedom, -abs(t)), 0, 1))


def _kendall(first: np.ndarray, second: np.ndarray) -> float:
    """Kendall's tau-b, which takes ties into account, as scipy.stats.kendalltau has it."""
    above = np.triu_indices(len(first), 1)
    signs = [np.sign(np.subtract.outer(values, values)[above]) for values in (first, second)]
    different = [np.float64(np.count_nonzero(sign)) for sign in signs]
    return float(np.clip(signs[0] @ signs[1] / np.sqrt(different[0]) / np.sqrt(different[1]), -1, 1))


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, the lowest first; ties have their average rank.

    >>> average_ranks(np.array([0.5, 0.1, 0.5]))
    array([2.5, 1. , 2.5])
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(sizes) - (sizes - 1) / 2)[group])


def _is_exact(p: str, n: int) -> bool:
    return p == "exact" and n <= FEW


def _share_of_orders(first: np.ndarray, second: np.ndarray) -> float:
    """The share of all orders of the second that correlate with the first at least as strongly."""
    ranks, others = (average_ranks(values) - (len(values) + 1) / 2 for values in (first, second))
    products = np.abs(others[_orders(len(first))] @ ranks)
    return float((products >= abs(ranks @ others) - 1e-9).mean())


@functools.cache
def _orders(n: int) -> np.ndarray:
    return np.array(list(itertools.permutations(range(n))), np.int8)


def by_rule(
    contest: Contest,
    votes: Votes,
    *,
    pool: Pool | None = None,
    metrics: str | Iterable[str | Metric] = ("AUC",),
    smoothing: float | Literal["crowd"] = "crowd",
    rel: int | None = None,
    verdicts: Verdicts | None = None,
) -> dict[str, Leaderboard]:
    """The leaderboard under each rule that makes judgements of votes, to see whether the order of models depends on it.

    Reliability cannot be estimated of fewer than three experts: with two, that rule is left out. smoothing: of
    `dawid_skene`. rel: the lowest grade of a scale that is positive. verdicts: if there are any, the rule verdict is
    one more.
    """
    wanted, judged = parse_all(metrics), judge_by_all(votes, smoothing, rel, verdicts)
    return {name: board_of(contest.rejudged(judgements), wanted, pool) for name, judgements in judged.items()}


def identification(
    models: Mapping[str, Any], collection: Collection, *, cutoffs: tuple[int, ...] = (5, 9), threads: int | None = None
) -> dict[str, Evaluation]:
    """How well models find other images of the query's own identity, which discovery leaves out (Barkan et al. 2023,
    table 4).
    """
    if not collection.has_identities:
        raise InputError("identification needs the identity of every query and item")
    if not models:
        raise InputError("there is no model to evaluate")
    by_image = Collection(collection.query_ids, collection.item_ids)  # only the query itself does not rank
    wanted = parse_all([f"VSDHR(norm='positives')@{k}" for k in cutoffs] + [f"VSDMRR@{k}" for k in cutoffs])
    out: dict[str, Evaluation] = {}
    for name, model in models.items():
        top = as_model(model, by_image, name).top(by_image, max(cutoffs), threads=threads)
        same = collection.is_own(top.queries, top.items)
        queries, items = collection.own.pairs(slice(0, collection.n_queries))
        rest = ~by_image.is_own(queries, items)
        keys = by_image.keys(queries[rest], items[rest])
        missing = np.setdiff1d(keys, by_image.keys(top.queries, top.items)) // by_image.n_items
        unranked = Unranked(missing, np.arange(len(missing)).astype(str), np.ones(len(missing), np.int64))
        tally = tally_of(by_image, top.queries, top.scores, same.astype(np.int64), 1, unranked)
        evaluation = evaluate_tally(tally, wanted)
        out[name] = replace(evaluation, about=evaluation.about | {"items": collection.n_items})
    return out


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of values, 1 the highest; ties have their average rank."""
    if np.isnan(values).any():  # then nobody has a rank
        return np.full(len(values), np.nan)
    return average_ranks(-np.round(values, 12))
