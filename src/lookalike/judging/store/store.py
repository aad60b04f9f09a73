"""The store of the judging app: experts, the places they have at pairs, and votes, in SQLite or PostgreSQL."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import numpy as np
import sqlalchemy as sa

from lookalike.core.files import digest
from lookalike.discovery.vote_log import rows_of, votes_of
from lookalike.discovery.votes import Votes
from lookalike.judging.store.board import LONGEST, Board, VoteRow
from lookalike.judging.store.board_sync import Follower, known_clients, settings_of
from lookalike.judging.store.databases import Database, PostgreSQL, SQLite, database_at
from lookalike.judging.store.location import remember_database, remembered_database
from lookalike.judging.store.release import AT_ONCE, Released, Releases, Settings
from lookalike.judging.store.schema import (
    EXPERTS,
    LATER,
    MISSING,
    PAIRS,
    PLACES,
    VOTES,
    make_newest,
    read_meta,
    write_meta,
)
from lookalike.judging.store.transfer import bring_links, bring_settings, bring_votes, check_study, own_record
from lookalike.judging.store.types import (
    LAST_MOMENT,
    Answer,
    Briefing,
    Expert,
    ExpertError,
    Handed,
    Imported,
    Progress,
    RefusedError,
    Status,
    StoreAwayError,
    StoreFullError,
    Taken,
    Task,
    Verdict,
    check_expert_name,
)
from lookalike.judging.store.write_queue import Operation, Writer
from lookalike.study.study import Study

MOST_IN_HAND = 100

T = TypeVar("T")

__all__ = [
    "Answer",
    "Briefing",
    "Expert",
    "ExpertError",
    "Handed",
    "Imported",
    "Progress",
    "RefusedError",
    "Status",
    "Store",
    "StoreAwayError",
    "StoreFullError",
    "Taken",
    "Task",
    "Verdict",
]


@dataclass
class Work:
    """What an operation has to work with, within a transaction."""

    connection: sa.Connection
    follower: Follower
    known: dict[str, tuple[str, str, str, int]]  # what is in the record under clients' ids
    wrote: bool = False  # whether a table was written past the board

    @property
    def board(self) -> Board:
        """The board as it is now."""
        assert self.follower.board is not None
        return self.follower.board


class Store:
    """Who judges which pair, and what was said: made by `Store.open`, one in each process.

    Any number of threads may call it, and any number of processes may have a store of one study. Operations that wait
    at the same time are done in one transaction and answered when it is on disk. `now` is in milliseconds since 1970,
    None for the clock of this machine. All methods may raise StoreAwayError and StoreFullError, after which nothing of
    the call was kept and the store goes on; methods of an expert raise ExpertError for one who may not judge.
    """

    @classmethod
    def open(cls, where: str | Path | None, study: Study, *, patience: float = 15.0) -> "Store":
        """Open, make or migrate the store of a study.

        where: postgresql://…, which is remembered in the study; a file of SQLite; None: what is remembered, or else the
        study's own votes.sqlite. patience: seconds for which a database that has gone away is waited for.
        """
        place = where or remembered_database(study) or study.path / "votes.sqlite"
        database = database_at(place, study.path / "judging")
        store = cls(database, study, patience)
        if isinstance(database, PostgreSQL) and where is not None:
            remember_database(study, str(where))
        own = isinstance(database, SQLite) and database.path == (study.path / "votes.sqlite").resolve()
        if own or isinstance(database, PostgreSQL):
            store._lives_at = (None if own else str(place),)
        return store

    def __init__(self, database: Database, study: Study, patience: float = 15.0) -> None:
        self.database, self._study, self._patience = database, study, patience
        self._follower = Follower()
        self._releases: tuple[str, Releases] | None = None  # of which epoch of settings
        self._lives_at: tuple[str | None] | None = None  # what the study must remember for this to be the place
        try:
            self._trying(self._prepare)
        except BaseException:
            database.forget()
            raise
        self._writer = Writer(self._attempt, self._recover, patience)

    def _prepare(self) -> None:
        """Make the tables; a server's database also gets the votes that the study has."""
        with self.database.writing() as connection:
            make_newest(connection, self.database.words)
            if isinstance(self.database, PostgreSQL):
                check_study(connection, self._study, self.database.words)
        if isinstance(self.database, PostgreSQL):
            with own_record(self._study) as (_, own), own.reading() as theirs, self.database.writing() as ours:
                bring_votes(theirs, ours)
                bring_links(theirs, ours)
                if "order" not in read_meta(ours):
                    bring_settings(theirs, ours)

    def close(self) -> None:
        """Finish what was asked for and let go of the database."""
        self._writer.close()
        self.database.forget()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def configure(
        self, experts_per_pair: int = 3, order: str = "depth", budget: int | None = None, seed: int = 0
    ) -> None:
        """Settle how many experts judge each pair, and which pairs in which order, and release pairs accordingly.

        It may be called again with the same or other settings, or when the pool or the gold pairs have changed: pairs
        that somebody has begun stay, all others are released anew. budget: how many pairs, gold pairs not counted.
        """
        settings = Settings(experts_per_pair, order, budget, seed)
        pool, gold = self._study.pool(), self._study.gold()
        gold_pairs = [] if gold is None else gold.pairs
        releases = Releases(pool, gold_pairs)
        mark = digest(np.array([pool.digest, *sorted(map(repr, gold_pairs)), repr(settings)]))
        self._writer.do(lambda work: self._configure(work, settings, releases, gold_pairs, mark))

    def _configure(
        self, work: Work, settings: Settings, releases: Releases, gold: list[tuple[str, str]], mark: str
    ) -> None:
        if work.follower.meta.get("release") == mark:
            return
        board, connection, each = work.board, work.connection, settings.experts_per_pair
        among_gold = set(gold)
        begun = _begun(connection, board)  # also what is on show now: its answer will come
        was_gold = {(pair.query, pair.item) for pair in board.pairs.values() if pair.gold}
        if each != board.experts_per_pair or was_gold != among_gold:
            for expert in list(board.hands):
                board.let_go(expert)  # or a pair that now wants fewer would get more
        work.follower.write(connection)
        _withdraw(connection, [number for number in board.pairs if number not in begun])
        kept = {(pair.query, pair.item): number for number, pair in board.pairs.items() if number in begun}
        changes, n_kept = [], 0
        for pair, number in kept.items():
            row, is_gold = releases.rows.get(pair), pair in among_gold
            block, wanted = board.pairs[number].block, 0 if row is None else each
            if row is not None and settings.order == "depth":
                block = int(releases.depth_blocks[row])
            n_kept += row is not None and not is_gold
            changes.append({"number": number, "new_block": block, "new_wanted": None if is_gold else wanted})
        _regroup(connection, changes)
        allowed = len(releases) if settings.budget is None else min(settings.budget, len(releases))
        left = max(0, allowed - n_kept)
        if settings.order == "depth":
            released = releases.by_depth(kept, left)
        else:
            released = releases.judged_before(board.said.keys() - kept.keys(), left, board.last_block + 1)
        _insert_pairs(connection, released, each)
        _insert_pairs(connection, [(*pair, 0) for pair in gold if pair not in kept], None)
        facts = asdict(settings) | {"target": max(allowed, n_kept), "in_pool": len(releases.pool), "release": mark}
        work.follower.begin_epoch(connection, **facts)

    def release_again(self) -> None:
        """Release pairs anew by the settings of before, where there are any: pool or gold pairs have changed."""
        with self._reading() as connection:
            meta = read_meta(connection)
        if "order" in meta:
            self.configure(**asdict(settings_of(meta)))

    # Experts

    def add_expert(self, name: str, expires: int | None = None) -> Expert:
        """Let someone judge; one who is there already stays as before, but for `expires` where it is given."""
        check_expert_name(name)
        _check_moment(expires)

        def run(work: Work) -> Expert:
            known = work.board.experts.get(name)
            if known is None:
                return _set_expert(work, Expert(name, 1, expires))
            if expires is None or expires == known.expires:
                return known
            return _set_expert(work, Expert(name, known.link_number, expires, known.revoked))

        return self._do(run)

    def experts(self) -> list[Expert]:
        """Everybody, sorted by name."""
        with self._reading() as connection:
            rows = connection.execute(_EVERYBODY).all()
        return [Expert(*row) for row in rows]

    def expert(self, name: str) -> Expert | None:
        """One of them, as fast as can be: for the check of every request."""
        with self._reading() as connection:
            row = connection.execute(_ONE_EXPERT, {"name": name}).one_or_none()
        return None if row is None else Expert(*row)

    def revoke(self, name: str, now: int | None = None) -> Expert:
        """Let an expert judge no more; the votes stay, pairs in hand go back."""
        moment = _clock(now)

        def run(work: Work) -> Expert:
            known = work.board.check_expert(name)
            work.board.let_go(name)
            if known.revoked is not None:
                return known
            return _set_expert(work, Expert(name, known.link_number, known.expires, moment))

        return self._do(run)

    def renew(self, name: str, expires: int | None = None) -> Expert:
        """Let an expert judge (again) by a new link; links with an older number are dead."""
        _check_moment(expires)

        def run(work: Work) -> Expert:
            known = work.board.check_expert(name)
            return _set_expert(work, Expert(name, known.link_number + 1, expires))

        return self._do(run)

    # Where it is served, and what is asked

    def briefing(self) -> Briefing:
        """What experts are asked, and how they are to go about it."""
        facts = self._facts()
        return Briefing(facts.get("question", ""), facts.get("guide", ""))

    def brief(self, question: str | None = None, guide: str | None = None) -> None:
        """Set what experts are asked, or how they are to go about it; None: as before."""
        given = {"question": question, "guide": guide}
        Briefing(**{name: text for name, text in given.items() if text is not None})
        self._set_facts(**{name: text for name, text in given.items() if text is not None})

    def organiser(self) -> int:
        """The number of the organiser's link: links with another are dead."""
        return int(self._facts().get("organiser", 0))

    def renew_organiser(self) -> int:
        """Make the organiser's links so far worthless; the number of new ones."""

        def run(work: Work) -> int:
            number = int(read_meta(work.connection).get("organiser", 0)) + 1
            write_meta(work.connection, organiser=number)
            return number

        return self._do(run)

    def served(self) -> tuple[str | None, int | None]:
        """The address of a proxy under which browsers find it, and the port; None for what was never said."""
        facts = self._facts()
        return facts.get("address"), int(facts["port"]) if "port" in facts else None

    def remember_served(self, address: str | None, port: int) -> None:
        """Remember both."""
        self._set_facts(address=address, port=port)

    def _facts(self) -> dict[str, str]:
        with self._reading() as connection:
            return read_meta(connection)

    def _set_facts(self, **facts: Any) -> None:
        if facts:
            self._do(lambda work: write_meta(work.connection, **facts))

    # What an expert does

    def claim(self, expert: str, n: int, now: int | None = None, seconds: float = 600) -> list[Task]:
        """The pairs in this expert's hand, those from before first, filled up to n; fewer where there are no more.

        A place is the expert's for `seconds` (at most 3,600), and is renewed here when half of that has passed; after
        that somebody else may get it.
        """
        length, moment = _length(n, seconds), _clock(now)

        def run(work: Work) -> list[Task]:
            work.board.check_expert(expert, moment)
            return self._claim(work, expert, n, moment, length)

        return self._do(run)

    def hand_out(
        self, expert: str, link: int, n: int, *, recent: int = 0, now: int | None = None, seconds: float = 600
    ) -> "Future[Handed]":
        """All that the page of an expert, who came by the link of this number, asks for at once; checked as `claim`."""
        length, moment = _length(n, seconds), _clock(now)

        def run(work: Work) -> Handed:
            work.board.check_expert(expert, moment, link)
            tasks = self._claim(work, expert, n, moment, length)
            return Handed(tasks, _recent(work.board, expert, recent), work.board.progress(expert))

        return self._writer.ask(run)

    def _claim(self, work: Work, expert: str, n: int, now: int, length: int) -> list[Task]:
        if work.follower.settings.order == "adaptive":
            return self._claim_adaptively(work, expert, n, now, length)
        return work.board.claim(expert, n, now, length)

    def _claim_adaptively(self, work: Work, expert: str, n: int, now: int, length: int) -> list[Task]:
        """Claim pairs, where more are released when few are open, or none to this expert."""
        board = work.board
        judging = sum(someone.revoked is None for someone in board.experts.values())
        if (short := 2 * n * judging - board.open) > 0:
            self._release(work, short)
        tasks = board.claim(expert, n, now, length)
        while len(tasks) < n and self._release(work, n - len(tasks)):
            tasks = board.claim(expert, n, now, length)
        return tasks

    def _release(self, work: Work, n: int) -> bool:
        """Release at least n more pairs, where there are any; whether there were."""
        board = work.board
        if not board.unreleased:
            return False
        mark = work.follower.meta["release"]
        if self._releases is None or self._releases[0] != mark:
            gold = self._study.gold()
            self._releases = mark, Releases(self._study.pool(), [] if gold is None else gold.pairs)
        pairs = self._releases[1].adaptively(board, min(max(n, AT_ONCE), board.unreleased))
        work.follower.release(work.connection, pairs, board.experts_per_pair)
        return bool(pairs)

    def vote(self, expert: str, answers: Iterable[Answer], now: int | None = None) -> list[Verdict]:
        """Keep answers; what became of each, when all that is "kept" is on disk."""
        given, moment = list(answers), _clock(now)

        def run(work: Work) -> list[Verdict]:
            work.board.check_expert(expert, moment)
            return [_vote(work, expert, answer, moment) for answer in given]

        return self._do(run, [answer.client for answer in given])

    def take(self, expert: str, link: int, answers: Iterable[Answer], now: int | None = None) -> "Future[Taken]":
        """As `vote`, for the page of an expert who came by the link of this number, which also shows the progress."""
        given, moment = list(answers), _clock(now)

        def run(work: Work) -> Taken:
            work.board.check_expert(expert, moment, link)
            verdicts = [_vote(work, expert, answer, moment) for answer in given]
            return Taken(verdicts, work.board.progress(expert))

        return self._writer.ask(run, [answer.client for answer in given])

    def later(self, expert: str, pair: int, now: int | None = None) -> bool:
        """Put a pair off until the expert has nothing else; False where it is unknown or judged by the expert."""
        moment = _clock(now)

        def run(work: Work) -> bool:
            work.board.check_expert(expert, moment)
            return work.board.later(expert, pair, moment)

        return self._do(run)

    def missing(self, expert: str, pair: int, side: Literal["query", "item"], now: int | None = None) -> bool:
        """Note for the organiser that an image did not load; False where the pair is unknown."""
        if side not in ("query", "item"):
            raise ValueError(f"the side of a pair is 'query' or 'item', got {side!r}")
        moment = _clock(now)

        def run(work: Work) -> bool:
            work.board.check_expert(expert, moment)
            if pair not in work.board.pairs:
                return False
            note = {"pair": pair, "expert": expert, "side": side}
            if work.connection.execute(_NOTED, note).one_or_none() is None:
                work.connection.execute(sa.insert(MISSING), note | {"at": moment})
                work.wrote = True
            return True

        return self._do(run)

    def progress(self, expert: str) -> Progress:
        """How far the expert and everybody has come."""

        def run(work: Work) -> Progress:
            work.board.check_expert(expert)
            return work.board.progress(expert)

        return self._do(run)

    def task(self, expert: str, pair: int) -> Task | None:
        """A pair that the expert has in hand or has judged or put off; None for all others. For serving pictures."""
        with self._reading() as connection:
            row = connection.execute(_TASK, {"expert": expert, "pair": pair}).one_or_none()
        return None if row is None else Task(*row)

    def recent(self, expert: str, n: int = 20) -> list[tuple[Task, int]]:
        """The pairs that the expert judged last, newest first, with the answer that counts: for undoing."""

        def run(work: Work) -> list[tuple[Task, int]]:
            work.board.check_expert(expert)
            return _recent(work.board, expert, n)

        return self._do(run)

    # What the organiser does

    def votes(self) -> Votes:
        """All votes, in the order in which they came."""
        with self._reading() as connection:
            return votes_of(connection.execute(_ALL_VOTES).all(), "the database of votes")

    def import_votes(self, votes: Votes, *, add_experts: bool = False) -> Imported:
        """Add votes that were made elsewhere, all or none; those that are there already are not added again.

        Raises where a query or item is not in the study, where an expert is not known (unless they are to be added),
        and where an expert said two things of one pair at the same time.
        """
        self._study.queries.positions(votes.queries, "voted query", "among the queries of the study")
        self._study.catalogue.positions(votes.items, "voted item")
        for name in sorted(set(votes.experts.tolist())):
            check_expert_name(name)
        if len(votes) and (latest := int(votes.times.view(np.int64).max())) > LAST_MOMENT:
            raise ValueError(f"no vote can be later than the year 9999, got one {latest:,} milliseconds after 1970")
        return self._do(lambda work: _import(work, votes, add_experts))

    def copy_votes(self, study: Study) -> int:
        """Bring votes that are kept in PostgreSQL into the study's votes.sqlite, each once; how many were new.

        Experts and settings come along, so that judging can go on there, and a link that was taken back stays so.
        """
        with own_record(study) as (path, own):
            if isinstance(self.database, SQLite) and self.database.path == path:
                return 0
            with self._reading() as ours, own.writing() as theirs:
                bring_links(ours, theirs)
                bring_settings(ours, theirs)
                return bring_votes(ours, theirs)

    def status(self) -> Status:
        """Facts for the organiser."""
        return self._do(lambda work: _status(work, self.database.words))

    def check(self) -> list[str]:
        """What is wrong with the database, in sentences; nothing, if it is whole."""
        with self._reading() as connection:
            found = []
            if connection.dialect.name == "sqlite":
                found = list(connection.exec_driver_sql("PRAGMA integrity_check").scalars())
            wrong = [f"SQLite: {line}" for line in found if line != "ok"]
            for sentence, query in _NEVER.items():
                if n := connection.execute(query).scalar_one():
                    wrong.append(f"{n:,} {sentence}")
        return wrong

    # Transactions

    def _do(self, run: Callable[[Work], T], clients: list[str] | None = None) -> T:
        return self._writer.do(run, clients or ())

    def _attempt(self, operations: list[Operation]) -> list[Any]:
        """Do operations in one transaction; refusals are outcomes, for they are raised before anything is changed."""
        if self._lives_at is not None and remembered_database(self._study) != self._lives_at[0]:
            raise StoreAwayError("this study is now judged in another database: start lookalike judge again")
        with self.database.writing() as connection:
            self._follower.follow(connection)
            clients = [client for operation in operations for client in operation.clients]
            work = Work(connection, self._follower, known_clients(connection, clients))
            outcomes: list[Any] = []
            for operation in operations:
                try:
                    outcomes.append(operation.run(work))
                except RefusedError as error:
                    outcomes.append(error)
            self._follower.write(connection, people=work.wrote)
        return outcomes

    def _recover(self) -> None:
        self._follower.board = None
        self.database.forget()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """A connection to read by; one that cannot be had is tried for again with patience."""
        with contextlib.ExitStack() as stack:
            opened = self._trying(lambda: stack.enter_context(self.database.reading()), patient=not self._writer.away)
            yield opened

    def _trying(self, action: Callable[[], T], *, patient: bool = True) -> T:
        deadline, pause = time.monotonic() + (self._patience if patient else 0), 0.05
        while True:
            try:
                return action()
            except StoreAwayError:
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)


_EVERYBODY = sa.select(EXPERTS.c.name, EXPERTS.c.link_number, EXPERTS.c.expires, EXPERTS.c.revoked).order_by(
    EXPERTS.c.name
)
_ONE_EXPERT = _EVERYBODY.where(EXPERTS.c.name == sa.bindparam("name"))
_TASK = (
    sa.select(PAIRS.c.id, PAIRS.c.query, PAIRS.c.item)
    .where(PAIRS.c.id == sa.bindparam("pair"))
    .where(
        sa.exists().where(PLACES.c.pair == PAIRS.c.id, PLACES.c.expert == sa.bindparam("expert"))
        | sa.exists().where(LATER.c.pair == PAIRS.c.id, LATER.c.expert == sa.bindparam("expert"))
    )
)
_NOTED = sa.select(MISSING.c.at).where(
    MISSING.c.pair == sa.bindparam("pair"),
    MISSING.c.expert == sa.bindparam("expert"),
    MISSING.c.side == sa.bindparam("side"),
)
_ALL_VOTES = sa.select(
    VOTES.c.query, VOTES.c.item, VOTES.c.expert, VOTES.c.answer, VOTES.c.time, VOTES.c.seconds
).order_by(VOTES.c.number)
_VOTED = sa.exists().where(
    VOTES.c.query == PAIRS.c.query, VOTES.c.item == PAIRS.c.item, VOTES.c.expert == PLACES.c.expert
)
_NEVER = {
    "places are said to have a vote that is not in the record": sa.select(sa.func.count())
    .select_from(PLACES.join(PAIRS, PAIRS.c.id == PLACES.c.pair))
    .where(PLACES.c.voted == 1, ~_VOTED),
    "places are at pairs that are not there": sa.select(sa.func.count())
    .select_from(PLACES.outerjoin(PAIRS, PAIRS.c.id == PLACES.c.pair))
    .where(PAIRS.c.id.is_(None)),
}


# Experts and votes, within a transaction


def _set_expert(work: Work, expert: Expert) -> Expert:
    work.connection.execute(sa.delete(EXPERTS).where(EXPERTS.c.name == expert.name))
    work.connection.execute(sa.insert(EXPERTS), asdict(expert))
    work.board.experts[expert.name] = expert
    work.wrote = True
    return expert


def _recent(board: Board, expert: str, n: int) -> list[tuple[Task, int]]:
    judged = list(board.judged.get(expert, {}))[: -n - 1 : -1]
    return [(board.task(number), board.pairs[number].voters[expert][1]) for number in judged]


def _vote(work: Work, expert: str, answer: Answer, now: int) -> Verdict:
    pair = work.board.pairs.get(answer.pair)
    content = None if pair is None else (expert, pair.query, pair.item, answer.answer)
    if answer.client in work.known:
        return "known" if work.known[answer.client] == content else "changed"
    verdict = work.board.vote(expert, answer, now)
    if verdict == "kept" and content is not None:
        work.known[answer.client] = content
    return verdict


def _import(work: Work, votes: Votes, add_experts: bool) -> Imported:
    board = work.board
    names = sorted(set(votes.experts.tolist()) - board.experts.keys())
    if names and not add_experts:
        raise RefusedError(
            f"{len(names):,} experts of these votes are not known here, such as {names[0]!r}: add them first, or pass "
            "add_experts=True"
        )
    rows = rows_of(votes)
    there: Counter[tuple[Any, ...]] = Counter()
    answers: dict[tuple[Any, ...], int] = {}
    for query, item, expert, answer, when, _ in work.connection.execute(_ALL_VOTES):
        there[query, item, expert, answer, when] += 1
        answers[query, item, expert, when] = answer
    fresh = []
    for row in rows:
        query, item, expert, answer, when, _ = row
        if when is not None and answers.setdefault((query, item, expert, when), answer) != answer:
            raise RefusedError(
                f"{expert!r} says two things of query {query!r} and item {item!r} at the same time, "
                f"{votes.times[rows.index(row)]}: nothing was imported"
            )
        if there[query, item, expert, answer, when]:
            there[query, item, expert, answer, when] -= 1
        else:
            fresh.append(row)
    for name in names:
        _set_expert(work, Expert(name))
    return Imported(len(fresh), len(rows) - len(fresh), _add(board, fresh))


def _add(board: Board, rows: list[Any]) -> int:
    """Add votes from elsewhere; how many experts of them a pair has beyond those that it wants."""
    beyond = 0
    for query, item, expert, answer, when, seconds in rows:
        new = expert not in board.said.get((query, item), {})
        board.add_vote(query, item, expert, answer, when)
        board.new_votes.append(VoteRow(query, item, expert, answer, when, seconds))
        number = board.ids.get((query, item))
        if new and number is not None:
            board.seat_voters(board.pairs[number])
            beyond += expert not in board.pairs[number].places
    return beyond


def _status(work: Work, words: str) -> Status:
    board, connection = work.board, work.connection
    released = [pair for pair in board.pairs.values() if pair.wanted]
    latest = connection.execute(sa.select(VOTES.c.expert, sa.func.max(VOTES.c.time)).group_by(VOTES.c.expert))
    last = {row[0]: row[1] for row in latest}
    missing = connection.execute(
        sa.select(PAIRS.c.query, PAIRS.c.item, MISSING.c.side, MISSING.c.expert, MISSING.c.at)
        .join(PAIRS, PAIRS.c.id == MISSING.c.pair)
        .order_by(MISSING.c.at, MISSING.c.pair, MISSING.c.expert, MISSING.c.side)
    )
    wanted = board.wanted + board.unreleased * board.experts_per_pair
    return Status(
        settings=asdict(work.follower.settings),
        pairs=len(released),
        complete=sum(pair.complete for pair in released),
        begun=sum(bool(pair.voters) for pair in released),
        to_judge=len(released) + board.unreleased,
        in_pool=int(work.follower.meta.get("in_pool", 0)),
        gold=sum(pair.gold for pair in board.pairs.values()),
        votes=connection.execute(sa.select(sa.func.count()).select_from(VOTES)).scalar_one(),
        everybody_done=board.collected,
        everybody_total=wanted,
        experts=[
            {
                "name": name,
                "expires": expert.expires,
                "revoked": expert.revoked,
                "done": len(board.judged.get(name, {})),
                "gold": board.gold_judged(name),
                "held": len(board.hands.get(name, {})),
                "later": sum(not board.pairs[number].complete for number in board.put_off.get(name, {})),
                "last": last.get(name),
            }
            for name, expert in sorted(board.experts.items())
        ],
        missing=[dict(row) for row in missing.mappings()],
        database=words,
    )


# Releasing pairs, within a transaction


def _begun(connection: sa.Connection, board: Board) -> set[int]:
    """Pairs of which somebody has seen something: they stay."""
    noted = set(connection.execute(sa.union(sa.select(MISSING.c.pair), sa.select(LATER.c.pair))).scalars())
    return {number for number, pair in board.pairs.items() if pair.places or pair.voters or number in noted}


def _withdraw(connection: sa.Connection, numbers: list[int]) -> None:
    if numbers:
        statement = sa.delete(PAIRS).where(PAIRS.c.id == sa.bindparam("number"))
        connection.execute(statement, [{"number": number} for number in numbers])


def _regroup(connection: sa.Connection, changes: list[dict[str, Any]]) -> None:
    if changes:
        values: dict[str, Any] = {"block": sa.bindparam("new_block"), "wanted": sa.bindparam("new_wanted")}
        connection.execute(sa.update(PAIRS).where(PAIRS.c.id == sa.bindparam("number")).values(values), changes)


def _insert_pairs(connection: sa.Connection, pairs: list[Released], wanted: int | None) -> None:
    rows = [{"query": query, "item": item, "block": block, "wanted": wanted} for query, item, block in pairs]
    if rows:
        connection.execute(sa.insert(PAIRS), rows)


# Time


def _length(n: int, seconds: float) -> int:
    """For how many milliseconds places are held; raises for numbers of pairs and seconds that cannot be."""
    if not 1 <= n <= MOST_IN_HAND:
        raise ValueError(f"an expert can have from 1 to {MOST_IN_HAND} pairs in hand, got {n}")
    length = int(seconds * 1000)
    if not 1 <= length <= LONGEST:
        raise ValueError(f"a place can be held for up to {LONGEST // 1000:,} seconds, got {seconds}")
    return length


def _clock(now: int | None) -> int:
    """Milliseconds since 1970; clocks that are wildly wrong are brought to where dates have four digits."""
    return min(max(int(time.time() * 1000) if now is None else int(now), 0), LAST_MOMENT)


def _check_moment(moment: int | None) -> None:
    if moment is not None and (isinstance(moment, bool) or not isinstance(moment, int) or not 0 <= moment < 2**53):
        raise ValueError(f"expires is a time in milliseconds since 1970, or None, got {moment!r}")
