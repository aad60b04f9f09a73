"""The organiser's numbers: how far the judging has come, how far experts agree, and where they do not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.discovery.agreement import Agreement, ExpertFigures, agreement
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.votes import Votes
from lookalike.judging.store.types import Status

__all__ = ["Disagreement", "Figures", "Line", "disagreements", "reading"]

RECENT = 15 * 60_000  # ms: answers of this last while say how fast it goes
QUICK = 1.0  # s: who takes less for half of the pairs may not be looking
BREAK = 600.0  # s: who takes longer for a pair was doing something else


@dataclass(frozen=True)
class Line:
    """One expert: what the store knows, and the figures of the votes, if there are any."""

    name: str
    done: int
    held: int
    later: int
    last: int | None  # ms
    expires: int | None
    revoked: int | None
    figures: ExpertFigures | None
    worked: float  # s, breaks not counted; nan where no answer says how long it took

    @property
    def quick(self) -> bool:
        """Whether half of the answers or more took less than a second."""
        return self.figures is not None and self.figures.median_seconds < QUICK


@dataclass(frozen=True)
class Disagreement:
    """A pair to which experts gave different grades, such as similar and not similar; and who says what."""

    query: str
    item: str
    answers: tuple[tuple[str, int], ...]  # experts by name, with their last answers

    def count(self, answer: int) -> int:
        """How many gave this answer."""
        return sum(given == answer for _, given in self.answers)


@dataclass(frozen=True, eq=False)
class Figures:
    """Everything on the organiser's page at one moment."""

    status: Status
    agreement: Agreement
    experts: tuple[Line, ...]
    disagreements: tuple[Disagreement, ...]
    undecided: int  # pairs with votes, all of them can't tell
    median_seconds: float
    per_minute: float  # answers of everybody, lately

    @classmethod
    def of(cls, status: Status, votes: Votes, gold: Judgements | None, now: int) -> "Figures":
        """Those of a status and its votes; now: ms since 1970."""
        agreed = agreement(votes, gold)
        by_name = {figures.expert: figures for figures in agreed.figures}
        ballots = votes.ballots
        decided = ballots.by_grade.sum(1)
        seconds = votes.seconds[~np.isnan(votes.seconds)]
        return cls(
            status=status,
            agreement=agreed,
            experts=tuple(
                _line(row, by_name.get(str(row["name"])), _worked(votes.seconds[votes.experts == row["name"]]))
                for row in status.experts
            ),
            disagreements=disagreements(votes),
            undecided=int((decided == 0).sum()),
            median_seconds=float(np.median(seconds)) if len(seconds) else math.nan,
            per_minute=_per_minute(votes, now),
        )

    @property
    def coverage(self) -> float:
        """Share of the answers that are wanted which are there; nan where nothing is wanted."""
        wanted = self.status.everybody_total
        return self.status.everybody_done / wanted if wanted else math.nan

    @property
    def left(self) -> int:
        """Answers that are still wanted."""
        return max(0, self.status.everybody_total - self.status.everybody_done)

    @property
    def hours_left(self) -> float:
        """Hours of one expert's work that are left, at the median speed; nan where that is not known."""
        return self.left * self.median_seconds / 3600

    @property
    def hours_to_end(self) -> float:
        """Hours until all is judged, if it goes on as lately; nan where nobody has judged lately."""
        return self.left / self.per_minute / 60 if self.per_minute else math.nan

    @property
    def kappas(self) -> tuple[float, float] | None:
        """The lowest and the highest of Cohen's kappas between two experts."""
        kappas = [row["kappa"] for row in self.agreement.kappa_rows() if not math.isnan(row["kappa"])]
        return (min(kappas), max(kappas)) if kappas else None


def disagreements(votes: Votes) -> tuple[Disagreement, ...]:
    """Pairs on which experts disagree, the most evenly split first, then those with the most answers.

    On a scale, those whose grades spread most, by their variance, come first: of two grades that is the same.

    >>> votes = Votes(["q"] * 5, list("aaabb"), ["ann", "bob", "eve", "ann", "bob"], [1, 1, 0, 0, 1])
    >>> [(pair.item, pair.count(1), pair.count(0)) for pair in disagreements(votes)]
    [('b', 1, 1), ('a', 2, 1)]
    """
    ballots = votes.ballots
    spread, decided = ballots.spread, ballots.by_grade.sum(1)
    split = np.flatnonzero(spread)
    order = split[np.lexsort((split, -decided[split], -spread[split]))]
    chosen = np.isin(ballots.pair, split)
    answers: dict[int, list[tuple[str, int]]] = {}
    for pair, expert, answer in zip(*(part[chosen].tolist() for part in _parts(ballots)), strict=True):
        answers.setdefault(pair, []).append((str(ballots.experts[expert]), answer))
    return tuple(
        Disagreement(str(ballots.queries[pair]), str(ballots.items[pair]), tuple(sorted(answers[pair])))
        for pair in order.tolist()
    )


def reading(alpha: float) -> str:
    """Krippendorff's alpha in words, by the bounds that he gives himself (Krippendorff 2004).

    >>> reading(0.85), reading(0.7), reading(0.2), reading(float("nan"))
    ('reliable', 'good enough for tentative conclusions', 'too low to rely on', 'not known yet')
    """
    if math.isnan(alpha):
        return "not known yet"
    if alpha >= 0.8:
        return "reliable"
    return "good enough for tentative conclusions" if alpha >= 0.667 else "too low to rely on"


def _parts(ballots: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return ballots.pair, ballots.expert, ballots.answers


def _line(row: Mapping[str, Any], figures: ExpertFigures | None, worked: float) -> Line:
    facts = {name: row[name] for name in ("name", "done", "held", "later", "last", "expires", "revoked")}
    return Line(**facts, figures=figures, worked=worked)


def _worked(seconds: np.ndarray) -> float:
    """Seconds that answers took together, without those that took longer than a break.

    >>> _worked(np.array([2.5, 4000.0, np.nan, 60.0]))
    62.5
    """
    measured = seconds[~np.isnan(seconds)]
    return float(measured[measured <= BREAK].sum()) if len(measured) else math.nan


def _per_minute(votes: Votes, now: int) -> float:
    times = votes.times[~np.isnat(votes.times)].astype(np.int64)
    recent = times[(times > now - RECENT) & (times <= now)]
    if not len(recent):
        return 0.0
    return len(recent) / max(1.0, (now - int(recent.min())) / 60_000)
