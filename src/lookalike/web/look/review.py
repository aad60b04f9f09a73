"""Duplicates that are reviewed pair by pair: what is asked, what was decided, and which pairs are left."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from lookalike.core.errors import InputError
from lookalike.study.duplicate_decisions import APART, DROP, Decision, DecisionLog, Decisions
from lookalike.study.duplicates import Duplicates, find_duplicates

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["Review", "ReviewPair", "Reviews", "Settings", "batch_of"]

MOST_REVIEWS = 4  # searches that are held
RECENT = 20  # decisions that can be undone after the page was loaded again


@dataclass(frozen=True)
class Settings:
    """What is reviewed: files of the same bytes, or, by a model, files that look the same."""

    model: str | None = None  # None: only files that are the same byte for byte
    near: float | None = None
    keep: str = "largest"


@dataclass(frozen=True)
class ReviewPair:
    """Two items to decide between. place: where the pair stands among all; the first is the one that would be kept."""

    place: int
    group: int
    first: int
    second: int
    nearness: float | None


class Review:
    """The duplicates of one search, pair by pair. Decisions change which pairs are left, not the search."""

    def __init__(self, study: "Study", settings: Settings, found: Duplicates) -> None:
        self.study, self.settings, self.found = study, settings, found
        self.ids = [str(name) for name in study.catalogue.ids.tolist()]
        self.starts = [0, *accumulate(len(group.copies) for group in found.groups)]

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where the items are that are in a group."""
        return {self.ids[position]: position for position in self.found.files}

    def pairs(self, decisions: Decisions) -> Iterator[ReviewPair]:
        """The pairs that nobody decided. Who was dropped is stood for by what was kept instead."""
        for number, group in enumerate(self.found.groups):
            kept = decisions.kept_for(self.ids[group.kept])
            if kept not in self.positions:
                continue  # it was kept in a search with other settings, and is not among these files
            champion = self.positions[kept]
            for place, copy in enumerate(group.copies, self.starts[number]):
                other = self.ids[copy.position]
                if other in decisions.dropped or other == kept or decisions.apart(kept, other):
                    continue
                if self.settings.model is not None and self._same_bytes(champion, copy.position):
                    continue  # that is a matter of the other list
                known = champion == group.kept
                nearness = copy.nearness if known else self.found.between(champion, copy.position)
                yield ReviewPair(place, number, champion, copy.position, nearness)

    def _same_bytes(self, one: int, other: int) -> bool:
        files = self.found.files
        return files[one].content == files[other].content

    def decision(self, name: str, kind: str, first: str, second: str) -> Decision:
        """A decision about two items of this search, with the contents of their files."""
        missing = [item for item in (first, second) if item not in self.positions]
        if missing:
            raise InputError(f"{missing[0]!r} is not among these duplicates")
        files = [self.found.files[self.positions[item]] for item in (first, second)]
        return Decision(name, kind, first, second, (files[0].content, files[1].content))

    def suggested(self, decisions: Decisions, batch: str) -> list[Decision]:
        """For every pair that is left: drop the second. All are one batch, which can be undone at once."""
        made, gone = [], set[int]()
        for number, pair in enumerate(self.pairs(decisions)):
            if not gone & {pair.first, pair.second}:
                made.append(self.decision(f"{batch}/{number}", DROP, self.ids[pair.first], self.ids[pair.second]))
                gone.add(pair.second)
        return made


class Reviews:
    """The searches of a study that are under review, and its decisions."""

    def __init__(self, study: "Study") -> None:
        self.log = DecisionLog(study.path)
        self._lock = threading.Lock()
        self._held: dict[tuple[int, Settings], Review] = {}

    def of(self, study: "Study", settings: Settings) -> Review:
        """The search with these settings, which is made when it is first asked for."""
        key = (id(study), settings)
        with self._lock:
            if key not in self._held:
                found = find_duplicates(study, model=settings.model, near=settings.near, keep=settings.keep)
                self._held = dict([*self._held.items()][1 - MOST_REVIEWS :])
                self._held[key] = Review(study, settings, found)  # it holds the study: the id stays its own
            return self._held[key]

    def forget(self) -> None:
        """Files have moved: search again."""
        with self._lock:
            self._held.clear()

    def undone(self, names: Sequence[str]) -> list[Decision]:
        """Take decisions back, whole batches too."""
        live = self.log.read().live
        return self.log.undo([name for name in live if {name, batch_of(name)} & set(names)])


def batch_of(name: str) -> str:
    """The batch that a decision is part of; itself if it was made alone.

    >>> batch_of("a/7"), batch_of("b")
    ('a', 'b')
    """
    return name.partition("/")[0]


def recent(decisions: Decisions) -> list[dict[str, Any]]:
    """The last decisions, batches as one, the last at the end."""
    batches: dict[str, dict[str, Any]] = {}
    for each in reversed(decisions.live.values()):
        name = batch_of(each.id)
        if name not in batches and len(batches) == RECENT:
            break
        facts = {"id": name, "kind": each.kind, "first": each.first, "second": each.second, "n": 0}
        batches.setdefault(name, facts)["n"] += 1
    return [*batches.values()][::-1]


def tally(decisions: Decisions) -> dict[str, int]:
    """How many decisions there are of each kind."""
    kinds = [each.kind for each in decisions.live.values()]
    return {"dropped": kinds.count(DROP), "apart": kinds.count(APART)}
