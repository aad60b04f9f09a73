"""What people decided about duplicates: one list in the study, which the page and the command line share.

The list is a file to which lines are only added. A decision is on disk when `DecisionLog.add` returns. A line that a
killed process left unfinished is never read, and the next writer removes it.
"""

import contextlib
import dataclasses
import json
import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lookalike.core.errors import FileError
from lookalike.core.files import read_json
from lookalike.study.folder import wait_for_lock

DECISIONS = "duplicates.jsonl"
DROP, APART, UNDO = "drop", "apart", "undo"

__all__ = ["APART", "DROP", "Decision", "DecisionLog", "Decisions", "new_id"]


@dataclass(frozen=True)
class Decision:
    """One decision about two items, by their ids.

    kind: "drop", where `first` is kept and `second` is not wanted, or "apart", where they are no duplicates. contents:
    fingerprints of both files when it was decided.
    """

    id: str
    kind: str
    first: str
    second: str
    contents: tuple[str, str] = ("", "")
    time: int = 0  # milliseconds since 1970


@dataclass(frozen=True)
class Decisions:
    """All decisions that hold, in the order in which they were made, and the ids of all that ever were."""

    live: dict[str, Decision] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()

    @cached_property
    def dropped(self) -> dict[str, Decision]:
        """By the id of each item that is dropped: why."""
        return {each.second: each for each in self.live.values() if each.kind == DROP}

    @cached_property
    def n_apart(self) -> int:
        """How many pairs were set aside as no duplicates."""
        return len({frozenset((each.first, each.second)) for each in self.live.values() if each.kind == APART})

    @cached_property
    def _apart(self) -> set[frozenset[str]]:
        pairs = [(each.first, each.second) for each in self.live.values() if each.kind == APART]
        return {frozenset(pair) for pair in pairs} | {frozenset(map(self.kept_for, pair)) for pair in pairs}

    def kept_for(self, item: str) -> str:
        """The item that stays in place of one that is dropped, over any number of steps; itself if it is not."""
        steps = 0
        while item in self.dropped and steps <= len(self.dropped):
            item, steps = self.dropped[item].first, steps + 1
        return item

    def apart(self, one: str, other: str) -> bool:
        """Whether somebody said that two items are no duplicates, or said so of items that were dropped for them."""
        return frozenset((one, other)) in self._apart or frozenset(map(self.kept_for, (one, other))) in self._apart


class DecisionLog:
    """The decisions of a study. Several threads and processes may use it at once."""

    def __init__(self, study: Path) -> None:
        self.path, self._study = study / DECISIONS, study
        self._lock = threading.Lock()
        self._state, self._decisions = (0, 0), Decisions()  # the file and how far it was read; what was read

    def read(self) -> Decisions:
        """All decisions as they are now on disk."""
        with self._lock:
            return self._read()

    def add(self, decisions: Sequence[Decision]) -> list[str | None]:
        """Add decisions, those that fit; returns why the others do not. One whose id was seen is there already."""
        with self._lock, self._writing() as (handle, now):
            seen, dropped = set(now.seen), set(now.dropped)
            problems, lines = [], list[str]()
            for decision in decisions:
                problem = None if decision.id in seen else _problem(decision, dropped)
                problems.append(problem)
                if decision.id in seen or problem is not None:
                    continue
                stamped = dataclasses.replace(decision, time=decision.time or time.time_ns() // 10**6)
                lines.append(json.dumps(dataclasses.asdict(stamped), ensure_ascii=False))
                seen.add(decision.id)
                if decision.kind == DROP:
                    dropped.add(decision.second)
            _append(handle, lines)
            return problems

    def undo(self, ids: Iterable[str]) -> list[Decision]:
        """Take decisions back; returns those that held."""
        with self._lock, self._writing() as (handle, now):
            gone = [now.live[each] for each in dict.fromkeys(ids) if each in now.live]
            _append(handle, [json.dumps({"kind": UNDO, "id": each.id}) for each in gone])
            return gone

    def _read(self) -> Decisions:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._state, self._decisions = (0, 0), Decisions()
            return self._decisions
        with file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._state[0] or status.st_size < self._state[1]:  # another file than before
                self._state, self._decisions = (status.st_ino, 0), Decisions()
            file.seek(self._state[1])
            whole = file.read()
            whole = whole[: whole.rfind(b"\n") + 1]  # what follows is not finished
            if whole:
                self._decisions = _with(self._decisions, self._lines(whole))
                self._state = (status.st_ino, self._state[1] + len(whole))
            return self._decisions

    def _lines(self, whole: bytes) -> list[Decision | str]:
        """Decisions, and ids of decisions that are taken back."""
        lines: list[Decision | str] = []
        for line in whole.splitlines():
            about = read_json(line, self.path) if line.strip() else None
            entry = None if about is None else _entry(about)
            if entry is None and about is not None:
                raise FileError(f"{self.path} is damaged: a line is no decision", path=self.path)
            lines += [] if entry is None else [entry]
        return lines

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[int, Decisions]]:
        """The file, locked, without an unfinished line at its end; and what it holds."""
        if not os.access(self.path if self.path.exists() else self._study, os.W_OK):
            raise PermissionError(f"the study {self._study} can only be read here: it cannot be changed")
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            wait_for_lock(handle, self._study)
            now = self._read()
            os.ftruncate(handle, self._state[1])  # nobody else writes now: what is beyond was left by a kill
            yield handle, now
        finally:
            os.close(handle)


def new_id() -> str:
    """An id for a decision."""
    return str(uuid.uuid4())


def _problem(decision: Decision, dropped: Set[str]) -> str | None:
    """Why a decision cannot be added; None if it can. No item is dropped twice, or for one that is dropped."""
    if decision.first == decision.second:
        return f"two different items are needed, got {decision.first!r} twice"
    if decision.kind == DROP and decision.second in dropped:
        return f"{decision.second} is dropped already"
    if decision.kind == DROP and decision.first in dropped:
        return f"{decision.first} is dropped already: it cannot be the one that is kept"
    return None


def _append(handle: int, lines: Sequence[str]) -> None:
    if not lines:
        return
    rest = memoryview("".join(f"{line}\n" for line in lines).encode())
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)


def _with(decisions: Decisions, entries: Iterable[Decision | str]) -> Decisions:
    """Decisions after some more lines. A line that does not fit, such as one that was typed, changes nothing."""
    live, seen = dict(decisions.live), set(decisions.seen)
    for entry in entries:
        if isinstance(entry, str):
            live.pop(entry, None)
        elif entry.id not in seen:
            live[entry.id] = entry
            seen.add(entry.id)
    return Decisions(live, frozenset(seen))


def _entry(about: Any) -> Decision | str | None:
    """A line as a decision, or as the id of one that is taken back; None if it is neither."""
    if not isinstance(about, dict) or not isinstance(about.get("id"), str):
        return None
    if about.get("kind") == UNDO:
        return str(about["id"])
    texts, contents = [about.get(name) for name in ("first", "second")], about.get("contents")
    if about.get("kind") not in (DROP, APART) or not all(isinstance(text, str) and text for text in texts):
        return None
    if not isinstance(contents, list) or len(contents) != 2 or not all(isinstance(each, str) for each in contents):
        return None
    moment = about.get("time", 0)
    if type(moment) is not int:
        return None
    return Decision(about["id"], about["kind"], about["first"], about["second"], (contents[0], contents[1]), moment)
