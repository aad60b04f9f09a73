"""The verdict on a reported number: which ways to count give it, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from lookalike.core.errors import InputError, Option
from lookalike.core.figures import shown

if TYPE_CHECKING:
    from lookalike.evaluation.audit.audit import AuditRow
    from lookalike.evaluation.audit.ways import Script

TOLERANCE = 1e-12  # what sums in another order may differ by
MOST_NAMED = 6  # numbers that a sentence lists

__all__ = ["Candidate", "Verdict", "check_reported", "verdict"]


@dataclass(frozen=True)
class Candidate:
    """A number that somebody may have printed: what it is called, in which order ties were, and its row."""

    name: str
    order: str
    value: float
    row: "AuditRow"
    script: "Script | None" = None

    @property
    def text(self) -> str:
        """The number in words."""
        if self.script is not None:
            return f"{self.name} ({shown(self.value)})"
        order = {"expected": "exact expectation", "numpy": "numpy's argsort", "names": "ties by id"}
        return f"{self.name}, {order.get(self.order, self.order)} ({shown(self.value)})"


@dataclass(frozen=True)
class Verdict:
    """What an audit says of a reported number.

    digits: after the point, as it was given. matches: the numbers that round to it, scripts first. nearest: the
    nearest number of all. possible: the rows for which some order of the ties could give it.
    """

    reported: float
    digits: int
    matches: list[Candidate]
    nearest: Candidate
    possible: "list[AuditRow]"

    @property
    def scripts(self) -> list[str]:
        """The names of the scripts that give it."""
        return list(dict.fromkeys(one.name for one in self.matches if one.script is not None))

    @property
    def number(self) -> str:
        """The number as it was reported."""
        return f"{self.reported:.{self.digits}f}"

    def sentences(self) -> list[str]:
        """The verdict in words, and what it does not say."""
        distance = abs(self.nearest.value - self.reported)
        if not self.matches:
            nearest = f"The nearest is {self.nearest.text}, {distance:.2g} away."
            out = [f"No number here is {self.number}. {nearest}"]
            if self.possible:
                names = _listed([row.name for row in self.possible])
                out.append(f"Another order of tied items could give it, counted as {names}.")
            else:
                out.append("No order of tied items gives it: it comes from other codes, labels or another metric.")
        elif len(self.scripts) == 1:
            out = [f"{self.number} is what this script gives: {self.matches[0].text}."]
        elif self.scripts:
            texts = list(dict.fromkeys(one.text for one in self.matches if one.script is not None))
            out = [f"{self.number} is what {len(texts)} scripts give: {_listed(texts)}. It cannot tell them apart."]
        else:
            texts = list(dict.fromkeys(one.text for one in self.matches))
            out = [f"{self.number} is the number of none of the scripts here, but of this: {_listed(texts)}."]
        others = len({one.text for one in self.matches}) - len(self.scripts)
        if self.scripts and others:
            ways = "other way to count or to order ties rounds" if others == 1 else "other ways … round"
            out.append(f"{others} {ways.replace('…', 'to count or to order ties')} to it too; more digits tell more.")
        return [*out, self.range]

    @property
    def range(self) -> str:
        """What the order of ties alone could have made of it."""
        if not self.matches and not self.possible:
            return self.nearest.row.range
        row = self.matches[0].row if self.matches else self.possible[0]
        exact = "" if row.expected != row.expected else f"; the exact expectation is {shown(row.expected)}"
        return (
            f"The reported {self.number} could have been anything from {shown(row.low)} to {shown(row.high)}, by the "
            f"order of tied items alone (counted as {row.name}){exact}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values."""

        def plain(one: Candidate) -> dict[str, Any]:
            return {
                "name": one.name,
                "script": one.script is not None,
                "order": one.order,
                "counted": one.row.name,
                "value": one.value,
            }

        return {
            "reported": self.reported,
            "digits": self.digits,
            "scripts": self.scripts,
            "matches": [plain(one) for one in self.matches],
            "nearest": plain(self.nearest),
            "possible": [row.name for row in self.possible],
            "sentences": self.sentences(),
        }


def verdict(reported: str | float, numbers: Sequence[Candidate], rows: "Sequence[AuditRow]") -> Verdict:
    """Compare a reported number with all numbers of an audit."""
    value, digits = check_reported(reported)
    half = 0.5 * 10.0**-digits + TOLERANCE

    def distance(one: Candidate) -> float:
        return abs(one.value - value)

    # of numbers that are equally near, a script is named first
    ordered = sorted(numbers, key=lambda one: (round(distance(one), 12), one.script is None))
    matches = sorted((one for one in ordered if distance(one) <= half), key=lambda one: one.script is None)
    possible = [row for row in rows if row.worst - half <= value <= row.best + half]
    return Verdict(value, digits, matches, ordered[0], possible)


def check_reported(reported: str | float) -> tuple[float, int]:
    """A reported number, and how many digits it has after the point; raises where it cannot be one."""
    try:
        number = Decimal(str(reported).strip())
    except InvalidOperation:
        raise InputError(Option("reported"), f" must be a number such as 0.82, got {reported!r}") from None
    if not number.is_finite() or not 0 <= number <= 1:
        percent = f": write {number / 100} for {number} %" if number.is_finite() and 1 < number <= 100 else ""
        raise InputError(Option("reported"), f" must be from 0 to 1, got {reported}{percent}")
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent >= 0:
        raise InputError(Option("reported"), f" needs digits after the point, such as 0.82, got {reported}")
    return float(number), -exponent


def _listed(texts: Sequence[str]) -> str:
    """Texts in a sentence, the first few of many."""
    first = list(texts[:MOST_NAMED])
    return "; ".join(first) + (f"; and {len(texts) - len(first)} more" if len(texts) > len(first) else "")
