"""Notes: an evaluation says what it took for granted and what looks like a mistake; others say nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from lookalike.core.files import digest
from lookalike.shards.convert import shard_file

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((12, 5)).astype(np.float32)
CODES = la.Codes.pack(VECTORS > 0)
BYTES = RNG.integers(0, 256, (12, 5)).astype(np.uint8)
LABELS = np.arange(12) % 3
IDS = np.array([f"i{i}" for i in range(12)])
SELF = "finds itself in the gallery"
NOTHING, EVERYTHING = "nothing is relevant to any query", "every item is relevant to every query"


def evaluated(queries: Any, gallery: Any, n: int = 12, **options: Any) -> la.Evaluation:
    return la.evaluate(queries, gallery, la.same_label(LABELS[:n], LABELS), ["AP", "P@3"], **options)


SAID: dict[str, tuple[Callable[[], la.Evaluation], list[str]]] = {
    "codes that are their own queries": (lambda: evaluated(CODES, CODES), [SELF]),
    "embeddings that are their own queries": (lambda: evaluated(VECTORS, VECTORS.copy()), [SELF]),
    "the same with ids": (lambda: evaluated(CODES, CODES, query_ids=IDS, gallery_ids=IDS), [SELF]),
    "some of them, by their ids": (
        lambda: evaluated(VECTORS[[4, 2]], VECTORS, 2, query_ids=["i4", "new"], gallery_ids=IDS),
        ["1 of 2 queries find themselves"],
    ),
    "equal ids of other vectors": (
        lambda: evaluated(VECTORS[[4, 2]], VECTORS, 2, query_ids=["i0", "i1"], gallery_ids=IDS),
        [],
    ),
    "the same in another precision": (lambda: evaluated(VECTORS, VECTORS.astype(float) + 1e-12), [SELF]),
    "without themselves, by ids that are written otherwise": (
        lambda: evaluated(CODES, CODES, query_ids=[f"0{i}" for i in IDS], gallery_ids=IDS, exclude="self"),
        ["no query has its own id in the gallery"],
    ),
    "without groups that no item has": (
        lambda: evaluated(VECTORS[:3], VECTORS, 3, exclude=([12, 13, 14], np.arange(12))),
        ["no query shares its group with an item"],
    ),
    "without themselves": (lambda: evaluated(CODES, CODES, exclude="self"), []),
    "without their groups": (lambda: evaluated(VECTORS, VECTORS, exclude=(IDS, IDS)), []),
    "other queries": (lambda: evaluated(CODES[:3], CODES, 3), []),
    "bytes": (lambda: evaluated(BYTES[:3], BYTES, 3), ["these embeddings are bytes, 0 to 255"]),
    "bits": (lambda: evaluated(CODES.unpack()[:3], CODES.unpack(), 3), ["these embeddings look like bits"]),
    "labels of another kind": (
        lambda: la.evaluate(CODES[:3], CODES, la.same_label(["x"] * 3, IDS), ["P@3"]),
        [NOTHING],
    ),
    "one label": (lambda: la.evaluate(CODES[:3], CODES, la.same_label([1] * 3, [1] * 12), ["P@3"]), [EVERYTHING]),
    "scores": (lambda: la.evaluate_scores(VECTORS[:3], la.grades(np.zeros((3, 5), int)), ["AP"]), [NOTHING]),
    "a tally": (lambda: la.evaluate_tally(la.count_scores(VECTORS, la.grades(np.ones((12, 5), int)))), [EVERYTHING]),
    "a run": (
        lambda: la.evaluate_run({"q": {"a": 1.0}}, la.judged([("q", "a", 0)]), ["P@3"], unjudged="irrelevant"),
        [NOTHING],
    ),
    "unjudged items are not relevant": (
        lambda: la.evaluate_run({"q": {"a": 1, "b": 2}}, la.judged([("q", "a", 1)]), ["AP"], unjudged="irrelevant"),
        [],
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    make, words = SAID[name]
    result = make()
    assert len(result.notes) == len(words)
    assert all(word in note for word, note in zip(words, result.notes, strict=True))
    assert [message for message in caplog.messages if not message.startswith("compiling")] == result.notes
    assert str(result).splitlines()[-1 - len(words) :] == [result.basis, *(f"note: {note}" for note in result.notes)]
    assert result._repr_html_().count("<p>") == 1 + len(words)
    result.to_json(tmp_path / "result.json")
    saved = la.Evaluation.from_json(tmp_path / "result.json")
    assert (saved.notes, saved.basis) == (result.notes, result.basis)


def test_shards_say_that_nothing_is_relevant(tmp_path: Path) -> None:
    np.savez(tmp_path / "gallery.npz", codes=CODES.unpack(), labels=LABELS)
    shards = shard_file(tmp_path / "gallery.npz", tmp_path / "shards", rows=5)
    assert la.evaluate(CODES[:3], shards, la.same_label(LABELS[:3], shards["labels"]), ["AP"]).notes == []
    (note,) = la.evaluate(CODES[:3], shards, la.same_label(LABELS[:3] + 9, shards["labels"]), ["AP"]).notes
    assert NOTHING in note


def test_the_basis_says_what_vectors_were_taken_as() -> None:
    assert evaluated(CODES[:3], CODES, 3).basis == "3 queries, 12 items: codes of 5 bits, relevant by labels"
    embeddings = evaluated(VECTORS[:3], VECTORS, 3, similarity="dot")
    assert embeddings.basis == "3 queries, 12 items: embeddings of 5 numbers, dot, relevant by labels"


@pytest.mark.parametrize("damage", [{"notes": "x"}, {"notes": [1]}, {"relevance": 3}, {"relevance": {"AP": 3}}])
def test_damaged_notes_are_refused(damage: dict[str, Any], tmp_path: Path) -> None:
    result = evaluated(CODES[:3], CODES, 3)
    la.Evaluation(result.scores, result.query_ids, result.about | damage).to_json(tmp_path / "result.json")
    with pytest.raises(ValueError, match=r"result\.json is damaged"):
        la.Evaluation.from_json(tmp_path / "result.json")


# Metrics of several kinds of relevance


def test_evaluations_of_the_same_queries_are_joined(tmp_path: Path) -> None:
    attributes = np.c_[LABELS, np.arange(12) % 2]
    ap = la.evaluate(CODES[:3], CODES, la.same_label(LABELS[:3], LABELS), ["AP"])
    dcg = la.evaluate(CODES[:3], CODES, la.matching_attributes(attributes[:3], attributes), ["nDCG", "RR"])
    both = la.Evaluation.joined(ap, dcg)
    assert [str(metric) for metric in both] == ["AP", "nDCG", "RR"]
    assert all(both[metric] is (ap if metric.name == "AP" else dcg)[metric] for metric in both)
    assert both.basis.endswith("relevant by labels (AP) and attributes (nDCG, RR)")
    both.to_json(tmp_path / "both.json")
    saved = la.Evaluation.from_json(tmp_path / "both.json")
    assert saved.about["relevance"] == {"AP": "labels", "nDCG": "attributes", "RR": "attributes"}
    digests = [one.to_dict()["inputs"]["relevance"] for one in (ap, dcg)]
    assert saved.about["inputs"]["relevance"] == digests
    with pytest.raises(ValueError, match="different metrics: AP twice"):
        la.Evaluation.joined(ap, ap)
    with pytest.raises(ValueError, match="of the same queries"):
        la.Evaluation.joined(ap, la.evaluate(CODES[:2], CODES, la.same_label(LABELS[:2], LABELS), ["RR"]))


def test_a_metric_of_two_kinds_of_relevance_is_not_compared() -> None:
    attributes = np.c_[LABELS, np.arange(12) % 2]
    by_label = la.evaluate(CODES[:3], CODES, la.same_label(LABELS[:3], LABELS), ["AP", "RR"])
    by_both = la.evaluate(CODES[:3], CODES, la.matching_attributes(attributes[:3], attributes), ["AP"])
    with pytest.raises(ValueError, match="AP cannot be compared, items are relevant by labels in 'a', attributes"):
        la.compare({"a": by_label, "b": by_both})
    unknown = la.Evaluation(by_both.scores, by_both.query_ids, by_both.about | {"relevance": ""})
    assert len(la.compare({"a": by_label, "b": unknown}, resamples=99).differences) == 1


def test_fingerprints_of_embeddings_are_there_when_a_result_is() -> None:
    """They are computed beside the evaluation; what is changed after it changes no fingerprint."""
    rng = np.random.default_rng(0)
    queries, gallery = rng.normal(size=(3, 400)), rng.normal(size=(2000, 400))
    expected = {"queries": digest(queries), "gallery": digest(gallery)}
    labels = la.same_label([0, 1, 2], np.arange(2000) % 3)
    about, tally = la.evaluate(queries, gallery, labels, ["AP"]).about, la.count(queries, gallery, labels)
    gallery += 1
    for inputs in (about["inputs"], tally.inputs):
        assert {name: inputs[name] for name in expected} == expected
