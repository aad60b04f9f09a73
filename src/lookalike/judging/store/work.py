"""What an operation of the store works with, within one transaction."""

from dataclasses import asdict, dataclass

import sqlalchemy as sa

from lookalike.judging.store.board import Board
from lookalike.judging.store.board_sync import Follower
from lookalike.judging.store.schema import EXPERTS, MACHINES
from lookalike.judging.store.types import Expert, VoteRefusedError, VoteRow

__all__ = ["StoreWork", "machine_names", "refuse_machines", "set_expert"]


@dataclass
class StoreWork:
    """A transaction with the board that goes with it."""

    connection: sa.Connection
    follower: Follower
    by_client: dict[str, VoteRow]  # the votes in the database with the ids of the answers of this transaction
    wrote: bool = False  # whether the operation wrote a table by itself, not by the board

    @property
    def board(self) -> Board:
        """The board as it is now."""
        assert self.follower.board is not None
        return self.follower.board


def set_expert(work: StoreWork, expert: Expert) -> Expert:
    """Add an expert, or replace what the database says of one."""
    work.connection.execute(sa.delete(EXPERTS).where(EXPERTS.c.name == expert.name))
    work.connection.execute(sa.insert(EXPERTS), asdict(expert))
    work.board.set_experts([*work.board.experts.values(), expert])
    work.wrote = True
    return expert


def machine_names(connection: sa.Connection) -> frozenset[str]:
    """The names under which machines judge."""
    return frozenset(connection.execute(sa.select(MACHINES.c.name)).scalars())


def refuse_machines(work: StoreWork, names: set[str]) -> None:
    """Raise where one of these names, which are to be people's, is that of a machine."""
    if machines := machine_names(work.connection) & names:
        raise VoteRefusedError(
            f"{min(machines)!r} is a machine in this study, and no person can judge under that name: choose another"
        )
