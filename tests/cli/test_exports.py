"""Files for people: no text in a CSV is a formula to a spreadsheet, all of it comes back, and TREC's limits are said.

Ids that are easy would let everything pass, so these begin as formulas do, with the mark itself, and have spaces.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from helpers.commands import done, refused
from lookalike.core.csv_files import read_csv
from lookalike.discovery import Catalogue, Pool, Votes, majority
from lookalike.discovery.formats import read_judgements
from lookalike.judging.pages.app import create_judge_app, organiser_link
from lookalike.judging.pages.links import Keys
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

IDS = ["=1+1", "'=2", "''=2", "-3", "+4", "@sum", "\tx", "'plain", "a b", '=HYPERLINK("x")', "-3.5", "\uff1d6"]
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
OWN = "http://localhost:8000"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "shop"
    ids: Any = IDS
    attributes: Any = {"=price": np.linspace(-1, 1, len(IDS)), "-name": IDS}
    study = Study.create(folder, "=shop", Catalogue(ids, categories=ids, attributes=attributes), queries=IDS[:4])
    scores = np.random.default_rng(0).normal(size=(4, len(IDS)))
    study.write_pool(Pool.build({"net": scores, "other": -scores}, study.collection, k=4))
    queries, items = zip(*study.pool().pairs[:-3], strict=True)
    experts = [["=ann", "-bob", "'=eve"][n % 3] for n in range(len(items))]
    study.append_votes(Votes(queries, items, experts, [n % 2 for n in range(len(items))]))
    return folder


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop")


def texts(path: Path) -> list[str]:
    """All cells of a CSV file but those of columns of numbers, as they stand there."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    wanted = [n for n, name in enumerate(head) if name not in ("rank", "score", "seconds", "'=price", "=price")]
    return [row[n] for row in [head, *rows] for n in wanted]


COMMANDS: dict[str, Callable[[str, Path], list[str]]] = {
    "votes": lambda shop, file: ["study", "export", shop, "votes", str(file)],
    "pool": lambda shop, file: ["study", "export", shop, "pool", str(file)],
    "catalogue": lambda shop, file: ["study", "export", shop, "catalogue", str(file)],
    "judgements": lambda shop, file: ["study", "export", shop, "judgements", str(file)],
    "all votes": lambda shop, file: ["judge", "export", shop, str(file)],
    "pairs": lambda shop, file: ["pool", shop, "--next", "3", "--output", str(file)],
}


@pytest.mark.parametrize("what", COMMANDS)
def test_no_text_of_an_export_is_a_formula_unless_it_is_to_be_raw(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    marked, raw = tmp_path / "marked.csv", tmp_path / "raw.csv"
    done(capsys, *COMMANDS[what](str(study.path), marked))
    assert [text for text in texts(marked) if text.startswith(FORMULA)] == []
    done(capsys, *COMMANDS[what](str(study.path), raw), "--raw")
    assert any(text.startswith(FORMULA) for text in texts(raw))
    with raw.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert read_csv(marked, []).columns == {name: [row[n] for row in rows] for n, name in enumerate(head)}
    refused(
        capsys, "--raw is for files that end in .csv", *COMMANDS[what](str(study.path), tmp_path / "x.parquet"), "--raw"
    )


def test_what_was_exported_is_read_as_it_was(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("votes", "catalogue", "judgements"):
        done(capsys, "study", "export", str(study.path), what, str(tmp_path / f"{what}.csv"))
    assert Votes.read(tmp_path / "votes.csv").digest == study.votes().digest
    back = Catalogue.read(tmp_path / "catalogue.csv")
    assert back.ids.tolist() == IDS
    assert back.column("-name").tolist() == IDS
    assert back.column("=price").astype(float).tolist() == study.catalogue.column("=price").tolist()  # -1 is a number
    found = majority(study.votes())
    rows = zip(found.queries.tolist(), found.items.tolist(), found.grades.tolist(), strict=True)
    assert read_judgements(tmp_path / "judgements.csv") == list(rows)
    told = done(capsys, "study", "votes", str(study.path), str(tmp_path / "votes.csv"))
    assert f"all {len(study.votes())} votes were there already" in told


TREC = "is empty or has one, and cannot be in it: write .json, or .csv or .parquet by lookalike study export"


@pytest.mark.parametrize("command", [["study", "export", "judgements"], ["judge", "export"]])
def test_an_id_with_a_space_is_no_id_of_a_trec_file(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    target = tmp_path / "judged.qrels"
    refused(
        capsys,
        f"separates by spaces: the item '\\tx' {TREC}\n",
        *command[:2],
        str(study.path),
        *command[2:],
        str(target),
    )
    assert not target.exists()


@pytest.fixture
def organiser(study: Study) -> Iterator[TestClient]:
    with Store.open(None, study) as store:
        keys = Keys.of(study.path)
        with TestClient(create_judge_app(study, store, keys), base_url=OWN) as client:
            client.get(organiser_link(keys, store.organiser(), OWN))
            yield client


def test_the_organisers_page_exports_no_formula_and_says_what_a_file_cannot_hold(
    organiser: TestClient, study: Study, tmp_path: Path
) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes(organiser.get("/organise/export.csv").content)
    assert [text for text in texts(path) if text.startswith(FORMULA)] == []
    assert Votes.read(path).digest == study.votes().digest
    for rule in ("majority", "unanimous", "dawid-skene"):
        answer = organiser.get(f"/organise/export.qrels?rule={rule}")
        assert (answer.status_code, answer.headers["content-type"]) == (422, "text/html; charset=utf-8")
        assert "A TREC file separates by spaces: the item" in answer.text
        assert TREC in answer.text
        assert organiser.get(f"/organise/export.json?rule={rule}").status_code == 200
        assert organiser.get(f"/organise/export.parquet?rule={rule}").status_code == 200
