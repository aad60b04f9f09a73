"""Notes on pairs: what experts write beside their votes, and pairs that they flag as broken."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from lookalike.core.errors import InputError
from lookalike.discovery.side_files import read_side_table, write_side_table

LONGEST = 1_000  # characters of a note
NOTE, FLAG, UNFLAG = "note", "flag", "unflag"
KINDS = (NOTE, FLAG, UNFLAG)

__all__ = ["FLAG", "KINDS", "LONGEST", "NOTE", "UNFLAG", "Note", "Notes", "clean_note", "read_notes"]

_ALL = "SELECT query, item, expert, kind, text, time FROM notes ORDER BY number"


class Note(NamedTuple):
    """What an expert, or a machine, wrote of a pair. kind: note, flag (the pair is broken) or unflag (it is not).

    text: may be empty for a flag. time: milliseconds since 1970.
    """

    query: str
    item: str
    expert: str
    kind: str
    text: str
    time: int


@dataclass(frozen=True)
class Notes:
    """All notes of a study, in the order in which they came. Notes are never changed.

    >>> notes = Notes((Note("q", "a", "ann", "flag", "", 1), Note("q", "b", "ann", "flag", "", 2),
    ...                Note("q", "b", "ann", "unflag", "", 3)))
    >>> notes.flagged
    frozenset({('q', 'a')})
    """

    rows: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Note]:
        return iter(self.rows)

    @cached_property
    def flagged(self) -> frozenset[tuple[str, str]]:
        """Pairs that somebody flags as broken: of each expert's flags, the last counts."""
        last = {(note.query, note.item, note.expert): note.kind for note in self.rows if note.kind != NOTE}
        return frozenset((query, item) for (query, item, _), kind in last.items() if kind == FLAG)

    @property
    def written(self) -> int:
        """How many notes there are, flags not counted."""
        return sum(note.kind == NOTE for note in self.rows)

    def without(self, experts: frozenset[str]) -> "Notes":
        """The notes of all but these experts."""
        return Notes(tuple(note for note in self.rows if note.expert not in experts))

    def write(self, path: str | Path, *, raw: bool = False) -> None:
        """Write to a .csv or .parquet file with the columns query, item, expert, kind, text and time."""
        write_side_table(path, "notes", Note._fields, self.rows, raw=raw)


def read_notes(path: Path) -> Notes:
    """All notes of a record of votes; none where nobody could write any yet."""
    return Notes(tuple(Note(*row) for row in read_side_table(path, "notes", _ALL, (str,) * 5 + (int,))))


def clean_note(kind: str, text: str) -> str:
    r"""The text of a note as it is kept: without space at its ends. Raises for a text that cannot be a note.

    >>> clean_note("note", " the handle differs\r\n"), clean_note("flag", "")
    ('the handle differs', '')
    """
    if kind not in KINDS:
        raise InputError(f"a note is of the kind {', '.join(KINDS)}, got {kind!r:.60}", parameter="kind", value=kind)
    if not isinstance(text, str):
        raise InputError(f"a note is text, got {type(text).__name__}", parameter="text")
    kept = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if kind == NOTE and not kept:
        raise InputError("a note needs some text, and this one is empty", parameter="text", value=text)
    if len(kept) > LONGEST:
        raise InputError(f"a note has at most {LONGEST:,} characters, got {len(kept):,}: make it shorter")
    if any("\ud800" <= sign <= "\udfff" or (sign < " " and sign not in "\n\t") or sign == "\x7f" for sign in kept):
        raise InputError("a note is text, and this one has signs that are none, such as a zero byte")
    return kept
