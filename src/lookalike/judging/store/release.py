"""The pairs of the pool that are released to experts, and the blocks in which they stay together."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import InputError, Option
from lookalike.discovery.judging_order import ORDERS, next_pairs
from lookalike.discovery.pool import Pool
from lookalike.judging.store.board import Board
from lookalike.judging.store.pairs import EVERYBODY
from lookalike.study.study import Study

MOST = EVERYBODY - 1  # an INTEGER of PostgreSQL holds one more
AT_ONCE = 50  # pairs, at least, that the adaptive order releases

__all__ = ["JudgingSettings", "Released", "Releases", "StudyReleases"]

Released = tuple[str, str, int]  # query, item, block


@dataclass(frozen=True)
class JudgingSettings:
    """How judging is organised. budget: pairs that are judged in all, None for the whole pool.

    experts_per_pair: how many judge each pair, or "all": everybody who may judge, also who comes later.
    """

    experts_per_pair: int | str = 3
    order: str = "depth"
    budget: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.experts_per_pair, str):
            choice("experts_per_pair", self.experts_per_pair, ("all",))
        else:
            _check_number("experts_per_pair", self.experts_per_pair, 1)
        if self.budget is not None:
            _check_number("budget", self.budget, 0)
        _check_number("seed", self.seed, 0)
        choice("order", self.order, ORDERS)

    @property
    def wanted(self) -> int:
        """How many experts a pair wants, as the database holds it."""
        return self.experts_per_pair if isinstance(self.experts_per_pair, int) else EVERYBODY


def _check_number(name: str, value: int, least: int) -> None:
    if whole_number(name, value, least) > MOST:
        raise InputError(Option(name), f" must be at most {MOST:,}, got {value:,}", parameter=name, value=value)


class Releases:
    """The pairs of a pool that are released, without gold pairs, which everybody judges."""

    def __init__(self, pool: Pool, gold: Iterable[tuple[str, str]]) -> None:
        self.pool = pool
        self.pairs = pool.pairs
        gold = set(gold)
        self.is_gold = np.array([pair in gold for pair in self.pairs], bool)

    def __len__(self) -> int:
        return int((~self.is_gold).sum())

    @cached_property
    def rows(self) -> dict[tuple[str, str], int]:
        """The row of each pair in the pool."""
        return {pair: row for row, pair in enumerate(self.pairs)}

    @cached_property
    def depth_blocks(self) -> np.ndarray:
        """The block of each row in the order of depth: layer by layer, there query by query."""
        return np.asarray(self.pool.layers().astype(np.int64) * self.pool.collection.n_queries + self.pool.queries)

    def by_depth(self, released: Iterable[tuple[str, str]], n: int) -> list[Released]:
        """The next n pairs after those released, layer by layer."""
        gone = self.is_gold.copy()
        gone[[self.rows[pair] for pair in released if pair in self.rows]] = True
        chosen = next_pairs(self.pool, np.where(gone, 0, -1), n, "depth")
        return [(*self.pairs[row], int(self.depth_blocks[row])) for row in chosen.tolist()]

    def judged_before(self, said: Iterable[tuple[str, str]], n: int, first_block: int) -> list[Released]:
        """The first n pairs that somebody has judged, because a pair that is begun is finished."""
        rows = sorted(self.rows[pair] for pair in said if pair in self.rows)
        return self._in_blocks([row for row in rows if not self.is_gold[row]][:n], first_block)

    def adaptively(self, board: Board, n: int, rel: int = 1) -> list[Released]:
        """The next n pairs, proposed by the models that are best so far. rel: the lowest grade that is positive."""
        grades, undecided = np.full(len(self.pool), -1), self.is_gold.copy()
        for pair, number in board.ids.items():
            if pair in self.rows:
                voters = board.pairs[number].voters.items()
                answers = sorted(answer for expert, (_, answer) in voters if not board.gates.is_screened(expert))
                decided = [answer for answer in answers if answer >= 0]
                middle = decided[(len(decided) - 1) // 2] if decided else 0
                grades[self.rows[pair]] = middle >= rel  # as the median has it, and the majority: ties are negative
                undecided[self.rows[pair]] |= not decided
        left = np.flatnonzero(~undecided)  # what is asked and not yet answered says nothing of the models
        part = replace(
            self.pool, queries=self.pool.queries[left], items=self.pool.items[left], ranks=self.pool.ranks[left],
            scores=self.pool.scores[left], random=self.pool.random[left],
        )  # fmt: skip
        rows = left[next_pairs(part, grades[left], n, "adaptive")].tolist()
        return self._in_blocks(rows, board.last_block + 1)

    def _in_blocks(self, rows: list[int], first: int) -> list[Released]:
        """Rows sorted by query, in a block for each query."""
        queries = list(dict.fromkeys(self.pool.queries[rows].tolist()))
        block = {query: first + number for number, query in enumerate(queries)}
        return [(*self.pairs[row], block[int(self.pool.queries[row])]) for row in rows]


class StudyReleases:
    """The releases of a study, made again when its settings, its pool or its gold pairs have changed."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._made: tuple[str, Releases] | None = None  # for which mark, and the releases

    def at(self, mark: str) -> Releases:
        """The releases that a database with this mark is to have."""
        if self._made is None or self._made[0] != mark:
            gold = self._study.gold()
            self._made = mark, Releases(self._study.pool(), [] if gold is None else gold.pairs)
        return self._made[1]
