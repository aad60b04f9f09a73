"""New settings, or a changed pool: pairs that somebody has begun stay, all others are released anew."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa

from lookalike.core.files import digest
from lookalike.judging.store.board import Board
from lookalike.judging.store.pairs import EVERYBODY
from lookalike.judging.store.release import JudgingSettings, Released, Releases
from lookalike.judging.store.schema import LATER, MISSING, PAIRS
from lookalike.judging.store.work import StoreWork
from lookalike.study.study import Study

__all__ = ["Plan", "configure", "make_plan"]

Ids = tuple[str, str]  # of a query and an item


@dataclass(frozen=True)
class Plan:
    """What is to be judged, and how. mark: a fingerprint of all that the plan was made of."""

    settings: JudgingSettings
    releases: Releases
    gold: list[Ids]
    mark: str

    @cached_property
    def gold_pairs(self) -> frozenset[Ids]:
        """The gold pairs, to look pairs up in."""
        return frozenset(self.gold)

    @property
    def allowed(self) -> int:
        """How many pairs may be judged, gold pairs not counted."""
        budget = self.settings.budget
        return len(self.releases) if budget is None else min(budget, len(self.releases))


def make_plan(study: Study, settings: JudgingSettings) -> Plan:
    """The plan for a study with the pool and the gold pairs that it has now."""
    pool, gold = study.pool(), study.gold()
    gold_pairs = [] if gold is None else gold.pairs
    values = ", ".join(f"{name}={value!r}" for name, value in asdict(settings).items())
    text = f"Settings({values})"  # databases hold marks that were made of this text: another would release pairs again
    mark = digest(np.array([pool.digest, *sorted(map(repr, gold_pairs)), text]))
    return Plan(settings, Releases(pool, gold_pairs), gold_pairs, mark)


def configure(work: StoreWork, plan: Plan) -> None:
    """Follow a plan from now on; nothing happens if it is followed already."""
    if work.follower.meta.get("release") == plan.mark:
        return
    board, connection, settings = work.board, work.connection, plan.settings
    begun = _begun(connection, board)  # also pairs that are on show now: their answers will come
    if settings.wanted != board.experts_per_pair or _gold_of(board) != plan.gold_pairs:
        for expert in list(board.hands):
            board.let_go(expert)  # or a pair that now wants fewer experts would get more
    work.follower.write(connection)
    _withdraw(connection, [number for number in board.pairs if number not in begun])
    kept = {(pair.query, pair.item): number for number, pair in board.pairs.items() if number in begun}
    _regroup(connection, [_change(plan, board, pair, number) for pair, number in kept.items()])
    n_kept = sum(pair in plan.releases.rows and pair not in plan.gold_pairs for pair in kept)
    left = max(0, plan.allowed - n_kept)
    if settings.order == "depth":
        released = plan.releases.by_depth(kept, left)
    else:
        released = plan.releases.judged_before(board.voters.keys() - kept.keys(), left, board.last_block + 1)
    _insert_pairs(connection, released, settings.wanted)
    _insert_pairs(connection, [(*pair, 0) for pair in plan.gold if pair not in kept], None)
    facts = {"target": max(plan.allowed, n_kept), "in_pool": len(plan.releases.pool), "release": plan.mark}
    work.follower.begin_epoch(connection, **asdict(settings), **facts)


def _gold_of(board: Board) -> set[Ids]:
    return {(pair.query, pair.item) for pair in board.pairs.values() if pair.gold}


def _begun(connection: sa.Connection, board: Board) -> set[int]:
    """Pairs of which an expert has seen something: they stay."""
    noted = set(connection.execute(sa.union(sa.select(MISSING.c.pair), sa.select(LATER.c.pair))).scalars())
    return {number for number, pair in board.pairs.items() if pair.seats or pair.voters or number in noted}


def _withdraw(connection: sa.Connection, numbers: list[int]) -> None:
    if numbers:
        statement = sa.delete(PAIRS).where(PAIRS.c.id == sa.bindparam("number"))
        connection.execute(statement, [{"number": number} for number in numbers])


def _change(plan: Plan, board: Board, pair: Ids, number: int) -> dict[str, Any]:
    """The block of a pair that stays, and how many experts it wants: none if it is no longer in the pool."""
    row = plan.releases.rows.get(pair)
    block, wanted = board.pairs[number].block, 0 if row is None else plan.settings.wanted
    if 0 < wanted < EVERYBODY:  # votes that do not count leave their seats to others
        wanted += len(board.gates.screened & board.pairs[number].voters.keys())
    if row is not None and plan.settings.order == "depth":
        block = int(plan.releases.depth_blocks[row])
    return {"number": number, "new_block": block, "new_wanted": None if pair in plan.gold_pairs else wanted}


def _regroup(connection: sa.Connection, changes: list[dict[str, Any]]) -> None:
    if changes:
        values: dict[str, Any] = {"block": sa.bindparam("new_block"), "wanted": sa.bindparam("new_wanted")}
        connection.execute(sa.update(PAIRS).where(PAIRS.c.id == sa.bindparam("number")).values(values), changes)


def _insert_pairs(connection: sa.Connection, pairs: list[Released], wanted: int | None) -> None:
    rows = [{"query": query, "item": item, "block": block, "wanted": wanted} for query, item, block in pairs]
    if rows:
        connection.execute(sa.insert(PAIRS), rows)
