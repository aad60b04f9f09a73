"""What pages and the store hand to each other, and the errors of the store."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lookalike.core.errors import InputError, StoreError
from lookalike.discovery.scale import BINARY
from lookalike.discovery.scale import MOST as MOST_STEPS

ORGANISED = 100  # characters that a name or a client's id may have
LAST_MOMENT = 253_402_300_799_000  # ms since 1970, the end of the year 9999: no time of a vote is later
LINE, PAGE = 200, 20_000  # characters of the question and of the guide

__all__ = [
    "LAST_MOMENT",
    "Answer",
    "Briefing",
    "Expert",
    "ExpertError",
    "Handed",
    "Imported",
    "JudgingTask",
    "Progress",
    "Status",
    "StoreAwayError",
    "StoreFullError",
    "Taken",
    "Verdict",
    "VoteRefusedError",
    "VoteRow",
    "check_expert_name",
]

Verdict = Literal["kept", "known", "enough", "unknown", "changed", "often", "scale"]
"""What became of an answer.

kept: it is on disk, as a first vote or as a change of mind. known: an answer with this client id and content is on disk
already, and this one was not counted again. enough: the pair has all its experts, or others are at it; not kept.
unknown: there is no such pair; not kept. changed: the client id was used for another answer; not kept.
often: the expert has changed this answer, or all answers together, too often within a minute; not kept.
scale: it is not an answer on the scale of the study, or was given on another scale; not kept.
"""


class StoreAwayError(StoreError):
    """The database does not answer at this moment. Nothing was kept; trying again later can help."""


class StoreFullError(StoreError):
    """There is no space left on the disk. Nothing was kept; trying again helps once there is space."""


class VoteRefusedError(InputError):
    """The store does not do what was asked, and nothing has changed."""


class ExpertError(VoteRefusedError):
    """An expert may not judge. reason: unknown, revoked, expired, or renewed (there is a newer link)."""

    def __init__(self, name: str, reason: Literal["unknown", "revoked", "expired", "renewed"]) -> None:
        self.name, self.reason = name, reason
        sentence = {
            "unknown": f"there is no expert {name!r} in this study: ask the organiser for a new link",
            "revoked": f"the link of {name!r} was taken back: ask the organiser for a new one",
            "expired": f"the link of {name!r} has expired: ask the organiser for a new one",
            "renewed": f"there is a newer link for {name!r}: open that one, or ask the organiser for it",
        }[reason]
        super().__init__(sentence)


@dataclass(frozen=True)
class Expert:
    """An expert. Times are in milliseconds since 1970, UTC; only the link with this number works."""

    name: str
    link_number: int = 1
    expires: int | None = None
    revoked: int | None = None

    def check(self, now: int, link: int | None = None) -> None:
        """Raise if the expert may not judge now, or not by the link of this number."""
        if self.revoked is not None:
            raise ExpertError(self.name, "revoked")
        if self.expires is not None and now >= self.expires:
            raise ExpertError(self.name, "expired")
        if link is not None and link != self.link_number:
            raise ExpertError(self.name, "renewed")


@dataclass(frozen=True)
class JudgingTask:
    """A pair in an expert's hand; query and item are ids of the study."""

    pair: int
    query: str
    item: str


@dataclass(frozen=True)
class Answer:
    """What an expert says of a pair: 1 similar, 0 not similar, or a grade of the study's scale; -1 can't tell.

    client: an id that the client made for this answer, so that it can be sent again. seconds: how long it took, None
    where unknown. at: when by the client's clock, in milliseconds since 1970. scale: the mark of the scale that it was
    given on, None where nobody says.
    """

    client: str
    pair: int
    answer: int
    seconds: float | None = None
    at: int | None = None
    scale: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.client, str) or not 0 < len(self.client) <= ORGANISED or not self.client.isprintable():
            raise InputError(f"the id of an answer is text of 1 to {ORGANISED} characters, got {self.client!r:.120}")
        for name, value in {"pair": self.pair, "answer": self.answer, "at": self.at}.items():
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and abs(value or 0) < 2**63) and not (name == "at" and value is None):
                raise InputError(f"{name!r} of an answer must be a whole number, got {value!r:.120}")
        if not -1 <= self.answer < MOST_STEPS:
            raise InputError(f"an answer is a grade from 0 on, or -1 (can't tell), got {self.answer!r:.120}")
        if self.seconds is not None and not (
            isinstance(self.seconds, int | float) and 0 <= self.seconds < 2**53 and math.isfinite(self.seconds)
        ):
            raise InputError(f"seconds must be a number from 0, got {self.seconds!r:.120}")


class VoteRow(NamedTuple):
    """A vote as the database keeps it: a row of the table votes.

    time: in milliseconds since 1970, None where unknown; client: the id of the answer, None for a vote from a file.
    """

    query: str
    item: str
    expert: str
    answer: int
    time: int | None
    seconds: float | None = None
    client: str | None = None


@dataclass(frozen=True)
class Progress:
    """How far one expert, and everybody, has come.

    done: pairs that the expert has judged, gold pairs among them. left: pairs that may still come to the expert; others
    may judge some of them, unless all are `sure` to come. everybody_done, everybody_total: votes, and how many are
    wanted, gold pairs among them.
    """

    done: int
    left: int
    everybody_done: int
    everybody_total: int
    sure: bool = True

    @property
    def total(self) -> int:
        """Pairs that the expert has judged or may still be asked for."""
        return self.done + self.left


@dataclass(frozen=True)
class Briefing:
    """The question to experts, one line, and the guide, plain text in paragraphs; both may be ""."""

    question: str = ""
    guide: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or len(self.question) > LINE or len(self.question.splitlines()) > 1:
            raise InputError(f"the question is one line of at most {LINE} letters, got {self.question!r:.300}")
        if not isinstance(self.guide, str) or len(self.guide) > PAGE:
            raise InputError(f"the guide is text of at most {PAGE:,} letters")


@dataclass(frozen=True)
class Handed:
    """What an expert's page shows next. recent: pairs judged last, newest first, with the answer that counts.

    closed: why there are no pairs: the expert has to practise, or has come to the end of what the open link offers.
    """

    tasks: list[JudgingTask]
    recent: list[tuple[JudgingTask, int]]
    progress: Progress
    closed: Literal["practice", "end"] | None = None


@dataclass(frozen=True)
class Taken:
    """What became of each answer, and how far the expert has come with them."""

    verdicts: list[Verdict]
    progress: Progress


@dataclass(frozen=True)
class Imported:
    """What became of imported votes: added; known, which were there already; beyond, on pairs that had enough."""

    added: int
    known: int
    beyond: int


@dataclass(frozen=True)
class Status:
    """Facts for the organiser.

    settings: experts_per_pair (a number, or "all"), order, budget, seed. pairs: released, without gold pairs; complete:
    those that have all their votes; begun: those that have some. to_judge: those released, and those that will be.
    in_pool: pairs of the pool; gold: gold pairs. votes: all in the record, changes of mind among them. experts: for
    each {"name", "expires", "revoked", "done", "gold", "held", "later", "last"} (later: put off, and still open; last:
    milliseconds since 1970 of the last vote, or None). missing: images that did not load, each {"query", "item",
    "side", "expert", "at"}. database: what the votes are kept in, in words. scale: of the answers.
    """

    settings: dict[str, int | str | None]
    pairs: int
    complete: int
    begun: int
    to_judge: int
    in_pool: int
    gold: int
    votes: int
    everybody_done: int
    everybody_total: int
    experts: list[dict[str, int | str | None]]
    missing: list[dict[str, int | str]]
    database: str
    scale: str = str(BINARY)


def check_expert_name(name: str) -> None:
    """Raise if this cannot be the name of an expert."""
    good = isinstance(name, str) and 0 < len(name) <= ORGANISED and name.isprintable() and name == name.strip()
    if not good:
        raise InputError(
            f"the name of an expert is text on one line of 1 to {ORGANISED} characters, with no space at its ends, "
            f"got {name!r:.120}"
        )
