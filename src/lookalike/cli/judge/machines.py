"""Files of votes that hold answers of machines, as `lookalike judge import` reads them."""

from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.cli.studies import check_vote_ids, ids_of, read_votes
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.discovery import Votes
    from lookalike.judging.store.machine_votes import MachineVotes
    from lookalike.study.study import Study

__all__ = ["read_with_machines"]


def read_with_machines(
    study: "Study", file: Path, expert: str | None, machine: str | None
) -> tuple["Votes", list["MachineVotes"]]:
    """The votes of people in a file, and those of each machine. expert, machine: whose they all are, if the file does
    not say; else a column `machine` marks those of machines.
    """
    if expert is not None:
        return read_votes(study, file, expert), []
    from lookalike.discovery import Votes
    from lookalike.discovery.vote_files import read_vote_columns
    from lookalike.judging.store.machine_votes import MachineVotes

    columns, scale = read_vote_columns(file, study.scale, machine=machine)
    votes = Votes(*(columns[name] for name in ("query", "item", "expert", "answer", "time", "seconds")), scale=scale)
    check_vote_ids(file, votes, ids_of(study))
    study.check_pairs(votes.queries, votes.items, "voted")
    marked, why = columns.get("machine"), columns.get("why")
    if machine is not None:
        texts = [] if why is None else why.tolist()
        _check_texts(file, texts)
        return votes[:0], [MachineVotes(machine, votes, texts)]
    if marked is None:
        return votes, []
    machines = [
        MachineVotes(name, votes[marked & (votes.experts == name)]) for name in sorted(set(votes.experts[marked]))
    ]
    return votes[~marked], machines


def _check_texts(file: Path, texts: list[str]) -> None:
    """Raise for a text that cannot be a note, with its row."""
    from lookalike.discovery.notes import NOTE, clean_note

    for row, text in enumerate(texts):
        try:
            clean_note(NOTE, text or "-")
        except InputError as error:
            raise FileError(f"{file}, row {row + 1} below the head: {error}", path=file) from error
