"""What a selection becomes: CSV without formulas, paths, and a new folder of links that overwrites nothing."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import pytest

from helpers.small_study import catalogue_of, create
from lookalike.core.errors import InputError, StudyError
from lookalike.study.basket import basket_csv, basket_paths, link_folder, present
from lookalike.study.study import Study
from lookalike.study.tags import add_tag


@pytest.fixture
def study(tmp_path: Path) -> Study:
    files = ["one/x.png", "two/x.png", "x-2.png", "gone.png"]
    for number, name in enumerate(files[:3]):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_text(str(number))
    shop = catalogue_of(
        ["a", "=b", "c", "d"], categories=["hat", "@hat", "shoe", "shoe"], attributes={"price": [1.5, 2, 3, 4]},
        paths=[f"../photos/{name}" for name in files],
    )  # fmt: skip
    return create(tmp_path / "study", catalogue=shop)


def test_csv_has_all_columns_and_no_formulas(study: Study) -> None:
    add_tag(study, "=cmd|x", ["=b"])
    add_tag(study, "nice", ["=b"])
    rows = list(csv.DictReader(io.StringIO(basket_csv(study, [1, 0]))))
    assert [row["id"] for row in rows] == ["'=b", "a"]
    assert [row["category"] for row in rows] == ["'@hat", "hat"]
    assert [row["study_tags"] for row in rows] == ["'=cmd|x | nice", ""]
    assert [row["price"] for row in rows] == ["2.0", "1.5"]
    assert rows[1]["file"] == str(study.path.parent / "photos" / "one" / "x.png")


def test_paths_are_one_on_a_line(study: Study, tmp_path: Path) -> None:
    photos = study.path.parent / "photos"
    assert basket_paths(study, [2, 0]) == f"{photos / 'x-2.png'}\n{photos / 'one' / 'x.png'}\n"
    broken = create(tmp_path / "broken", catalogue=catalogue_of(["a"], paths=["a\nb.png"]))
    with pytest.raises(InputError, match="line break"):
        basket_paths(broken, [0])


def test_links_lead_to_the_files_and_nothing_is_overwritten(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda form: "basket-now")
    made = link_folder(study, [0, 1, 2, 3])
    assert (made.path, made.links, made.missing) == (study.path / "exports" / "basket-now", 3, 1)
    assert {link.name: link.read_text() for link in made.path.iterdir()} == {
        "x.png": "0",
        "x-3.png": "1",
        "x-2.png": "2",
    }
    assert all(link.is_symlink() for link in made.path.iterdir())
    again = link_folder(study, [0])
    assert again.path.name == "basket-now-2"
    assert len(list(made.path.iterdir())) == 3
    assert sorted(path.name for path in (study.path / "exports").iterdir()) == ["basket-now", "basket-now-2"]
    with pytest.raises(StudyError, match="nothing to link to"):
        link_folder(study, [3])


def test_a_study_without_images_says_so(closed: Study) -> None:
    assert basket_csv(closed, [0]).startswith("id,category,identity,price,study_tags\n")
    for act in (basket_paths, link_folder):
        with pytest.raises(StudyError, match="no image files"):
            act(closed, [0])


def test_items_that_are_gone_are_counted(closed: Study) -> None:
    positions, gone = present(closed, ["c", "x", "a", "c", "y"])
    assert (positions.tolist(), gone) == ([2, 0], 2)
