"""Practice before the first pair: pairs with a known answer, feedback, and a score that must be reached.

Practice is kept apart from votes, in tables of its own: no vote, export, agreement or leaderboard ever has it.
"""

import hashlib
import json
from collections import defaultdict
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from lookalike.core.errors import InputError, Option
from lookalike.judging.store.clock import milliseconds
from lookalike.judging.store.schema import PRACTICE, PRACTISED, read_meta
from lookalike.judging.store.types import VoteRefusedError
from lookalike.judging.store.work import StoreWork

if TYPE_CHECKING:
    from lookalike.judging.store.stored_settings import StoredSettings

MOST, WHY = 100, 500  # pairs; characters of a reason

__all__ = [
    "Practice",
    "PracticeAnswer",
    "PracticePair",
    "PracticeRound",
    "Practiser",
    "answer_practice",
    "needed_practice",
    "practice_of",
    "practice_round",
    "practisers",
    "set_practice",
]


@dataclass(frozen=True)
class PracticePair:
    """A pair with its right answer and a sentence why."""

    query: str
    item: str
    answer: int
    why: str


@dataclass(frozen=True)
class Practice:
    """The pairs that experts practise on. share: of the answers that must be right."""

    pairs: tuple[PracticePair, ...]
    share: float = 0.8

    def __post_init__(self) -> None:
        if not 1 <= len(self.pairs) <= MOST:
            raise InputError(f"practice has from 1 to {MOST} pairs, got {len(self.pairs)}")
        if not 0 < self.share <= 1:
            raise InputError(
                Option("pass_share"), f" is the share of the practice that must be right, up to 1, got {self.share:g}"
            )

    @cached_property
    def mark(self) -> str:
        """A fingerprint of the pairs: answers to other pairs do not count."""
        return hashlib.blake2b(self._text().encode(), digest_size=8).hexdigest()

    def _text(self) -> str:
        return json.dumps([astuple(pair) for pair in self.pairs], ensure_ascii=False)

    def passes(self, n_right: int) -> bool:
        """Whether so many right answers are enough."""
        return n_right >= self.share * len(self.pairs) - 1e-9

    def in_order(self, expert: str, round_number: int) -> list[PracticePair]:
        """The pairs in the order of one round of one expert; each round has another."""

        def draw(place: int) -> bytes:
            text = f"{self.mark}/{expert}/{round_number}/{place}".encode(errors="surrogatepass")
            return hashlib.blake2b(text, digest_size=8).digest()

        return [self.pairs[place] for place in sorted(range(len(self.pairs)), key=draw)]

    def to_meta(self) -> dict[str, Any]:
        """The practice as a database holds it."""
        return {"practice": self._text(), "practice_pass": repr(self.share)}

    @classmethod
    def of(cls, meta: dict[str, str]) -> "Practice | None":
        """The practice that a database holds."""
        if "practice" not in meta:
            return None
        return cls(tuple(PracticePair(*row) for row in json.loads(meta["practice"])), float(meta["practice_pass"]))


@dataclass(frozen=True)
class PracticeRound:
    """How far an expert is in a round. number: from 1. answered, right: pairs of this round."""

    number: int
    answered: int
    right: int


@dataclass(frozen=True)
class Practiser:
    """An expert's practice, for the organiser. how: why it is over (passed, admitted, before), or None.

    rounds: finished ones. right, asked: of the last round that was finished, None before that.
    """

    expert: str
    how: str | None
    rounds: int
    right: int | None
    asked: int | None

    @property
    def waits(self) -> bool:
        """Whether the expert has not reached the score, and the organiser may let them begin."""
        return self.how is None and self.rounds > 0


def practice_of(store: "StoredSettings") -> Practice | None:
    """The practice of a study; None where there is none."""
    return Practice.of(store.meta())


def needed_practice(store: "StoredSettings", expert: str) -> Practice | None:
    """The practice that an expert has to do before the first pair; None for who need not."""
    with store.reading() as connection:
        practice = Practice.of(read_meta(connection))
        if practice is None:
            return None
        done = connection.execute(sa.select(PRACTISED.c.how).where(PRACTISED.c.expert == expert)).one_or_none()
    return practice if done is None else None


def set_practice(store: "StoredSettings", practice: Practice | None, now: int | None = None) -> None:
    """Ask for practice from now on, for another practice, or for none.

    Those who have passed stay so, whatever the pairs are. Where there was no practice before, experts who have begun to
    judge are not stopped.
    """
    moment = milliseconds(now)

    def run(work: StoreWork) -> None:
        before = Practice.of(read_meta(work.connection))
        if before == practice:
            return
        work.follower.write(work.connection)
        if before is None:
            begun = [name for name in work.board.judged if name not in work.board.gates.practised]
            rows = [{"expert": name, "how": "before", "at": moment} for name in begun if work.board.judged[name]]
            if rows:
                work.connection.execute(sa.insert(PRACTISED), rows)
        meta = {"practice": None, "practice_pass": None} if practice is None else practice.to_meta()
        work.follower.begin_epoch(work.connection, **meta)

    store.do(run)


def practice_round(connection: sa.Connection, practice: Practice, expert: str) -> PracticeRound:
    """The round that an expert is in, or has finished last; the first one before anything is answered."""
    rounds: dict[int, list[int]] = defaultdict(list)
    chosen = (PRACTICE.c.expert == expert, PRACTICE.c.mark == practice.mark)
    for number, correct in connection.execute(sa.select(PRACTICE.c.round, PRACTICE.c.correct).where(*chosen)):
        rounds[number].append(correct)
    last = max(rounds, default=1)
    return PracticeRound(last, len(rounds[last]), sum(rounds[last]))


@dataclass(frozen=True)
class PracticeAnswer:
    """What an expert says of a practice pair: of which practice, in which round, and at which place of it."""

    mark: str
    round: int
    place: int
    answer: int


def answer_practice(
    store: "StoredSettings", expert: str, link: int, sent: PracticeAnswer, now: int | None = None
) -> PracticePair:
    """Keep an answer of practice; the pair with its right answer. An answer that is sent again is kept once.

    Raises VoteRefusedError where another pair is to be answered: the practice was changed, or goes on in another tab.
    """
    moment = milliseconds(now)

    def run(work: StoreWork) -> PracticePair:
        work.board.check_expert(expert, moment, link)
        practice = Practice.of(read_meta(work.connection))
        if practice is None or practice.mark != sent.mark or not work.board.gates.needs_practice(expert):
            raise VoteRefusedError("the practice has changed meanwhile: load this page again")
        at = practice_round(work.connection, practice, expert)
        n, order = len(practice.pairs), practice.in_order(expert, sent.round)
        if (sent.round, sent.place) < (at.number, at.answered) and sent.round > 0 and 0 <= sent.place < n:
            return order[sent.place]  # it was answered before, and the first answer stays
        begins_next = at.answered == n and (sent.round, sent.place) == (at.number + 1, 0)
        if not begins_next and ((sent.round, sent.place) != (at.number, at.answered) or at.answered == n):
            raise VoteRefusedError("another pair of the practice comes next: load this page again")
        pair = order[sent.place]
        correct = int(sent.answer == pair.answer)
        row = {"expert": expert, "mark": practice.mark, "round": sent.round, "place": sent.place, "at": moment}
        row |= {"query": pair.query, "item": pair.item, "answer": sent.answer, "correct": correct}
        work.connection.execute(sa.insert(PRACTICE), row)
        right = correct + (0 if begins_next else at.right)
        if sent.place == n - 1 and practice.passes(right):
            work.connection.execute(sa.insert(PRACTISED), {"expert": expert, "how": "passed", "at": moment})
            work.board.gates.practised.add(expert)
        work.wrote = True
        return pair

    return store.do(run)


def practisers(store: "StoredSettings", practice: Practice | None) -> dict[str, Practiser]:
    """The practice of each expert who has begun it or need not do it any more, by name."""
    with store.reading() as connection:
        how = {row.expert: row.how for row in connection.execute(sa.select(PRACTISED))}
        columns = (PRACTICE.c.expert, PRACTICE.c.mark, PRACTICE.c.round)
        counts = sa.select(*columns, sa.func.count(), sa.func.sum(PRACTICE.c.correct), sa.func.max(PRACTICE.c.number))
        rows = sorted(connection.execute(counts.group_by(*columns)).all(), key=lambda row: int(row[-1]))
    last: dict[str, tuple[int, int, int]] = {}
    begun = {row[0] for row in rows}
    for expert, mark, _, asked, right, _ in rows:
        if practice is not None and mark == practice.mark and asked == len(practice.pairs):
            last[expert] = (last.get(expert, (0,))[0] + 1, int(right), int(asked))
    names = sorted(how.keys() | begun)
    return {name: Practiser(name, how.get(name), *last.get(name, (0, None, None))) for name in names}
