"""Which column of a table is what: as the user names it, as our files name it, or the only one that can be meant."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from lookalike.core.checks import nearest
from lookalike.core.errors import FileError, Option
from lookalike.core.readers.number_columns import NumberColumns
from lookalike.core.readers.source import Columns
from lookalike.core.readers.tables import NUMBERS, Field, FileTable
from lookalike.core.readers.text_vectors import is_vector_text

VECTORS = ("packed", "codes", "embeddings")  # names of ours; what stands first is taken where a file has several
OTHERS = ("labels", "attributes", "ids", "coarse_labels", "n_bits")
ROLES = {"id": "ids", "label": "labels", "tags": "labels", "group": "groups", "by": "by"}  # what pages call them
LABEL_NAMES = ("label", "labels", "class", "category", "target")
ID_NAMES = ("id", "image_id", "item_id")  # others, such as `name`, are often the same for several items

__all__ = ["LABEL_NAMES", "ROLES", "ChosenColumns", "VectorColumn", "choose_columns", "choose_values", "no_column"]


@dataclass(frozen=True)
class VectorColumn:
    """Where the vectors are. names: of one column, or of columns with a number each.

    own: the name of ours that it has, None for another. form: "matrix", "text" or "bytes".
    """

    title: str
    names: tuple[str, ...]
    form: str = "matrix"
    own: str | None = None
    guessed: bool = False
    octets: bool = False  # its numbers are of 8 bits, and may be packed codes


@dataclass(frozen=True)
class ChosenColumns:
    """The columns that are read. values: by the name of ours, the name in the file.

    guessed: those among them that nobody named. undecided: by the name of ours, columns that could all be meant.
    missing: what the user named and this file does not have, though another may.
    """

    vector: VectorColumn
    values: dict[str, str]
    guessed: tuple[str, ...] = ()
    undecided: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def choose_columns(table: FileTable, columns: Columns, *, labelled_elsewhere: bool = False) -> ChosenColumns:
    """The columns of items. labelled_elsewhere: labels are in a file of their own, which may have other columns too."""
    roles = {role: name for role, name in columns.named.items() if role != "vector"}
    if labelled_elsewhere:
        roles = {role: name for role, name in roles.items() if role not in ("label", "tags")}
    names = {each.name for each in table.fields}
    missing = tuple(role for role, name in roles.items() if name not in names) if labelled_elsewhere else ()
    values, guessed, undecided = choose_values(table, {role: n for role, n in roles.items() if role not in missing})
    if labelled_elsewhere and "labels" in guessed:
        del values["labels"]
    vector = _vector(table, columns.vector, {*values.values(), *roles.values()})
    for name in ("attributes", "coarse_labels"):
        if name in names:
            values.setdefault(name, name)
    if vector.own in ("packed", "codes") and "n_bits" in names:
        values["n_bits"] = "n_bits"
    return ChosenColumns(vector, values, tuple(name for name in guessed if name in values), undecided, missing)


def choose_values(
    table: FileTable, roles: dict[str, str], id_names: Sequence[str] = ID_NAMES
) -> tuple[dict[str, str], list[str], dict[str, tuple[str, ...]]]:
    """Columns of ids, labels, tags and groups, by the names of ours; those guessed; and those that are undecided.

    roles: what the user names. id_names: what ids may be called where nobody says it.
    """
    if "label" in roles and "tags" in roles:
        raise FileError("labels and tags are both given: pass either ", Option("label"), " or ", Option("tags"))
    fields = {each.name: each for each in table.fields}
    values: dict[str, str] = {}
    for role, name in roles.items():
        _check_value(table, fields, role, name)
        values[ROLES[role]] = name
    guessed, undecided = [], {}
    for ours, likely in (("labels", LABEL_NAMES), ("ids", tuple(id_names))):
        if ours in values:
            continue
        if ours in fields:
            values[ours] = ours
            continue
        possible = tuple(name for name, each in fields.items() if name.lower() in likely and each.is_value)
        if len(possible) == 1 and not table.about.get("lookalike"):
            values[ours] = possible[0]
            guessed.append(ours)
        elif possible:
            undecided[ours] = possible
    return values, guessed, undecided


def _check_value(table: FileTable, fields: dict[str, Field], role: str, name: str) -> None:
    """Raise if a column that the user names is not there, or cannot be what it is named for."""
    if name not in fields:
        raise no_column(table, name, role, fields)
    column = fields[name]
    if not column.kind:
        raise FileError(f"{table.noun} {name!r} of {table.name} cannot be read: {column.problem}", path=table.name)
    if role == "tags" and not (column.is_matrix and column.kind in NUMBERS):
        needed = "tags must be lists of 0 and 1, as long for every item"
        raise FileError(f"{table.noun} {name!r} of {table.name}: {needed}", path=table.name)
    if role in ("id", "group", "by") and not column.is_value:
        what = {"id": "ids", "group": "groups", "by": "values to split by"}[role]
        raise FileError(f"{table.noun} {name!r} of {table.name}: {what} must be one for each item", path=table.name)


def no_column(table: FileTable, name: str, role: str, names: Collection[str]) -> FileError:
    """The error that a column is not there, with those that are, the nearest name first."""
    if not table.noun:
        return FileError(f"{table.name} is one matrix without names: leave out ", Option(role, name), path=table.name)
    similar = nearest(name, names)
    ordered = sorted(names, key=lambda other: other != similar)
    return FileError(f"{table.name} has no {table.noun} {name!r}: it has {_listed(ordered)}", path=table.name)


def _vector(table: FileTable, name: str | None, taken: set[str]) -> VectorColumn:
    """The column of vectors. taken: columns that are something else."""
    fields = {each.name: each for each in table.fields}
    groups = NumberColumns.among(table.fields)
    if name is not None:
        return _named_vector(table, name, fields, groups)
    if not table.noun:
        return VectorColumn("", ("",))
    for own in VECTORS:
        if own in fields:
            return _of_field(fields[own], own=own)
    free = [each for each in table.fields if each.name not in {*taken, *OTHERS}]
    possible = [_of_field(each, guessed=True) for each in free if each.is_matrix]
    possible += [
        VectorColumn(group.title, group.names, guessed=True)
        for group in NumberColumns.among(free)
        if group.missing is None
    ]
    possible += [
        _of_field(each, guessed=True)
        for each in free
        if each.kind == "U" and each.shape == () and is_vector_text(each.sample)
    ]
    if len(possible) == 1:
        return possible[0]
    expected = f"expected {_an(table.noun)} 'codes' or 'packed', or 'embeddings'"
    if not possible:
        _check_texts(table, free)
        listed = f"; it has {_listed(list(fields))}" if fields else ""
        raise FileError(f"{table.name} holds no codes: {expected}{listed}{_problems(free)}", path=table.name)
    several = f"several could be the vectors: {_listed([each.title for each in possible])}"
    raise FileError(f"{table.name}: {several}; say which with ", Option("vector", possible[0].title), path=table.name)


def _check_texts(table: FileTable, fields: Sequence[Field]) -> None:
    """Raise if columns are numbered as those of vectors are, but some of them hold text."""
    kinds = {each.name: each.kind for each in fields}
    for group in NumberColumns.among(replace(each, kind="f") for each in fields if each.kind in (*NUMBERS, "U")):
        texts = [name for name in group.names if kinds[name] == "U"]
        if group.missing is None and 0 < len(texts) < len(group.names):
            span = f"{table.noun}s {group.names[0]!r} to {group.names[-1]!r}"
            raise FileError(f"{table.name}: {span} could be vectors, but {texts[0]!r} holds text", path=table.name)


def _named_vector(table: FileTable, name: str, fields: dict[str, Field], groups: list[NumberColumns]) -> VectorColumn:
    """The vectors that the user names: a column, or columns with a number each by what their names begin with."""
    if name in fields:
        column = fields[name]
        if not column.kind:
            raise FileError(f"{table.noun} {name!r} of {table.name} cannot be read: {column.problem}", path=table.name)
        if name not in VECTORS and len(column.shape) != 1 and column.kind not in "US":
            shape = "one number each, not a vector" if not column.shape else f"arrays of {column.shape} for each item"
            raise FileError(f"{table.noun} {name!r} of {table.name} holds {shape}", path=table.name)
        return _of_field(column, own=name if name in VECTORS else None)
    for group in groups:
        if group.is_called(name):
            if group.missing is not None:
                lacking = f"{group.prefix}{group.missing}"
                raise FileError(f"{table.name} has {group.names[0]!r} to {group.names[-1]!r}, but not {lacking!r}")
            return VectorColumn(group.title, group.names)
    alone = {each for group in groups for each in group.names}
    known = [each.title for each in groups] + [other for other in fields if other not in alone]
    raise no_column(table, name, "vector", known)


def _of_field(column: Field, own: str | None = None, guessed: bool = False) -> VectorColumn:
    form = "bytes" if column.kind == "S" else "matrix"
    if column.kind == "U" and column.shape == ():
        form = "text"
    return VectorColumn(column.name, (column.name,), form, own, guessed, column.octets)


def _problems(fields: Sequence[Field]) -> str:
    """What is wrong with columns that cannot be read, of which the first is told."""
    bad = [each for each in fields if each.problem]
    return f" ({bad[0].name!r} cannot be read: {bad[0].problem})" if bad else ""


def _an(noun: str) -> str:
    return f"an {noun}" if noun == "array" else f"a {noun}"


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
