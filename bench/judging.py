"""What does the judging app stand? Experts who vote over HTTP, a server that is killed, and their log held against it.

Each simulated expert follows a personal link as a browser does, holds pairs in advance and sends one vote a request, or
all votes of a sheet, by a schedule that does not wait for the server. What the server says to have kept is written to a
log; at the end the server is stopped, and log and database are compared row by row. Beside the latency of votes stands
that of a bare INSERT and COMMIT, at the same pace, on the same disk. Whatever is off is said in words, and the exit
code is then 1.

    python bench/judging.py                                     64 experts, 5 votes a second each, for a minute
    python bench/judging.py --database postgresql --workers 2   the same with a PostgreSQL server of its own
    python bench/judging.py --kills 50                          killed at random moments; experts send again
    python bench/judging.py --workers 2 --kills 20 --victim worker
    python bench/judging.py --experts 12 --pairs 300 --until-done
    python bench/judging.py --layout sheet --kills 50           sheets of candidates instead of pairs
    python bench/judging.py --scale "0 not alike, 1 related, 2 alike"
"""

import argparse
import asyncio
import collections
import contextlib
import gc
import html
import importlib.metadata
import json
import os
import platform
import random
import re
import shlex
import signal
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
from PIL import Image

from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.judging.pages.links import Keys
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

TESTS = Path(__file__).resolve().parents[1] / "tests"
UNSURE = -1  # the answer "can't tell"; the others are counted from 0
PATIENCE = 15.0  # seconds until a request counts as lost, as in the browser
IDLE = 4.0  # seconds after which a connection is made anew: the server closes those that were idle for five
UPTIME = 4.0  # seconds after the first answer within which a kill comes
EARLY = 0.3  # of the kills come while it is starting
DEPTH = 25  # pairs of a query
WAITING = 0.5  # seconds until an expert who has nothing to judge asks again
SOON = 5.0  # seconds: workers that end sooner, several in a row, end the server
SILENCE = 60.0  # seconds without an answer to anybody after which this gives up
BARE = 5.0  # seconds of bare commits, before and after

clock = time.perf_counter


def main() -> None:
    options = arguments()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lookalike-judging-")))
        url = options.url
        if options.database == "postgresql" and url is None:
            url = stack.enter_context(postgresql())
        study = make_study(folder, n_pairs(options))
        print(heading(options, study), flush=True)
        facts = asyncio.run(measured(options, study, url))
    report(facts)
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for sentence in facts["wrong"]:
        print(f"WRONG: {sentence}")
    sys.exit(bool(facts["wrong"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--rate", type=float, default=5.0, help="votes a second of each expert")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the load, where nothing is killed")
    parser.add_argument("--ahead", type=int, default=12, help="pairs that an expert has in hand, up to 24")
    parser.add_argument("--layout", choices=("pairs", "sheet"), default="pairs")
    parser.add_argument("--sheet-size", type=int, default=12, help="candidates of a sheet, at most")
    parser.add_argument("--scale", help="what experts answer by, as for `lookalike judge --scale`")
    parser.add_argument("--experts-per-pair", type=int, default=3)
    parser.add_argument("--pairs", type=int, help="of the pool; so many that they do not run out, if not given")
    parser.add_argument("--pictures", action="store_true", help="experts also load the images of their pairs")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--url", help="of a PostgreSQL database that is empty, instead of a server of our own")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0, help="how often the server is killed; the load lasts so long")
    parser.add_argument("--victim", choices=("server", "worker"), default="server", help="whom a kill hits")
    parser.add_argument(
        "--until-done", action="store_true", help="judge until every pair of the pool has all its votes"
    )
    parser.add_argument("--folder", type=Path, help="a new one for study and log, which stay; else a temporary one")
    parser.add_argument("--serve", default=f"{sys.executable} -m lookalike", help="the command that has `judge`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="a file to write all numbers to")
    options = parser.parse_args()
    if options.url:
        options.database = "postgresql"
    if options.experts < options.experts_per_pair:
        parser.error(f"{options.experts} experts cannot give {options.experts_per_pair} votes to a pair")
    if options.victim == "worker" and options.workers < 2:
        parser.error("a worker can be killed where there are several: add --workers 2")
    return options


def n_pairs(options: argparse.Namespace) -> int:
    """Pairs that do not run out: an eighth more than the votes need, and those that all experts have in hand."""
    if options.pairs:
        return int(options.pairs)
    seconds = options.kills * UPTIME if options.kills else options.seconds
    votes = options.experts * options.rate * seconds
    in_hand = 2 * options.sheet_size if options.layout == "sheet" else options.ahead
    return int(votes * 1.125 / options.experts_per_pair + options.experts * in_hand)


def make_study(folder: Path, pairs: int, side: int = 48) -> Study:
    """A study of images of so many pixels, of which one model proposes so many pairs, or a few more."""
    depth = min(DEPTH, pairs)
    n_queries = -(-pairs // depth)
    n_items = max(n_queries, 2 * depth)
    photos = folder / "photos"
    photos.mkdir(parents=True)
    generator = np.random.default_rng(0)
    names = [f"{number:05}.png" for number in range(n_items)]
    for name, colours in zip(names, generator.integers(0, 256, (n_items, 4, 4, 3), np.uint8), strict=True):
        Image.fromarray(colours).resize((side, side)).save(photos / name)
    catalogue = Catalogue(names, paths=[f"../photos/{name}" for name in names])
    study = Study.create(folder / "study", "load", catalogue, np.arange(n_queries))
    scores = generator.normal(size=(n_queries, n_items))
    study.write_pool(Pool.build({"chance": scores}, study.collection, k=depth))
    return study


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL server of our own; the URL of an empty database."""
    sys.path.append(str(TESTS))
    from helpers.judges import Server as PostgreSQLServer

    server = PostgreSQLServer()
    try:
        yield server.new_database()
    finally:
        server.close()


# One run


async def measured(options: argparse.Namespace, study: Study, url: str | None) -> dict[str, Any]:
    """Start the server, let experts judge, stop it, compare; all facts."""
    bare = bare_commits(options, study, url)
    notes = Notes(study.path.parent / "acknowledged.jsonl", options.kills > 0)
    server = Server(options, study, url)
    try:
        await server.start()
        experts = [Expert(name, server.port, notes, options) for name in server.links]
        for expert in experts:
            await expert.join(server.links[expert.name])
        gc.collect()
        gc.freeze()  # or collections of what stays would stand in the way of votes
        async with watched(server, notes):
            await load(options, server, experts, notes)
        for expert in experts:
            expert.close()
        shares = server.worker_seconds()
        await server.stop()
    finally:
        await server.kill()
    notes.close()
    bare += bare_commits(options, study, url)
    facts = {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "machine": machine(),
        **notes.facts(),
        "kills": server.kills,
        "while starting": server.kills_while_starting,
        "starts s": server.starts,
        "processor s of workers": shares,
        "bare commit ms": spread(bare),
    }
    facts["p99 : bare p99"] = facts["vote ms"]["p99"] / facts["bare commit ms"]["p99"]
    facts["pairs"], wrong = compared(options, study, url, notes)
    facts["wrong"] = [*unplanned(options, facts), *server.complaints(), *notes.errors[:20], *wrong]
    return facts


async def load(options: argparse.Namespace, server: "Server", experts: list["Expert"], notes: "Notes") -> None:
    """Let all experts judge, and the server be killed meanwhile."""
    begin = clock() + 0.2
    killing = asyncio.create_task(kill(options, server, notes))

    def over(due: float) -> bool:
        if options.until_done:
            return notes.done
        return killing.done() if options.kills else due >= begin + options.seconds

    await asyncio.gather(killing, *(expert.judge(begin, over) for expert in experts))
    notes.seconds = clock() - begin


async def kill(options: argparse.Namespace, server: "Server", notes: "Notes") -> None:
    """Kill the server, or one of its workers, at random moments, and start it again where need be."""
    how = random.Random(options.seed)
    for number in range(options.kills):
        if notes.done:
            break
        if options.victim == "worker":
            await asyncio.sleep(SOON + how.uniform(0, UPTIME))
            server.kill_worker(how)
        else:
            await kill_server(server, notes, how, early=number > 0 and how.random() < EARLY)
    if not server.members():
        await server.start()
    if options.kills and not options.until_done:
        await asyncio.sleep(2)  # for votes after the last one


async def kill_server(server: "Server", notes: "Notes", how: random.Random, *, early: bool) -> None:
    """Start the server if need be, and kill it: early, while it is starting, or when it has answered somebody."""
    began, starting = clock(), None
    if not server.members():
        starting = asyncio.create_task(server.start())
    if early:
        await asyncio.sleep(how.uniform(0, server.starts[0]))
    else:
        if starting is not None:
            await starting
        while notes.heard < began and clock() < began + SILENCE:
            await asyncio.sleep(0.01)
        await asyncio.sleep(how.uniform(0, UPTIME))
    unready = starting is not None and not starting.done()
    server.kills_while_starting += await server.kill() and unready
    if starting is not None:
        await starting


@contextlib.asynccontextmanager
async def watched(server: "Server", notes: "Notes") -> AsyncIterator[None]:
    """Note the processor's time of both sides, and how late this process comes to do what is due."""

    async def tick() -> None:
        while True:
            due = clock() + 0.05
            await asyncio.sleep(0.05)
            notes.own_lag.append(clock() - due)

    ticking = asyncio.create_task(tick())
    before = time.process_time(), server.processor_seconds(), busy_seconds()
    try:
        yield
    finally:
        ticking.cancel()
        after = time.process_time(), server.processor_seconds(), busy_seconds()
        own, theirs, everybody = (b - a for a, b in zip(before, after, strict=True))
        notes.processor = {"experts": own, "server": theirs, "everything else": everybody - own - theirs}


# Experts


@dataclass(frozen=True)
class Vote:
    """An answer as its expert made it; query and item: the numbers in the addresses of the images that were shown."""

    client: str
    expert: str
    pair: int
    query: int
    item: int
    answer: int


class LostError(Exception):
    """A request that got no answer."""


class RefusedError(Exception):
    """A request that was answered with an error."""


class Notes:
    """What all experts saw: the log of what was acknowledged, and how long everything took."""

    def __init__(self, log: Path, expects_losses: bool) -> None:
        self.log, self.expects_losses = log, expects_losses
        self._file = log.open("w", encoding="utf-8")
        self.made: dict[str, Vote] = {}
        self.verdicts: collections.Counter[str] = collections.Counter()
        self.errors: list[str] = []
        self.lost = self.resent = self.idle = self.n_pictures = 0
        self.heard = clock()  # when anybody got an answer last
        self.late: list[float] = []
        self.took: list[float] = []
        self.claim_took: list[float] = []
        self.own_lag: list[float] = []
        self.processor: dict[str, float] = {}
        self.seconds = 0.0
        self.done = False

    def acknowledged(self, vote: Vote, verdict: str) -> None:
        """Keep what the server said of a vote."""
        self.verdicts[verdict] += 1
        self._file.write(json.dumps({**asdict(vote), "verdict": verdict}) + "\n")

    def failed(self, error: Exception) -> None:
        """Count a request that got no answer, or none that it should get."""
        if isinstance(error, LostError) and self.expects_losses:
            self.lost += 1
        else:
            self.errors.append(str(error))
        if clock() - self.heard > SILENCE:
            raise SystemExit(f"nobody got an answer for {SILENCE:.0f} seconds; the last request: {error}")

    def close(self) -> None:
        """Bring the log to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def facts(self) -> dict[str, Any]:
        """Everything in numbers."""
        return {
            "seconds": self.seconds,
            "votes made": len(self.made),
            "verdicts": dict(self.verdicts),
            "errors": len(self.errors),
            "vote ms": spread(self.took),
            "late ms": spread(self.late),
            "from due to answered ms": spread([a + b for a, b in zip(self.late, self.took, strict=True)]),
            "claim ms": spread(self.claim_took),
            "claims": len(self.claim_took),
            "pictures": self.n_pictures,
            "own lag ms": spread(self.own_lag),
            "processor s": self.processor,
            "lost": self.lost,
            "resent": self.resent,
            "idle": self.idle,
        }


class Line:
    """A connection to the server that is kept open, over which one request goes at a time."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie, self.token = port, "", ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, bytes]:
        """Status, head and body of an answer; raises LostError where there is none."""
        own = f"http://127.0.0.1:{self.port}"
        head = f"{method} {path} HTTP/1.1\r\nHost: {own[7:]}\r\nSec-Fetch-Site: same-origin\r\n"
        if self.cookie:
            head += f"Cookie: {self.cookie}\r\n"
        if method == "POST":
            head += f"Origin: {own}\r\nX-CSRF-Token: {self.token}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._exchange(f"{head}\r\n".encode() + body)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            self.close()
            raise LostError(f"{method} {path.partition('.')[0][:20]} got no answer, {error!r}") from error
        except BaseException:
            self.close()
            raise

    async def _exchange(self, request: bytes) -> tuple[int, bytes, bytes]:
        if clock() - self._used > IDLE:
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        self._used = clock()
        if re.search(rb"(?i)\r\nconnection: *close", head):
            self.close()
        return int(head[9:12]), head, body

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Expert:
    """Somebody who judges without looking."""

    def __init__(self, name: str, port: int, notes: Notes, options: argparse.Namespace) -> None:
        self.name, self.notes, self.ahead, self.rate = name, notes, options.ahead, options.rate
        self.line, self.second_line = Line(port), Line(port)
        self.how = random.Random(f"{options.seed} {name}")
        self.sheet = options.sheet_size if options.layout == "sheet" else None
        self.answers: tuple[int, ...] = ()  # which the page takes
        self.hand: collections.deque[tuple[int, int, int]] = collections.deque()  # pair, query and item
        self.few = options.ahead // 2  # pairs in hand at which more are fetched
        self.waiting: dict[str, Vote] = {}  # made and not acknowledged; sent together, as the browser does
        self.tried: set[str] = set()
        self.answered: set[int] = set()
        self.seen: set[str] | None = set() if options.pictures else None  # addresses of images
        self.loading: asyncio.Task[None] | None = None

    async def join(self, link: str) -> None:
        """Follow the personal link to the page, and take the first pairs."""
        status, head, _ = await self.line.ask("GET", urlsplit(link).path)
        cookie = re.search(rb"(?i)\r\nset-cookie: *([^;\r]+)", head)
        if status != 303 or cookie is None:
            raise RuntimeError(f"the link of {self.name} was answered with {status}, 303 and a cookie were expected")
        self.line.cookie = self.second_line.cookie = cookie[1].decode()
        _, _, page = await self.line.ask("GET", "/judge")
        token = re.search(rb'data-csrf="([^"]+)"', page)
        if token is None:
            raise RuntimeError(f"the page of {self.name} has no token")
        self.line.token = token[1].decode()
        steps = re.search(rb"data-steps=(['\"])(.*?)\1", page)
        if steps is None:
            raise RuntimeError(f"the page of {self.name} does not say which answers there are")
        self.answers = (UNSURE, *range(len(json.loads(html.unescape(steps[2].decode())))))
        await self.claim()
        self.notes.claim_took.clear()

    async def judge(self, begin: float, over: Callable[[float], bool]) -> None:
        """Vote by a schedule, at a random moment of each period; at last, until everything is acknowledged."""
        n = 0
        while not over(due := begin + (n + self.how.random()) / self.rate):
            await asyncio.sleep(max(0, due - clock()))
            n_before = len(self.answered)
            if await self._succeeds(self._turn(due)):
                n += max(1, len(self.answered) - n_before)  # a sheet takes the time of its candidates
            else:
                n = int((clock() - begin) * self.rate) + 1  # what was not judged meanwhile is not made up for
        while self.waiting:
            await self._succeeds(self._send(clock()))

    async def _succeeds(self, asking: Awaitable[None]) -> bool:
        """Whether something was answered as it should be; after a while, where not."""
        try:
            await asking
        except (LostError, RefusedError) as error:
            self.notes.failed(error)
            await asyncio.sleep(self.how.uniform(0.2, 0.6))
            return False
        return True

    async def _turn(self, due: float) -> None:
        if self.hand:
            self._answer() if self.sheet is None else self._answer_sheet(self.sheet)
        elif not self.waiting:
            self.notes.idle += 1
        if self.waiting:
            await self._send(due)
        if len(self.hand) <= (self.few if self.sheet is None else self.sheet):
            await self.claim()
            if not self.hand:
                await asyncio.sleep(WAITING)

    def _answer(self, client: str | None = None) -> None:
        pair, query, item = self.hand.popleft()
        client = client or str(uuid.UUID(int=self.how.getrandbits(128), version=4))
        vote = Vote(client, self.name, pair, query, item, self.how.choice(self.answers))
        self.waiting[client] = self.notes.made[client] = vote
        self.answered.add(pair)

    def _answer_sheet(self, size: int) -> None:
        """Answer all candidates of the first query in hand, with ids of one sheet."""
        query = self.hand[0][1]
        candidates = [task for task in self.hand if task[1] == query][:size]
        self.hand = collections.deque([*candidates, *(task for task in self.hand if task not in candidates)])
        random_id = str(uuid.UUID(int=self.how.getrandbits(128), version=4))
        common = f"{random_id[:14]}8{random_id[15:32]}"  # version 8, which Python before 3.14 cannot make
        for place in range(len(candidates)):
            self._answer(f"{common}{len(candidates):02x}{place:02x}")

    async def _send(self, due: float) -> None:
        """Send everything that is not acknowledged yet: one vote or one sheet, where all goes well."""
        votes = list(self.waiting.values())
        rows = [{"client": v.client, "pair": v.pair, "answer": v.answer, "seconds": 0.2, "at": now()} for v in votes]
        again = self.tried.intersection(self.waiting)
        self.notes.resent += len(again)
        self.tried.update(self.waiting)
        sent = clock()
        found = await self._post("/api/votes", {"votes": rows})
        if not again:
            self.notes.late.append(max(0, sent - due))
            self.notes.took.append(clock() - sent)
        for said in found["votes"]:
            self.notes.acknowledged(self.waiting.pop(said["client"]), said["status"])
        self._look_at(found["progress"])

    async def claim(self) -> None:
        """Fill the hand."""
        sent = clock()
        wish = {"n": self.ahead} if self.sheet is None else {"n": self.sheet + 1, "sheet": self.sheet}
        found = await self._post("/api/claim", wish)
        self.notes.claim_took.append(clock() - sent)
        self.few = self.how.randint(1, max(1, 3 * self.ahead // 4))  # or all experts would run out at the same moment
        here = {pair for pair, _, _ in self.hand}
        for task in found["tasks"]:
            if task["pair"] not in here and task["pair"] not in self.answered:
                self.hand.append((task["pair"], number_of(task["query"]), number_of(task["item"])))
        self._look_at(found["progress"])
        if self.seen is not None and (self.loading is None or self.loading.done()):
            self.loading = asyncio.create_task(self._load(self.seen, found["tasks"]))

    def _look_at(self, progress: dict[str, int]) -> None:
        self.notes.done |= progress["everybody_done"] >= progress["everybody_total"]

    async def _load(self, seen: set[str], tasks: list[dict[str, Any]]) -> None:
        """Load the images that this browser does not have yet, beside everything else."""
        for address in [task[side] for task in tasks for side in ("query", "item")]:
            if address in seen:
                continue
            try:
                status, _, _ = await self.second_line.ask("GET", address)
            except LostError as error:
                self.notes.failed(error)
                return
            if status != 200:
                self.notes.failed(RefusedError(f"an image was answered with {status}"))
            seen.add(address)
            self.notes.n_pictures += 1

    async def _post(self, path: str, given: dict[str, Any]) -> Any:
        status, _, body = await self.line.ask("POST", path, json.dumps(given, separators=(",", ":")).encode())
        if status != 200:
            raise RefusedError(f"{path} was answered with {status}: {body[:200].decode(errors='replace')}")
        self.notes.heard = clock()
        return json.loads(body)

    def close(self) -> None:
        """Close the browser."""
        self.line.close()
        self.second_line.close()


def number_of(address: str) -> int:
    """Which image an address shows.

    >>> number_of("/picture/query/17.proof?v=1")
    17
    """
    return int(address.rpartition("/")[2].partition(".")[0])


def now() -> int:
    return time.time_ns() // 1_000_000


# The server


class Server:
    """The judging app in a process group of its own, which can be killed and started again at the same port."""

    def __init__(self, options: argparse.Namespace, study: Study, url: str | None) -> None:
        self.port = free_port(options.seed)
        names = [f"expert-{number:03}" for number in range(options.experts)]
        self._command = [*shlex.split(options.serve), "judge", str(study.path)]
        for name in names:
            self._command += ["--expert", name]
        self._command += ["--experts-per-pair", str(options.experts_per_pair), "--workers", str(options.workers)]
        self._command += ["--port", str(self.port), "--json", *(["--database", url] if url else [])]
        self._command += ["--layout", options.layout, *(["--scale", options.scale] if options.scale else [])]
        if options.layout == "sheet":
            self._command += ["--sheet-size", str(options.sheet_size)]
        self._said = study.path.parent / "server.log"
        self._process: asyncio.subprocess.Process | None = None
        self._expects_end = False
        self._spent = 0.0  # processor's time of those that were killed
        self.links: dict[str, str] = {}
        self.starts: list[float] = []  # seconds until it listened, each time
        self.kills = self.kills_while_starting = 0

    async def start(self) -> None:
        """Start it, and wait until it listens or was killed before."""
        began, self._expects_end = clock(), False
        with self._said.open("ab") as said:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=asyncio.subprocess.PIPE, stderr=said, start_new_session=True, limit=2**24
            )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            if self._expects_end:
                return
            raise SystemExit(f"the server did not start: {' '.join(self._command[:6])} …\n{self._said.read_text()}")
        self.links = json.loads(line)["experts"]
        self.starts.append(clock() - began)

    async def kill(self) -> bool:
        """Kill all its processes at once, if there are any, and wait until they are gone; whether there were any."""
        self._expects_end = True
        if self._process is None or not self.members():
            return False
        self.kills += 1
        self._spent = self.processor_seconds()
        os.killpg(self._process.pid, signal.SIGKILL)
        await self._gone()
        return True

    def kill_worker(self, how: random.Random) -> None:
        """Kill one of its processes that is not the parent."""
        assert self._process is not None
        workers = [pid for pid in self.members() if pid != self._process.pid]
        if workers:
            os.kill(how.choice(workers), signal.SIGKILL)
            self.kills += 1

    async def _gone(self) -> None:
        """Wait until no process of it is left."""
        assert self._process is not None
        await self._process.wait()
        while self.members():
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Tell it to stop, and wait until it has."""
        assert self._process is not None
        self._expects_end = True
        self._process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            await self._gone()

    def complaints(self) -> list[str]:
        """What it said that it should not have to say."""
        said = self._said.read_text(encoding="utf-8", errors="replace")
        return [f"the server said: …{said[-1500:]}"] if "Traceback" in said or "ERROR" in said else []

    def members(self) -> list[int]:
        """Its processes."""
        assert self._process is not None
        return [pid for pid, group, _ in processes() if group == self._process.pid]

    def worker_seconds(self) -> list[float]:
        """The processor's time that each worker has used."""
        assert self._process is not None
        mine = {pid: seconds for pid, group, seconds in processes() if group == self._process.pid}
        return [seconds for pid, seconds in mine.items() if len(mine) == 1 or pid != self._process.pid]

    def processor_seconds(self) -> float:
        """The processor's time that it has used, its children that have ended included."""
        assert self._process is not None
        return self._spent + sum(seconds for _, group, seconds in processes() if group == self._process.pid)


def processes() -> Iterator[tuple[int, int, float]]:
    """Number, group and processor's seconds of all processes that have not ended."""
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                yield int(path.parent.name), int(fields[2]), sum(map(int, fields[11:15])) / tick


def busy_seconds() -> float:
    """The processor's time that everything on this machine has used, and what was taken from it."""
    with Path("/proc/stat").open(encoding="utf-8") as file:
        user, nice, system, _, _, *more = map(int, file.readline().split()[1:9])  # not: idle, waiting for disks
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")


def free_port(seed: int) -> int:
    """A port below those that connections get: one that asks for it while nobody listens must not become it."""
    how = random.Random(os.getpid() + seed)
    while True:
        port = how.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


# What a commit takes at least

COLUMNS = "query TEXT, item TEXT, expert TEXT, answer INTEGER, time BIGINT, seconds FLOAT, client TEXT UNIQUE"


def bare_commits(options: argparse.Namespace, study: Study, url: str | None) -> list[float]:
    """Seconds of each INSERT and COMMIT of one writer that does nothing else, at the pace of all votes."""
    n = int(min(options.seconds, BARE) * options.experts * options.rate)
    with bare_sqlite(study.path.parent) if url is None else bare_postgresql(url) as write:
        begin, took = clock(), []
        for number in range(n):
            time.sleep(max(0, begin + number / (options.experts * options.rate) - clock()))
            sent = clock()
            write(("00000.png", "00001.png", "expert-000", 1, now(), 0.2, str(uuid.uuid4())))
            took.append(clock() - sent)
    return took


@contextlib.contextmanager
def bare_sqlite(folder: Path) -> Iterator[Callable[[tuple[Any, ...]], Any]]:
    path = folder / "bare.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"CREATE TABLE votes (number INTEGER PRIMARY KEY, {COLUMNS})")

        def write(row: tuple[Any, ...]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO votes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("COMMIT")

        yield write
    path.unlink()


@contextlib.contextmanager
def bare_postgresql(url: str) -> Iterator[Callable[[tuple[Any, ...]], Any]]:
    with psycopg.connect(url) as connection:
        connection.execute("SET synchronous_commit = on")
        connection.execute(f"CREATE TABLE bare (number BIGSERIAL PRIMARY KEY, {COLUMNS})")
        connection.commit()

        def write(row: tuple[Any, ...]) -> None:
            connection.execute(
                "INSERT INTO bare (query, item, expert, answer, time, seconds, client)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                row,
            )
            connection.commit()

        yield write
        connection.execute("DROP TABLE bare")


# Log and database


Row = tuple[str, str, str, int, str]  # query, item, expert, answer, client


def compared(
    options: argparse.Namespace, study: Study, url: str | None, notes: Notes
) -> tuple[dict[str, int], list[str]]:
    """How many pairs have how many votes, and what is wrong with the database, in sentences."""
    rows, each = read_rows(study, url), options.experts_per_pair
    log = read_log(notes.log, study)
    experts = collections.Counter((query, item) for query, item, _ in {row[:3] for row in rows})
    counts = [experts.pop(pair, 0) for pair in study.pool().pairs]
    facts = {
        "exactly": counts.count(each),
        "more": sum(n > each for n in counts),
        "fewer": sum(n < each for n in counts),
        "rows": len(rows),
    }
    wrong = differences(log, rows, set(notes.made))
    if facts["more"]:
        wrong.append(f"{facts['more']:,} pairs have votes of more than {each} experts")
    if experts:
        wrong.append(f"{len(experts):,} pairs have votes and are not in the pool")
    if options.until_done and facts["fewer"]:
        wrong.append(f"{facts['fewer']:,} pairs have fewer than {each} votes, though the study was finished")
    return facts, wrong + damage(study, url, len(rows))


def damage(study: Study, url: str | None, n_votes: int) -> list[str]:
    """What the store and the database find wrong with themselves."""
    with Store.open(url or study.path / "votes.sqlite", study) as store:
        wrong, n_read = store.check(), len(store.votes())
    if n_read != n_votes:
        wrong.append(f"the store reads {n_read:,} votes, there are {n_votes:,}")
    if url is None:
        with contextlib.closing(sqlite3.connect(study.path / "votes.sqlite")) as connection:
            found = [line for (line,) in connection.execute("PRAGMA integrity_check")]
        wrong += [f"integrity_check: {line}" for line in found if line != "ok"]
    return wrong


def read_rows(study: Study, url: str | None) -> list[Row]:
    """All votes, read past the store."""
    query = "SELECT query, item, expert, answer, client FROM votes ORDER BY number"
    if url is not None:
        with psycopg.connect(url) as server:
            return server.execute(query).fetchall()
    with contextlib.closing(sqlite3.connect(study.path / "votes.sqlite")) as connection:
        return connection.execute(query).fetchall()


def read_log(path: Path, study: Study) -> list[tuple[Row, str]]:
    """Votes as their experts meant them, by the images that they saw, each with its verdict."""
    keys, queries, items = Keys.of(study.path), study.queries.ids.tolist(), study.catalogue.ids.tolist()
    log = []
    for vote in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        query, item = (keys.revealed(f"picture {side}", vote[side]) for side in ("query", "item"))
        log.append(((queries[query], items[item], vote["expert"], vote["answer"], vote["client"]), vote["verdict"]))
    return log


def differences(log: list[tuple[Row, str]], rows: list[Row], made: set[str]) -> list[str]:
    """How the log of acknowledged votes and the rows of the database differ, in sentences.

    made: ids of all votes that were made; those that nobody was told about may be in the database or not.
    """
    said = {vote[4]: vote for vote, _ in log}
    refused = {vote[4] for vote, verdict in log if verdict not in ("kept", "known")}
    found = {row[4]: row for row in rows}
    kept = said.keys() - refused
    seats = collections.Counter(row[:3] for row in rows)
    counts = {
        "votes were acknowledged and are not in the database": len(kept - found.keys()),
        "votes are in the database twice": len(rows) - len(found),
        "votes differ from what was sent": sum(found[client] != said[client] for client in kept & found.keys()),
        "votes were said not to be kept and are in the database": len(refused & found.keys()),
        "votes are in the database and nobody has made them": len(found.keys() - made),
        "votes were acknowledged twice": len(log) - len(said),
        "pairs have two votes of one expert": sum(n > 1 for n in seats.values()),
        "votes had a verdict that none of them should get": sum(
            verdict not in ("kept", "known", "enough") for _, verdict in log
        ),
    }
    return [f"{n:,} {sentence}" for sentence, n in counts.items() if n]


def unplanned(options: argparse.Namespace, facts: dict[str, Any]) -> list[str]:
    """What did not go as it was meant to, without anything being lost."""
    wrong = []
    made, planned = facts["votes made"], round(options.experts * options.rate * options.seconds)
    at_once = options.sheet_size if options.layout == "sheet" else 1
    if not (options.kills or options.until_done) and made < planned - options.experts * at_once:
        wrong.append(f"{made:,} votes were made of {planned:,}: experts had nothing in hand, or waited for an answer")
    if (untold := made - sum(facts["verdicts"].values())) != 0:
        wrong.append(f"{untold:,} votes were never acknowledged")
    if (n := len(facts["processor s of workers"])) != options.workers:
        wrong.append(f"{n} workers ran at the end, {options.workers} were expected")
    return wrong


# What is said


def spread(seconds: list[float]) -> dict[str, float]:
    """How times are spread, in milliseconds."""
    if not seconds:
        return dict.fromkeys(("p50", "p90", "p99", "max"), float("nan"))
    found = np.percentile(np.array(seconds) * 1000, [50, 90, 99, 100], method="inverted_cdf")
    return dict(zip(("p50", "p90", "p99", "max"), map(float, found), strict=True))


def machine() -> str:
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("uvicorn", "fastapi", "sqlalchemy")]
    kind = platform.processor() or platform.machine()
    load = os.getloadavg()[0]
    return f"{kind}, {os.cpu_count()} cores, load {load:.1f}; {', '.join(versions)}, SQLite {sqlite3.sqlite_version}"


def heading(options: argparse.Namespace, study: Study) -> str:
    length = "until all is judged" if options.until_done else f"for {options.seconds:g} s"
    if options.kills:
        length = f"{options.victim} killed {options.kills} times{', ' + length if options.until_done else ''}"
    layout = f", sheets of up to {options.sheet_size}" if options.layout == "sheet" else ""
    layout += f', the scale "{options.scale}"' if options.scale else ""
    return (
        f"{machine()}\n{options.experts} experts, {options.rate:g} votes a second each, {length}; "
        f"{len(study.pool()):,} pairs of {options.experts_per_pair} votes\n"
        f"{options.database}, {options.workers} worker{'s' if options.workers > 1 else ''}{layout}"
    )


def report(facts: dict[str, Any]) -> None:
    verdicts = ", ".join(f"{n:,} {verdict}" for verdict, n in sorted(facts["verdicts"].items()))
    pairs, processor, seconds = facts["pairs"], facts["processor s"], facts["seconds"]
    print(f"\nvotes     {facts['votes made']:,} in {seconds:.1f} s: {verdicts}; {facts['errors']:,} errors")
    print(f"pairs     {pairs['exactly']:,} with all votes, {pairs['more']:,} with more, {pairs['fewer']:,} with fewer")
    print(f"\n{'ms':28}{'p50':>9}{'p90':>9}{'p99':>9}{'max':>9}")
    for name in ("vote", "late", "from due to answered", "claim", "own lag", "bare commit"):
        print(f"{name:28}" + "".join(f"{value:9.1f}" for value in facts[f"{name} ms"].values()))
    print(f"\np99 of a vote : p99 of a bare commit = {facts['p99 : bare p99']:.1f}")
    print(f"processor  {', '.join(f'{name} {used:.1f} s' for name, used in processor.items())} of {seconds:.1f} s")
    if len(shares := facts["processor s of workers"]) > 1:
        print(f"           workers, since they were started: {', '.join(f'{used:.1f} s' for used in shares)}")
    if facts["kills"]:
        print(f"kills      {facts['kills']}, {facts['while starting']} of them while it was starting; ", end="")
        print(f"{facts['lost']:,} requests lost, {facts['resent']:,} votes sent again")
    again = facts["starts s"]
    print(f"starts     {len(again)}: {statistics.median(again):.1f} s, at most {max(again):.1f} s")
    if facts["pictures"]:
        print(f"pictures   {facts['pictures']:,}")
    if not facts["wrong"]:
        print("\nlog and database are the same")


if __name__ == "__main__":
    main()
