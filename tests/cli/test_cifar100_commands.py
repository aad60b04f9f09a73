"""CIFAR-100 with fine and coarse labels, from its archive to numbers: data, train, hash, evaluate and report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.archives import planes, tar_gz
from helpers.commands import assert_refused, done, numbers, run
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.evaluation.item_files import read_items

N_FINE, N_COARSE = 6, 2
HIERARCHY = "dispersed-dsh-hierarchy"


def records(n_each: int, rng: np.random.Generator) -> bytes:
    """A byte of the coarse label, one of the fine label, and the red, green and blue plane, for each image."""
    fine = rng.permutation(np.repeat(np.arange(N_FINE), n_each))
    levels = np.linspace(30, 220, N_FINE)[fine]  # a class is as bright as its number says
    images = np.clip(levels[:, None, None, None] + rng.normal(0, 25, (len(fine), 32, 32, 3)), 0, 255).astype(np.uint8)
    return np.concatenate([np.stack([fine % N_COARSE, fine], 1).astype(np.uint8), planes(images)], axis=1).tobytes()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of exactly the official form, with 16 training and 4 test images of each of 6 fine classes."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    contents = {
        "cifar-100-binary/train.bin": records(16, rng),
        "cifar-100-binary/test.bin": records(4, rng),
        "cifar-100-binary/fine_label_names.txt": "".join(f"fine{i}\n" for i in range(N_FINE)).encode() + b"\n",
        "cifar-100-binary/coarse_label_names.txt": b"even\nodd\n",
    }
    return tar_gz(tmp_path / "cifar-100-binary.tar.gz", contents)


def parts(capsys: pytest.CaptureFixture[str], archive: Path, *options: object) -> Path:
    folder = archive.parent / f"parts{len(options)}"
    done(capsys, "data", "cifar100", "--source", archive, "--setting", 2, "--output", folder, *options)
    return folder


def test_data_writes_both_labels(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = numbers(capsys, "data", "cifar100", "--source", archive, "--setting", 2)
    assert (said["queries"], said["training"]) == (4 * N_FINE, 16 * N_FINE)
    assert (len(said["classes"]), said["coarse_classes"]) == (N_FINE, ["even", "odd"])
    items = read_items(parts(capsys, archive) / "gallery.npz")
    fine = np.array([int(name.removeprefix("fine")) for name in items.labels])
    assert items.coarse_labels is not None
    assert (items.coarse_labels == np.array(["even", "odd"])[fine % 2]).all()
    assert items.levels is not None
    assert (items.levels == np.stack([fine, fine % 2], axis=1)).all()
    coarse = read_items(parts(capsys, archive, "--labels", "coarse") / "gallery.npz")
    assert (coarse.labels == items.coarse_labels).all()
    assert (coarse.ids == items.ids).all()  # the split is the same
    assert coarse.coarse_labels is None


def test_splits_are_the_same_for_fine_and_coarse_labels(archive: Path) -> None:
    from lookalike.experiments.task import dataset_task

    dataset = la.datasets.load("cifar100", source=archive)
    fine, coarse = (dataset_task(dataset, 1, level=level) for level in (None, "coarse"))
    assert (fine.queries == coarse.queries).all()
    assert (fine.training == coarse.training).all()
    assert (coarse.training_labels == fine.training_labels % 2).all()
    assert (coarse.training_levels == np.stack([fine.training_labels, coarse.training_labels], axis=1)).all()
    assert set(coarse.query_labels) == {"even", "odd"}
    assert la.datasets.load("cifar100", source=archive, labels="coarse").classes == ("even", "odd")


def test_a_hierarchy_learns_from_both_and_is_scored_on_coarse(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The schedule of Ding et al. too; queries, gallery and labels as `la.evaluate` has them."""
    saved = tmp_path / "h.npz"
    schedule = ("--schedule", "step", "--drop", 0.4, "--every", 3, "--epochs", 6, "--lr", 0.01, "--batch-size", 32)
    command = ("train", "--data", "cifar100", "--source", archive, "--setting", 2, "--loss", HIERARCHY, "--bits", 12)
    said = numbers(capsys, *command, "--buffers", "printed", *schedule, "--network", "two-layer", "--output", saved)
    hasher, dataset = la.hashers.load(saved), la.datasets.load("cifar100", source=archive)
    assert (hasher.schedule, hasher.drop, hasher.every, hasher.learning_rate) == ("step", 0.4, 3, 0.01)
    assert hasher.options == {"buffers": "printed"}
    split = dataset.split(2)
    codes = [hasher.transform(dataset.pixels(rows)) for rows in (split.queries, split.gallery)]
    relevance = la.same_label(dataset.coarse[split.queries], dataset.coarse[split.gallery])
    assert said["test"]["mAP"] == pytest.approx(la.evaluate(*codes, relevance, ["AP"])["AP"].mean, abs=1e-12)
    assert said["labels"] == "coarse"
    both = np.stack([dataset.labels, dataset.coarse], axis=1)[split.training]
    again = la.learning.LearnedHasher(**hasher.get_params()).fit(dataset.pixels(split.training), both)
    assert (again.transform(dataset.pixels(split.gallery)).to_bytes() == codes[1].to_bytes()).all()


def test_evaluate_takes_the_labels_it_is_told(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (queries, gallery) = parts(capsys, archive), (tmp_path / "q.npz", tmp_path / "g.npz")
    done(capsys, "hash", folder / "gallery.npz", gallery, "--bits", 8, "--save", tmp_path / "itq.npz")
    done(capsys, "hash", folder / "queries.npz", queries, "--hasher", tmp_path / "itq.npz")
    items = [read_items(path) for path in (queries, gallery)]
    vectors = [one.vectors for one in items]
    wanted = {
        "fine": la.evaluate(*vectors, la.same_label(*(one.labels for one in items)), ["AP"])["AP"].mean,
        "coarse": la.evaluate(*vectors, la.same_label(*(one.coarse_labels for one in items)), ["AP"])["AP"].mean,
    }
    assert abs(wanted["fine"] - wanted["coarse"]) > 0.05
    done(capsys, "shard", gallery, tmp_path / "shards")
    for place in (gallery, tmp_path / "shards"):
        for level, mean in {**wanted, None: wanted["fine"]}.items():
            options = () if level is None else ("--labels", level)
            said = numbers(capsys, "evaluate", queries, place, "--metrics", "AP", *options)
            assert said["scores"][0]["mean"] == pytest.approx(mean, abs=1e-12)
            assert said["relevance"] == ("coarse labels" if level == "coarse" else "labels")


def test_a_report_of_coarse_labels(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, dataset = tmp_path / "page.html", la.datasets.load("cifar100", source=archive)
    split = dataset.split(2)
    itq = la.hashers.ITQ(12, random_state=0).fit(dataset.pixels(split.training))
    codes = [itq.transform(dataset.pixels(rows)) for rows in (split.queries, split.gallery)]
    folder, coarse = parts(capsys, archive), dataset.coarse
    relevance = la.same_label(coarse[split.queries], coarse[split.gallery])
    of_set = ("report", "cifar100", "--source", archive, "--setting", 2)
    of_files = ("report", folder / "queries.npz", folder / "gallery.npz")
    for command, level, names in (
        (of_set, "coarse", f"ITQ {HIERARCHY}"),
        (of_files, "coarse", "ITQ"),
    ):
        wanted = la.evaluate(*codes, relevance, ["AP"])
        chosen = ("--labels", level, "--hashers", names, "--bits", 12, "--output", page)
        code, out, err = run(capsys, *command, *chosen, "--json")
        assert code == 0, err
        said = json.loads(out)
        assert [row["hasher"] for row in said["rows"]] == names.split()
        assert said["rows"][0]["mAP"] == pytest.approx(wanted["AP"].mean, abs=1e-12)
        assert said["task"]["labels"] == level


def test_a_file_of_both_labels_is_learned_from(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = parts(capsys, archive) / "training.npz"
    quick = ("--epochs", 2, "--bits", 8, "--output", tmp_path / "h.npz")
    for options, classes in (((), N_FINE), (("--labels", "coarse"), N_COARSE)):
        done(capsys, "train", "--data", training, "--loss", "cross-entropy", *quick, *options)
        assert la.hashers.load(tmp_path / "h.npz").n_bits == 8
        assert len(np.unique(read_items(training).at_level(options[1] if options else None).labels)) == classes
    done(capsys, "train", "--data", training, "--loss", HIERARCHY, *quick)
    done(capsys, "hash", training, tmp_path / "codes.npz", "--hasher", HIERARCHY, "--bits", 8)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"train --data cifar100 --source {{archive}} --loss {HIERARCHY} --labels fine", "scored on coarse ones"),
        (f"train --data digits --loss {HIERARCHY}", "digits has no coarse labels"),
        ("train --data digits --labels coarse", "digits has no coarse labels: --labels coarse, and a loss that learns"),
        ("data digits --labels fine", "digits has no coarse labels: --labels fine"),
        (f"train --data {{plain}} --loss {HIERARCHY}", "needs arrays 'labels' and 'coarse_labels'"),
        (f"hash {{plain}} {{folder}}/c.npz --hasher {HIERARCHY}", "needs arrays 'labels' and 'coarse_labels'"),
        ("train --data {plain} --labels coarse", "has no coarse labels: add an array 'coarse_labels'"),
        ("evaluate {plain} {plain} --labels coarse", "has no coarse labels: add an array 'coarse_labels'"),
        ("report {plain} {plain} --labels coarse --output {folder}/r.html", "has no coarse labels"),
        ("train --data cifar100 --source {plain}", "plain.npz is not cifar-100-binary.tar.gz, or not all of it"),
        ("train --data cifar100 --source {other}", "is not cifar-100-binary.tar.gz, or not all of it: it has no"),
        ("train --data digits --drop 0.4", "--drop is for --schedule step, not for cosine"),
        ("train --data digits --schedule step --drop 1.5", "--drop must be below 1"),
        ("train --data digits --schedule step --every 150 --epochs 30", "--every must be below the 30 epochs"),
        ("train --data digits --buffers printed", "--buffers is for dispersed-dsh-hierarchy, not for tie-aware-ap"),
        ("train --data digits --discount reciprocal", "--discount is for tie-aware-dcg, not for tie-aware-ap"),
        (
            "train --data digits --loss dsh --relaxation paper",
            "--relaxation is for tie-aware-ap and tie-aware-dcg, not for dsh",
        ),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, words: str
) -> None:
    rng = np.random.default_rng(0)
    plain, other = tmp_path / "plain.npz", tar_gz(tmp_path / "other.tar.gz", {"a/other.bin": b"x"})
    np.savez(plain, embeddings=rng.normal(size=(20, 4)).astype(np.float32), labels=np.arange(20) % 2)
    text = command.format(archive=archive, plain=plain, other=other, folder=tmp_path)
    (tmp_path / "cache").mkdir(exist_ok=True)
    assert_refused(capsys, tmp_path, text, words)


def test_records_of_labels_that_have_no_name_are_refused(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = {
        "cifar-100-binary/train.bin": records(2, np.random.default_rng(0)),
        "cifar-100-binary/test.bin": records(2, np.random.default_rng(1)),
        "cifar-100-binary/fine_label_names.txt": b"one\ntwo\n",
        "cifar-100-binary/coarse_label_names.txt": b"even\nodd\n",
    }
    wrong = tar_gz(archive.parent / "wrong.tar.gz", contents)
    code, _, err = run(capsys, "data", "cifar100", "--source", wrong)
    assert code == 2
    assert "wrong.tar.gz: labels must be from 0 to 1, the last class, got 0 to 5" in err


def test_the_options_of_the_ranking_losses_reach_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("train", "--data", "digits", "--epochs", 1, "--bits", 8, "--network", "linear", "--output")
    options = ("--discount", "reciprocal", "--gain", "linear", "--relaxation", "paper", "--optimizer", "sgd")
    done(capsys, *command, tmp_path / "h.npz", "--loss", "tie-aware-dcg", *options)
    hasher = la.hashers.load(tmp_path / "h.npz")
    assert hasher.options == {"discount": "reciprocal", "gain": "linear", "relaxation": "paper"}
    assert hasher.optimizer == "sgd"
