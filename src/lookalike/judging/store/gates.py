"""Who may be handed pairs: those who have practised, and people of the crowd within their terms."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, Option

CODE = 200  # characters of a completion code
MOST = 100_000  # people, and pairs of one of them

__all__ = ["CrowdMember", "CrowdTerms", "Gates"]


@dataclass(frozen=True)
class CrowdTerms:
    """What the open link offers. code: shown at the end. pairs_each: pairs of one person, gold pairs among them.

    most_experts: people in all, also those who were screened out. screen: the share of the first `screen_after` gold
    pairs that must be right, None for no screening. screened_code: shown to those who were screened out, None for none.
    """

    code: str
    pairs_each: int = 30
    most_experts: int = 100
    screen: float | None = None
    screen_after: int = 5
    screened_code: str | None = None

    def __post_init__(self) -> None:
        for name in ("code", "screened_code"):
            text = getattr(self, name)
            if text is not None and not (0 < len(text) <= CODE and text.isprintable() and text == text.strip()):
                raise InputError(f"a completion code is one line of 1 to {CODE} characters, got {text!r:.120}")
        for name in ("pairs_each", "most_experts", "screen_after"):
            whole_number(name, getattr(self, name), 1, MOST)
        if self.screen is not None and not 0 < self.screen <= 1:
            raise InputError(
                Option("screen"), f" is the share of gold pairs that must be right, up to 1, got {self.screen:g}"
            )
        if self.screen is not None and 2 * self.screen_after > self.pairs_each:
            raise InputError(
                f"the first {self.screen_after} gold pairs come within the first half of a person's pairs, and "
                f"there are {self.pairs_each}: ask for more with ",
                Option("pairs_each"),
                ", or screen by fewer with ",
                Option("screen_after"),
            )

    @classmethod
    def of(cls, meta: Mapping[str, str]) -> "CrowdTerms | None":
        """The terms that a database holds; None where there never was an open link."""
        if "crowd_code" not in meta:
            return None
        screen = meta.get("crowd_screen")
        return cls(
            meta["crowd_code"],
            int(meta["crowd_pairs_each"]),
            int(meta["crowd_most_experts"]),
            None if screen is None else float(screen),
            int(meta["crowd_screen_after"]),
            meta.get("crowd_screened_code"),
        )

    def to_meta(self) -> dict[str, Any]:
        """The terms as a database holds them."""
        return {f"crowd_{name}": value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class CrowdMember:
    """Somebody who came by the open link. Times are in milliseconds since 1970.

    participant: the id that a platform gave, None where the link had none. completed: when the completion code was
    shown. screened: when the person was screened out, None for whoever was not. correct, asked: gold pairs by
    which that was decided. changed: when any of this was last decided; of two databases the later one is right.
    """

    expert: str
    participant: str | None
    joined: int
    completed: int | None = None
    screened: int | None = None
    correct: int | None = None
    asked: int | None = None
    changed: int = 0


@dataclass
class Gates:
    """What the board knows of practice and of the crowd.

    practice: whether there is practice. practised: who need not practise any more.
    """

    practice: bool = False
    practised: set[str] = field(default_factory=set)
    terms: CrowdTerms | None = None
    crowd: dict[str, CrowdMember] = field(default_factory=dict)

    @property
    def screened(self) -> set[str]:
        """Whose votes do not count."""
        return {name for name, member in self.crowd.items() if member.screened is not None}

    def is_screened(self, expert: str) -> bool:
        """Whether somebody was screened out."""
        return expert in self.crowd and self.crowd[expert].screened is not None

    def needs_practice(self, expert: str) -> bool:
        """Whether an expert has to practise before the first pair."""
        return self.practice and expert not in self.practised

    def left(self, expert: str, done: int) -> int | None:
        """How many more pairs somebody may judge who has judged so many; None for as many as there are."""
        if self.is_screened(expert):
            return 0
        if expert not in self.crowd or self.terms is None:
            return None
        return max(0, self.terms.pairs_each - done)

    def gold_chance(self, expert: str, turn: int, gold_given: int) -> float | None:
        """The chance that somebody's next pair is a gold pair, while there is something to screen by; else None.

        Of the first half of the pairs, exactly `screen_after` are gold, and each choice of their turns is as likely as
        any other: a turn is chosen with the chance of those still wanted over the turns that are left.
        """
        if self.terms is None or self.terms.screen is None or expert not in self.crowd:
            return None
        wanted = self.terms.screen_after - gold_given
        if wanted <= 0:
            return None
        turns = self.terms.pairs_each // 2 - turn
        return wanted / turns if turns > wanted else 1.0
