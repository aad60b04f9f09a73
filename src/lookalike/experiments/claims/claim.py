"""A claim of a paper: what it says, how it is tried again, and what would count as holding."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lookalike.core.bootstrap import bootstrap_interval
from lookalike.core.errors import InputError

BUDGETS = ("quick", "full")
HOLDS, IN_PART, FAILS, UNTRIED = "holds", "holds in part", "does not hold", "cannot be tried here"
VERDICTS = (HOLDS, IN_PART, FAILS, UNTRIED)

__all__ = [
    "BUDGETS",
    "FAILS",
    "HOLDS",
    "IN_PART",
    "UNTRIED",
    "VERDICTS",
    "CannotTryError",
    "Check",
    "MeasuredNumber",
    "Numbers",
    "PaperClaim",
    "Run",
    "mean_of",
    "verdict_of",
]


class CannotTryError(Exception):
    """Something that a claim needs is not here; the message says what."""


@dataclass(frozen=True)
class MeasuredNumber:
    """A measured value, with its 95 % interval and the paper's own figure where there are such.

    group: the chart that it is drawn in; "" for none.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    printed: float = math.nan
    group: str = ""


class Numbers:
    """The numbers of a claim by their names."""

    def __init__(self, numbers: Iterable[MeasuredNumber]) -> None:
        self._by_name: dict[str, MeasuredNumber] = {}
        for number in numbers:
            if number.name in self._by_name:
                raise AssertionError(f"there are two numbers named {number.name!r}")
            self._by_name[number.name] = number

    def __getitem__(self, name: str) -> MeasuredNumber:
        return self._by_name[name]

    def __iter__(self) -> Iterator[MeasuredNumber]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def ending(self, end: str) -> list[MeasuredNumber]:
        """The numbers whose names end so."""
        return [number for number in self if number.name.endswith(end)]

    def starting(self, start: str) -> list[MeasuredNumber]:
        """The numbers whose names start so."""
        return [number for number in self if number.name.startswith(start)]


@dataclass(frozen=True)
class Check:
    """One part of a claim, as a sentence, and whether it was seen."""

    sentence: str
    held: bool


class Run(Protocol):
    """What a claim is tried with: its settings, and a store for steps that take long."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Sizes and seeds of the budget."""

    def keep(self, step: str, compute: Callable[[], Any]) -> Any:
        """What a step gave, as JSON values: computed now, or read where an earlier run computed it."""


@dataclass(frozen=True)
class PaperClaim:
    """What a paper says at some place, and how it is tried again.

    measure: makes the numbers. judge: from the numbers alone, which parts of the claim were seen. settings: sizes and
    seeds of each budget.
    """

    name: str
    title: str
    paper: str
    place: str
    says: str
    protocol: str
    data: str
    criterion: str
    settings: Mapping[str, Mapping[str, Any]]
    measure: Callable[[Run], Iterable[MeasuredNumber]]
    judge: Callable[[Numbers], Sequence[Check]]

    def seeds(self, budget: str) -> str:
        """The seeds of a budget, as text."""
        seeds = self.settings[budget]["seeds"]
        return ", ".join(map(str, seeds)) if seeds else "none: nothing is drawn"


def verdict_of(checks: Sequence[Check]) -> str:
    """All parts of a claim were seen, some, or none.

    >>> verdict_of([Check("a", True), Check("b", False)])
    'holds in part'
    """
    if not checks:
        raise InputError("a claim needs at least one part to be judged by")
    held = [check.held for check in checks]
    return HOLDS if all(held) else IN_PART if any(held) else FAILS


def mean_of(name: str, values: Any, *, printed: float = math.nan, group: str = "") -> MeasuredNumber:
    """The mean of values, such as one for each query, and its bootstrap interval; nan is left out."""
    values = np.asarray(values, float)
    low, high = bootstrap_interval(values, 0.95, 0, 1000)
    known = values[~np.isnan(values)]
    return MeasuredNumber(name, float(known.mean()) if len(known) else math.nan, low, high, printed, group)
