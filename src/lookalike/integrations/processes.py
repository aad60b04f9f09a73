"""What the processes of a training must agree on before what they counted or kept is put together."""

from collections.abc import Sequence
from typing import NamedTuple

from lookalike.core.errors import InputError

__all__ = ["ProcessFacts", "check_processes"]


class ProcessFacts(NamedTuple):
    """What one process knows, as whole numbers that can be sent.

    config: numbers that say how the metric was made, as one. own: items that are queries too. queries, gallery: rows
    that are kept; counted: items that were counted and forgotten. width, dtype: of rows; label_width: of labels; all 0
    where there are no rows. query_ids, gallery_ids: rows with ids. fingerprint: of the queries, where tallies are
    summed.
    """

    config: int
    own: int
    queries: int
    gallery: int
    counted: int
    width: int
    dtype: int
    label_width: int
    query_ids: int
    gallery_ids: int
    fingerprint: int


def check_processes(facts: Sequence[ProcessFacts], *, tallies: bool, what: str = "process") -> None:
    """Raise where what processes have cannot be put together. All processes see the same, so all of them raise.

    tallies: whether counts are summed, which needs the same queries everywhere. what: what the facts are of.
    """
    if len({fact.config for fact in facts}) > 1:
        raise InputError(f"the metric was not made in the same way in every {what}: pass the same options")
    if any(fact.own for fact in facts):
        for rank, fact in enumerate(facts):
            if fact.own != fact.queries or fact.gallery or fact.counted:
                raise InputError(
                    f"{what} {rank} was given queries or a gallery, another items: give items alone, or none"
                )
    elif tallies:
        _check_queries(facts)
    for name, plural in (("width", "columns"), ("dtype", "types of floats"), ("label_width", "columns of labels")):
        if len({getattr(fact, name) for fact in facts} - {0}) > 1:
            raise InputError(f"the vectors of one {what} have other {plural} than those of another: make them alike")
    of_queries = {fact.query_ids > 0 for fact in facts if fact.queries}
    of_items = {fact.gallery_ids > 0 for fact in facts if fact.gallery or fact.counted}
    for name, given in (("queries", of_queries), ("gallery", of_items)):
        if len(given) > 1:
            raise InputError(f"not every {what} has ids of the {name}: pass ids in all or in none")


def _check_queries(facts: Sequence[ProcessFacts]) -> None:
    for rank, fact in enumerate(facts):
        if not fact.queries:
            raise InputError(
                f"process {rank} has no queries: give all queries to every process (no DistributedSampler for them), "
                "or make the metric with keep_gallery=True"
            )
        if fact.fingerprint != facts[0].fingerprint:
            raise InputError(
                f"process {rank} has other queries than process 0, so that their counts cannot be added: give all "
                "queries, in one order, to every process (no DistributedSampler for them), or make the metric with "
                "keep_gallery=True, which gathers the parts of all processes"
            )
