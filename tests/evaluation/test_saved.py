"""What was saved is checked when it is read: one thing is changed, and the file is refused or says the same.

What a vacuous test would let pass: a change that the seal of a file sees before the check that is meant (files are
also sealed anew, and read as those of earlier versions, which have no seal); a change of nothing (what is read must be
equal, number by number); files that are refused although they are right (every kind of tally, and every metric, comes
back).
"""

import copy
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike import hashers
from lookalike.core.files import seal
from lookalike.evaluation.count_scores import count_run
from lookalike.metrics import MEASURES
from lookalike.search.index import Index

RNG = np.random.default_rng(0)
CODES = la.Codes.pack(RNG.integers(0, 2, (9, 6)))
VECTORS = RNG.standard_normal((9, 3)).astype(np.float32)
LABELS = np.arange(9) % 3
SAME = la.same_label(LABELS, LABELS)
RUN = {"q": {"a": 2.0, "b": 1.0}, "r": {"b": 1.0, "c": 1.0}}
JUDGED = la.judged([("q", "a", 2), ("q", "x", 1), ("r", "c", 0), ("r", "b", 1)])
NOTHING = la.judged([("q", "a", 3)])

TALLIES = {
    "codes": la.count(CODES, CODES, SAME),
    "ball": la.count(CODES, CODES, SAME, radius=2, exclude="self"),
    "cosine": la.count(VECTORS, VECTORS, SAME),
    "merged": la.count(VECTORS, VECTORS, SAME, scores=False),
    "euclidean": la.count(VECTORS, VECTORS, la.grades(RNG.integers(0, 4, (9, 9))), similarity="euclidean"),
    "judged": la.count_scores(
        [[2.0, 1.0, 1.0]], la.judged([("q", "a", 2), ("q", "x", 1)]), query_ids=["q"], gallery_ids=["a", "b", "c"]
    ),
    "run": count_run(RUN, JUDGED),
    "nothing ranked": count_run({}, NOTHING),
    "sum": la.count(CODES, CODES[:4], la.same_label(LABELS, LABELS[:4]), radius=1)
    + la.count(CODES, CODES[4:], la.same_label(LABELS, LABELS[4:]), radius=1),
}


def parts(tally: la.Tally) -> dict[str, Any]:
    arrays, facts = tally.to_arrays()
    return arrays | facts


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return bool(one == other)


def read_npz(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays, json.loads(str(arrays.pop("about")))


def write_npz(path: Path, arrays: dict[str, Any], about: dict[str, Any], sealed: str = "anew") -> None:
    """Write arrays with what is said of them: sealed anew, not at all, or as they were before they were changed."""
    about = dict(about)
    if sealed != "before":
        about.pop("seal", None)
    if sealed == "anew":
        about["seal"] = seal(arrays, about)
    np.savez(path, about=np.array(json.dumps(about)), **arrays)


def changed_value(data: st.DataObject, value: Any) -> Any:
    """Something else in the place of a plain value."""
    others: list[Any] = [None, True, -1, 0, 3, 10**30, 0.5, math.nan, "", "other", [], {}, [value], {"a": value}]
    if isinstance(value, int) and not isinstance(value, bool):
        others += [value + 1, -value - 1]
    return data.draw(st.sampled_from(others))


def changed_array(data: st.DataObject, array: np.ndarray) -> np.ndarray:
    """An array with another shape, another type or another number."""
    how = data.draw(st.sampled_from(["number", "shape", "type", "cut", "longer", "flat", "empty"]))
    if how == "number" and array.size and array.dtype.kind in "iuf":
        out = array.copy()
        place = data.draw(st.integers(0, array.size - 1))
        options = [0, 1, 7] if array.dtype.kind == "u" else [0, 1, -1, -(2**62), 2**62]
        out.flat[place] = data.draw(
            st.sampled_from([*options, *([math.nan, math.inf] if array.dtype.kind == "f" else [])])
        )
        return out
    if how == "type":
        kind = data.draw(st.sampled_from(["f4", "f8", "i4", "u1", "U3", "?", "c16", "M8[s]"]))
        return np.zeros(array.shape, kind)
    if how == "longer":
        return np.concatenate([array, array]) if array.ndim else array[None]
    if how == "cut" and array.ndim:
        return array[..., :-1] if data.draw(st.booleans()) else array[:-1]
    if how == "flat":
        return array.ravel()
    if how == "empty":
        huge = data.draw(st.sampled_from([(0,), (0, 2**40), (len(array) if array.ndim else 1, 0, 2**40)]))
        return np.zeros(huge, array.dtype)
    return array[None]


def change_one_thing(data: st.DataObject, arrays: dict[str, Any], about: dict[str, Any]) -> None:
    name = data.draw(st.sampled_from([*sorted(arrays), *sorted(about)]))
    where = arrays if name in arrays else about
    if data.draw(st.integers(0, 5)) == 0:
        del where[name]
    elif name in arrays:
        arrays[name] = changed_array(data, arrays[name])
    else:
        about[name] = changed_value(data, about[name])


def loaded_or_refused(load: Callable[[Path], Any], path: Path) -> Any:
    try:
        return load(path)
    except ValueError as error:
        told = str(error)
    assert path.name in told
    assert "\n" not in told
    return None


# Tallies


@pytest.mark.parametrize("kind", TALLIES)
def test_every_tally_comes_back(kind: str, tmp_path: Path) -> None:
    tally = TALLIES[kind]
    tally.save(tmp_path / "x.npz")
    assert same(parts(la.Tally.load(tmp_path / "x.npz")), parts(tally))
    for policy in ("irrelevant", "relevant", "condensed"):
        told = tally.with_unjudged(policy)
        told.save(tmp_path / "x.npz")
        assert same(parts(la.Tally.load(tmp_path / "x.npz")), parts(told))
    arrays, about = read_npz(tmp_path / "x.npz")
    write_npz(tmp_path / "x.npz", arrays, about, "never")
    assert same(parts(la.Tally.load(tmp_path / "x.npz")), parts(told))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_changed_tally_is_refused_or_the_same(data: st.DataObject) -> None:
    tally = TALLIES[data.draw(st.sampled_from(sorted(TALLIES)))]
    sealed = data.draw(st.sampled_from(["before", "anew", "never"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npz"
        tally.save(path)
        arrays, about = read_npz(path)
        change_one_thing(data, arrays, about)
        write_npz(path, arrays, about, sealed)
        loaded = loaded_or_refused(la.Tally.load, path)
    if loaded is None:
        return
    if sealed == "before" and "seal" in about:
        assert same(parts(loaded), parts(tally))
    metrics = ["AP", "nDCG@3", "P@2", "AUC"]
    evaluation = la.evaluate_tally(loaded, metrics, unjudged="irrelevant", undefined="skip")
    assert all(not evaluation[metric].worst < -1e-9 for metric in metrics)


@pytest.mark.parametrize(
    ("kind", "change", "match"),
    [
        ("codes", lambda a, _: a["counts"].__setitem__((0, 0, 0), -1), "counts fewer than 0 items"),
        ("codes", lambda a, _: a["counts"].__setitem__((0, slice(None), 0), 2**62), "passes 2\\^63"),
        ("codes", lambda a, _: a.pop("unjudged"), "lacks unjudged"),
        ("codes", lambda _, about: about.pop("method"), "lacks method"),
        ("codes", lambda _, about: about.update(n_bits=7), "codes of 7 bits do not have 7 distances"),
        ("codes", lambda a, _: a.update(query_ids=np.arange(8)), r"query_ids must be \(9,\)"),
        ("codes", lambda a, _: a.update(counts=a["counts"].astype(float)), "counts must be .* of int64"),
        ("codes", lambda _, about: about.update(complete="yes"), "complete is 'yes'"),
        ("nothing ranked", lambda a, _: a.update(counts=np.zeros((1, 0, 2**40), np.int64)), "but nothing in them"),
        ("ball", lambda a, _: a["ball_counts"].__setitem__(0, 5), "do not fit the counts"),
        ("ball", lambda a, _: a["ball_queries"].__setitem__(0, 99), "a query or at a distance that is not there"),
        ("ball", lambda _, about: about.update(radius=10**9), "radius is 1000000000"),
        ("ball", lambda a, _: a["largest"].__setitem__((0, 1), 99), "largest does not fit"),
        ("cosine", lambda a, _: a["scores"].__setitem__((0, 3), math.nan), "a group of items has no score"),
        ("cosine", lambda a, _: a["scores"].__setitem__((0, 3), 1e9), "scores must fall"),
        ("cosine", lambda a, _: a["lengths"].__setitem__(0, math.nan), "lengths must be finite"),
        ("cosine", lambda _, about: about.update(similarity="cosmic"), "similarity is 'cosmic'"),
        ("merged", lambda _, about: about.update(complete=True), "the score of every group"),
        ("judged", lambda a, _: a["unranked_grades"].__setitem__(0, 9), "a grade that is not there"),
        ("judged", lambda a, _: a.pop("unranked_queries"), "lacks unranked_queries"),
    ],
)
@pytest.mark.parametrize("sealed", ["anew", "never"])
def test_what_cannot_be_a_tally_is_refused(
    kind: str, change: Callable[[Any, Any], None], match: str, sealed: str, tmp_path: Path
) -> None:
    TALLIES[kind].save(tmp_path / "x.npz")
    arrays, about = read_npz(tmp_path / "x.npz")
    change(arrays, about)
    write_npz(tmp_path / "x.npz", arrays, about, sealed)
    with pytest.raises(ValueError, match=rf"x\.npz is damaged: .*{match}"):
        la.Tally.load(tmp_path / "x.npz")


def test_a_seal_shows_what_no_check_can(tmp_path: Path) -> None:
    TALLIES["codes"].save(tmp_path / "x.npz")
    arrays, about = read_npz(tmp_path / "x.npz")
    arrays["counts"][0, 3] += 1
    write_npz(tmp_path / "x.npz", arrays, about, "before")
    with pytest.raises(ValueError, match=r"x\.npz is damaged: it does not hold the tally that was saved"):
        la.Tally.load(tmp_path / "x.npz")


# Results

CUT = {"optional": "", "none": "", "required": "@3", "radius": "@2"}
EVERY = [*(name + CUT[measure.cutoff] for name, measure in MEASURES.items()), "AP@3", "AUC(average='micro')"]
RESULTS = {
    "codes": la.evaluate(CODES, CODES, SAME, EVERY, exclude="self"),
    "nan": la.evaluate(
        CODES[:2], CODES, la.grades(np.eye(1, 9).repeat(2, 0) * [[1], [0]]), ["AP", "nDCG@3"], undefined="skip"
    ),
    "zero": la.evaluate(CODES[:2], CODES, la.grades(np.eye(2, 9)[:, ::-1] * [[2], [0]]), ["AP"], undefined="zero"),
    "run": la.evaluate_run(RUN, JUDGED, ["AP", "RR@1"], unjudged="irrelevant"),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_comes_back(kind: str, tmp_path: Path) -> None:
    text = RESULTS[kind].to_json(tmp_path / "x.json")
    assert json.loads(la.Evaluation.from_json(tmp_path / "x.json").to_json()) == json.loads(text)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where each value within a value is, that of the values that hold others included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in leaves(part, (*path, key)))]


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_changed_result_is_refused_or_has_the_same_scores(data: st.DataObject) -> None:
    whole = json.loads(RESULTS[data.draw(st.sampled_from(sorted(RESULTS)))].to_json())
    *way, last = data.draw(st.sampled_from(leaves(whole)[1:]))
    changed = copy.deepcopy(whole)
    inner = changed
    for key in way:
        inner = inner[key]
    if data.draw(st.integers(0, 3)) == 0:
        del inner[last]
    else:
        inner[last] = changed_value(data, inner[last])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_text(json.dumps(changed), encoding="utf-8")
        loaded = loaded_or_refused(la.Evaluation.from_json, path)
    if loaded is None:
        return
    assert str(loaded)
    read_again = json.loads(loaded.to_json())
    if len(way) > 1 and last != "undefined":  # a score may be left out, and a query that scores 0 may have no value
        assert read_again["scores"] == whole["scores"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda r: r["scores"][0]["per_query"].append(0.5), "10 values, but there are 9 queries"),
        (lambda r: r["scores"][0].update(mean=0.123), "the mean of AP is 0.123, but that of its values"),
        (lambda r: r["scores"][0].update(worst=None), "the worst of AP is None"),
        (lambda r: r["scores"][0]["per_query"].__setitem__(0, None), "some values of AP, but not all"),
        (lambda r: r["scores"][0]["per_query"].__setitem__(0, math.nan), "a value that is not finite"),
        (lambda r: r["scores"][0]["per_query"].__setitem__(0, math.inf), "a value that is not finite"),
        (lambda r: r["scores"][0]["per_query"].__setitem__(0, "0.5"), "per_query must be int or float, got '0.5'"),
        (lambda r: r["scores"][0].update(undefined=-1), "cannot be undefined for -1 queries"),
        (lambda r: r["scores"][0].update(undefined=10), "cannot be undefined for 10 queries"),
        (lambda r: r["scores"][0].update(name="nDCG"), "nDCG of 9 queries is called AP of 9"),
        (lambda r: r["scores"][0].update(queries=8), "AP of 9 queries is called AP of 8"),
        (lambda r: r["scores"][0].update(name="APP"), "there is no metric 'APP'"),
        (lambda r: r["scores"][0].update(name="AP" + " " * 100_000 + "!"), "a name of at most 300 letters"),
        (lambda r: r["scores"].append(r["scores"][0]), "a metric twice"),
        (lambda r: r["scores"][0].pop("best_per_query"), "lacks best_per_query"),
        (lambda r: r.pop("query_ids"), "lacks query_ids"),
        (lambda r: r.update(query_ids=[1.5] * 9), "query_ids must be whole numbers or strings"),
        (lambda r: r.update(query_ids=["x" * 2000] * 9), "are too long"),
        (lambda r: r.update(query_ids=[10**30] * 9), "too large"),
        (lambda r: r.update(items=-1), "fewer than 0 items"),
        (lambda r: r.pop("items"), "lacks items"),
        (lambda r: r.update(scores={}), "scores must be list"),
    ],
)
def test_what_cannot_be_a_result_is_refused(
    change: Callable[[Any], None], match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookalike.evaluation.results.LONGEST_IDS", 10_000)
    saved = json.loads(RESULTS["codes"].to_json())
    change(saved)
    (tmp_path / "x.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"x\.json is damaged: .*{match}"):
        la.Evaluation.from_json(tmp_path / "x.json")


@pytest.mark.parametrize("text", ["[" * 100_000, "[1e999, NaN]", "Infinity", "9" * 5000, "\udcff", '{"a": ' * 50_000])
def test_other_json_and_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"x\.json (is not a JSON file|holds no evaluation|has a number)"):
        la.Evaluation.from_json(tmp_path / "x.json")


# Hashers

X = RNG.standard_normal((60, 8)).astype(np.float32)
FITTED: dict[str, Any] = {}


def fitted(name: str) -> Any:
    if name not in FITTED:
        FITTED[name] = hashers.make(name, 4).fit(X, np.arange(60) % 3)
    return FITTED[name]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_changed_hasher_is_refused_or_gives_the_same_codes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(hashers.HASHERS)))
    hasher = fitted(name)
    sealed = data.draw(st.sampled_from(["before", "anew", "never"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npz"
        hasher.save(path)
        arrays, about = read_npz(path)
        facts = about["parameters"] if data.draw(st.booleans()) else about
        change_one_thing(data, arrays, facts)
        if sealed != "before" and "digest" in about:
            about["digest"] = hashers.base._fingerprint(arrays)
        write_npz(path, arrays, about, sealed)
        loaded = loaded_or_refused(hashers.load, path)
    if loaded is None:
        return
    codes = loaded.transform(X)
    assert codes.n_bits == loaded.n_bits
    if sealed == "before" and "seal" in about:
        assert codes == hasher.transform(X)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a, _: a["directions_"].__setitem__((0, 0), math.nan), "does not give 4 bits"),
        (lambda a, _: a.update(directions_=np.zeros((0, 2**40), np.float32)), "does not hold the hasher"),
        (lambda a, _: a.update(directions_=a["directions_"][:, :3]), "does not give 4 bits"),
        (lambda a, _: a.update(mean_=a["mean_"][:3]), "does not give 4 bits"),
        (lambda a, _: a.pop("directions_"), "does not make a hasher of the kind LSH"),
        (lambda a, _: a.update(n_features_in_=np.array("eight")), "does not make a hasher of the kind LSH"),
        (lambda a, _: a.update(n_features_in_=np.array(8.5)), "does not make a hasher of the kind LSH"),
        (lambda _, about: about["parameters"].update(n_bits=-4), "does not make a hasher of the kind LSH"),
        (lambda _, about: about["parameters"].update(colour=1), "does not make a hasher of the kind LSH"),
        (lambda _, about: about.pop("parameters"), "does not make a hasher of the kind LSH"),
    ],
)
def test_what_cannot_be_a_hasher_is_refused(change: Callable[[Any, Any], None], match: str, tmp_path: Path) -> None:
    fitted("LSH").save(tmp_path / "x.npz")
    arrays, about = read_npz(tmp_path / "x.npz")
    change(arrays, about)
    about["digest"] = hashers.base._fingerprint(arrays)
    write_npz(tmp_path / "x.npz", arrays, about, "never")
    with pytest.raises(ValueError, match=rf"x\.npz is damaged: .*{match}"):
        hashers.load(tmp_path / "x.npz")


@pytest.mark.parametrize(("name", "array"), [("SKLSH", "phases_"), ("SH", "frequencies_"), ("SpH", "radii_")])
def test_what_compiled_loops_read_has_a_number_for_each_bit(name: str, array: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "x.npz")
    arrays, about = read_npz(tmp_path / "x.npz")
    arrays[array] = arrays[array][:2]
    about["digest"] = hashers.base._fingerprint(arrays)
    write_npz(tmp_path / "x.npz", arrays, about)
    with pytest.raises(ValueError, match=r"x\.npz is damaged: what it learned does not give 4 bits"):
        hashers.load(tmp_path / "x.npz")


# Indexes


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_index_is_refused_or_finds_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(INDEXES)))
    arrays, about = copy.deepcopy(INDEXES[kind])
    sealed = data.draw(st.sampled_from(["before", "never"]))  # never anew: faiss is not to be given what was changed
    change_one_thing(data, arrays, about)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npz"
        write_npz(path, arrays, about, sealed)
        loaded = loaded_or_refused(Index.load, path)
    if loaded is None:
        return
    items = loaded.items
    found = loaded.search(items[:5], 3)
    assert (found.items[:, 0] >= 0).all()
    assert repr(loaded)


def _saved_indexes() -> dict[str, Any]:
    many = np.random.default_rng(1).standard_normal((150, 4)).astype(np.float32)
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("exact", "ivf", "hnsw"):
            for what, items in (("codes", la.Codes.pack(many > 0)), ("embeddings", many)):
                path = Path(folder) / "x.npz"
                Index.build(items, ids=range(150), kind=kind, target=0.5).save(path)
                made[f"{kind} {what}"] = read_npz(path)
    return made


INDEXES = _saved_indexes()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("ivf codes", {"effort": -1}),
        ("ivf codes", {"effort": "all"}),
        ("ivf codes", {"effort": 1000}),
        ("ivf codes", {"method": "hnsw"}),
        ("hnsw codes", {"effort": 10**30}),
        ("ivf codes", {"method": "exact"}),
        ("ivf codes", {"method": "hnws"}),
        ("ivf codes", {"measured": None}),
        ("ivf embeddings", {"similarity": "cosmic"}),
        ("hnsw embeddings", {"measured": {"recall": 7, "k": 1, "n_queries": 2, "target": 0.5, "seed": 0}}),
        ("exact codes", {"method": "ivf"}),
        ("exact codes", {"digest": "0" * 16}),
    ],
)
def test_what_cannot_be_an_index_is_refused(kind: str, change: dict[str, Any], tmp_path: Path) -> None:
    arrays, about = INDEXES[kind]
    write_npz(tmp_path / "x.npz", arrays, about, "never")
    assert len(Index.load(tmp_path / "x.npz")) == 150
    write_npz(tmp_path / "x.npz", arrays, {**about, **change}, "never")
    with pytest.raises(ValueError, match=r"x\.npz is damaged: build the index again"):
        Index.load(tmp_path / "x.npz")
