"""Scale: the steps of which an expert chooses one, from "0 not alike" up."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from lookalike.core.errors import InputError, InputTypeError, Option

FEWEST, MOST = 2, 5  # steps
LONGEST = 40  # characters of a step's words
CANT_TELL_WORDS = "can't tell"
FORM = 'such as "0 not alike, 1 related, 2 alike"'

__all__ = ["BINARY", "CANT_TELL_WORDS", "FEWEST", "MOST", "Scale", "plain_words"]

_STEP = re.compile(r"([0-9]+)\s+(\S.*)")


def plain_words(text: str) -> str:
    """The words of an answer in the form by which they are compared: without capitals and curly apostrophes."""
    return text.strip().replace("’", "'").casefold()


@dataclass(frozen=True)
class Scale:
    """Two to five steps in words; the grade of a step is its place, from 0. The lowest step is never positive.

    >>> scale = Scale.parse("0 not alike, 1 related, 2 alike")
    >>> scale.words, scale.top, str(scale)
    (('not alike', 'related', 'alike'), 2, '0 not alike, 1 related, 2 alike')
    >>> Scale.parse(str(scale)) == scale
    True
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.words, str) or not all(isinstance(words, str) for words in self.words):
            raise InputTypeError(f"a scale has the words of each step, {FORM}, got {self.words!r:.200}")
        object.__setattr__(self, "words", tuple(" ".join(words.split()) for words in self.words))
        if not FEWEST <= len(self.words) <= MOST:
            raise InputError(f"a scale has {FEWEST} to {MOST} steps, {FORM}, got {len(self.words)}")
        for grade, words in enumerate(self.words):
            _check_words(grade, words)
        seen: dict[str, int] = {}
        for grade, words in enumerate(self.words):
            if (before := seen.setdefault(plain_words(words), grade)) != grade:
                raise InputError(f"the steps {before} and {grade} of the scale have the same words, {words!r}")

    @classmethod
    def parse(cls, text: Any) -> "Scale":
        """The scale that a text names: "0 not alike, 1 related, 2 alike"."""
        if not isinstance(text, str):
            raise InputTypeError(f"a scale is text, {FORM}, got {type(text).__name__}")
        steps: list[str] = []
        for part in text.split(","):
            found = _STEP.fullmatch(part.strip())
            if found is None:
                raise InputError(
                    f"each step of a scale is a grade and its words, {FORM}, got {part.strip()!r:.100}: a comma stands "
                    "between two steps only"
                )
            if found[1] != str(len(steps)):
                raise InputError(f"the grades of a scale are 0, 1, 2, … in order, {FORM}, got {part.strip()!r:.100}")
            steps.append(found[2])
        return cls(tuple(steps))

    def __str__(self) -> str:
        return ", ".join(f"{grade} {words}" for grade, words in enumerate(self.words))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def top(self) -> int:
        """The highest grade."""
        return len(self.words) - 1

    @property
    def graded(self) -> bool:
        """Whether there are more steps than no and yes."""
        return len(self.words) > 2

    @property
    def mark(self) -> str:
        """A short name that no other scale has; "" for similar and not similar."""
        return "" if self == BINARY else hashlib.sha256(str(self).encode()).hexdigest()[:16]

    @property
    def answers(self) -> dict[int, str]:
        """The words of every answer, the highest grade first, and of -1, can't tell."""
        return {grade: self.words[grade] for grade in range(self.top, -1, -1)} | {-1: CANT_TELL_WORDS}

    @property
    def form(self) -> str:
        """What an answer must be, in words: "alike, related, not alike or can't tell (or 2, 1, 0, -1)"."""
        *first, last = self.answers.values()
        return f"{', '.join(first)} or {last} (or {', '.join(map(str, self.answers))})"

    def positive(self, rel: int) -> str:
        """What is positive, in words: "alike", or "related or more"."""
        return f"{self.words[rel]}{' or more' if rel < self.top else ''}"

    def rel(self, grade: int | None) -> int:
        """The lowest grade that is positive: the highest step, unless another is given; an error for 0.

        >>> Scale.parse("0 no, 1 perhaps, 2 yes").rel(None)
        2
        """
        if grade is None:
            return self.top
        if isinstance(grade, bool) or not isinstance(grade, int) or not 1 <= grade <= self.top:
            most = f"from 1 to {self.top}" if self.graded else "1"
            raise InputError(
                Option("rel"),
                f" must be {most} on the scale {str(self)!r}, got {grade}: it is the lowest positive grade, and the "
                "lowest step is never positive",
                parameter="rel",
                value=grade,
            )
        return grade


def _check_words(grade: int, words: str) -> None:
    """Raise where words cannot be told from other answers, or not be shown on a button."""
    if not words:
        raise InputError(f"step {grade} of the scale has no words: say what it means, {FORM}")
    if len(words) > LONGEST or not words.isprintable():
        raise InputError(f"the words of step {grade} are text of at most {LONGEST} letters, got {words!r:.100}")
    if "," in words:
        raise InputError(f"the words of step {grade} have a comma, which stands between two steps: {words!r}")
    if re.fullmatch(r"[-+]?[0-9]+", words):
        raise InputError(f"the words of step {grade} are a number, {words!r}, which would be taken for a grade")
    if plain_words(words) == CANT_TELL_WORDS:
        raise InputError(f"step {grade} cannot be {words!r}, which experts can always answer and which has no grade")


BINARY = Scale(("not similar", "similar"))
"""The scale of a study that was given no other."""
