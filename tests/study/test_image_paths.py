"""Where images are: paths of a catalogue, as its file and as the study sees them, and what is missing.

What a vacuous test would let pass: a study beside its catalogue, where both ways are one; files that nobody looks for.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.commands import done, refused, run
from helpers.photos import write
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.formats import read_metadata, write_metadata
from lookalike.study.image_paths import check_images, moved_paths
from lookalike.study.study import Study


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a catalogue of three images below it, far from where studies are."""
    folder = tmp_path / "data" / "shop"
    for number in range(3):
        write(folder / "img" / f"{number}.png", number)
    (folder / "items.csv").write_text("id,path\n" + "".join(f"i{n},img/{n}.png\n" for n in range(3)))
    (tmp_path / "studies").mkdir()
    return folder


def new(data: Path, *options: object) -> list[object]:
    return ["study", "new", data.parents[1] / "studies" / "s", "--catalogue", data / "items.csv", "--draw", 2, *options]


def shows_all(study: Study) -> bool:
    paths = [study.image_path(row) for row in range(len(study.catalogue))]
    return all(path is not None and path.is_file() for path in paths)


def test_paths_begin_where_the_catalogue_is(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data.parent)  # and the catalogue is named from here
    root = data.parents[1]
    code, _, err = run(capsys, "study", "new", "../studies/s", "--catalogue", "shop/items.csv", "--draw", 2)
    assert (code, err) == (0, "")
    study = Study.open(root / "studies" / "s")
    assert study.catalogue.column("path").tolist() == [f"../../data/shop/img/{n}.png" for n in range(3)]
    assert study.queries.column("path")[0].startswith("../../data/shop/img/")
    assert shows_all(study)
    shutil.move(root, root.with_name("moved"))  # the study together with its images
    assert shows_all(Study.open(root.with_name("moved") / "studies" / "s"))


def test_absolute_paths_stay(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "items.csv").write_text("id,path\n" + "".join(f"i{n},{data}/img/{n}.png\n" for n in range(3)))
    done(capsys, *new(data))
    study = Study.open(data.parents[1] / "studies" / "s")
    assert study.catalogue.column("path").tolist() == [f"{data}/img/{n}.png" for n in range(3)]


def test_images_may_be_elsewhere(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "img").rename(data.parents[1] / "img")
    refused(
        capsys,
        f"none of the 3 images of {data / 'items.csv'} is in {data}, such as img/0.png: name their folder with "
        "--images FOLDER, or leave the column path out of a catalogue without images",
        *new(data),
    )
    assert not (data.parents[1] / "studies" / "s").exists()
    code, _, err = run(capsys, *new(data, "--images", data.parents[1]))
    assert (code, err) == (0, "")
    assert shows_all(Study.open(data.parents[1] / "studies" / "s"))


def test_some_missing_images_are_listed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "img" / "1.png").unlink()
    code, _, err = run(capsys, *new(data))
    assert code == 0
    assert err == f"lookalike: 1 of 3 images of {data / 'items.csv'} are missing in {data}: img/1.png\n"
    many = Catalogue([f"{n}" for n in range(9)], paths=["img/0.png", *(f"{n}.jpg" for n in range(8))])  # type: ignore[arg-type]
    told = check_images(many, data, Path("items.csv"))
    assert told == f"8 of 9 images of items.csv are missing in {data}: 0.jpg, 1.jpg, 2.jpg, …"
    assert check_images(Catalogue(["a"]), data, Path("items.csv")) is None  # type: ignore[arg-type]


def test_wild_queries_begin_where_their_own_catalogue_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = data.parents[1] / "photos"
    write(photos / "q.png", 9)
    (photos / "photos.csv").write_text("id,path\nq,q.png\n")
    made = data.parents[1] / "studies" / "s"
    options = ["--catalogue", data / "items.csv", "--queries", photos / "photos.csv", "--wild"]
    code, _, err = run(capsys, "study", "new", made, *options)
    assert (code, err) == (0, "")
    assert Study.open(made).queries.column("path").tolist() == ["../../photos/q.png"]
    (photos / "q.png").unlink()
    refused(capsys, f"none of the 1 images of {photos / 'photos.csv'} is in", "study", "new", photos / "s", *options)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_catalogue_that_is_exported_makes_the_same_study(
    ending: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done(capsys, *new(data))
    exported = data.parent / f"again.{ending}"
    done(capsys, "study", "export", data.parents[1] / "studies" / "s", "catalogue", exported)
    assert Catalogue.read(exported).column("path").tolist() == [f"shop/img/{n}.png" for n in range(3)]
    again = data.parents[1] / "again"
    code, _, err = run(capsys, "study", "new", again, "--catalogue", exported, "--draw", 2)
    assert (code, err) == (0, "")
    assert shows_all(Study.open(again))


def test_parquet_is_as_csv(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data / "items.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "path": ["img/0.png", "img/9.png"]}), file)
    made = data.parents[1] / "studies" / "s"
    code, _, err = run(capsys, "study", "new", made, "--catalogue", file, "--draw", 1)
    assert (code, err) == (0, f"lookalike: 1 of 2 images of {file} are missing in {data}: img/9.png\n")
    assert Study.open(made).catalogue.column("path")[0] == "../../data/shop/img/0.png"


def test_metadata_needs_no_images_unless_their_folder_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path is the id of an image there: a study of embeddings alone is whole without them."""
    file, made = data.parent / "metadata.json", data.parents[1] / "studies" / "s"
    images = [f"img/{n}.png" for n in range(3)]
    write_metadata(file, Catalogue(images, paths=images), phase="test")  # type: ignore[arg-type]
    options = ["--catalogue", file, "--draw", 2]
    code, _, err = run(capsys, "study", "new", made, *options)
    assert code == 0
    assert err.startswith(f"lookalike: none of the 3 images of {file} is in {data.parent}, such as img/0.png: there is")
    refused(capsys, "--images FOLDER", "study", "new", data / "x", *options, "--images", data.parents[1])
    code, _, err = run(capsys, "study", "new", data / "x", *options, "--images", data)
    assert (code, err) == (0, "")
    study = Study.open(data / "x")
    assert shows_all(study)
    assert study.catalogue.column("path").tolist() == [f"../{name}" for name in images]
    write_metadata(data / "again.json", study.catalogue)  # which the benchmark knows by their ids
    assert np.array_equal(read_metadata(data / "again.json").ids, study.catalogue.ids)


def test_paths_of_a_study_from_before_are_read_as_they_were(data: Path) -> None:
    images = Catalogue(["a"], paths=["../../data/shop/img/0.png"])  # type: ignore[arg-type]
    study = Study.create(data.parents[1] / "studies" / "s", "s", images, ["a"])
    assert shows_all(study)
    assert moved_paths(images, study.path, study.path).column("path").tolist() == images.column("path").tolist()
