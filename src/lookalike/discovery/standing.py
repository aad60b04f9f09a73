"""Standing: which number leads a leaderboard, the models in their places by it, and how surely the first one leads."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lookalike.discovery.contest import OF_PAIRS
from lookalike.evaluation.results import Score
from lookalike.metrics.metric import Metric

if TYPE_CHECKING:
    from lookalike.discovery.leaderboard import Leaderboard

FEW = 10  # queries with a value, below which nobody can tell who leads
SURE = 0.05  # the p-value below which a lead is more than luck
EQUAL = 1e-12  # numbers that differ by less are the same but for rounding
RESAMPLES = 9_999
EQUALLY, OUT = ", equal terms", ", own left out"

__all__ = [
    "EQUALLY",
    "FEW",
    "OUT",
    "SURE",
    "Gap",
    "Number",
    "Place",
    "Placing",
    "interval_of",
    "leaders_of",
    "leading_number",
    "main_metric",
    "numbers_of",
    "places_of",
    "placing",
    "score_of",
    "value_of",
]


class Number(NamedTuple):
    """A number that every model has: a metric on all judged pairs, or made neutral to models that built the pool.

    own_out: without the pairs that the model alone proposed. equal_terms: with each two models compared on equal terms.
    """

    metric: Metric
    own_out: bool = False
    equal_terms: bool = False

    @property
    def label(self) -> str:
        """Its name in tables of text."""
        return self.metric.label + (EQUALLY if self.equal_terms else OUT if self.own_out else "")


def leading_number(board: "Leaderboard") -> Number:
    """The number that models are ranked by: Bpref on equal terms, or AUC if the board has no Bpref.

    Without models that are known to have built the pool: AUC with sampled negatives, or else the area itself. A number
    that some model lacks does not lead, unless that model lacks the area too.
    """
    main, numbers = main_metric(board), numbers_of(board)
    fair = [number for number in numbers if number.equal_terms]
    for number in (*fair, Number(main, own_out=True), Number(Metric.parse("AUC(negatives='sampled')"))):
        if number in numbers and not any(
            math.isnan(value_of(board, model, number)) > math.isnan(value_of(board, model, Number(main)))
            for model in board.evaluations
        ):
            return number
    return Number(main)


def main_metric(board: "Leaderboard") -> Metric:
    """The area that stands for all others: AUC, or the first area, or the first metric."""
    areas = [metric for metric in board.metrics if metric.name in OF_PAIRS]
    return min(areas or board.metrics, key=lambda metric: metric != Metric.parse("AUC"))


def numbers_of(board: "Leaderboard") -> list[Number]:
    """All numbers that the models have: on equal terms, without own pairs, then the metrics themselves."""
    neutral: list[Number] = []
    if any(board.helped.values()):
        equally = next(iter(board.equal_terms.values())).scores if board.equal_terms else {}
        without_own = next(iter(board.own_out.values())).scores
        neutral = [Number(metric, equal_terms=True) for metric in equally]
        neutral += [Number(metric, own_out=True) for metric in without_own]
    return [*neutral, *map(Number, board.metrics)]


def score_of(board: "Leaderboard", model: str, number: Number) -> Score | None:
    """The score behind a number of a model; None where it was not measured."""
    of_model = board.equal_terms if number.equal_terms else board.own_out if number.own_out else board.evaluations
    return of_model[model].scores.get(number.metric)


def value_of(board: "Leaderboard", model: str, number: Number) -> float:
    """The number to report; nan where it was not measured."""
    score = score_of(board, model, number)
    return math.nan if score is None else score.mean


def interval_of(board: "Leaderboard", model: str, number: Number) -> tuple[float, float]:
    """The 95 % interval of a number over queries; nan where there is none."""
    intervals = board.own_out_intervals if number.own_out else board.intervals
    if number.equal_terms:
        intervals = board.equal_terms_intervals
    return intervals.get(model, {}).get(number.metric, (math.nan, math.nan))


class Place(NamedTuple):
    """A model's place by a number. rank: from 1; models that are equal but for rounding share it. nan is last."""

    rank: int
    tied: bool
    model: str
    value: float
    low: float
    high: float


class Gap(NamedTuple):
    """How far the leader is ahead of another model: the difference of their two numbers, its interval and p-value.

    It is above 0 where the leader is better, also by a metric of which lower is better.

    Interval and p-value come from the same resamples of queries, with the same correction for the number of models that
    the leader is compared with. So the interval excludes 0 exactly where the p-value is below 0.05.
    """

    model: str
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def sure(self) -> bool:
        """Whether the lead is more than other queries would change."""
        return self.p_value < SURE


@dataclass(frozen=True)
class Placing:
    """Models in their places by one number, the best first, and how far the first is ahead of each other model.

    queries: how many have a value for some model. gaps: none of models without a value.
    """

    number: Number
    places: list[Place]
    gaps: list[Gap]
    queries: int

    @property
    def ranking(self) -> list[str]:
        """The models, the best first, those without a value last."""
        return [place.model for place in self.places]

    @property
    def leaders(self) -> list[str]:
        """The model that is first, or all that share its place; none where no model has a value."""
        return [place.model for place in self.places if place.rank == 1 and not math.isnan(place.value)]

    @property
    def few(self) -> bool:
        """Whether there are too few queries to tell who leads."""
        return self.queries < FEW

    @property
    def clear(self) -> list[str]:
        """The models that the leader is surely ahead of; none where queries are too few to tell."""
        return [] if self.few else [gap.model for gap in self.gaps if gap.sure]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        return {
            "number": self.number._asdict() | {"metric": self.number.metric.label},
            "queries": self.queries,
            "few_queries": self.few,
            "places": [place._asdict() for place in self.places],
            "leaders": self.leaders,
            "gaps": [gap._asdict() | {"sure": gap.sure and not self.few} for gap in self.gaps],
        }


def placing(board: "Leaderboard", number: Number | None = None) -> Placing:
    """The places of a leaderboard's models by a number, by default the leading one."""
    chosen = leading_number(board) if number is None else number
    places = places_of(board, chosen)
    scores = {place.model: score_of(board, place.model, chosen) for place in places if not math.isnan(place.value)}
    measured = [score for score in scores.values() if score is not None]
    gaps: list[Gap] = []
    if len(measured) > 1:
        first, *others = places[: len(measured)]
        sign = chosen.metric.sign
        ends = _resampled(measured, int(board.about["seed"]), sign)
        gaps = [
            Gap(place.model, sign * (first.value - place.value), *end) for place, end in zip(others, ends, strict=True)
        ]
    return Placing(chosen, places, gaps, _telling_queries(measured))


def _telling_queries(scores: list[Score]) -> int:
    """How many queries have a value for some model. A query without a positive has 0 by Bpref, and does not count."""
    if not scores:
        return 0
    has_value = np.any([~np.isnan(score.per_query) for score in scores], axis=0)
    return min(int(has_value.sum()), max(len(has_value) - score.undefined for score in scores))


def places_of(board: "Leaderboard", number: Number) -> list[Place]:
    """Models by a number, the best first, equal ones in the order of the board."""
    values = {model: value_of(board, model, number) for model in board.evaluations}
    order = sorted(
        values, key=lambda model: (math.isnan(values[model]), -number.metric.sign * np.round(values[model], 12))
    )
    places: list[Place] = []
    for index, model in enumerate(order):
        same = index > 0 and _equal(values[order[index - 1]], values[model])
        rank = places[-1].rank if same else index + 1
        tied = same or (index + 1 < len(order) and _equal(values[model], values[order[index + 1]]))
        places.append(Place(rank, tied, model, values[model], *interval_of(board, model, number)))
    return places


def leaders_of(board: "Leaderboard", number: Number) -> list[str]:
    """The model with the best number, or all that share it; none where no model has a value."""
    return [place.model for place in places_of(board, number) if place.rank == 1 and not math.isnan(place.value)]


def _equal(first: float, second: float) -> bool:
    return bool(abs(first - second) <= EQUAL) or (math.isnan(first) and math.isnan(second))


def _resampled(scores: list[Score], seed: int, sign: int = 1) -> list[tuple[float, float, float]]:
    """Interval and p-value of the mean of the first score less that of each other one, over resampled queries.

    sign: -1 where lower is better: then it is the mean of each other one less that of the first.

    Queries without a value come and go with the others. Bonferroni's correction is in both. The ends are resampled
    differences themselves, chosen by their rank so that they exclude 0 exactly where the p-value is below 0.05.
    """
    n_others, n = len(scores) - 1, len(scores[0].per_query)
    resamples = max(RESAMPLES + 1, 200 * n_others) - 1  # for many models the ends lie farther out
    values = np.stack([score.per_query for score in scores], axis=1)
    weights = np.where(np.isnan(values), 0.0, np.stack([score.mean_weights for score in scores], axis=1))
    weighted = np.nan_to_num(values) * weights
    generator = np.random.default_rng(seed)
    parts = []
    step = max(1, 5_000_000 // n)
    for done in range(0, resamples, step):
        size = min(step, resamples - done)
        times = generator.multinomial(n, np.full(n, 1 / n), size=size).astype(float)
        counts = times @ weights
        means = np.divide(times @ weighted, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
        parts.append(sign * (means[:, :1] - means[:, 1:]))
    differences = np.nan_to_num(np.round(np.concatenate(parts), 12))  # 0 but for rounding, or unknown: 0, no lead
    return [_ends(column, n_others) for column in differences.T]


def _ends(differences: np.ndarray, n_others: int) -> tuple[float, float, float]:
    """Low and high end and two-sided p-value of resampled differences, corrected for so many comparisons."""
    n = len(differences)
    fewest = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    p_value = min(1.0, 2 * n_others * (fewest + 1) / (n + 1))
    row = math.ceil(SURE * (n + 1) / (2 * n_others) - 1e-9) - 2  # so many may pass 0 with a p-value below SURE
    ordered = np.sort(differences)
    return float(ordered[row]), float(ordered[-1 - row]), p_value
