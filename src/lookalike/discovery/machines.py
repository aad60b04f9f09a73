"""Machines as experts: how far a model that answers like an expert agrees with people."""

from dataclasses import dataclass
from typing import Any

from lookalike.core.text_table import aligned
from lookalike.discovery.agreement import ExpertFigures, agreement, figure_cells
from lookalike.discovery.votes import Votes
from lookalike.evaluation.results import shown

__all__ = ["MachineAgreement", "MachineFigures", "machine_agreement"]


@dataclass(frozen=True)
class MachineFigures:
    """The figures of one machine beside people. figures.with_others: its agreement with the majority of people.

    kappas: for each person (name, pairs that both decided, Cohen's kappa); nan where undefined.
    """

    figures: ExpertFigures
    kappas: tuple[tuple[str, int, float], ...]

    @property
    def name(self) -> str:
        """The name under which the machine judges."""
        return self.figures.expert

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        rows = [{"expert": name, "pairs": pairs, "kappa": kappa} for name, pairs, kappa in self.kappas]
        return {**vars(self.figures), "gold": self.figures.gold, "kappas": rows}


@dataclass(frozen=True)
class MachineAgreement:
    """The figures of every machine beside people; empty where no machine judges.

    positive: what a positive answer is called. kappa: what kappas are called, which on a scale are weighted.
    """

    machines: tuple[MachineFigures, ...] = ()
    positive: str = "similar"
    kappa: str = "Cohen's kappa"

    def __len__(self) -> int:
        return len(self.machines)

    def to_list(self) -> list[dict[str, Any]]:
        """A row for each machine."""
        return [machine.to_dict() for machine in self.machines]

    def __str__(self) -> str:
        head = ["machine", "votes", "decided", "can't tell", self.positive, "as people", "seconds", "changed", "gold"]
        rows = [head, *(figure_cells(machine.figures) for machine in self.machines)]
        people = sorted({name for machine in self.machines for name, _, _ in machine.kappas})
        kappas = [[self.kappa, *people]]
        for machine in self.machines:
            by_name = {name: shown(kappa) for name, _, kappa in machine.kappas}
            kappas.append([machine.name, *(by_name.get(name, "-") for name in people)])
        return f"{aligned(rows)}\n{aligned(kappas)}" if people else aligned(rows)

    __repr__ = __str__


def machine_agreement(people: Votes, of_machines: Votes, gold: Any = None, rel: int | None = None) -> MachineAgreement:
    """How far each machine agrees with people; no machine counts when another is compared.

    people, of_machines: their votes. gold: judgements, or rows (query, item, grade). rel: the lowest grade of a scale
    that is positive.

    >>> people = Votes(["q"] * 6, list("aabbcc"), ["ann", "bob"] * 3, [1, 1, 0, 0, 1, 0])
    >>> print(machine_agreement(people, Votes(["q"] * 3, list("abc"), ["vlm"] * 3, [1, 1, 1])))
    machine  votes  decided  can't tell  similar  as people  seconds  changed  gold
    vlm          3        3        0.0%   100.0%      50.0%        -        0     -
    Cohen's kappa     ann     bob
    vlm            0.0000  0.0000
    """
    words = agreement(people[:0], rel=rel)
    return MachineAgreement(
        tuple(
            _figures_of(name, people, of_machines[of_machines.experts == name], gold, rel)
            for name in sorted(set(of_machines.experts.tolist()))
        ),
        words.positive,
        words.names[2],
    )


def _figures_of(name: str, people: Votes, answers: Votes, gold: Any, rel: int | None) -> MachineFigures:
    both = agreement(people + answers, gold, rel)
    names = [figures.expert for figures in both.figures]
    at = names.index(name)
    kappas = tuple(
        (other, int(both.common[at, number]), float(both.kappa[at, number]))
        for number, other in enumerate(names)
        if number != at
    )
    return MachineFigures(both.figures[at], kappas)
