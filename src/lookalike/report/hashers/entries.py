"""Trials as a report shows them: every hasher with a name of its own, numbers by name, lengths in order."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lookalike.experiments.trials import Trial, Trials

__all__ = ["HasherComparison", "HasherEntry"]


@dataclass(frozen=True, eq=False)
class HasherEntry:
    """A trial under a name that no other trial of its length has."""

    hasher: str
    trial: Trial

    @property
    def bits(self) -> int:
        """Length of the codes."""
        return self.trial.n_bits

    @functools.cached_property
    def numbers(self) -> dict[str, Any]:
        """The trial's row, and the range that ties leave open."""
        row = self.trial.row()
        return row | {"ties": row["best"] - row["worst"]}

    def __getitem__(self, name: str) -> float:
        """A number by name; nan where it is unknown."""
        value = self.numbers[name]
        return float("nan") if value is None else float(value)


class HasherComparison:
    """The entries of all trials. hashers: in the order of the trials. lengths: from short to long."""

    def __init__(self, trials: Trials) -> None:
        self.task, self.exact, self.left_out = trials.task, trials.exact, trials.left_out
        self.entries: list[HasherEntry] = []
        names: set[tuple[str, int]] = set()
        for trial in trials.trials:
            name, again = str(trial.name), 1
            while (name, trial.n_bits) in names:
                again += 1
                name = f"{trial.name} ({again})"
            names.add((name, trial.n_bits))
            self.entries.append(HasherEntry(name, trial))
        self.hashers = list(dict.fromkeys(entry.hasher for entry in self.entries))
        self.lengths = sorted({entry.bits for entry in self.entries})
        self.n_queries, self.n_items = len(trials.trials[0].queries), len(trials.trials[0].gallery)

    def of_length(self, bits: int) -> list[HasherEntry]:
        """The entries of one length."""
        return [entry for entry in self.entries if entry.bits == bits]

    def of_hasher(self, hasher: str) -> list[HasherEntry]:
        """The entries of one hasher, from short to long codes."""
        return sorted((entry for entry in self.entries if entry.hasher == hasher), key=lambda entry: entry.bits)

    def top(
        self, name: str, among: list[HasherEntry] | None = None, choose: Callable[..., HasherEntry] = max
    ) -> HasherEntry | None:
        """The entry whose number is the largest (or, with min, the smallest); None where none is measured."""
        measured = [entry for entry in among or self.entries if not math.isnan(entry[name])]
        return choose(measured, key=lambda entry: entry[name]) if measured else None

    @property
    def exact_name(self) -> str:
        """The name of the search by features without hashing, with their similarity."""
        return f"no hashing ({self.exact.about['similarity']})" if self.exact is not None else ""

    @property
    def exact_score(self) -> float:
        """mAP without hashing; nan if nobody measured it."""
        return self.exact["AP"].mean if self.exact is not None else float("nan")
