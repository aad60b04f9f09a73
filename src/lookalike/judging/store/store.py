"""The store of the judging app: experts, the seats they have at pairs, and votes, in SQLite or PostgreSQL."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import sqlalchemy as sa

from lookalike.core.errors import InputError
from lookalike.discovery.vote_log import scale_of, votes_of
from lookalike.discovery.votes import Votes
from lookalike.judging.store.actions import Claim, claim_pairs, recent_answers
from lookalike.judging.store.board_sync import Follower, settings_of, votes_by_client
from lookalike.judging.store.clock import check_moment, hold_length, milliseconds
from lookalike.judging.store.configure import configure, make_plan
from lookalike.judging.store.crowd import closed_to, take_answers
from lookalike.judging.store.databases import Database, PostgreSQL, SQLite, database_at
from lookalike.judging.store.import_votes import check_votes, import_votes
from lookalike.judging.store.location import remember_database, remembered_database
from lookalike.judging.store.release import JudgingSettings, StudyReleases
from lookalike.judging.store.schema import (
    ALL_EXPERTS,
    ALL_VOTES,
    EXPERTS,
    LATER,
    MISSING,
    OF_PEOPLE,
    PAIRS,
    SEATS,
    read_meta,
)
from lookalike.judging.store.status import find_faults, read_status
from lookalike.judging.store.stored_settings import StoredSettings
from lookalike.judging.store.transfer import (
    DATABASE,
    bring_links,
    bring_remarks,
    bring_scale,
    bring_settings,
    bring_votes,
    own_record,
    prepare,
)
from lookalike.judging.store.types import (
    Answer,
    Expert,
    Handed,
    Imported,
    JudgingTask,
    Progress,
    Status,
    StoreAwayError,
    Taken,
    Verdict,
    VoteRefusedError,
    check_expert_name,
)
from lookalike.judging.store.work import StoreWork, refuse_machines, set_expert
from lookalike.judging.store.write_queue import Operation, Writer
from lookalike.study.study import Study

T = TypeVar("T")

__all__ = ["Store"]

_ONE_EXPERT = ALL_EXPERTS.where(EXPERTS.c.name == sa.bindparam("name"))
_TASK = (
    sa.select(PAIRS.c.id, PAIRS.c.query, PAIRS.c.item)
    .where(PAIRS.c.id == sa.bindparam("pair"))
    .where(
        sa.exists().where(SEATS.c.pair == PAIRS.c.id, SEATS.c.expert == sa.bindparam("expert"))
        | sa.exists().where(LATER.c.pair == PAIRS.c.id, LATER.c.expert == sa.bindparam("expert"))
    )
)
_NOTED = sa.select(MISSING.c.at).where(
    MISSING.c.pair == sa.bindparam("pair"),
    MISSING.c.expert == sa.bindparam("expert"),
    MISSING.c.side == sa.bindparam("side"),
)


class Store(StoredSettings):
    """Who judges which pair, and what the experts answer. Made by `Store.open`, one in each process.

    Any number of threads may call it, and any number of processes may have a store of one study. Operations that wait
    at the same time are done in one transaction and answered when it is on disk. `now` is in milliseconds since 1970,
    None for the clock of this machine. All methods may raise StoreAwayError and StoreFullError: then nothing of the
    call was kept, and the store goes on. Methods of an expert raise ExpertError for one who may not judge.
    """

    @classmethod
    def open(cls, where: str | Path | None, study: Study, *, patience: float = 15.0) -> "Store":
        """Open, make or migrate the store of a study.

        where: postgresql://…, which the study remembers; a file of SQLite; None: what the study remembers, or else its
        own votes.sqlite. patience: for how many seconds to wait for a database that does not answer.
        """
        location = where or remembered_database(study) or study.path / "votes.sqlite"
        database = database_at(location, study.path / "judging")
        try:
            _patiently(lambda: prepare(database, study), patience)
            if isinstance(database, PostgreSQL) and where is not None:
                remember_database(study, str(where))
        except BaseException:
            database.forget()
            raise
        if isinstance(database, PostgreSQL):
            return cls(database, study, patience, home=(str(location),))
        own = isinstance(database, SQLite) and database.path == (study.path / "votes.sqlite").resolve()
        return cls(database, study, patience, home=(None,) if own else None)

    def __init__(
        self, database: Database, study: Study, patience: float = 15.0, home: tuple[str | None] | None = None
    ) -> None:
        """Store the arguments. home: what the study must remember for this to be where it is judged; None: anything."""
        self.database, self._study, self._patience, self._home = database, study, patience, home
        self._follower = Follower()
        self._releases = StudyReleases(study)
        self._writer = Writer(self._attempt, self._recover, patience)

    @property
    def study(self) -> Study:
        """The study that is judged."""
        return self._study

    def close(self) -> None:
        """Finish what was asked for, then close the database."""
        self._writer.close()
        self.database.forget()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def configure(
        self, experts_per_pair: int | str = 3, order: str = "depth", budget: int | None = None, seed: int = 0
    ) -> None:
        """Set how many experts judge each pair, and which pairs in which order; then release pairs accordingly.

        It may be called again with the same or other settings, or when the pool or the gold pairs have changed: pairs
        that somebody has begun stay, all others are released anew. budget: how many pairs, gold pairs not counted.
        experts_per_pair may be "all": each pair waits for everybody who may judge, also for who comes later.
        """
        plan = make_plan(self._study, JudgingSettings(experts_per_pair, order, budget, seed))
        self.do(lambda work: configure(work, plan))

    def release_again(self) -> None:
        """Release pairs again with the settings that the store has, if any: the pool or gold pairs have changed."""
        meta = self.meta()
        if "order" in meta:
            self.configure(**asdict(settings_of(meta)))

    # Experts

    def add_expert(self, name: str, expires: int | None = None) -> Expert:
        """Let an expert judge. One who is there already stays as before, except for `expires` if it is given."""
        check_expert_name(name)
        check_moment(expires)

        def run(work: StoreWork) -> Expert:
            expert = work.board.experts.get(name)
            if expert is None:
                refuse_machines(work, {name})
                return set_expert(work, Expert(name, 1, expires))
            if expires is None or expires == expert.expires:
                return expert
            return set_expert(work, Expert(name, expert.link_number, expires, expert.revoked))

        return self.do(run)

    def experts(self) -> list[Expert]:
        """All experts, sorted by name."""
        with self.reading() as connection:
            rows = connection.execute(ALL_EXPERTS).all()
        return [Expert(*row) for row in rows]

    def expert(self, name: str) -> Expert | None:
        """The expert of this name. It is fast, because every request is checked by it."""
        with self.reading() as connection:
            row = connection.execute(_ONE_EXPERT, {"name": name}).one_or_none()
        return None if row is None else Expert(*row)

    def revoke(self, name: str, now: int | None = None) -> Expert:
        """Let an expert judge no more. The votes stay; pairs in hand go back."""
        moment = milliseconds(now)

        def run(work: StoreWork) -> Expert:
            expert = work.board.check_expert(name)
            work.board.let_go(name)
            if expert.revoked is not None:
                return expert
            return set_expert(work, Expert(name, expert.link_number, expert.expires, moment))

        return self.do(run)

    def renew(self, name: str, expires: int | None = None) -> Expert:
        """Let an expert judge (again) by a new link; links with an older number no longer work."""
        check_moment(expires)

        def run(work: StoreWork) -> Expert:
            expert = work.board.check_expert(name)
            return set_expert(work, Expert(name, expert.link_number + 1, expires))

        return self.do(run)

    # What an expert does

    def claim(
        self, expert: str, n: int, now: int | None = None, seconds: float = 600, *, sheet: int = 1
    ) -> list[JudgingTask]:
        """The pairs in this expert's hand, filled up to n, those from before first; fewer if there are no more.

        The expert has a seat at each pair for `seconds` (at most 3,600). It is renewed here when half of that has
        passed. After that somebody else may get it. sheet: up to how many pairs of one query come at once; the last of
        them may come beyond n.
        """
        claim = Claim(expert, n, milliseconds(now), hold_length(n, seconds), sheet)

        def run(work: StoreWork) -> list[JudgingTask]:
            work.board.check_expert(expert, claim.now)
            return claim_pairs(work, self._releases, claim)

        return self.do(run)

    def hand_out(
        self,
        expert: str,
        link: int,
        n: int,
        *,
        sheet: int = 1,
        recent: int = 0,
        now: int | None = None,
        seconds: float = 600,
    ) -> "Future[Handed]":
        """Everything that an expert's page asks for at once: `claim`, `recent` and `progress`.

        link: the number of the link by which the expert came, which is checked too.
        """
        claim = Claim(expert, n, milliseconds(now), hold_length(n, seconds), sheet)

        def run(work: StoreWork) -> Handed:
            work.board.check_expert(expert, claim.now, link)
            tasks = claim_pairs(work, self._releases, claim)
            closed = closed_to(work, expert, tasks, claim.now)
            return Handed(tasks, recent_answers(work.board, expert, recent), work.board.progress(expert), closed)

        return self._writer.ask(run)

    def vote(self, expert: str, answers: Iterable[Answer], now: int | None = None) -> list[Verdict]:
        """Keep answers. Returns what became of each, when all that is "kept" is on disk."""
        batch, moment = list(answers), milliseconds(now)

        def run(work: StoreWork) -> list[Verdict]:
            work.board.check_expert(expert, moment)
            return take_answers(work, self._study, expert, batch, moment)

        return self.do(run, [answer.client for answer in batch])

    def take(self, expert: str, link: int, answers: Iterable[Answer], now: int | None = None) -> "Future[Taken]":
        """Keep answers as `vote` does, and tell the progress, for the page of an expert.

        link: the number of the link by which the expert came, which is checked too.
        """
        batch, moment = list(answers), milliseconds(now)

        def run(work: StoreWork) -> Taken:
            work.board.check_expert(expert, moment, link)
            verdicts = take_answers(work, self._study, expert, batch, moment)
            return Taken(verdicts, work.board.progress(expert))

        return self._writer.ask(run, [answer.client for answer in batch])

    def later(self, expert: str, pair: int, now: int | None = None) -> bool:
        """Put a pair off until the expert has nothing else; False if it is unknown or the expert has judged it."""
        moment = milliseconds(now)

        def run(work: StoreWork) -> bool:
            work.board.check_expert(expert, moment)
            return work.board.later(expert, pair, moment)

        return self.do(run)

    def missing(self, expert: str, pair: int, side: Literal["query", "item"], now: int | None = None) -> bool:
        """Note for the organiser that an image did not load; False if the pair is unknown."""
        if side not in ("query", "item"):
            raise InputError(f"the side of a pair is 'query' or 'item', got {side!r}", parameter="side", value=side)
        moment = milliseconds(now)

        def run(work: StoreWork) -> bool:
            work.board.check_expert(expert, moment)
            if pair not in work.board.pairs:
                return False
            note = {"pair": pair, "expert": expert, "side": side}
            if work.connection.execute(_NOTED, note).one_or_none() is None:
                work.connection.execute(sa.insert(MISSING), note | {"at": moment})
                work.wrote = True
            return True

        return self.do(run)

    def progress(self, expert: str) -> Progress:
        """How far this expert, and everybody, has come."""

        def run(work: StoreWork) -> Progress:
            work.board.check_expert(expert)
            return work.board.progress(expert)

        return self.do(run)

    def task(self, expert: str, pair: int) -> JudgingTask | None:
        """A pair that the expert has in hand, has judged or has put off; None for all others."""
        with self.reading() as connection:
            row = connection.execute(_TASK, {"expert": expert, "pair": pair}).one_or_none()
        return None if row is None else JudgingTask(*row)

    def recent(self, expert: str, n: int = 20) -> list[tuple[JudgingTask, int]]:
        """The pairs that the expert judged last, newest first, with the answer that counts: for undoing."""

        def run(work: StoreWork) -> list[tuple[JudgingTask, int]]:
            work.board.check_expert(expert)
            return recent_answers(work.board, expert, n)

        return self.do(run)

    # What the organiser does

    def votes(self, *, machines: bool = False) -> Votes:
        """All votes of people, in the order in which they came. machines: those of machines too."""
        with self.reading() as connection:
            scale = scale_of(read_meta(connection), DATABASE)
            chosen = ALL_VOTES if machines else ALL_VOTES.where(OF_PEOPLE)
            return votes_of(connection.execute(chosen).all(), DATABASE, scale)

    def import_votes(self, votes: Votes, *, add_experts: bool = False) -> Imported:
        """Add votes that were made elsewhere, all or none; those that are there already are not added again.

        Raises if a query or item is not in the study, if an expert is not known (unless `add_experts`), and if an
        expert gives two answers to one pair at the same time.
        """
        check_votes(votes, self._study)
        return self.do(lambda work: import_votes(work, votes, add_experts))

    def copy_votes(self, study: Study) -> int:
        """Copy votes from PostgreSQL into the study's votes.sqlite, each once; how many were new.

        Experts and settings are copied too, so that judging can go on there. A revoked link stays revoked.
        """
        with own_record(study) as (path, own):
            if isinstance(self.database, SQLite) and self.database.path == path:
                return 0
            with self.reading() as ours, own.writing() as theirs:
                bring_scale(ours, theirs)
                bring_links(ours, theirs)
                bring_settings(ours, theirs)
                bring_remarks(ours, theirs)
                return bring_votes(ours, theirs)

    def status(self) -> Status:
        """Facts for the organiser."""
        return self.do(lambda work: read_status(work, self.database.words))

    def check(self) -> list[str]:
        """What is wrong with the database, a sentence each; an empty list if it is whole."""
        with self.reading() as connection:
            return find_faults(connection)

    # Transactions

    def do(self, run: Callable[[StoreWork], T], clients: list[str] | None = None) -> T:
        """Do something in a transaction, and return what it returns when it is on disk."""
        return self._writer.do(run, clients or ())

    def _attempt(self, operations: list[Operation]) -> list[Any]:
        """Do operations in one transaction. Refusals are outcomes: they are raised before anything is changed."""
        if self._home is not None and remembered_database(self._study) != self._home[0]:
            raise StoreAwayError("this study is now judged in another database: start lookalike judge again")
        with self.database.writing() as connection:
            self._follower.follow(connection)
            clients = [client for operation in operations for client in operation.clients]
            work = StoreWork(connection, self._follower, votes_by_client(connection, clients))
            outcomes: list[Any] = []
            for operation in operations:
                try:
                    outcomes.append(operation.run(work))
                except VoteRefusedError as error:
                    outcomes.append(error)
            self._follower.write(connection, people=work.wrote)
        return outcomes

    def _recover(self) -> None:
        self._follower.board = None
        self.database.forget()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read by; while the database does not answer, it is asked again."""
        with contextlib.ExitStack() as stack:
            patience = 0 if self._writer.away else self._patience
            yield _patiently(lambda: stack.enter_context(self.database.reading()), patience)


def _patiently(action: Callable[[], T], patience: float) -> T:
    """What an action returns, tried again for so many seconds while the database does not answer."""
    deadline, pause = time.monotonic() + patience, 0.05
    while True:
        try:
            return action()
        except StoreAwayError:
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
