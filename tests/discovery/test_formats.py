"""Files that others read: the released benchmark's JSON, TREC, CSV and Parquet; what is written is what is read.

What a vacuous test would let pass: round trips of easy ids only; a conversion that loses the order, a grade or the last
digit of a score; an error without the entry or the line; a file half written.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lookalike as la
from lookalike.discovery import formats
from lookalike.discovery.catalogue import Catalogue
from lookalike.evaluation.relevance import MAX_GRADE, Judged
from lookalike.evaluation.trec import read_qrels, read_run, write_qrels, write_run

catalogue_of: Any = Catalogue  # of lists, as users write
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
IDS = TEXT.filter(str.strip)
WORDS = TEXT.filter(lambda text: text.split() == [text] and not text.startswith("\ufeff"))
ENDINGS = ("json", "csv", "parquet", "qrels", "txt", "trec", "qrels.gz", "trec.gz")
METADATA: dict[str, list[dict[str, Any]]] = {
    "images": [
        {"id": "id_01", "path": "img/WOMEN/id_01/01_1_front.jpg", "phase": "query", "bbox": [1, 2, 30, 40],
         "category": "Dresses", "color": "Bleu foncé"},
        {"id": "id_01", "path": "img/WOMEN/id_01/02_3_back.jpg", "phase": "gallery"},
        {"id": "id_02", "path": "img/MEN/id_02/01_1_front.jpg", "phase": "train",
         "bbox": {"x1": 1, "y1": 2.5, "x2": 30, "y2": 40}},
    ]
}  # fmt: skip


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def rows_of(
    ids: st.SearchStrategy[str], grades: st.SearchStrategy[int]
) -> st.SearchStrategy[list[tuple[str, str, int]]]:
    pairs = st.lists(st.tuples(ids, ids), unique=True, min_size=1, max_size=8)
    return pairs.flatmap(
        lambda found: st.lists(grades, min_size=len(found), max_size=len(found)).map(
            lambda values: [(*pair, grade) for pair, grade in zip(found, values, strict=True)]
        )
    )


# The released benchmark


def test_metadata_is_a_catalogue(tmp_path: Path) -> None:
    catalogue = formats.read_metadata(written(tmp_path / "metadata.json", METADATA))
    assert catalogue.ids.tolist() == [entry["path"] for entry in METADATA["images"]]
    assert catalogue.column("path").tolist() == catalogue.ids.tolist()
    assert catalogue.column("identity").tolist() == ["id_01", "id_01", "id_02"]
    assert catalogue.column("category").tolist() == ["Dresses", "", ""]
    assert catalogue.column("phase").tolist() == ["query", "gallery", "train"]
    assert catalogue.column("color").tolist() == ["Bleu foncé", "", ""]
    assert [text and json.loads(text) for text in catalogue.column("bbox").tolist()] == [
        [1, 2, 30, 40],
        "",
        {"x1": 1, "y1": 2.5, "x2": 30, "y2": 40},
    ]
    formats.write_metadata(tmp_path / "again.json", catalogue)
    assert json.loads((tmp_path / "again.json").read_text("utf-8")) == METADATA


@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": IDS, "path": IDS, "phase": IDS},
            optional={
                "category": IDS,
                "color": IDS,
                "bbox": st.lists(st.integers(), min_size=4, max_size=4),
                "season": IDS,
            },
        ),
        unique_by=lambda entry: entry["path"],
        max_size=6,
    )
)
def test_metadata_comes_back(tmp_path_factory: pytest.TempPathFactory, images: list[dict[str, Any]]) -> None:
    folder = tmp_path_factory.mktemp("metadata")
    catalogue = formats.read_metadata(written(folder / "one.json", {"images": images}))
    formats.write_metadata(folder / "two.json", catalogue)
    assert json.loads((folder / "two.json").read_text("utf-8")) == {"images": images}
    again = formats.read_metadata(folder / "two.json")
    assert again.digest == catalogue.digest
    catalogue.write(folder / "three.parquet")
    formats.write_metadata(folder / "four.json", Catalogue.read(folder / "three.parquet"))
    assert json.loads((folder / "four.json").read_text("utf-8")) == {"images": images}


def test_metadata_of_one_s_own_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "metadata.json"
    plain = catalogue_of(["a", "b"], attributes={"price": [3.5, math.nan]})
    with pytest.raises(ValueError, match="a phase for every image: add an attribute 'phase', or give one for all"):
        formats.write_metadata(path, plain)
    formats.write_metadata(path, plain, phase="gallery")
    assert json.loads(path.read_text())["images"] == [
        {"id": "a", "path": "a", "phase": "gallery", "price": 3.5},
        {"id": "b", "path": "b", "phase": "gallery"},
    ]
    partly = catalogue_of(["a", "b"], attributes={"phase": ["train", ""]})
    with pytest.raises(ValueError, match="a phase for every image"):
        formats.write_metadata(path, partly)
    formats.write_metadata(path, partly, phase="test")
    assert [entry["phase"] for entry in json.loads(path.read_text())["images"]] == ["train", "test"]
    with pytest.raises(
        ValueError, match=r"knows? an image by its path, but 'b' has the path 'b\.jpg': make the paths the"
    ):
        formats.write_metadata(path, catalogue_of(["a", "b"], paths=["a", "b.jpg"]), phase="train")
    for box in ("[1, 2]", "one", "7", '"[1, 2, 3, 4]"'):
        with pytest.raises(ValueError, match="'bbox' must be JSON, four numbers or an object of them, got "):
            formats.write_metadata(path, catalogue_of(["a"], attributes={"bbox": [box]}), phase="train")


def test_metadata_that_repeats_itself_or_holds_more(tmp_path: Path) -> None:
    entry = {"id": "x", "path": "a.jpg", "phase": "test", "color": None, "tags": [1, 2]}
    catalogue = formats.read_metadata(written(tmp_path / "metadata.json", {"images": [entry, entry], "note": "more"}))
    assert catalogue.ids.tolist() == ["a.jpg"]
    assert catalogue.column("tags").tolist() == ["[1, 2]"]
    assert list(catalogue.attributes) == ["phase", "tags"]


def image(**changes: Any) -> dict[str, Any]:
    return {"images": [METADATA["images"][1], {"id": "x", "path": "a.jpg", "phase": "test"} | changes]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], r'metadata.json must hold {"images": \[…\]}, got \[\]'),
        ({"images": {}}, 'must hold {"images"'),
        ({"images": ["a.jpg"]}, r'entry 0 of images: expected an object with id, path and phase, got "a.jpg"'),
        (image(id=7), "metadata.json, entry 1 of images: 'id' must be text, got 7"),
        (image(path=""), "entry 1 of images: 'path' must be text, got \"\""),
        (image(phase=None), "entry 1 of images: 'phase' must be text, got nothing"),
        (image(category=["x"]), "entry 1 of images: 'category' must be text"),
        (image(color=3), "entry 1 of images: 'color' must be text, got 3"),
        (image(bbox=[1, 2, 3]), r"entry 1 of images: 'bbox' must be four numbers .* got \[1, 2, 3\]"),
        (image(bbox=["1", "2", "3", "4"]), "'bbox' must be four numbers"),
        (image(path=METADATA["images"][1]["path"]), "entry 1 of images: 'img.*' is described in entry 0 otherwise"),
        (image(identity="x"), "metadata.json: an attribute needs a name other than"),
        (image(path="a\0"), "metadata.json: ids of a catalogue must not hold a zero byte"),
        ('{"images": [\n{"id": }]}', "metadata.json is not a JSON file in UTF-8: line 2, Expecting value"),
        ("[" * 100_000, "metadata.json is not a JSON file in UTF-8"),
    ],
)
def test_bad_metadata_is_named(content: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        formats.read_metadata(written(tmp_path / "metadata.json", content))


@given(st.lists(IDS, unique=True, max_size=6))
def test_seeds_and_manifests_come_back(tmp_path_factory: pytest.TempPathFactory, ids: list[str]) -> None:
    folder = tmp_path_factory.mktemp("lists")
    formats.write_seeds(folder / "seeds.json", ids)
    formats.write_manifest(folder / "manifest.json", np.array(ids, str))
    assert json.loads((folder / "seeds.json").read_text("utf-8")) == {"seeds": ids}
    assert json.loads((folder / "manifest.json").read_text("utf-8")) == {"images": [{"path": name} for name in ids]}
    assert formats.read_seeds(folder / "seeds.json").tolist() == ids
    assert formats.read_manifest(folder / "manifest.json").tolist() == ids


def test_seeds_and_manifests_of_a_catalogue(tmp_path: Path) -> None:
    shop = catalogue_of(["a", "b"])
    content: Any
    seeds = written(tmp_path / "seeds.json", {"seeds": ["b", "a", "b"]})
    assert formats.read_seeds(seeds, shop).tolist() == ["b", "a"]
    manifest = written(tmp_path / "manifest.json", {"images": [{"path": "z", "id": "x"}]})
    with pytest.raises(ValueError, match=r"manifest.json: 1 of 1 image ids are not in the catalogue, 'z'"):
        formats.read_manifest(manifest, shop)
    written(seeds, {"seeds": ["a", "q"]})
    with pytest.raises(ValueError, match=r"seeds.json: 1 of 2 image ids are not in the catalogue, 'q'"):
        formats.read_seeds(seeds, shop)
    for content, sentence in (
        ({"seeds": ["a", 1]}, "seeds.json, entry 1 of seeds must be text, got 1"),
        ({"images": []}, r'must hold {"seeds": \[…\]}'),
    ):
        written(seeds, content)
        with pytest.raises(ValueError, match=sentence):
            formats.read_seeds(seeds)
    for content, sentence in (
        ({"images": ["a"]}, 'manifest.json, entry 0 of images: expected an object with a path, got "a"'),
        ({"images": [{"id": "a"}]}, "manifest.json, entry 0 of images: 'path' must be text, got nothing"),
    ):
        written(manifest, content)
        with pytest.raises(ValueError, match=sentence):
            formats.read_manifest(manifest)


@given(rows_of(IDS, st.integers(0, 1)))
def test_annotations_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]) -> None:
    path = tmp_path_factory.mktemp("annotations") / "tags.json"
    formats.write_annotations(path, rows)
    assert json.loads(path.read_text("utf-8")) == [{"key": [q, i], "value": g} for q, i, g in rows]
    assert formats.read_annotations(path) == rows


def tag(query: Any, item: Any, value: Any) -> dict[str, Any]:
    return {"key": [query, item], "value": value}


def test_annotations_know_directions_and_merge_repeats(tmp_path: Path) -> None:
    path = written(tmp_path / "tags.json", [tag("a", "b", 1), tag("b", "a", 0), tag("a", "b", 1)])
    assert formats.read_annotations(path) == [("a", "b", 1), ("b", "a", 0)]
    assert formats.read_annotations(path, queries=["a", "b"], items=np.array(["a", "b"])) == [
        ("a", "b", 1),
        ("b", "a", 0),
    ]
    with pytest.raises(ValueError, match=r"tags.json, entry 1: there is no query 'b'"):
        formats.read_annotations(path, queries=["a"])
    with pytest.raises(ValueError, match=r"tags.json, entry 0: there is no item 'b'"):
        formats.read_judgements(path, items={"a"})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"key": ["a", "b"], "value": 1}, "tags.json must hold a list of"),
        ([], "tags.json: there is no judgement"),
        ([tag("a", "b", 1), tag("a", "b", 2)], r'entry 1: expected {"key": \[query, item\], "value": 0 or 1}, got '),
        ([tag("a", "b", True)], "entry 0: expected .* got .*true"),
        ([tag("a", "b", 0.5)], "entry 0: expected"),
        ([tag("a", "b", "1")], "entry 0: expected"),
        ([{"key": ["a"], "value": 1}], "entry 0: expected"),
        ([{"key": "ab", "value": 1}], "entry 0: expected"),
        ([{"value": 1}], "entry 0: expected"),
        (["ab"], "entry 0: expected"),
        ([tag("a", 7, 1)], "entry 0: the item must be text, got 7"),
        ([tag("", "b", 1)], "entry 0: the query must be text"),
    ],
)  # fmt: skip
def test_bad_annotations_are_named(content: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        formats.read_annotations(written(tmp_path / "tags.json", content))


def test_annotations_with_both_values_are_similar(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As the released code's hit rate has it, which counts every positive; and a warning says so."""
    path = written(tmp_path / "tags.json", [tag("a", "b", 0), tag("c", "d", 1), tag("a", "b", 1), tag("a", "b", 0)])
    assert formats.read_annotations(path) == formats.read_judgements(path) == [("a", "b", 1), ("c", "d", 1)]
    told = "tags.json, entry 2: query 'a' and item 'b' have 1, but 0 in entry 0: this pair counts as similar"
    assert [record.getMessage().partition("tags.json")[2] for record in caplog.records] == [told[9:]] * 2
    written(path, [tag(query, "b", value) for value in (1, 0) for query in ("a", "b", "c")])
    formats.read_annotations(path)
    assert caplog.messages[-1].endswith("in entry 0: this and 2 more such pairs count as similar")


def test_seeds_of_a_task_that_has_annotations_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "tags.json", [tag("b", "a", 0), tag("a", "c", 1), tag("b", "c", 1)])
    assert formats.read_seeds(path, catalogue_of(["a", "b"])).tolist() == ["b", "a"]
    with pytest.raises(ValueError, match=r"tags.json: 1 of 2 image ids are not in the catalogue, 'b'"):
        formats.read_seeds(path, catalogue_of(["a", "c"]))


# Judgements


@pytest.mark.parametrize("ending", ENDINGS)
@given(data=st.data())
def test_judgements_come_back(tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject) -> None:
    trec = ending.startswith(("qrels", "txt", "trec"))
    grades = st.integers(0, 1 if ending == "json" else MAX_GRADE)
    rows = data.draw(rows_of(WORDS if trec else IDS, grades))
    path = tmp_path_factory.mktemp("judgements") / f"judgements.{ending}"
    formats.write_judgements(path, *zip(*rows, strict=True))
    assert formats.read_judgements(path) == rows
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    if trec:
        relevance = read_qrels(path)
        assert isinstance(relevance, Judged)
        assert {(q, i): g for q, items in relevance.judgements.items() for i, g in items.items()} == {
            (q, i): g for q, i, g in rows
        }


def test_every_format_converts_to_every_other(tmp_path: Path) -> None:
    rows = [("q2", "b", 0), ("q1", "c", 1), ("q2", "a", 1)]
    formats.write_judgements(tmp_path / "first.json", *zip(*rows, strict=True))
    path = tmp_path / "first.json"
    for number, (one, other) in enumerate(itertools.product(ENDINGS, ENDINGS)):
        for ending in (one, other):
            target = tmp_path / f"{number}.{ending}"
            formats.write_judgements(target, *zip(*formats.read_judgements(path), strict=True))
            path = target
        assert formats.read_judgements(path) == rows
    relevance = la.judged(formats.read_judgements(path))
    assert relevance.digest == la.judged(rows).digest


def test_judgements_in_files_that_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "judgements.parquet"
    pq.write_table(pa.table({"item": [7, 8], "grade": [1.0, 0.0], "query": ["q", "q"], "who": ["ann", "bob"]}), path)
    assert formats.read_judgements(path) == [("q", "7", 1), ("q", "8", 0)]
    written(tmp_path / "judgements.csv", "grade,item,query,who\n1,7,q,ann\n1.0,7,q,bob\n0, 8,q,ann\n")
    assert formats.read_judgements(tmp_path / "judgements.csv") == [("q", "7", 1), ("q", " 8", 0)]


@pytest.mark.parametrize(
    ("ending", "content", "sentence"),
    [
        ("csv", "query,item\nq,a\n", "first line of .*j.csv must name its columns, 'grade' among them"),
        ("csv", "query,item,grade\n", "j.csv: there is no judgement"),
        ("csv", "query,item,grade\nq,a,1\nq,b,2.5\n", "j.csv, line 3: a grade must be a whole number .* got '2.5'"),
        ("csv", "query,item,grade\nq,a,-1\n", "j.csv, line 2: a grade must be a whole number from 0 to 32767"),
        ("csv", "query,item,grade\nq,a,similar\n", "j.csv, line 2: a grade .* got 'similar'"),
        ("csv", "query,item,grade\nq,a,nan\n", "j.csv, line 2: a grade"),
        ("csv", "query,item,grade\nq,,1\n", "j.csv, line 2: the item is empty"),
        ("csv", "query,item,grade\n ,a,1\n", "j.csv, line 2: the query is empty"),
        ("csv", "query,item,grade\nq,a,1\n\nq,a,0\n", "j.csv, line 4: query 'q' and item 'a' have 0, but 1 in line 2"),
        ("qrels", "q 0 a 1\nq 0 a 0\n", "j.qrels, line 2: query 'q' and item 'a' have 0, but 1 in line 1"),
        ("txt", "q 0 a\n", "j.txt, line 1: expected 'query iteration item grade', got 'q 0 a'"),
        ("txt", "q 0 a ²\n", "j.txt, line 1: a grade must be a whole number from 0 to 32767, got '²'"),
        ("txt", "\n", "j.txt is empty: no judgement"),
        ("trec.gz", "q 0 a 1\n", "j.trec.gz is not a whole gzip file"),
        ("json", "{", "j.json is not a JSON file in UTF-8: line 1"),
        ("csv.gz", "", r"judgements are in .json, .csv, .parquet, .qrels, .txt or .trec .* got .*j.csv.gz"),
        ("tsv", "", "got .*j.tsv"),
    ],
)
def test_bad_judgements_are_named(ending: str, content: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        formats.read_judgements(written(tmp_path / f"j.{ending}", content))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"query": ["q"], "item": ["a"]}, "j.parquet must have the columns query, item and grade, got query, item"),
        ({"x": [1]}, "got none of them"),
        ({"query": ["q"], "item": ["a"], "grade": [0.5]}, "j.parquet, row 0: a grade must be .* got 0.5"),
        ({"query": ["q", "q"], "item": ["a", "a"], "grade": [0, 1]}, "j.parquet, row 1: query 'q' .* but 0 in row 0"),
        ({"query": ["q"], "item": [0.5], "grade": [1]}, "column 'item' of .*j.parquet must be text or whole numbers"),
    ],
)
def test_bad_parquet_is_named(columns: dict[str, list[Any]], sentence: str, tmp_path: Path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "j.parquet")
    with pytest.raises((ValueError, TypeError), match=sentence):
        formats.read_judgements(tmp_path / "j.parquet")


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_that_are_not_there(ending: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"there is no file .*none.{ending}"):
        formats.read_judgements(tmp_path / f"none.{ending}")


@pytest.mark.parametrize(
    ("ending", "columns", "sentence"),
    [
        (
            "json",
            (["q"], ["a"], [2]),
            "annotations are 0 or 1, but query 'q' and item 'a' have the grade 2: write .csv",
        ),
        ("qrels", (["q", "a b"], ["a", "c"], [1, 0]), "separates by spaces: the query 'a b' is empty or has one"),
        ("csv", (["q"], ["a"], [-1]), "row 0: a grade must be a whole number"),
        ("csv", (["q"], ["a"], [40_000]), "row 0: a grade must be a whole number"),
        ("csv", (["q"], ["a"], [None]), "row 0: a grade must be a whole number"),
        ("csv", (["q", "q"], ["a", "a"], [1, 0]), "row 1: query 'q' and item 'a' have 0, but 1 in row 0"),
        ("csv", (["q", "q"], ["a"], [1, 0]), "a judgement has a query, an item and a grade, got 2, 1 and 2"),
        ("parquet", (["q", ""], ["a", "a"], [1, 0]), "row 1: the query is empty"),
        ("parquet", ([], [], []), "there is no judgement"),
        ("xls", (["q"], ["a"], [1]), "got .*j.xls"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(
    ending: str, columns: tuple[Any, Any, Any], sentence: str, tmp_path: Path
) -> None:
    path = written(tmp_path / f"j.{ending}", "before")
    with pytest.raises(ValueError, match=sentence):
        formats.write_judgements(path, *columns)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


# TREC


@given(
    st.dictionaries(
        WORDS, st.dictionaries(WORDS, st.floats(allow_nan=False), min_size=1, max_size=5), min_size=1, max_size=4
    ),
    st.sampled_from(["run.txt", "run.gz"]),
)
def test_runs_come_back(tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]], name: str) -> None:
    path = tmp_path_factory.mktemp("run") / name
    write_run(path, run, name="mine")
    assert read_run(path) == run
    text = (gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()).decode()
    lines = [line.split(" ") for line in text.split("\n")[:-1]]
    for query, found in itertools.groupby(lines, lambda line: line[0]):
        ranked = list(found)
        assert [int(line[3]) for line in ranked] == list(range(1, len(run[query]) + 1))
        scores = [float(line[4]) for line in ranked]
        assert scores == sorted(scores, reverse=True)
        assert {line[1] for line in ranked} == {"Q0"}
        assert {line[5] for line in ranked} == {"mine"}
    before = path.read_bytes()
    write_run(
        path, [(query, item, score) for query, items in run.items() for item, score in items.items()], name="mine"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("write", "rows", "sentence"),
    [
        (write_run, [("q", "a", math.nan)], "the score of query 'q' and item 'a' is nan"),
        (write_run, [("q", "a", 1), ("q", "a", 2)], "query 'q' ranks item 'a' twice"),
        (write_run, [("q", "a\u00a0b", 1)], r"the item 'a\\xa0b' is empty or has one"),
        (write_run, [("", "a", 1)], "the query '' is empty or has one"),
        (write_run, [("\ufeffq", "a", 1)], "the query '\\\\ufeffq'"),
        (write_qrels, [("q", "a b", 1)], "the item 'a b' is empty or has one"),
        (write_qrels, [("q", "a", 1.5)], "a grade must be a whole number from 0 to 32767, got 1.5 for query 'q' and"),
        (write_qrels, [("q", "a", -1)], "got -1 for query 'q'"),
        (write_qrels, [("q", "a", 32_768)], "got 32768"),
    ],
)
def test_what_trec_files_cannot_hold(write: Callable[..., None], rows: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        write(tmp_path / "file.txt", rows)
    assert list(tmp_path.iterdir()) == []


def test_a_gzipped_file_does_not_depend_on_the_time_or_its_name(tmp_path: Path) -> None:
    for name in ("one.qrels.gz", "two.trec.gz"):
        write_qrels(tmp_path / name, [("q", "a", 1)])
    one, two = sorted(tmp_path.iterdir())
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes()[4:8] == bytes(4)  # where gzip keeps the time


def test_a_run_needs_a_name_of_one_word(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the name of the run 'my run'"):
        write_run(tmp_path / "run.txt", {"q": {"a": 1.0}}, name="my run")


def test_ids_that_are_numbers_are_written(tmp_path: Path) -> None:
    run: Any = {1: {2: np.float32(0.1)}}
    write_run(tmp_path / "run.txt", run)
    assert read_run(tmp_path / "run.txt") == {"1": {"2": float(np.float32(0.1))}}
