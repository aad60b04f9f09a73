"""Catalogue: the items of a collection, each with its product (identity), category and image file."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.codes import as_numpy
from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.endings import TABLES, either
from lookalike.core.errors import FileError, InputError
from lookalike.core.file_errors import within
from lookalike.core.files import digest, provenance, read_arrays, write_arrays
from lookalike.core.ids import text_array

COLUMNS = {"id": "ids", "identity": "identities", "category": "categories", "path": "paths"}

__all__ = ["Catalogue", "check_ids"]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items by id, with what is known of each. A catalogue is never changed.

    identities: the product that each item shows; without them each item is its own. paths: image files, absolute or
    relative: to the study in a study, to the file in a file that `lookalike study new` reads. attributes: further
    columns by name, text, numbers or booleans.

    >>> shop = Catalogue(["a", "b", "c"], categories=["shoe", "hat", "shoe"], attributes={"price": [20, 15, 30]})
    >>> shop
    Catalogue(3 items; category, price)
    >>> shop.positions(["c", "a"]), shop[shop.column("price") > 15].ids
    (array([2, 0]), array(['a', 'c'], dtype='<U1'))
    """

    ids: np.ndarray  # (n,) of str, all different
    identities: np.ndarray | None = None  # (n,) of str
    categories: np.ndarray | None = None  # (n,) of str, "" where there is none
    paths: np.ndarray | None = None  # (n,) of str
    attributes: dict[str, np.ndarray] = field(default_factory=dict)  # (n,) each

    def __post_init__(self) -> None:
        columns = {
            name: text_array(values, f"{name} of a catalogue")
            for name in COLUMNS.values()
            if (values := getattr(self, name)) is not None
        }
        check_ids(columns["ids"])
        attributes = {name: _attribute(name, values) for name, values in self.attributes.items()}
        for name in ("identities", "paths"):
            if (empty := np.flatnonzero(columns.get(name, columns["ids"]) == "")).size:
                raise InputError(f"{name} of a catalogue must be of every item or of none, row {empty[0]} is empty")
        for name, column in [*columns.items(), *attributes.items()]:
            if len(column) != len(columns["ids"]):
                raise InputError(f"a catalogue has {len(columns['ids'])} ids, but {len(column)} {name}")
            column.flags.writeable = False
        for name, column in columns.items():
            object.__setattr__(self, name, column)
        object.__setattr__(self, "attributes", attributes)

    @classmethod
    def read(cls, path: str | Path) -> "Catalogue":
        """Read a .csv or .parquet file with a column id and optional columns identity, category and path.

        Other columns are attributes. In CSV every value is text.
        """
        path = Path(path)
        if path.suffix == ".csv":
            table = read_csv(path, ["id"])
            check_ids(table.columns["id"], path, table.lines)
            columns = {name: text_array(values, f"column {name!r} of {path}") for name, values in table.columns.items()}
        elif path.suffix == ".parquet":
            columns, _ = read_arrays(path)
            if "id" not in columns:
                listed = ", ".join(map(repr, columns)) or "none"
                raise FileError(f"{path} must have a column 'id', got {listed}", path=path)
        else:
            raise FileError(f"cannot read a catalogue from {path}: the name must end in {either(TABLES)}", path=path)
        fields = {name: columns.pop(column) for column, name in COLUMNS.items() if column in columns}
        with within(path):
            return cls(**fields, attributes=columns)

    def write(self, path: str | Path, *, raw: bool = False) -> None:
        """Write to a .csv or .parquet file that `read` reads: Parquet keeps numbers as numbers.

        raw: in CSV, leave text as it is that a spreadsheet takes for a formula.
        """
        path = Path(path)
        if path.suffix == ".csv":
            write_csv(path, {name: column.tolist() for name, column in self._columns.items()}, raw=raw)
        elif path.suffix == ".parquet":
            write_arrays(path, self._columns, provenance("catalogue", digest=self.digest))
        else:
            raise FileError(f"cannot write a catalogue to {path}: the name must end in {either(TABLES)}", path=path)

    def column(self, name: str) -> np.ndarray:
        """A column by name: "id", "identity" (without identities the id), "category", "path" or an attribute."""
        if name == "identity" and self.identities is None:
            return self.ids
        if name in self._columns:
            return self._columns[name]
        similar = nearest(name, self._columns)
        advice = "" if similar is None else f", did you mean {similar!r}?"
        raise InputError(f"the catalogue has no column {name!r}{advice} (it has {', '.join(self._columns)})")

    def positions(self, ids: Any, what: str = "item", among: str = "in the catalogue") -> np.ndarray:
        """Positions of items by id. An error calls them `what`, and says that they are not `among` the items."""
        wanted = text_array(ids, f"{what} ids").tolist()
        unknown = [name for name in wanted if name not in self._position_of]
        if unknown:
            shown = ", ".join(map(repr, unknown[:3])) + (", …" if len(unknown) > 3 else "")
            example = f": ids there are like {str(self.ids[0])!r}" if len(self) else ", where there are none"
            raise InputError(f"{len(unknown)} of {len(wanted)} {what} ids are not {among}, {shown}{example}")
        return np.array([self._position_of[name] for name in wanted], np.int64)

    def draw(self, n: int, *, stratify: str | None = None, seed: int = 0) -> np.ndarray:
        """Positions of n items drawn at random without replacement, sorted.

        stratify: a column. Each of its values gets its share of n, rounded down, and the values with the largest
        remainders get one more. So none is off its share by one or more. Equal remainders are drawn at random.

        >>> shop = Catalogue([f"i{n}" for n in range(10)], categories=["shoe"] * 7 + ["hat"] * 3)
        >>> sorted(shop.categories[shop.draw(4, stratify="category")].tolist())      # shares 2.8 and 1.2
        ['hat', 'shoe', 'shoe', 'shoe']
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n <= len(self):
            raise InputError(f"the number of items to draw must be from 0 to {len(self)}, all there are, got {n!r}")
        rng = np.random.default_rng(seed)
        if stratify is None:
            return np.sort(rng.choice(len(self), n, replace=False))
        _, strata, sizes = np.unique(self.column(stratify), return_inverse=True, return_counts=True)
        if n == 0:
            return np.zeros(0, np.int64)
        shares, remainders = np.divmod(int(n) * sizes, len(self))
        tied = rng.permutation(len(sizes))
        most = tied[np.argsort(-remainders[tied], kind="stable")]
        shares[most[: n - shares.sum()]] += 1
        drawn = [
            rng.choice(np.flatnonzero(strata == stratum), share, replace=False) for stratum, share in enumerate(shares)
        ]
        return np.sort(np.concatenate(drawn))

    @property
    def digest(self) -> str:
        """A fingerprint of all columns and their names."""
        return digest(np.array(list(self._columns), str), *self._columns.values())

    def __contains__(self, name: object) -> bool:
        """Whether there is an item of this id."""
        return name in self._position_of

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Any) -> "Catalogue":
        """The items at these positions, or of a mask or a slice."""
        if not isinstance(rows, slice):
            rows = np.atleast_1d(as_numpy(rows))
            rows = rows if rows.size else rows.astype(np.int64)
        chosen = {
            name: None if column is None else column[rows]
            for name in COLUMNS.values()
            for column in [getattr(self, name)]
        }
        return Catalogue(**chosen, attributes={name: column[rows] for name, column in self.attributes.items()})  # type: ignore[arg-type]

    def __repr__(self) -> str:
        further = ", ".join(list(self._columns)[1:])
        return f"Catalogue({len(self):,} items{'; ' if further else ''}{further})"

    @functools.cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        """The columns that the catalogue has, by their names in files."""
        fields = {column: getattr(self, name) for column, name in COLUMNS.items()}
        return {name: values for name, values in fields.items() if values is not None} | self.attributes

    @functools.cached_property
    def _position_of(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.ids.tolist())}


def check_ids(ids: Any, path: Path | None = None, lines: Sequence[int] | None = None) -> None:
    """Raise where an id is empty or occurs twice. path, lines: the file that the ids are of, and the line of each."""

    def where(row: int) -> str:
        return f"row {row}" if lines is None else f"{path}, line {lines[row]}"

    def error(row: int, problem: str) -> InputError:
        sentence = f"{where(row)}: {problem}"
        return InputError(sentence) if lines is None else FileError(sentence, path=path, line=lines[row])

    first_row: dict[str, int] = {}
    for row, name in enumerate(list(ids)):
        if not name.strip():
            raise error(row, "the id is empty, every item needs one")
        if (before := first_row.setdefault(name, row)) != row:
            raise error(row, f"the id {str(name)!r} stands in {where(before)} too, ids must differ")


def _attribute(name: str, values: Any) -> np.ndarray:
    """A further column: text, booleans, or numbers of 64 bits."""
    if not isinstance(name, str) or not name.strip() or name in COLUMNS:
        raise InputError(f"an attribute needs a name other than {', '.join(COLUMNS)}, got {name!r}")
    array = as_numpy(values)
    if array.ndim == 1 and array.dtype.kind in "biuf":
        wide = {"b": bool, "i": np.int64, "u": np.int64 if array.dtype.itemsize < 8 else np.uint64, "f": np.float64}
        return array.astype(wide[array.dtype.kind])
    return text_array(values, f"attribute {name!r} of a catalogue")
