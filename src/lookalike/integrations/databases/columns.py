"""Which column of a table is what: as the user says it, or the only one that can be meant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError
from lookalike.core.readers.choosing import LABEL_NAMES
from lookalike.core.readers.source import Columns

USUAL = {"id": ("id", "ids"), "label": LABEL_NAMES, "tags": ("tags",)}  # names that say what a column is
VECTORS = ("embeddings", "codes")
PLURALS = {"vector": "vectors", "id": "ids", "label": "labels", "tags": "tags", "group": "groups", "by": "parts"}

__all__ = ["ColumnRoles", "DatabaseColumn", "roles_of"]


@dataclass(frozen=True)
class DatabaseColumn:
    """A column of a table. kind: "embeddings", "codes", "value", "list" or "other". shown: its type in words.

    is_key: by itself it tells rows apart. base: of pgvector, its type's name without schema and length.
    """

    name: str
    kind: str
    shown: str
    is_key: bool = False
    base: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.shown})"


@dataclass(frozen=True)
class ColumnRoles:
    """Which column is what; None where there is none. notes: what was taken unasked, in sentences."""

    vector: DatabaseColumn
    id: DatabaseColumn | None = None
    label: DatabaseColumn | None = None
    tags: DatabaseColumn | None = None
    group: DatabaseColumn | None = None
    by: DatabaseColumn | None = None
    notes: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, DatabaseColumn]:
        """The columns beside the vectors, by their names in pages."""
        named = {"ids": self.id, "labels": self.label, "tags": self.tags, "groups": self.group, "by": self.by}
        return {name: field for name, field in named.items() if field is not None}


def roles_of(table: str, columns: Sequence[DatabaseColumn], named: Columns) -> ColumnRoles:
    """Which of a table's columns is what. table: what messages call it. named: what the user says; "" is no column.

    >>> columns = [DatabaseColumn("sku", "value", "text"), DatabaseColumn("emb", "embeddings", "vector(3)")]
    >>> roles_of("shop", columns, Columns()).vector.name
    'emb'
    """
    if named.label and named.tags:
        raise InputError(f"{table}: items are relevant by labels or by tags: name a column for one of them, not both")
    given = {role.name: _named(table, columns, role.name, getattr(named, role.name)) for role in fields(Columns)}
    vector = given.pop("vector") or _only_vector(table, columns)
    if named.id is None:
        given["id"] = next((field for field in columns if field.is_key), None) or _usual(table, columns, "id")
    if named.label is None and not named.tags:
        given["label"] = _usual(table, columns, "label")
    if named.tags is None and not given["label"]:
        given["tags"] = _usual(table, columns, "tags")
    every = {"vector": vector} | given
    found = [f"{PLURALS[role]} are {field}" for role, field in every.items() if field and getattr(named, role) is None]
    notes = (f"{table}: {', '.join(found)}",) if found else ()
    return ColumnRoles(vector, **given, notes=notes)


def _named(table: str, columns: Sequence[DatabaseColumn], role: str, name: str | None) -> DatabaseColumn | None:
    """The column that the user names for a role; None where none is named. Raises where it cannot be that."""
    if not name:
        return None
    field = next((field for field in columns if field.name == name), None)
    if field is None:
        guess = nearest(name, [field.name for field in columns])
        question = "" if guess is None else f", did you mean {guess!r}?"
        raise InputError(f"{table} has no column {name!r}{question}; it has {_listed(columns)}")
    kinds = {"vector": VECTORS, "tags": ("list",)}.get(role, ("value",))
    if field.kind not in kinds:
        raise InputError(f"{table}: the column {field} cannot hold {PLURALS[role]}; it has {_listed(columns)}")
    return field


def _only_vector(table: str, columns: Sequence[DatabaseColumn]) -> DatabaseColumn:
    """The one column that holds vectors."""
    vectors = [field for field in columns if field.kind in VECTORS]
    if not vectors:
        raise InputError(f"{table} has no column of vectors; it has {_listed(columns)}")
    if len(vectors) > 1:
        raise InputError(
            f"{table} has several columns of vectors, {_listed(vectors)}: name one, such as vector={vectors[0].name}"
        )
    return vectors[0]


def _usual(table: str, columns: Sequence[DatabaseColumn], role: str) -> DatabaseColumn | None:
    """The one column whose name says that it has this role; None where there is none."""
    kind = "list" if role == "tags" else "value"
    fitting = [field for field in columns if field.name.lower() in USUAL[role] and field.kind == kind]
    if len(fitting) > 1:
        raise InputError(
            f"{table} has several columns that may be {PLURALS[role]}, {_listed(fitting)}: name one, such as "
            f"{role}={fitting[0].name}"
        )
    return fitting[0] if fitting else None


def _listed(columns: Iterable[DatabaseColumn]) -> str:
    return ", ".join(map(str, columns)) or "no columns"
