"""The scale of a study's answers: it is set before the first vote, and stays."""

from typing import TYPE_CHECKING

from lookalike.discovery.scale import Scale
from lookalike.discovery.vote_log import scale_of
from lookalike.judging.store.databases import PostgreSQL
from lookalike.judging.store.schema import remake_votes
from lookalike.judging.store.transfer import DATABASE, bring_scale, n_votes, own_record
from lookalike.judging.store.types import VoteRefusedError
from lookalike.judging.store.work import StoreWork

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store

__all__ = ["set_scale", "stored_scale"]


def set_scale(store: "Store", scale: Scale, *, new_gold: bool = False, new_practice: bool = False) -> bool:
    """Let experts answer on a scale from now on; whether it is another than before.

    Refused once there are votes, and where gold pairs or the practice have answers on the scale before, unless new ones
    come with it.
    Pages that are open must be loaded again: what they send until then is not kept.
    """

    def run(work: StoreWork) -> bool:
        before = scale_of(work.follower.meta, DATABASE)
        if scale == before:
            return False
        if n := n_votes(work.connection):
            raise VoteRefusedError(
                f"the scale stays {str(before)!r}, because {n:,} votes are on it: make another study for {str(scale)!r}"
            )
        if not new_gold and (gold := store.study.gold()) is not None:
            raise VoteRefusedError(
                f"the answers of {len(gold):,} gold pairs are on the scale {str(before)!r}: give gold pairs of the new "
                "scale too"
            )
        if not new_practice and "practice" in work.follower.meta:
            raise VoteRefusedError(
                f"the answers of the practice are on the scale {str(before)!r}: give a practice of the new scale too"
            )
        remake_votes(work.connection, scale)
        work.follower.begin_epoch(work.connection)
        return True

    changed = store.do(run)
    if changed and isinstance(store.database, PostgreSQL):
        with own_record(store.study) as (_, own), store.reading() as ours, own.writing() as theirs:
            bring_scale(ours, theirs)
    return changed


def stored_scale(store: "Store") -> Scale:
    """The scale of the answers in a store."""
    return scale_of(store.meta(), DATABASE)
