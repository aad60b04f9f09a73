"""Experts as the organiser sees them: who came by the open link, who practises, and a table of everybody."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lookalike.discovery.agreement import agreement
from lookalike.judging.store.crowd import crowd_link, crowd_members, crowd_terms
from lookalike.judging.store.gates import CrowdMember, CrowdTerms
from lookalike.judging.store.practice import Practice, Practiser, practice_of, practisers
from lookalike.judging.store.types import Status

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study

EXPERT_COLUMNS = (
    *("expert", "link", "participant", "joined", "judged", "gold_asked", "gold_right"),
    *("practice", "practice_rounds", "completed", "screened_out", "revoked"),
)

__all__ = ["EXPERT_COLUMNS", "Participants", "expert_rows", "participants_of"]


@dataclass(frozen=True)
class Participants:
    """The crowd and the practice of a study. link: the number of the open link, None where it is closed."""

    terms: CrowdTerms | None
    link: int | None
    members: dict[str, CrowdMember]
    practice: Practice | None
    practisers: dict[str, Practiser]

    @property
    def waiting(self) -> list[Practiser]:
        """Experts who finished their practice below the score, and have not begun since."""
        return [one for one in self.practisers.values() if one.waits] if self.practice is not None else []

    @property
    def completed(self) -> int:
        """How many people of the crowd saw the completion code."""
        return sum(member.completed is not None for member in self.members.values())

    @property
    def screened(self) -> list[str]:
        """People of the crowd whose votes do not count."""
        return [name for name, member in self.members.items() if member.screened is not None]

    def state(self, name: str) -> str:
        """How far somebody of the crowd is, in a word."""
        member = self.members[name]
        if member.screened is not None:
            return "screened out"
        if member.completed is not None:
            return "completed"
        practised = self.practisers.get(name)
        if self.practice is not None and (practised is None or practised.how is None):
            return "practises"
        return "judges"


def participants_of(store: "Store") -> Participants:
    """The crowd and the practice at this moment."""
    practice = practice_of(store)
    members = {member.expert: member for member in crowd_members(store)}
    return Participants(crowd_terms(store), crowd_link(store), members, practice, practisers(store, practice))


def expert_rows(store: "Store", study: "Study", status: Status | None = None) -> list[dict[str, Any]]:
    """A row for each expert: how they came, what they judged, their gold pairs and practice, and how it ended."""
    status = status or store.status()
    people = participants_of(store)
    votes = store.votes()
    gold = {one.expert: one for one in agreement(votes, study.gold()).figures} if len(votes) else {}
    rows = []
    for row in status.experts:
        name = str(row["name"])
        member, practised, figures = people.members.get(name), people.practisers.get(name), gold.get(name)
        asked, right = (0, 0) if figures is None else (figures.gold_asked, figures.gold_right)
        practice = ("", 0) if practised is None else (practised.how or "not passed", practised.rounds)
        came: tuple[str, str, int | None, int | None, int | None] = ("personal", "", None, None, None)
        if member is not None:
            came = ("open", member.participant or "", member.joined, member.completed, member.screened)
        link, participant, *moments = came
        joined, completed, screened, revoked = map(_time, (*moments, row["revoked"]))
        values = (name, link, participant, joined, row["done"], asked, right, *practice, completed, screened, revoked)
        rows.append(dict(zip(EXPERT_COLUMNS, values, strict=True)))
    return rows


def _time(moment: Any) -> str:
    """Milliseconds since 1970 as text; empty where there is none."""
    if moment is None:
        return ""
    return datetime.fromtimestamp(int(moment) / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
