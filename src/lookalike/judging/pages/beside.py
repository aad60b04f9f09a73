"""What stands beside the votes of people on the organiser's pages: notes, flags, verdicts, and machines."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.discovery.machines import MachineAgreement, machine_agreement
from lookalike.discovery.notes import FLAG, NOTE, Note, Notes
from lookalike.discovery.verdicts import Verdicts
from lookalike.judging.pages.statistics import Disagreement
from lookalike.judging.store.remarks import all_notes, all_verdicts, machines

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store

__all__ = ["Beside"]


@dataclass(frozen=True, eq=False)
class Beside:
    """Notes, flags and verdicts of a moment, and how far machines agree with people.

    notes: of people; of_machines: of machines. unsettled: disagreements that have no verdict.
    """

    notes: Notes
    of_machines: Notes
    verdicts: Verdicts
    unsettled: tuple[Disagreement, ...]
    machines: MachineAgreement

    @classmethod
    def of(cls, store: "Store", disagreements: tuple[Disagreement, ...], gold: Any = None) -> "Beside":
        """Those of a store."""
        names, notes, verdicts = machines(store), all_notes(store), all_verdicts(store)
        of_people = notes.without(names)
        return cls(
            notes=of_people,
            of_machines=Notes(tuple(note for note in notes if note.expert in names)),
            verdicts=verdicts,
            unsettled=tuple(pair for pair in disagreements if (pair.query, pair.item) not in verdicts.by_pair),
            machines=_agreement(store, names, gold),
        )

    def on(self, query: str, item: str) -> list[Note]:
        """What people wrote of a pair, and its flags that still stand, the oldest first; to be shown without names."""
        here = [note for note in self.notes if (note.query, note.item) == (query, item)]
        flags = {note.expert: note for note in here if note.kind != NOTE}  # the last of each expert
        return [note for note in here if note.kind == NOTE or (note.kind == FLAG and flags[note.expert] is note)]


def _agreement(store: "Store", names: frozenset[str], gold: Any) -> MachineAgreement:
    if not names:
        return MachineAgreement()
    votes = store.votes(machines=True)
    of_machines = np.isin(votes.experts, sorted(names))
    return machine_agreement(votes[~of_machines], votes[of_machines], gold)
