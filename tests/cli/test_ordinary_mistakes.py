"""Ordinary mistakes at the command line: each is refused, or the result says what was made of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.commands import done, numbers, refused, run
from lookalike.discovery.catalogue import Catalogue
from lookalike.hashers import ITQ

RNG = np.random.default_rng(0)
LABELS = np.arange(90) % 3
ITEMS = (RNG.standard_normal((90, 6)) + np.eye(6)[LABELS] * 2).astype(np.float32)
QUERIES, GALLERY = slice(0, 20), slice(20, None)
ATTRIBUTES = np.c_[LABELS, np.arange(90) % 2, np.arange(90) % 5]
IDS = np.array([f"i{i}" for i in range(90)])
BY_LABEL = la.same_label(LABELS[QUERIES], LABELS[GALLERY])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("queries", QUERIES), ("gallery", GALLERY)):
        np.savez(f"{name}.npz", embeddings=ITEMS[rows], labels=LABELS[rows], attributes=ATTRIBUTES[rows])
    return tmp_path


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if not message.startswith("compiling")]


# Two hashers


def test_queries_and_gallery_hashed_apart_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("queries", "gallery"):
        done(capsys, "hash", f"{name}.npz", f"{name}-codes.npz", "--bits", 6)
    done(capsys, "shard", "gallery-codes.npz", "shards")
    advice = "hash both with it (lookalike hash QUERIES … --hasher hasher.npz"
    for gallery in ("gallery-codes.npz", "shards"):
        refused(capsys, advice, "evaluate", "queries-codes.npz", gallery)
    refused(capsys, advice, "rank", "queries-codes.npz", "shards", "out.run")
    assert not (folder / "out.run").exists()


def test_both_hashed_by_one_are_evaluated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done(capsys, "hash", "gallery.npz", "g.npz", "--bits", 6, "--save", "itq.npz")
    done(capsys, "hash", "queries.npz", "q.parquet", "--hasher", "itq.npz")
    done(capsys, "shard", "gallery.npz", "embeddings", "--rows", 30)
    done(capsys, "hash", "embeddings", "codes", "--hasher", "itq.npz")
    hasher = ITQ(6, random_state=0).fit(ITEMS[GALLERY])
    codes = hasher.transform(ITEMS[QUERIES]), hasher.transform(ITEMS[GALLERY])
    wanted = la.evaluate(*codes, BY_LABEL, ["AP"])["AP"].mean
    for gallery in ("g.npz", "codes"):
        assert numbers(capsys, "evaluate", "q.parquet", gallery, "--metrics", "AP")["scores"][0]["mean"] == wanted
    done(capsys, "rank", "q.parquet", "codes", "out.run", "--k", 3)


def test_a_model_of_two_hashers_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("queries", "gallery"):
        done(capsys, "hash", f"{name}.npz", f"{name}-codes.npz", "--bits", 6)
    catalogue, photos = Catalogue(IDS[GALLERY]), Catalogue(IDS[QUERIES])
    la.Study.create(folder / "shop", name="shop", catalogue=catalogue, queries=photos, wild=True)
    refused(capsys, "by another hasher", "study", "add", "shop", "itq", "gallery-codes.npz", "queries-codes.npz")
    assert la.Study.open(folder / "shop").models() == []


# Queries that are the gallery


@pytest.mark.usefixtures("folder")
def test_the_same_file_twice_is_remarked(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    printed = numbers(capsys, "evaluate", "gallery.npz", "gallery.npz", "--metrics", "AP")
    (note,) = lines(caplog)
    assert "each query finds itself" in note
    assert "--exclude-self" in note
    assert printed["notes"] == [note]
    caplog.clear()
    assert numbers(capsys, "evaluate", "gallery.npz", "gallery.npz", "--exclude-self")["notes"] == lines(caplog) == []


def test_one_file_alone_is_left_out_one_by_one(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    printed = numbers(capsys, "evaluate", "gallery.npz", "--metrics", "AP", "--output", "result.json")
    same = la.same_label(LABELS[GALLERY], LABELS[GALLERY])
    wanted = la.evaluate(ITEMS[GALLERY], ITEMS[GALLERY], same, ["AP"], exclude="self")
    assert printed["scores"][0]["mean"] == wanted["AP"].mean
    (note,) = lines(caplog)
    assert "leave-one-out" in note
    assert printed["notes"] == json.loads((folder / "result.json").read_text())["notes"] == [note]
    (folder / "labels.txt").write_text("".join(f"class {label}\n" for label in LABELS[GALLERY]))
    np.save("items.npy", ITEMS[GALLERY])
    again = numbers(capsys, "evaluate", "items.npy", "--query-labels", "labels.txt", "--metrics", "AP")
    assert again["scores"] == printed["scores"]
    (folder / "labels.csv").write_text("".join(f"x{n},{label}\n" for n, label in enumerate(LABELS[GALLERY])))
    caplog.clear()
    again = numbers(capsys, "evaluate", "items.npy", "--query-labels", "labels.csv", "--metrics", "AP")
    assert again["scores"] == printed["scores"]
    assumed, alone = lines(caplog)  # each is said once, though the file is read twice
    assert "labels.csv: the first column was taken as ids" in assumed
    assert again["notes"] == [assumed, alone]


# Bits that are none


def test_the_sign_of_zero_is_settled_by_an_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signs = np.sign(np.round(ITEMS))
    for name, rows in (("q", QUERIES), ("g", GALLERY)):
        np.savez(f"{name}.npz", codes=signs[rows].astype(int), labels=LABELS[rows])
        np.save(f"{name}.npy", signs[rows])
        (folder / f"{name}.txt").write_text("".join(f"{label}\n" for label in LABELS[rows]))
    rows_with_zero = np.flatnonzero((signs[QUERIES] == 0).any(1))
    told = f"{len(rows_with_zero)} of 20 rows have a 0 (rows {', '.join(map(str, rows_with_zero[:3]))}, …)"
    refused(capsys, told, "evaluate", "q.npz", "g.npz")
    labels = ["--query-labels", "q.txt", "--gallery-labels", "g.txt", "--metrics", "AP"]
    for zero in ("one", "minus"):
        bits = signs >= 0 if zero == "one" else signs > 0
        codes = la.Codes.pack(bits[QUERIES]), la.Codes.pack(bits[GALLERY])
        wanted = la.evaluate(*codes, BY_LABEL, ["AP"])["AP"].mean
        settled = ("--zero", zero, "--metrics", "AP")
        assert numbers(capsys, "evaluate", "q.npz", "g.npz", *settled)["scores"][0]["mean"] == wanted
        assert numbers(capsys, "evaluate", "q.npy", "g.npy", *labels, "--zero", zero)["scores"][0]["mean"] == wanted
        done(capsys, "shard", "g.npz", "shards", "--zero", zero, "--replace")
        assert numbers(capsys, "evaluate", "q.npz", "shards", *settled)["scores"][0]["mean"] == wanted
        assert numbers(capsys, "usage", "g.npz", "--zero", zero)["items"] == 70
    for command in (["usage", "g.npz"], ["shard", "g.npz", "other"], ["rank", "q.npz", "shards", "x.run"]):
        refused(capsys, "say what it counts with --zero one or --zero minus", *command)


def test_pieces_of_a_file_with_other_bits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lookalike.shards import convert

    monkeypatch.setattr(convert, "PIECE", 4)
    np.save(tmp_path / "codes.npy", np.array([[-1, 1]] * 4 + [[0, 1]]))
    with pytest.raises(ValueError, match=r"bits change on the way between -1/\+1 and 0/1"):
        convert.shard_file(tmp_path / "codes.npy", tmp_path / "shards")


@pytest.mark.usefixtures("folder")
def test_bytes_are_said_to_be_embeddings(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    packed = np.packbits(RNG.integers(0, 2, (90, 48), np.uint8), axis=1)
    for name, rows in (("q", QUERIES), ("g", GALLERY)):
        np.savez(f"{name}.npz", embeddings=packed[rows], labels=LABELS[rows])
        np.savez(f"{name}-codes.npz", codes=packed[rows], labels=LABELS[rows])
    assert "embeddings of 6 numbers, cosine" in done(capsys, "evaluate", "q.npz", "g.npz").splitlines()[-1]
    (note,) = lines(caplog)
    assert "name the array `packed` and add `n_bits`" in note
    refused(capsys, "name the array `packed` and add `n_bits`", "evaluate", "q-codes.npz", "g-codes.npz")


# Labels and attributes


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.usefixtures("folder")
def test_each_metric_has_its_relevance(sharded: bool, capsys: pytest.CaptureFixture[str]) -> None:
    gallery = "gallery.npz"
    if sharded:
        done(capsys, "shard", "gallery.npz", "shards", "--rows", 30)
        gallery = "shards"
    vectors = ITEMS[QUERIES], ITEMS[GALLERY]
    by_attributes = la.matching_attributes(ATTRIBUTES[QUERIES], ATTRIBUTES[GALLERY])
    wanted = {
        str(metric): la.evaluate(*vectors, kind, [metric])[metric].mean
        for kind, metrics in ((BY_LABEL, ("AP", "P@3")), (by_attributes, ("nDCG", "nDCG@5", "AP@7")))
        for metric in metrics
    }
    asked = ["evaluate", "queries.npz", gallery, "--metrics", "nDCG AP P@3 nDCG@5 AP@7"]
    both = "AP:labels nDCG:attributes AP@7:attributes"
    printed = numbers(capsys, *asked, "--relevance", both)
    assert [row["name"] for row in printed["scores"]] == ["nDCG", "AP", "P@3", "nDCG@5", "AP@7"]
    assert {row["name"]: row["mean"] for row in printed["scores"]} == pytest.approx(wanted, abs=1e-12)
    kinds = {"nDCG": "attributes", "AP": "labels", "P@3": "labels", "nDCG@5": "attributes", "AP@7": "attributes"}
    assert printed["relevance"] == kinds
    last = done(capsys, *asked, "--relevance", both).splitlines()[-1]
    assert last.endswith("relevant by attributes (nDCG, nDCG@5, AP@7) and labels (AP, P@3)")
    assert done(capsys, *asked).splitlines()[-1].endswith("relevant by labels")
    assert numbers(capsys, *asked, "--relevance", "attributes")["relevance"] == "attributes"


# Other items


def test_features_of_other_items_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("items.npz", embeddings=ITEMS, labels=LABELS, ids=IDS)
    np.savez("turned.npz", embeddings=ITEMS[::-1], ids=IDS[::-1])
    done(capsys, "hash", "items.npz", "codes.npz", "--bits", 6)
    done(capsys, "usage", "codes.npz", "--features", "items.npz")
    told = "turned.npz is of other items, or in another order: its id in row 0 is i89, that of the codes i0"
    refused(capsys, told, "usage", "codes.npz", "--features", "turned.npz")


def test_labels_of_nothing_here_are_remarked(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "words.txt").write_text("".join(f"kind {label}\n" for label in LABELS[QUERIES]))
    (folder / "others.txt").write_text("".join(f"class {label}\n" for label in LABELS[GALLERY]))
    np.save("q.npy", ITEMS[QUERIES])
    np.save("g.npy", ITEMS[GALLERY])
    labels = ["--query-labels", "words.txt", "--gallery-labels", "others.txt", "--metrics", "P@3"]
    code, out, _ = run(capsys, "evaluate", "q.npy", "g.npy", *labels, "--json")
    assert code == 0
    assert lines(caplog) == json.loads(out)["notes"]
    assert "nothing is relevant to any query" in lines(caplog)[0]


# Ids of one side alone


def test_a_query_is_not_known_by_an_id_among_items_without_ids(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    np.savez("named.npz", embeddings=ITEMS[QUERIES], labels=LABELS[QUERIES], ids=np.arange(20) + 30)
    bits = {"codes": ITEMS > 0, "labels": LABELS}
    np.savez("codes.npz", **bits)
    np.savez("named-codes.npz", **bits, ids=np.arange(90)[::-1])
    done(capsys, "shard", "gallery.npz", "shards")
    for command in (
        ("evaluate", "named.npz", "gallery.npz"),
        ("evaluate", "named.npz", "shards"),
        ("evaluate", "gallery.npz", "named.npz"),
        ("audit", "named-codes.npz", "codes.npz"),
    ):
        lacking = (folder / "shards") if "shards" in command else next(f for f in command[1:] if "named" not in f)
        refused(capsys, f"{lacking} has no ids, by which a query's own item is known", *command, "--exclude-self")
    done(capsys, "evaluate", "codes.npz", "codes.npz", "--exclude-self")  # both by their positions
