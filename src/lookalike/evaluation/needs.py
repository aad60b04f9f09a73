"""What metrics need of a tally: decided in one place, whatever the gallery is."""

from collections.abc import Mapping
from dataclasses import dataclass

from lookalike.metrics.metric import Metric

__all__ = ["Needs", "has_radius", "needs_of"]


@dataclass(frozen=True)
class Needs:
    """What a tally has to keep beside its counts.

    radius: of codes, the largest number of items on one code at each distance up to it (LGAP).
    ball: the items on each code within the radius, so that tallies of parts of a gallery add up.
    k: only the first k ranks matter; None: all do.
    scores: the score of every group. marks: the scores of the groups that hold an item not of the background's grade.
    distances: of embeddings, distances that every group has to be on one side of.
    """

    radius: int | None = None
    ball: bool = False
    k: int | None = None
    scores: bool = False
    marks: bool = False
    distances: tuple[float, ...] = ()

    @property
    def every_score(self) -> bool:
        """Whether every group of a gallery in memory keeps its score."""
        return self.scores or bool(self.distances)


def needs_of(policies: Mapping[Metric, str], *, radius: int | None, judged: bool) -> Needs:
    """What metrics need. policies: what unjudged items count for each metric; judged: whether pairs can be unjudged."""
    micro = [metric for metric in policies if metric.micro]
    judged_alone = judged and all(policies[metric] == "condensed" for metric in micro)
    # Where unjudged items are left out, others come up from below; as relevant ones they count as far down as they go.
    cutoffs = [metric.cutoff for metric, policy in policies.items() if policy not in ("condensed", "relevant")]
    first = [cutoff for cutoff in cutoffs if cutoff is not None]
    return Needs(
        radius=radius,
        k=max(first) if len(first) == len(policies) else None,
        scores=bool(micro) and not judged_alone,
        marks=bool(micro),
        distances=tuple(sorted({metric.options()["radius"] for metric in policies if has_radius(metric)})),
    )


def has_radius(metric: Metric) -> bool:
    """Whether a metric counts items within a distance of the query."""
    return metric.options().get("radius") is not None
