"""Studies of the released benchmark's files: one command makes a task, and its numbers are those that are printed.

What a vacuous test would let pass: tasks without an image that has to stay out; annotations in one order only; no ties;
one image a product; numbers that are only near.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from helpers.commands import done, refused, run
from helpers.released import NAMES, in_digits, released_task, write_task
from lookalike.study.study import Study
from reference.released_benchmark import ReleasedTask, printed

ASK = ["--metrics", " ".join(NAMES.values()).replace("'", ""), "--json"]


def make(capsys: pytest.CaptureFixture[str], folder: Path, task: ReleasedTask, name: str = "study") -> tuple[Path, str]:
    """A study of the files of a task, and what the command remarks."""
    options = ["--queries", folder / ("annotations.json" if task.seeds is None else "seeds.json")]
    if task.manifest is not None:
        options += ["--manifest", folder / "manifest.json"]
    for phase in task.gallery_phases or ():
        options += ["--phase", phase]
    made = folder / name
    code, _, err = run(capsys, "study", "new", made, "--catalogue", folder / "metadata.json", *options)
    assert code == 0, err
    return made, err


def board(capsys: pytest.CaptureFixture[str], folder: Path, task: ReleasedTask) -> dict[str, dict[str, Any]]:
    """What four commands make of the files of a task: a row for each number of its leaderboard."""
    study, _ = make(capsys, folder, task)
    files = [folder / "items.npz", *([folder / "queries.npz"] if task.gallery_phases else [])]
    done(capsys, "study", "add", study, "net", *files)
    done(capsys, "study", "votes", study, folder / "annotations.json", "--expert", "panel")
    rows = json.loads(done(capsys, "leaderboard", study, *ASK))["rows"]
    return {released: next(row for row in rows if row["metric"] == ours) for released, ours in NAMES.items()}


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_four_commands_print_the_released_numbers(
    seed: int, wild: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, vectors = released_task(wild, seed)
    if seed == 1:  # a task without seeds: its queries are in the annotations
        task = replace(task, seeds=None)
        task = replace(task, annotations=[tag for tag in task.annotations if tag["key"][0] in task.queries])
    if seed == 2:  # an empty manifest lists all
        task = replace(task, manifest={"images": []})
    pairs = {tuple(tag["key"]): tag["value"] for tag in task.annotations}
    both = [value - pairs[b, a] for (a, b), value in pairs.items() if (b, a) in pairs]
    assert wild or (0 in both and 1 in both)  # judged in both orders, alike and otherwise
    assert len(pairs) < len(task.annotations)  # and some twice
    rows = board(capsys, write_task(tmp_path / "files", task, vectors), task)
    numbers = printed(task, vectors)
    assert {name: in_digits(row["mean"]) for name, row in rows.items()} == {
        name: in_digits(value) for name, value in numbers.items()
    }


def test_one_file_of_all_images_serves_every_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, vectors = released_task(True, 0)
    folder = write_task(tmp_path / "files", task, vectors)
    np.savez(folder / "all.npz", embeddings=np.array([*vectors.values()]), ids=np.array([*vectors]))
    study, _ = make(capsys, folder, task)
    done(capsys, "study", "add", study, "net", folder / "all.npz", folder / "all.npz")
    opened = Study.open(study)
    stored = opened.model("net")
    for rows, ids in ((stored.queries, opened.queries.ids), (stored.gallery, opened.catalogue.ids)):
        assert np.array_equal(rows, [vectors[name] for name in ids.tolist()])
    np.savez(folder / "some.npz", embeddings=np.array([*vectors.values()])[1:], ids=np.array([*vectors])[1:])
    refused(capsys, "but the model 'less' has", "study", "add", study, "less", folder / "some.npz", folder / "all.npz")


def test_the_reference_has_the_areas_of_scikit_learn() -> None:
    task, vectors = released_task(False, 0)
    unit = {path: (vector / np.linalg.norm(vector)).astype(np.float32) for path, vector in vectors.items()}
    tags = {(*tag["key"], tag["value"]) for tag in task.annotations}
    values, scores = zip(*((value, float(unit[a] @ unit[b])) for a, b, value in tags), strict=True)
    numbers = printed(task, vectors)
    assert in_digits(numbers["ROC-AUC"]) == in_digits(roc_auc_score(values, scores))
    assert in_digits(numbers["PR-AUC"]) == in_digits(average_precision_score(values, scores))


def test_tied_images_have_the_mean_of_all_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The released code prints one order, whichever torch leaves; ours is the mean, with the best and the worst."""
    task, vectors = released_task(True, 4)
    products = [task.products[path] for path in task.gallery]
    single = [path for path in task.gallery if products.count(task.products[path]) == 1]
    twins = [tuple(single[n : n + 2]) for n in (0, 2, 4)]
    for one, other in twins:
        vectors[other] = vectors[one]
    rows = board(capsys, write_task(tmp_path / "files", task, vectors), task)
    orders = []
    for turns in itertools.product((False, True), repeat=3):
        gallery = sorted(task.gallery)
        for (one, other), turned in zip(twins, turns, strict=True):
            if turned != (gallery.index(one) > gallery.index(other)):
                a, b = gallery.index(one), gallery.index(other)
                gallery[a], gallery[b] = other, one
        orders.append(printed(task, vectors, gallery))
    for name, row in rows.items():
        values = [order[name] for order in orders]
        assert in_digits(row["mean"]) == in_digits(sum(values, Fraction()) / len(values))
        assert row["worst"] - 1e-12 <= min(values) <= max(values) <= row["best"] + 1e-12
    assert len({order["MRR@9"] for order in orders}) > 1  # the order matters


def test_photographs_stay_out_of_a_wild_gallery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, vectors = released_task(True, 0)
    folder = write_task(tmp_path / "files", task, vectors)
    study, _ = make(capsys, folder, task)
    opened = Study.open(study)
    assert opened.wild
    assert sorted(opened.catalogue.ids.tolist()) == sorted(task.gallery)
    assert sorted(opened.queries.ids.tolist()) == sorted(task.queries)
    assert set(opened.catalogue.column("phase").tolist()) == {"gallery"}
    _, remarks = make(capsys, folder, replace(task, gallery_phases=None), "closed")
    told = "all queries have the phase 'query', and 27 images of that phase are items: the released wild task"
    assert told in remarks
    _, remarks = make(capsys, folder, replace(task, gallery_phases=("gallery", "query")), "both")
    assert told not in remarks  # it was asked for
    assert not Study.open(folder / "both").wild
    named = ["--catalogue", folder / "metadata.json", "--queries", folder / "seeds.json", "--wild"]
    refused(
        capsys, "are items too: say which images are items with --phase gallery", "study", "new", folder / "x", *named
    )
    done(capsys, "study", "new", folder / "x", *named, "--phase", "gallery", "--json")


def test_seeds_that_a_manifest_does_not_list_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, vectors = released_task(False, 0)
    assert task.seeds is not None
    gone = task.seeds["seeds"][:2]
    images = [entry for entry in (task.manifest or {})["images"] if entry["path"] not in gone]
    task = replace(task, manifest={"images": images})
    study, remarks = make(capsys, write_task(tmp_path / "files", task, vectors), task)
    assert "2 of 12 queries are left out, since the manifest does not list them" in remarks
    assert sorted(Study.open(study).queries.ids.tolist()) == sorted(task.queries)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a seed without metadata": (
        "--queries seeds.json", {"seeds": {"seeds": ["img/no.jpg"]}},
        "seeds.json: 1 of 1 image ids are not in the catalogue, 'img/no.jpg'"),
    "a manifest path without metadata": (
        "--queries seeds.json --manifest manifest.json", {"manifest": {"images": [{"path": "img/no.jpg"}]}},
        "manifest.json: 1 of 1 image ids are not in the catalogue, 'img/no.jpg'"),
    "a phase nobody has": (
        "--queries seeds.json --phase galery", {},
        "no image has the phase 'galery', did you mean 'gallery'? (there are"),
    "a phase that the manifest leaves out": (
        "--queries seeds.json --phase query --manifest manifest.json", {},
        "manifest.json lists has the phase 'query'"),
    "no seed that the manifest lists": (
        "--queries seeds.json --manifest manifest.json", {},
        "none of the 12 queries is among the images that the manifest"),
    "queries here and there": (
        "--queries seeds.json --phase gallery",
        {"seeds": {"seeds": ["img/id_000/00_gallery.jpg", "img/id_000/01_query.jpg"]}},
        "1 of 2 queries are items and the others are not, such as 'img/id_000/01_query.jpg'"),
    "a path twice": (
        "--queries seeds.json", {"metadata": {"images": [
            {"id": "a", "path": "a.jpg", "phase": "query"}, {"id": "b", "path": "a.jpg", "phase": "query"}]}},
        "metadata.json, entry 1 of images: 'a.jpg' is described in entry 0 otherwise"),
    "no phase at all": ("--queries names.txt --phase gallery --catalogue plain.csv", {}, "has no column 'phase'"),
    "no folder of images": ("--queries seeds.json --images nowhere", {}, "there is no folder nowhere"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_named_in_one_sentence(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options, files, told = WRONG[what]
    task, vectors = released_task(True, 0)
    monkeypatch.chdir(write_task(tmp_path / "files", task, vectors))
    if what.endswith(("manifest leaves out", "manifest lists")):
        files = {"manifest": {"images": [{"path": path} for path in task.gallery]}}
    for name, content in files.items():
        Path(f"{name}.json").write_text(json.dumps(content))
    Path("names.txt").write_text("a\n")
    Path("plain.csv").write_text("id\na\nb\n")
    catalogue = [] if "--catalogue" in options else ["--catalogue", "metadata.json"]
    refused(capsys, told, "study", "new", "made", *catalogue, *options.split())
    assert not Path("made").exists()


def test_annotations_of_unknown_images_and_of_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    task, vectors = released_task(False, 0)
    folder = write_task(tmp_path / "files", task, vectors)
    study, _ = make(capsys, folder, task)
    query, item = task.queries[0], next(path for path in task.gallery if path not in task.queries)
    other = next(path for path in task.gallery if path != query and task.products[path] == task.products[query])
    tags = folder / "tags.json"
    for key, told in (
        ([query, "img/no.jpg"], "tags.json, entry 0: there is no item 'img/no.jpg'"),
        (["img/no.jpg", item], "tags.json, entry 0: there is no query 'img/no.jpg'"),
        ([item, query], f"tags.json, entry 0: there is no query '{item}'"),
        ([query, query], "1 of 1 voted pairs are of a query with itself"),
    ):
        tags.write_text(json.dumps([{"key": key, "value": 1}]))
        refused(capsys, told, "study", "votes", study, tags, "--expert", "panel")
    tags.write_text(json.dumps([{"key": [query, item], "value": value} for value in (1, 0)]))
    done(capsys, "study", "votes", study, tags, "--expert", "panel")
    assert Study.open(study).votes().answers.tolist() == [1]
    told = f"entry 1: query '{query}' and item '{item}' have 0, but 1 in entry 0: this pair counts as similar"
    assert told in caplog.text
    tags.write_text(json.dumps([{"key": [query, other], "value": 1}]))
    _, _, remarks = run(capsys, "study", "votes", study, tags, "--expert", "panel")
    assert "1 votes are on a query with another image of its own product: metrics leave these pairs out" in remarks
