"""A catalogue comes back from every file as it was, draws fairly, and names what is wrong with it.

What a vacuous test would let pass: ids that are easy (no commas, no quotes, no line ends, no accents); a draw that is
proportional only where shares are whole numbers; an error that names no row, line or file.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.ids import text_array
from lookalike.discovery.catalogue import Catalogue

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
IDS = TEXT.filter(str.strip)
NASTY = [
    "a,b",
    'say "hi"',
    "two\nlines",
    "two\r\nlines",
    "a\rb",
    " padded ",
    "naïve 靴",
    "\ufeffmark",
    "é",
    "a\x1fb",
    "long" * 200,
    "0",
    "-",
]
catalogue_of: Any = Catalogue  # of lists, as users write
SHOP: Catalogue = catalogue_of(["a", "b", "c"], categories=["shoe", "hat", "shoe"], attributes={"price": [20, 15, 30]})


def assert_same(one: Catalogue, other: Catalogue) -> None:
    for field in fields(Catalogue)[:4]:
        left, right = getattr(one, field.name), getattr(other, field.name)
        assert (left is None) == (right is None), field.name
        if left is not None:
            assert left.dtype.kind == right.dtype.kind == "U"
            assert left.tolist() == right.tolist()
    assert list(one.attributes) == list(other.attributes)
    for name, column in one.attributes.items():
        assert column.dtype.kind == other.attributes[name].dtype.kind
        np.testing.assert_array_equal(column, other.attributes[name])
    assert one.digest == other.digest


@st.composite
def catalogues(draw: st.DrawFn, *, texts_only: bool = False, min_size: int = 0) -> Catalogue:
    ids = draw(st.lists(st.one_of(IDS, st.sampled_from(NASTY)), unique=True, min_size=min_size, max_size=8))
    n = len(ids)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    kinds = [TEXT] if texts_only else [TEXT, st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans()]
    names = draw(st.lists(IDS.map(str.strip).filter(lambda name: name not in KNOWN), unique=True, max_size=3))
    dtypes = {0: str, 1: np.int64, 2: float, 3: bool}
    attributes: dict[str, Any] = {}
    for name in names:
        kind = draw(st.integers(0, len(kinds) - 1))
        attributes[name] = np.array(column(kinds[kind]), dtypes[kind])
    return catalogue_of(
        ids,
        column(IDS) if draw(st.booleans()) else None,
        column(TEXT) if draw(st.booleans()) else None,
        column(IDS) if draw(st.booleans()) else None,
        attributes,
    )


KNOWN = ("id", "identity", "category", "path")


# Files


@given(catalogues())
def test_parquet_gives_back_everything(tmp_path_factory: pytest.TempPathFactory, catalogue: Catalogue) -> None:
    path = tmp_path_factory.mktemp("catalogue") / "catalogue.parquet"
    catalogue.write(path)
    assert_same(Catalogue.read(path), catalogue)


@given(catalogues(texts_only=True))
@example(catalogue_of(NASTY, NASTY, NASTY, NASTY, {"colour": NASTY}))
def test_csv_gives_back_all_text(tmp_path_factory: pytest.TempPathFactory, catalogue: Catalogue) -> None:
    path = tmp_path_factory.mktemp("catalogue") / "catalogue.csv"
    catalogue.write(path)
    assert_same(Catalogue.read(str(path)), catalogue)


def test_csv_has_numbers_as_text(tmp_path: Path) -> None:
    replace(SHOP, attributes={"price": np.array([0.1, np.nan, 3]), "new": np.array([True, False, True])}).write(
        tmp_path / "shop.csv"
    )
    assert (tmp_path / "shop.csv").read_text() == (
        'id,category,price,new\na,shoe,0.1,True\nb,hat,"",False\nc,shoe,3.0,True\n'.replace('""', "")
    )
    again = Catalogue.read(tmp_path / "shop.csv")
    assert again.column("price").tolist() == ["0.1", "", "3.0"]


def test_csv_that_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_bytes("\ufeff, id ,category\r\n0,a,shoe\r\n\r\n1,é,\r\n".encode())  # Excel's mark, pandas' index
    shop = Catalogue.read(path)
    assert shop.ids.tolist() == ["a", "é"]
    assert shop.categories is not None
    assert shop.categories.tolist() == ["shoe", ""]
    assert shop.attributes == {}


def test_parquet_that_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "shop.parquet"
    columns = {
        "id": pa.array([7, 8]),
        "identity": pa.array(["x", "y"]).dictionary_encode(),
        "width": pa.array([1, 2], pa.uint8()),
        "weight": pa.array([0.5, 1.5], pa.float32()),
        "since": pa.array([0, 86_400_000], pa.timestamp("ms")),
    }
    pq.write_table(pa.table(columns), path)
    shop = Catalogue.read(path)
    assert shop.ids.tolist() == ["7", "8"]
    assert shop.column("identity").tolist() == ["x", "y"]
    assert shop.column("width").dtype == np.int64
    assert shop.column("weight").dtype == np.float64
    assert shop.column("since").tolist() == ["1970-01-01T00:00:00.000", "1970-01-02T00:00:00.000"]
    shop.write(path)
    assert_same(Catalogue.read(path), shop)


def test_parquet_says_what_it_is(tmp_path: Path) -> None:
    SHOP.write(tmp_path / "shop.parquet")
    schema = pq.read_schema(tmp_path / "shop.parquet")
    assert schema.names == ["id", "category", "price"]
    assert b'"lookalike": "catalogue"' in schema.metadata[b"lookalike"]
    assert SHOP.digest.encode() in schema.metadata[b"lookalike"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"first line of .*shop.csv must name its columns, 'id' among them, got nothing"),
        ("name,category\na,b\n", "'id' among them, got 'name', 'category'"),
        ("id;category\na;b\n", "'id' among them, got 'id;category'"),
        ("id,id\na,b\n", "names the column 'id' twice"),
        ("id,category\na,b\nb\n", r"shop.csv, line 3: 2 values are expected, as in line 1, got 1"),
        ('id,category\n"a\nb",c\nd,e,f\n', "line 4: 2 values are expected"),
        ('id,category\na,b\n"c\nd"\n', "line 3: 2 values are expected"),
        ("id\na\n\nb\na\n", r"line 5: the id 'a' stands in .*shop.csv, line 2 too"),
        ('id,x\na,1\n"",2\n', "line 3: the id is empty"),
        ("id,x\na,1\n  ,2\n", "line 3: the id is empty"),
        ("id,identity\na,x\nb,\n", "shop.csv: identities .* must be of every item or of none, row 1 is empty"),
        ("id,path\na,\nb,x\n", "shop.csv: paths .* row 0 is empty"),
        ('id\n"a\n', "shop.csv is not a CSV file in UTF-8: unexpected end of data"),
        ("id\n\xff\n", "not a CSV file in UTF-8"),
        ("id\na\0b\n", r"column 'id' of .*shop.csv must not hold a zero byte, got 'a\\x00b' in row 0"),
    ],
)
def test_bad_csv_is_named(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=sentence):
        Catalogue.read(path)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"name": ["a"]}, "shop.parquet must have a column 'id', got 'name'"),
        ({"id": ["a", "a"]}, "shop.parquet: row 1: the id 'a' stands in row 0 too"),
        ({"id": ["a", None]}, "column 'id' of .*shop.parquet has 1 empty values"),
        ({"id": [1.5]}, "shop.parquet: ids of a catalogue must be text or whole numbers, got 1.5 in row 0"),
        (
            {"id": ["a"], "box": [[1, 2]]},
            r"attribute 'box' of a catalogue must be one for each item, got shape \(1, 2\)",
        ),
    ],
)
def test_bad_parquet_is_named(columns: dict[str, list[Any]], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match=sentence):
        Catalogue.read(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.csv"):
        Catalogue.read(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.parquet"):
        Catalogue.read(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"cannot read a catalogue from .*shop\.xls: the name must end in"):
        Catalogue.read(tmp_path / "shop.xls")
    with pytest.raises(ValueError, match=r"cannot write a catalogue to .*shop\.xls: the name must end in"):
        SHOP.write(tmp_path / "shop.xls")
    (tmp_path / "shop.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match=r"shop\.parquet is not a readable Parquet file"):
        Catalogue.read(tmp_path / "shop.parquet")


SIGNS = st.sampled_from("'=+-@\t\r\n \uff1d\uff0b\uff0d\uff20\",;a1")
TEXTS = st.text(SIGNS | st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=8)
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


@given(st.lists(TEXTS), TEXTS.map(str.strip).filter(bool))
def test_every_text_comes_back_from_csv_and_none_is_a_formula(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "texts.csv"
    write_csv(path, {name: texts, f"x{name}": [-1.5] * len(texts)})
    assert read_csv(path, [name]).columns[name] == texts
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert not any(row[0].startswith(FORMULAS) for row in rows)
    assert all(row[1] == "-1.5" for row in rows[1:])


def test_the_csv_of_others_is_read_as_it_is_but_for_marked_formulas(tmp_path: Path) -> None:
    path = tmp_path / "foreign.csv"
    there = ["'abc", "''", "'", "=1", "-2", "@x", "'a=1", "' =1", "'=1", "''=1", "'-2"]
    path.write_text("id\n" + "\n".join(there) + "\n", encoding="utf-8")
    assert read_csv(path, ["id"]).columns["id"] == [*there[:8], "=1", "'=1", "-2"]
    write_csv(path, {"id": there}, raw=True)
    assert path.read_text(encoding="utf-8").splitlines()[1:] == there


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, {"id": ["a"]})
    with pytest.raises(ValueError, match="zip"):
        write_csv(path, {"id": ["b", "c"], "x": ["d"]})
    assert read_csv(path, ["id"]).columns == {"id": ["a"]}
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


# What a catalogue is


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: catalogue_of(["a", "b", "a"]), "row 2: the id 'a' stands in row 0 too, ids must differ"),
        (lambda: catalogue_of(["a", ""]), "row 1: the id is empty"),
        (lambda: catalogue_of(["a\0", "a"]), r"must not hold a zero byte, got 'a\\x00' in row 0"),
        (lambda: catalogue_of(["a", "\ud800"]), r"must be valid Unicode, got '\\ud800' in row 1"),
        (lambda: catalogue_of(["?", "a\udcff"]), "must be valid Unicode, got .* in row 1"),
        (lambda: catalogue_of([1.0]), "text or whole numbers, got 1.0 in row 0"),
        (lambda: catalogue_of(["a", True]), "text or whole numbers, got True in row 1"),
        (lambda: catalogue_of(["a", None]), "text or whole numbers, got None in row 1"),
        (lambda: catalogue_of("abc"), r"ids of a catalogue must be one for each item, got shape \(\)"),
        (lambda: catalogue_of([["a"]]), "text or whole numbers, got .* in row 0"),
        (lambda: catalogue_of(["a"], ["x", "y"]), "1 ids, but 2 identities"),
        (lambda: catalogue_of(["a"], attributes={"price": [1, 2]}), "1 ids, but 2 price"),
        (
            lambda: catalogue_of(["a"], attributes={"id": ["b"]}),
            "a name other than id, identity, category, path, got 'id'",
        ),
        (lambda: catalogue_of(["a"], attributes={" ": ["b"]}), "a name other than"),
        (lambda: catalogue_of(["a"], attributes={"x": [1j]}), "attribute 'x' .* got 1j in row 0"),
        (lambda: SHOP[[0, 0]], "row 1: the id 'a' stands in row 0 too"),
    ],
)
def test_what_is_no_catalogue(make: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()


def test_ids_of_every_kind_are_text() -> None:
    for given_ids in ([7, 8], (7, "8"), np.array([7, 8]), np.array(["7", "8"], object), np.array([b"7", b"8"])):
        assert text_array(given_ids, "ids").tolist() == ["7", "8"]
    assert text_array(pa.array(["7", "8"]), "ids").tolist() == ["7", "8"]
    assert text_array([], "ids").dtype.kind == "U"


def test_an_attribute_may_be_named_like_a_column_of_python() -> None:
    shop = catalogue_of(["a"], attributes={"ids": [1], "paths": [""]})
    assert shop.column("ids").tolist() == [1]
    assert shop.column("paths").tolist() == [""]


def test_a_catalogue_does_not_change() -> None:
    ids = np.array(["a", "b"])
    shop = Catalogue(ids)
    ids[0] = "z"
    assert shop.ids.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="read-only"):
        shop.ids[0] = "z"


def test_rows() -> None:
    for rows in ([2, 0], np.array([2, 0])):
        assert SHOP[rows].ids.tolist() == ["c", "a"]
        assert SHOP[rows].column("price").tolist() == [30, 20]
    assert SHOP[np.array([True, False, True])].ids.tolist() == ["a", "c"]
    assert SHOP[1].ids.tolist() == ["b"]
    assert SHOP[1:].column("category").tolist() == ["hat", "shoe"]
    assert len(SHOP[[]]) == 0
    assert SHOP[[0]].identities is None
    whole = catalogue_of(["long name", "b"])
    assert whole[[1]].digest == catalogue_of(["b"]).digest


def test_columns() -> None:
    assert SHOP.column("identity").tolist() == ["a", "b", "c"]
    assert SHOP.column("id").tolist() == ["a", "b", "c"]
    assert replace(SHOP, identities=np.array(["x", "x", "y"])).column("identity").tolist() == ["x", "x", "y"]
    with pytest.raises(
        ValueError, match=r"no column 'categry', did you mean 'category'\? \(it has id, category, price\)"
    ):
        SHOP.column("categry")
    with pytest.raises(ValueError, match=r"no column 'path' \(it has id, category, price\)"):
        SHOP.column("path")


def test_positions() -> None:
    assert SHOP.positions(["c", "a", "c"]).tolist() == [2, 0, 2]
    assert SHOP.positions([]).dtype == np.int64
    with pytest.raises(ValueError, match="2 of 3 query ids are not in the catalogue, 'x', 'y': ids there are like 'a'"):
        SHOP.positions(["x", "a", "y"], "query")
    with pytest.raises(ValueError, match=r"4 of 4 item ids .* 'p', 'q', 'r', …: ids there"):
        SHOP.positions(list("pqrs"))
    with pytest.raises(ValueError, match="where there are none"):
        SHOP[[]].positions(["a"])


def test_fingerprints_tell_columns_apart() -> None:
    digests = {
        catalogue_of(["a", "b"]).digest,
        catalogue_of(["ab", "b"]).digest,
        catalogue_of(["a", "b"], ["x", "y"]).digest,
        catalogue_of(["a", "b"], categories=["x", "y"]).digest,
        catalogue_of(["a", "b"], attributes={"n": ["x", "y"]}).digest,
    }
    assert len(digests) == 5


# Drawing


@given(
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=40),
    st.integers(0, 40),
    st.integers(0, 5),
)
def test_a_draw_is_shared_out_by_largest_remainders(categories: list[str], n: int, seed: int) -> None:
    n = min(n, len(categories))
    shop = catalogue_of([f"i{row}" for row in range(len(categories))], categories=categories)
    drawn = shop.draw(n, stratify="category", seed=seed)
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert len(drawn) == n
    found = Counter(np.array(categories)[drawn].tolist())
    shares = {name: Fraction(n * size, len(categories)) for name, size in Counter(categories).items()}
    assert all(abs(found[name] - share) < 1 for name, share in shares.items())
    more = [share % 1 for name, share in shares.items() if found[name] > share]
    less = [share % 1 for name, share in shares.items() if found[name] < share]
    assert not more or not less or min(more) >= max(less)


def test_a_draw_is_random_and_can_be_repeated() -> None:
    shop = catalogue_of([str(row) for row in range(50)], categories=["x", "y"] * 25)
    for stratify in (None, "category"):
        draws = [shop.draw(5, stratify=stratify, seed=seed) for seed in range(400)]
        assert draws[3].tolist() == shop.draw(5, stratify=stratify, seed=3).tolist()
        assert all(len(set(draw.tolist())) == 5 and (np.diff(draw) > 0).all() for draw in draws)
        counts = np.bincount(np.concatenate(draws), minlength=50)  # 40 expected of each, deviation 6
        assert counts.min() > 10
        assert counts.max() < 75
    odd = [Counter(shop.categories[draw].tolist())["x"] for draw in draws]
    assert 130 < odd.count(3) < 270  # shares 2.5 and 2.5: who gets the third is drawn


def test_everything_or_nothing_can_be_drawn() -> None:
    for stratify in (None, "category", "price"):
        assert SHOP.draw(3, stratify=stratify).tolist() == [0, 1, 2]
        assert SHOP.draw(0, stratify=stratify).tolist() == []
    wrong: Any
    for wrong in (4, -1, 1.0, True):
        with pytest.raises(ValueError, match=re.escape(f"from 0 to 3, all there are, got {wrong!r}")):
            SHOP.draw(wrong)
    with pytest.raises(ValueError, match="no column 'colour'"):
        SHOP.draw(1, stratify="colour")
