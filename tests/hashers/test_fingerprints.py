"""Codes know which hasher made them: wherever they go, codes of two hashers are not compared."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.rankers import CodeModel
from lookalike.discovery.sharded_rankers import nearest
from lookalike.evaluation.item_files import Items, read_items, write_codes
from lookalike.hashers import HASHERS, ITQ, LSH, load, make
from lookalike.search.index import Index
from lookalike.shards.convert import hash_shards, shard_file
from lookalike.shards.gallery import Shards

RNG = np.random.default_rng(0)
ITEMS = RNG.standard_normal((60, 6)).astype(np.float32)
LABELS = np.arange(60) % 3
ONE, OTHER = ITQ(6, random_state=0).fit(ITEMS[:40]), ITQ(6, random_state=0).fit(ITEMS[20:])
ANOTHER = "made by another hasher"


def relevance(n: int = 5) -> Any:
    return la.same_label(LABELS[:n], LABELS)


@pytest.mark.parametrize("name", HASHERS)
def test_the_fingerprint_is_of_what_was_learned(name: str, tmp_path: Path) -> None:
    first, again, other = (make(name, 4, 0).fit(rows, LABELS[:40]) for rows in (ITEMS[:40], ITEMS[:40], ITEMS[20:]))
    codes = first.transform(ITEMS)
    assert codes.hasher == first.fingerprint == again.fingerprint != other.fingerprint
    first.save(tmp_path / "hasher.npz")
    assert load(tmp_path / "hasher.npz").transform(ITEMS).hasher == codes.hasher


def test_learned_hashers_have_one_too() -> None:
    pytest.importorskip("torch")
    from torch import nn

    from lookalike.learning import LearnedHasher

    def learned(seed: int, network: Any = "linear") -> la.Codes:
        options: dict[str, Any] = {"network": network, "epochs": 1, "batch_size": 30, "random_state": seed}
        return LearnedHasher(4, loss="dsh", **options).fit(ITEMS, LABELS).transform(ITEMS)

    assert learned(0).hasher == learned(0).hasher != learned(1).hasher
    assert isinstance(learned(0, lambda n, bits: nn.Linear(n, bits)).hasher, str)  # one that cannot be saved


def test_it_stays_with_parts_copies_and_files(tmp_path: Path) -> None:
    codes = ONE.transform(ITEMS)
    assert {codes[3].hasher, codes[:4].hasher, codes[LABELS == 1].hasher, pickle.loads(pickle.dumps(codes)).hasher} == {
        ONE.fingerprint
    }
    for ending in ("npz", "parquet"):
        codes.save(tmp_path / f"codes.{ending}")
        write_codes(tmp_path / f"items.{ending}", codes, Items(tmp_path, codes, LABELS))
        assert la.Codes.load(tmp_path / f"codes.{ending}").hasher == ONE.fingerprint
        items = read_items(tmp_path / f"items.{ending}")
        assert isinstance(items.vectors, la.Codes)
        assert items.vectors.hasher == ONE.fingerprint
        assert items.vectors == codes


def test_codes_without_one_are_equal_and_pass(tmp_path: Path) -> None:
    codes, packed = ONE.transform(ITEMS), la.Codes.pack(ONE.transform(ITEMS).unpack())
    assert packed.hasher is None
    assert packed == codes
    packed.save(tmp_path / "codes.npz")
    assert la.Codes.load(tmp_path / "codes.npz").hasher is None
    for queries, gallery in ((packed, codes), (codes, packed), (packed, packed)):
        result = la.evaluate(queries[:5], gallery, relevance(), ["AP"])
        assert result["AP"].mean == la.evaluate(codes[:5], codes, relevance(), ["AP"])["AP"].mean
        Index.build(gallery).search(queries[:2], 3)
        CodeModel(queries, gallery)


def test_evaluating_counting_searching_and_ranking_refuse_two() -> None:
    queries, gallery = ONE.transform(ITEMS[:5]), OTHER.transform(ITEMS)
    for ask in (
        lambda: la.evaluate(queries, gallery, relevance(), ["AP"]),
        lambda: la.count(queries, gallery, relevance()),
        lambda: Index.build(gallery).search(queries, 3),
        lambda: CodeModel(queries, gallery),
        lambda: la.evaluate(queries, LSH(6, random_state=0).fit(ITEMS[:40]).transform(ITEMS), relevance(), ["AP"]),
    ):
        with pytest.raises(ValueError, match=ANOTHER) as refused:
            ask()
    assert "--save hasher.npz" in str(refused.value)
    assert "--hasher hasher.npz" in str(refused.value)


def test_an_index_keeps_it(tmp_path: Path) -> None:
    Index.build(ONE.transform(ITEMS)).save(tmp_path / "index.npz")
    index = Index.load(tmp_path / "index.npz")
    assert index.search(ONE.transform(ITEMS[:2]), 1).items.tolist() == [[0], [1]]
    with pytest.raises(ValueError, match=f"indexed codes were {ANOTHER}"):
        index.search(OTHER.transform(ITEMS[:2]), 1)


def test_shards_keep_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "items.npz", embeddings=ITEMS, labels=LABELS)
    write_codes(tmp_path / "codes.npz", ONE.transform(ITEMS), Items(tmp_path, ITEMS, LABELS))
    embeddings = shard_file(tmp_path / "items.npz", tmp_path / "embeddings", rows=25)
    assert embeddings.hasher is None
    hash_shards(ONE, embeddings, tmp_path / "hashed", threads=1)
    shard_file(tmp_path / "codes.npz", tmp_path / "sharded", rows=25)
    for folder in ("hashed", "sharded"):
        shards = Shards.open(tmp_path / folder)
        assert shards.hasher == shards.on(None).hasher == ONE.fingerprint
        assert shards.read(0).vectors.hasher == ONE.fingerprint  # type: ignore[union-attr]
        by_label = la.same_label(LABELS[:5], shards["labels"])
        assert la.evaluate(ONE.transform(ITEMS[:5]), shards, by_label, ["AP"])["AP"].mean > 0.3
        for ask in (
            lambda: la.evaluate(OTHER.transform(ITEMS[:5]), shards, by_label, ["AP"]),  # noqa: B023
            lambda: nearest(OTHER.transform(ITEMS[:5]), shards, 3),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=ANOTHER):
                ask()
    with pytest.raises(TypeError, match="both be of codes or both of embeddings"):
        nearest(ONE.transform(ITEMS[:5]), embeddings, 3)


def test_studies_keep_it(tmp_path: Path) -> None:
    queries, gallery = ITEMS[:2], ITEMS
    catalogue, photos = Catalogue(np.array([f"i{i}" for i in range(60)])), Catalogue(np.array(["p", "q"]))
    study = la.Study.create(tmp_path / "study", name="s", catalogue=catalogue, queries=photos, wild=True)
    with pytest.raises(ValueError, match=ANOTHER):
        study.add_model("two", ONE.transform(queries), OTHER.transform(gallery))
    assert study.models() == []
    study.add_model("one", ONE.transform(queries), ONE.transform(gallery))
    study.add_model("none", ONE.transform(queries), la.Codes.pack(gallery > 0))
    for name, hasher in (("one", ONE.fingerprint), ("none", None)):
        stored = study.model(name)
        assert isinstance(stored.queries, la.Codes)
        assert isinstance(stored.gallery, la.Codes)
        assert (stored.queries.hasher, stored.gallery.hasher) == (hasher, hasher)
