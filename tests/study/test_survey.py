"""What is in a collection, against the slow and obvious: every pair measured, every order of ties averaged.

A vacuous test would pass on collections without ties, without near-duplicates, or so small that nothing is cut: here
codes have few bits and rows are whole numbers, so that many pairs tie, and all sizes at which work is cut are lowered.
"""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.core import progress
from lookalike.discovery.catalogue import Catalogue
from lookalike.hashers import ITQ, LSH
from lookalike.search import all_pairs as sweeping
from lookalike.search import near_duplicates
from lookalike.search.near_duplicates import Near, NearPair, find_near
from lookalike.search.pair_spaces import PairSpace, pair_space
from lookalike.study.study import Study
from lookalike.study.survey import Survey, survey


@pytest.fixture(params=["whole", "cut"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at once, or in the smallest pieces and by a few numbers of each item."""
    if request.param == "cut":
        small = {"ROWS": 3, "COLUMNS": 16, "CHUNK": 5, "MEASURED": 7, "FEW": 2, "SMALL": 3, "SAMPLE": 6}
        for name, value in {**small, "LEARNED": (1, 2)}.items():
            monkeypatch.setattr(sweeping, name, value)
        monkeypatch.setattr(near_duplicates, "DRAWN", 500)


in_pieces = pytest.mark.usefixtures("_sizes")


# Near-duplicates and look-alikes


def all_pairs(space: PairSpace) -> list[tuple[float, int, int]]:
    """Squared distances of all pairs, and the items, in order of these."""
    n = len(space)
    return sorted(
        (float(space.squares(np.array([i]), np.array([j]))[0]), i, j) for i, j in itertools.combinations(range(n), 2)
    )


def groups_of(n: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    """What edges connect, by walking."""
    beside: dict[int, set[int]] = {i: set() for i in range(n)}
    for i, j in edges:
        beside[i].add(j)
        beside[j].add(i)
    left, out = set(range(n)), []
    while left:
        seen, todo = set(), [min(left)]
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo += beside[i]
        left -= seen
        if len(seen) > 1:
            out.append(sorted(seen))
    return out


def nearest_across(
    pairs: list[tuple[float, int, int]], labels: list[str], wanted: int, by_label: bool
) -> list[tuple[float, int, int]]:
    found: dict[Any, tuple[float, int, int]] = {}
    for square, i, j in pairs:
        if labels[i] and labels[j] and labels[i] != labels[j]:
            found.setdefault(frozenset((labels[i], labels[j])) if by_label else (i, j), (square, i, j))
    return sorted(found.values())[:wanted]


def check(vectors: Any, similarity: str | None, labels: list[str] | None, limit: float, wanted: int) -> Near:
    space = pair_space(vectors, similarity)
    found = find_near(
        vectors, None if labels is None else np.array(labels, str), similarity=similarity,
        limit=space.shown(limit), pairs=wanted,
    )  # fmt: skip
    limit = space.square(space.shown(limit))
    pairs = all_pairs(space)
    groups = groups_of(len(space), [(i, j) for square, i, j in pairs if square <= limit])
    assert sorted(group.items.tolist() for group in found.groups) == sorted(groups)
    sizes = [len(group.items) for group in found.groups]
    assert sizes == sorted(sizes, reverse=True)
    known = {(i, j): square for square, i, j in pairs}
    for group in found.groups:
        inside = [known[pair] for pair in itertools.combinations(group.items.tolist(), 2)]
        assert (group.nearest, group.farthest) == (space.shown(min(inside)), space.shown(max(inside)))
    if labels is None:
        assert found.pairs == found.beyond == []
        return found
    names = {name for name in labels if name}
    many = len(names) * (len(names) - 1) // 2 >= 50 * wanted
    assert shown(found.pairs, space) == told(nearest_across(pairs, labels, wanted, many), space)
    merged = labels
    if many:  # labels that share a group are one
        one: dict[str, str] = {}
        steps = [(labels[a], labels[b]) for group in groups for a, b in itertools.pairwise(
            [i for i in group if labels[i]])]  # fmt: skip
        order = sorted(names)
        for joined in groups_of(len(order), [(order.index(a), order.index(b)) for a, b in steps]):
            one |= {order[i]: order[joined[0]] for i in joined}
        merged = [one.get(name, name) for name in labels]
    far = [pair for pair in pairs if pair[0] > limit]
    assert shown(found.beyond, space) == told(nearest_across(far, merged, wanted, many), space)
    return found


def shown(pairs: list[NearPair], space: PairSpace) -> list[tuple[float, int, int]]:
    return [(pair.distance, pair.first, pair.second) for pair in pairs]


def told(pairs: list[tuple[float, int, int]], space: PairSpace) -> list[tuple[float, int, int]]:
    return [(space.shown(square), i, j) for square, i, j in pairs]


FEW_LABELS, MANY_LABELS = st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["", *"abcdefghijklmnop"])
LISTS = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.one_of(
            st.none(),
            st.lists(FEW_LABELS, min_size=n, max_size=n),
            st.lists(MANY_LABELS, min_size=n, max_size=n),
        ),
        st.integers(0, 2**32 - 1),
    )
)
COMMON = settings(deadline=None, max_examples=120)


@in_pieces
@given(LISTS, st.sampled_from([1, 4, 7, 70, 300]), st.integers(0, 3), st.integers(1, 4))
@COMMON
def test_groups_and_pairs_of_codes_are_those_of_all_pairs(
    sized: tuple[int, list[str] | None, int], bits: int, limit: int, wanted: int
) -> None:
    n, labels, seed = sized
    rng = np.random.default_rng(seed)
    codes = la.Codes.pack(rng.random((n, bits)) < rng.choice([0.5, 2 / bits if bits > 4 else 0.5]))
    check(codes, None, labels, limit, wanted)


@in_pieces
@given(LISTS, st.sampled_from([1, 3, 9, 40]), st.sampled_from([0.0, 1.0, 2.0, 9.0]), st.integers(1, 4))
@COMMON
def test_groups_and_pairs_of_embeddings_are_those_of_all_pairs(
    sized: tuple[int, list[str] | None, int], dim: int, limit: float, wanted: int
) -> None:
    n, labels, seed = sized
    rows = np.random.default_rng(seed).integers(-2, 3, (n, dim)).astype(np.float32)
    check(rows, "euclidean", labels, limit, wanted)


@in_pieces
@given(LISTS, st.sampled_from([2, 30]), st.sampled_from([0.5, 0.9, 0.99, 1.0]), st.sampled_from([np.float32, float]))
@COMMON
def test_groups_and_pairs_by_cosine_are_those_of_all_pairs(
    sized: tuple[int, list[str] | None, int], dim: int, cosine: float, kind: type
) -> None:
    n, labels, seed = sized
    rng = np.random.default_rng(seed)
    rows: np.ndarray = rng.normal(size=(n, dim)).astype(kind)
    rows = rows[rng.integers(n, size=n)]  # some are the same
    check(rows, "cosine", labels, 2 * (1 - cosine), 3)


def test_a_few_numbers_of_each_item_leave_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that mostly lie in a few directions, so that cutting pays; many pairs are just at the limit."""
    monkeypatch.setattr(sweeping, "SMALL", 10)
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(140, 6)) @ rng.normal(size=(6, 400)) + 0.05 * rng.normal(size=(140, 400))
    rows[70:] = rows[:70] + 0.02 * rng.normal(size=(70, 400))
    labels = rng.integers(0, 60, 140).astype(str).tolist()
    tried: list[Any] = []
    basis = sweeping._basis

    def noted(*given: Any) -> Any:
        tried.append(basis(*given))
        return tried[-1]

    monkeypatch.setattr(sweeping, "_basis", noted)
    distances = all_pairs(pair_space(rows.astype(np.float32), "cosine"))
    found = check(rows.astype(np.float32), "cosine", labels, distances[100][0], 5)
    assert len(tried) == 1  # pairs that are not near-duplicates are looked for with the same numbers
    assert tried[0] is not None
    assert tried[0].shape[1] < 200
    assert 10 < len(found.groups) <= 70


def test_the_usual_distance_and_the_limit_are_those_of_the_collection() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150, 50))
    usual = np.median([np.sqrt(square) for square, _, _ in all_pairs(pair_space(rows, "euclidean"))])
    for scale in (1.0, 1000.0):
        found = find_near(scale * rows, similarity="euclidean")
        assert found.usual == pytest.approx(scale * usual, rel=0.03)
        assert found.limit == pytest.approx(found.usual / 4, rel=1e-9)
        assert (found.unit, found.chosen) == ("distance", False)
    by_angle = find_near(rows)
    assert np.sqrt(2 * (1 - by_angle.limit)) == pytest.approx(np.sqrt(2 * (1 - by_angle.usual)) / 4)
    assert find_near(la.Codes.pack(rng.random((50, 100)) < 0.5)).limit == 6
    assert find_near(rows, similarity="euclidean", limit=2.5).chosen


def test_a_crowd_of_equals_is_one_group() -> None:
    """Where all are equal, all pairs tie: the first in order are taken, and it ends."""
    n = 700
    labels = np.arange(n).astype(str)
    for vectors in (np.ones((n, 5), np.float32), la.Codes.pack(np.ones((n, 64)))):
        found = find_near(vectors, labels, pairs=3)
        assert [len(group.items) for group in found.groups] == [n]
        assert not found.groups[0].whole
        assert [(pair.first, pair.second) for pair in found.pairs] == [(0, 1), (0, 2), (0, 3)]
        assert found.beyond == []


@in_pieces
@pytest.mark.parametrize("n", [0, 1])
def test_next_to_nothing_has_no_pairs(n: int) -> None:
    for vectors in (np.ones((n, 4)), la.Codes.pack(np.ones((n, 4)))):
        found = find_near(vectors, np.full(n, "a"))
        assert (found.groups, found.pairs, found.beyond, found.grouped) == ([], [], [], 0)


# A study


def a_shop(folder: Path, n: int = 160, *, identities: bool = True, categories: bool = True) -> Study:
    """Items of 12 categories, most of them in two images; a row is that of its category, its thing and its image."""
    rng = np.random.default_rng(7)
    things = np.sort(rng.integers(0, n // 2, n))
    kinds = things % 12
    names = np.array([f"kind {kind}" for kind in kinds])
    names[[0, 20, 40]] = ""  # of different things
    catalogue = Catalogue(
        np.array([f"i{place:03d}" for place in range(n)]),
        identities=things.astype(str) if identities else None,
        categories=names if categories else None,
    )
    study = Study.create(folder, "shop", catalogue, queries=np.arange(0, n, 9))
    base = rng.normal(size=(12, 24))[kinds] + 0.8 * rng.normal(size=(n, 24))[things]
    study.add_model("good", gallery=(base + 0.4 * rng.normal(size=base.shape)).astype(np.float32))
    study.add_model(
        "far", gallery=(base + 0.9 * rng.normal(size=base.shape)).astype(np.float32), similarity="euclidean"
    )
    study.add_model("code", gallery=la.Codes.pack(base[:, :10] + 0.5 * rng.normal(size=(n, 10)) > 0))
    return study


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return a_shop(tmp_path_factory.mktemp("shop") / "study")


def hashers() -> list[tuple[str, Any]]:
    return [
        ("ITQ", ITQ(n_bits=8, random_state=0)),
        ("ITQ", ITQ(n_bits=16, random_state=0)),
        ("LSH", LSH(n_bits=40, random_state=0)),
        ("ITQ", ITQ(n_bits=60, random_state=0)),
    ]


@pytest.fixture(scope="module")
def found(shop: Study) -> Survey:
    return survey(shop, hashers=hashers(), model="good")


def nearness_of(study: Study, model: str) -> np.ndarray:
    """How near all items are to all, higher is nearer; ties are exact."""
    stored = study.model(model)
    if isinstance(stored.gallery, la.Codes):
        bits = stored.gallery.unpack().astype(int)
        return -(bits[:, None] != bits[None]).sum(2)
    rows = np.asarray(stored.gallery, float)
    if stored.similarity == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows @ rows.T
    return -((rows[:, None] - rows[None]) ** 2).sum(2)


def expected(scores: np.ndarray, relevant: np.ndarray) -> dict[str, float]:
    """Hits, reciprocal rank and precisions of one ranking, averaged over every order of ties by drawing many."""
    rng = np.random.default_rng(0)
    draws = 1 if len(np.unique(scores)) == len(scores) else 1500
    sums = {"Hit@1": 0.0, "Hit@5": 0.0, "RR": 0.0, "AP": 0.0, "P@10": 0.0}
    for _ in range(draws):
        order = np.lexsort((rng.random(len(scores)), -scores))
        right = relevant[order]
        ranks = np.flatnonzero(right) + 1
        sums["Hit@1"] += bool(right[0])
        sums["Hit@5"] += bool(right[:5].any())
        sums["RR"] += 1 / ranks[0]
        sums["AP"] += float(np.mean(np.arange(1, len(ranks) + 1) / ranks))
        sums["P@10"] += float(right[:10].mean())
    return {name: total / draws for name, total in sums.items()}


def test_models_are_measured_on_their_labels(shop: Study, found: Survey) -> None:
    identities, categories = shop.catalogue.identities, shop.catalogue.categories
    assert [retrieval.label for retrieval in found.retrieval] == ["identity", "category"]
    for retrieval in found.retrieval:
        by_identity = retrieval.label == "identity"
        labels = identities if by_identity else categories
        assert labels is not None
        assert identities is not None
        own = np.arange(len(labels)) if by_identity else identities
        something = [
            place for place in range(len(labels))
            if labels[place] and ((labels == labels[place]) & (own != own[place])).any()
        ]  # fmt: skip
        assert retrieval.queries.tolist() == something
        assert retrieval.eligible == len(something) > 60
        assert retrieval.without_identity == (not by_identity)
        for model, evaluation in retrieval.evaluations.items():
            near = nearness_of(shop, model)
            some = something if model != "code" else something[:6]
            for metric in retrieval.metrics:
                values = [
                    expected(near[query][own != own[query]], (labels == labels[query])[own != own[query]])[str(metric)]
                    for query in some
                ]
                measured = evaluation[metric].per_query[: len(some)]
                assert np.mean(measured) == pytest.approx(np.mean(values), abs=1e-9 if model != "code" else 0.015)
                low, high = retrieval.intervals[model][metric]
                assert low <= evaluation[metric].mean <= high
        assert retrieval.lead is not None
        assert [retrieval.lead.first, retrieval.lead.second] == retrieval.ranking()[:2]
    assert found.lead == found.retrieval[0].ranking()[0] == "good"


def share_found_again(by_embedding: np.ndarray, by_code: np.ndarray, k: int = 10) -> Fraction:
    """Of the first k by a code, ties in every order, the expected share as near as the k-th by the embedding."""
    near = by_embedding >= np.sort(by_embedding)[-k]
    last = np.sort(by_code)[-k]
    sure = by_code > last
    tied = by_code == last
    left = k - int(sure.sum())
    return (int((near & sure).sum()) + Fraction(left * int((near & tied).sum()), int(tied.sum()))) / Fraction(k)


def test_codes_are_weighed_against_the_embeddings(shop: Study, found: Survey) -> None:
    traded = found.tradeoff
    assert traded is not None
    assert (traded.model, traded.similarity, traded.k, traded.queries) == ("good", "cosine", 10, 160)
    assert [(name, option.n_bits) for option in traded.options for name in [option.name]] == [
        ("embeddings", None), ("ITQ", 8), ("ITQ", 16), ("LSH", 40)
    ]  # fmt: skip
    assert [option.bytes for option in traded.options] == [24 * 4, 1, 2, 5]
    assert [name for name, _ in traded.left_out] == ["ITQ at 60 bits"]
    assert "24" in traded.left_out[0][1]
    rows = np.asarray(shop.model("good").gallery)
    near = nearness_of(shop, "good")
    ap = found.retrieval[0].evaluations["good"]["AP"].mean
    assert (traded.options[0].agreement, traded.options[0].quality) == (1.0, ap)
    for option, (_, hasher) in zip(traded.options[1:], hashers(), strict=False):
        bits = hasher.fit(rows).transform(rows).unpack().astype(int)
        apart = (bits[:, None] != bits[None]).sum(2)
        others = ~np.eye(len(rows), dtype=bool)
        shares = [share_found_again(near[q][others[q]], -apart[q][others[q]]) for q in range(len(rows))]
        assert option.agreement == pytest.approx(float(np.mean([float(share) for share in shares])), abs=1e-12)
        assert option.agreement_interval[0] < option.agreement < option.agreement_interval[1]
        assert option.quality_interval[0] <= option.quality <= option.quality_interval[1]
        assert option.quality != ap
    assert all(option.per_second > 100 for option in traded.options)


def test_items_that_tie_with_the_tenth_count_as_near(tmp_path: Path) -> None:
    """Of 30 equal items any ten are the ten nearest: codes that are equal too lose nothing."""
    study = Study.create(tmp_path / "s", "s", Catalogue(np.arange(40)), queries=[0])
    rows = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
    rows[:30] = rows[0]
    study.add_model("m", gallery=rows)
    traded = survey(study, hashers=[("LSH", LSH(n_bits=64, random_state=0))]).tradeoff
    assert traded is not None
    assert traded.options[1].agreement > 0.8
    assert np.isnan(traded.options[1].quality)
    assert traded.label is None


def test_every_model_tells_what_is_alike(shop: Study, found: Survey) -> None:
    assert found.across == "identity"
    assert list(found.alike) == ["code", "far", "good"]
    for name, alike in found.alike.items():
        stored = shop.model(name)
        labels = np.asarray(shop.catalogue.identities)
        again = find_near(stored.gallery, labels, similarity=stored.similarity)
        assert alike.near.pairs == again.pairs
        assert [group.items.tolist() for group in alike.near.groups] == [g.items.tolist() for g in again.groups]
        assert alike.compared == 160
    codes = shop.model("code").gallery
    assert isinstance(codes, la.Codes)
    rows = codes.unpack().tolist()
    assert found.alike["code"].same_vectors == sum(rows.count(row) > 1 for row in rows) > 10
    assert found.alike["good"].same_vectors == 0
    chosen = survey(shop, near={"good": 0.5, "code": 0}, hashers=[])
    assert chosen.alike["good"].near.limit == 0.5
    assert chosen.alike["code"].near.grouped == found.alike["code"].same_vectors
    assert chosen.alike["far"].near.limit == found.alike["far"].near.limit


def test_the_same_seed_gives_the_same_survey(shop: Study, found: Survey) -> None:
    def without_time(made: Survey) -> str:
        told = made.to_dict()
        for option in told["tradeoff"]["options"]:
            del option["per_second"]
        return json.dumps(told, sort_keys=True)

    assert without_time(survey(shop, hashers=hashers(), model="good")) == without_time(found)
    assert without_time(survey(shop, hashers=hashers(), model="good", seed=1, queries=20)) != without_time(found)


def test_large_collections_are_drawn_from(shop: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    from lookalike.study.survey import near_duplicates

    monkeypatch.setattr(near_duplicates, "ITEMS", 100)
    part = survey(shop, queries=20, hashers=[])
    for alike in part.alike.values():
        assert alike.compared == 100
        items = {item for group in alike.near.groups for item in group.items.tolist()}
        items |= {item for pair in alike.near.pairs for item in (pair.first, pair.second)}
        assert max(items) > 110  # positions in the catalogue
    labels, near = np.asarray(shop.catalogue.identities), nearness_of(shop, "good")
    limit = part.alike["good"].near.limit
    assert part.alike["good"].near.groups
    for group in part.alike["good"].near.groups:
        inside = near[np.ix_(group.items, group.items)] - 2 * np.eye(len(group.items))
        assert (inside.max(1) >= limit - 1e-9).all()  # each has a near-duplicate in its group
    for pair in part.alike["good"].near.pairs:
        assert labels[pair.first] != labels[pair.second]
        assert pair.distance == pytest.approx(near[pair.first, pair.second])
    assert [len(retrieval.queries) for retrieval in part.retrieval] == [20, 20]
    assert part.tradeoff is not None
    assert part.tradeoff.queries == 20
    assert part.about == {"seed": 0, "queries drawn": 20, "items compared": 100}


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    plain = survey(a_shop(tmp_path / "plain", identities=False, categories=False), hashers=[])
    assert (plain.across, plain.retrieval, set(plain.missing)) == (None, [], {"across", "retrieval"})
    assert plain.tradeoff is not None
    assert plain.tradeoff.model == "far"  # nothing tells them apart
    kinds = survey(a_shop(tmp_path / "kinds", identities=False), hashers=[])
    assert (kinds.across, [retrieval.label for retrieval in kinds.retrieval]) == ("category", ["category"])
    assert not kinds.retrieval[0].without_identity
    study = a_shop(tmp_path / "runs")
    for name in study.models():
        study.remove_model(name)
    study.add_model("run", run={"i000": {"i001": 1.0}})
    runs = survey(study)
    assert (runs.alike, runs.lead, runs.tradeoff) == ({}, None, None)
    assert {"near", "tradeoff", "run"} <= set(runs.missing)
    study.add_model("only", gallery=la.Codes.pack(np.eye(160, 30)))
    coded = survey(study)
    assert "tradeoff" in coded.missing
    assert coded.lead == "only"


def test_baselines_do_not_lead(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s", "s", Catalogue(np.arange(20)), queries=[0])
    rng = np.random.default_rng(0)
    study.add_model("colour", gallery=rng.normal(size=(20, 4)))
    study.add_model("bits", gallery=la.Codes.pack(rng.random((20, 8)) < 0.5))
    study.add_model("network", gallery=rng.normal(size=(20, 4)))
    found = survey(study, hashers=[])
    assert found.lead == "network"
    assert found.tradeoff is not None
    assert found.tradeoff.model == "network"


def test_codes_of_the_study_are_weighed_too(tmp_path: Path) -> None:
    from lookalike.study.hashed_models import hash_model

    study = a_shop(tmp_path / "s")
    name = hash_model(study, "good", "ITQ", 16)
    found = survey(study, hashers=[("ITQ", ITQ(n_bits=16, random_state=0))], model="good").tradeoff
    assert found is not None
    assert [(option.name, option.stored) for option in found.options] == [
        ("embeddings", True), (name, True), ("ITQ", False)
    ]  # fmt: skip
    assert found.options[1].agreement == found.options[2].agreement  # the same hasher on the same rows


def test_skipped_and_repeated_files_are_told(tmp_path: Path) -> None:
    from PIL import Image

    from lookalike.study.encode import encode_folder

    pictures = tmp_path / "pictures"
    pictures.mkdir()
    rng = np.random.default_rng(0)
    for n in range(4):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(pictures / f"{n}.png")
    (pictures / "again.png").write_bytes((pictures / "0.png").read_bytes())
    (pictures / "broken.png").write_bytes(b"no picture")
    study = encode_folder(pictures, tmp_path / "study", model="pixels").study
    found = survey(study, hashers=[])
    assert [file for file, _ in found.skipped] == ["broken.png"]
    assert found.skipped[0][1]
    assert found.same_files == 2
    assert (
        found.alike["pixels"].near.groups[0].items.tolist()
        == study.catalogue.positions(["0.png", "again.png"]).tolist()
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"near": {"nobody": 1}}, "no model 'nobody'"),
        ({"near": {"good": 1.5}}, "from 0 to 1, got 1.5"),
        ({"near": {"code": -1}}, "from 0 to inf, got -1"),
        ({"model": "code"}, "has codes already"),
        ({"model": "nobody"}, "no model 'nobody'"),
        ({"pairs": 0}, "pairs must be a whole number from 1"),
        ({"queries": 0}, "queries must be a whole number from 1"),
    ],
)
def test_wrong_options_are_refused(shop: Study, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        survey(shop, **options)


def test_progress_is_reported(shop: Study) -> None:
    steps: dict[str, list[tuple[int, int]]] = {}
    with progress.reporting(lambda what, done, total: steps.setdefault(what, []).append((done, total))):
        survey(shop, hashers=[("LSH", LSH(n_bits=8, random_state=0))])
    assert {"comparing items: good", "trying hashers", "weighing codes", "finding the same identity"} <= set(steps)
    assert all(done == total for what in steps for done, total in steps[what][-1:])
