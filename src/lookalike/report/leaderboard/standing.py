"""A leaderboard as a page shows it: names of metrics, the leading metric, who built the pool, doubtful numbers."""

import math

from lookalike.discovery.contest import OF_PAIRS
from lookalike.discovery.leaderboard import LOW, Leaderboard
from lookalike.discovery.standing import (
    EQUALLY,
    OUT,
    Number,
    interval_of,
    main_metric,
    numbers_of,
    places_of,
    value_of,
)
from lookalike.metrics.metric import Metric
from lookalike.report.html import mark, text

# what tells hits in the top k, the likeliest first
RANKS = ("VSDHR", "VSDMRR", "Hit", "P", "R", "nDCG", "AP", "RR")
NAMES = {"VSDHR": "hit rate", "VSDMRR": "reciprocal rank", "Judged": "judged", "P": "precision", "R": "recall"}
BUILT, LATER = "built the pool", "came later"

__all__ = ["BUILT", "LATER", "Number", "Standing", "called", "kind"]


class Standing:
    """The models of a leaderboard, in its order, and their numbers.

    main: the area that stands for all others. lead: the number that models are compared by, neutral to those that built
    the pool where there is such a one.
    """

    def __init__(self, board: Leaderboard) -> None:
        self.board = board
        self.models, self.metrics = list(board.evaluations), board.metrics
        self.main = main_metric(board)
        self.hits = next((metric for name in RANKS for metric in self.metrics if metric.name == name), None)
        self.grouped = any(board.helped.values()) and not all(board.helped.values())
        self.has_pool = any(board.helped.values())
        self.numbers = numbers_of(board)
        self.placing = board.placing
        self.lead = self.placing.number

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """Models that built the pool and models that came later, the best first; or one group without a name."""
        ranked = self.ranking(*self.lead)
        if not self.grouped:
            return [("", ranked)]
        sides = ((BUILT, True), (LATER, False))
        return [(name, [model for model in ranked if self.board.helped[model] == side]) for name, side in sides]

    def ranking(self, metric: Metric, own_out: bool = False, equal_terms: bool = False) -> list[str]:
        """Models by a number, the best first, those without a value last."""
        return [place.model for place in places_of(self.board, Number(metric, own_out, equal_terms))]

    def value(self, model: str, metric: Metric, own_out: bool = False, equal_terms: bool = False) -> float:
        """The number to report; nan where it was not measured."""
        return value_of(self.board, model, Number(metric, own_out, equal_terms))

    def interval(
        self, model: str, metric: Metric, own_out: bool = False, equal_terms: bool = False
    ) -> tuple[float, float]:
        """Its 95 % interval over queries; nan where there is none."""
        return interval_of(self.board, model, Number(metric, own_out, equal_terms))

    def own_out(self, model: str, metric: Metric) -> float:
        """The metric without the pairs that the model alone proposed; nan where it was not measured."""
        return self.value(model, metric, own_out=True)

    def upper(self, model: str, metric: Metric) -> float:
        """The metric if everything that nobody judged were relevant; nan where it was not measured."""
        scores = self.board.upper[model].scores
        return scores[metric].mean if metric in scores else math.nan

    def judged(self, model: str) -> float:
        """The least share of what it has in its top k that was judged; nan where it was not measured."""
        cutoffs = [metric.cutoff or 1 for metric in self.board.judged[model]]
        return min((self.board.judged_share(model, cutoff) for cutoff in cutoffs), default=math.nan)

    def doubtful(self, model: str, metric: Metric) -> bool:
        """Whether a rank metric is in doubt, since too little of the model's top was judged."""
        of_ranks = metric.name not in (*OF_PAIRS, "Judged") and metric.options().get("part") != "residual"
        return of_ranks and self.judged(model) < LOW

    def mark(self, model: str) -> str:
        """The sign of a model in charts: hollow for those that came later."""
        return mark(self.models.index(model), hollow=self.grouped and not self.board.helped[model])

    def tag(self, model: str) -> str:
        """The sign and the name, as HTML."""
        return f"{self.mark(model)} {text(model)}"


def called(metric: Metric, own_out: bool = False, equal_terms: bool = False) -> str:
    """The name of a number for readers.

    >>> [called(Metric.parse(name)) for name in ("VSDHR@6", "AUC", "AUC(average='micro', negatives='sampled')")]
    ['hit rate @6', 'AUC (macro)', 'AUC (micro, sampled)']
    >>> called(Metric.parse("AUC"), own_out=True)
    'AUC (macro), own left out'
    >>> called(Metric.parse("Bpref"), equal_terms=True)
    'Bpref, equal terms'
    """
    if own_out or equal_terms:
        return called(metric) + (EQUALLY if equal_terms else OUT)
    at = "" if metric.cutoff is None else f" @{metric.cutoff}"
    if "negatives" in metric.options():
        return f"{metric.name}{_rest(metric, 'average', 'negatives')} ({kind(metric)})"
    if metric.name == "RBP":
        residual = metric.options()["part"] == "residual"
        return f"RBP{_rest(metric, 'part')}{' residual' if residual else ''}{at}"
    return f"{NAMES[metric.name]}{_rest(metric)}{at}" if metric.name in NAMES else metric.label


def kind(area: Metric) -> str:
    """How an area is averaged, and its negatives if they are not the judged ones."""
    options = area.options()
    return options["average"] + ("" if options["negatives"] == "judged" else f", {options['negatives']}")


def _rest(metric: Metric, *shown: str) -> str:
    """Parameters that differ from the default, but for those shown elsewhere."""
    others = [f"{name}={value}" for name, value in metric.parameters if name not in shown]
    return f" ({', '.join(others)})" if others else ""
