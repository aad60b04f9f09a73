"""Indexes of faiss as a source of vectors: those that hold the vectors are read, all others are refused in a sentence.

What a vacuous test would let pass: vectors that come back in the order of the lists (there are several, and pieces are
of a size that divides nothing); ids that are positions (they start elsewhere and are not in order); a lossy index that
is refused because it is damaged (the sentence names what it holds); damage that only meets the vectors.
"""

import struct
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.core.readers.faiss_index import faiss_vectors
from lookalike.shards.convert import shard_file
from lookalike.shards.gallery import MANIFEST, Shards

RNG = np.random.default_rng(0)
N = 300
X = RNG.standard_normal((N, 8)).astype(np.float32)
B = RNG.integers(0, 256, (N, 4), dtype=np.uint8)
IDS = RNG.permutation(N) * 3 + 5

FLOATS = ["Flat", "HNSW8", "IVF7,Flat", "IVF7_HNSW8,Flat"]
BINARY = ["BFlat", "BHNSW8", "BIVF7", "BIVF7_HNSW8"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def index(name: str, metric: int = faiss.METRIC_L2) -> Any:
    """An empty index that is trained where it needs that."""
    if name.startswith("B"):
        made = faiss.index_binary_factory(32, name)
        made.train(B)
        return made
    made = faiss.index_factory(8, name, metric)
    if metric == faiss.METRIC_Lp:
        made.metric_arg = 3
    made.train(X)
    return made


def filled(name: str, n: int = N, metric: int = faiss.METRIC_L2) -> Any:
    made = index(name, metric)
    made.add((B if name.startswith("B") else X)[:n])
    return made


def mapped(name: str, kind: str = "IDMap", n: int = N) -> Any:
    is_binary = name.startswith("B")
    made = getattr(faiss, f"Index{'Binary' if is_binary else ''}{kind}")(index(name))
    made.add_with_ids((B if is_binary else X)[:n], IDS[:n])
    return made


def octets(made: Any) -> bytes:
    is_binary = isinstance(made, faiss.IndexBinary)
    return bytes((faiss.serialize_index_binary if is_binary else faiss.serialize_index)(made))


def save(made: Any, path: Path) -> Path:
    path.write_bytes(octets(made))
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    pieces = [columns for columns, _ in faiss_vectors(path, 97)]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


@pytest.mark.parametrize("name", [*FLOATS, *BINARY])
@pytest.mark.parametrize("n", [N, 3, 1])
def test_vectors_come_back_in_the_order_in_which_they_were_added(name: str, n: int, tmp_path: Path) -> None:
    found = read(save(filled(name, n), tmp_path / "x.faiss"))
    column, expected = ("packed", B) if name.startswith("B") else ("embeddings", X)
    assert found.keys() == {column}
    assert found[column].dtype == expected.dtype
    assert np.array_equal(found[column], expected[:n])


@pytest.mark.parametrize("metric", [faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L1, faiss.METRIC_Lp])
@pytest.mark.parametrize("name", ["Flat", "HNSW8", "IVF7,Flat"])
def test_every_metric_is_read(name: str, metric: int, tmp_path: Path) -> None:
    assert np.array_equal(read(save(filled(name, metric=metric), tmp_path / "x.faiss"))["embeddings"], X)


@pytest.mark.parametrize("kind", ["IDMap", "IDMap2"])
@pytest.mark.parametrize("name", [*FLOATS, *BINARY])
def test_an_id_map_gives_ids(name: str, kind: str, tmp_path: Path) -> None:
    shards = shard_file(save(mapped(name, kind), tmp_path / "x.faiss"), tmp_path / "shards", rows=250)
    parts = [shards.read(number, ["ids"]) for number in range(len(shards.shards))]
    assert np.array_equal(np.concatenate([part.values["ids"] for part in parts]), IDS)
    if name.startswith("B"):
        assert np.array_equal(np.concatenate([part.vectors.to_bytes() for part in parts]), B)
    else:
        assert np.array_equal(np.concatenate([part.vectors for part in parts]), X)


@pytest.mark.parametrize("places", ["NoMap", "Array", "Hashtable"])
def test_lists_with_ids_of_their_own_are_put_in_the_order_of_these(places: str, tmp_path: Path) -> None:
    made = index("IVF7,Flat")
    ids = RNG.permutation(N) if places == "Array" else IDS
    made.add_with_ids(X, ids)
    if places != "NoMap":
        made.set_direct_map_type(getattr(faiss.DirectMap, places))
    found = read(save(made, tmp_path / "x.faiss"))
    assert np.array_equal(found["embeddings"], X[np.argsort(ids)])
    if places == "Array":
        assert "ids" not in found
    else:
        assert np.array_equal(found["ids"], np.sort(ids))


def test_lists_that_are_mostly_empty(tmp_path: Path) -> None:
    made = index("IVF30,Flat")
    made.add(X[:3])
    assert b"sprs" in octets(made)
    assert np.array_equal(read(save(made, tmp_path / "x.faiss"))["embeddings"], X[:3])


def test_wide_vectors_are_read_fewer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookalike.core.readers.faiss_index.LARGEST", 100)
    path = save(filled("Flat", 10), tmp_path / "x.faiss")
    pieces = [columns["embeddings"] for columns, _ in faiss_vectors(path, 97)]
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1]
    assert np.array_equal(np.concatenate(pieces), X[:10])


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *((name, "a product quantizer") for name in ("PQ4x4", "PQ4x4fs", "IVF4,PQ4x4", "IVF4,PQ4x4fs", "IVF4,PQ2+4")),
        *((name, "a product quantizer") for name in ("HNSW8,PQ4x4", "NSG8,PQ4x4", "IDMap,PQ4x4")),
        *((name, "a scalar quantizer") for name in ("SQ8", "SQfp16", "IVF4,SQ8", "HNSW8,SQ8", "NSG8,SQ8")),
        *((name, "an additive quantizer") for name in ("RQ2x4", "LSQ2x4", "PRQ2x1x4", "PLSQ2x1x4", "IVF4,RQ2x4")),
        *((name, "an additive quantizer") for name in ("IVF4,LSQ2x4", "IVF4,PRQ2x1x4")),
        ("HNSW8,4+PQ2", "a quantizer of two levels"),
        ("ZnLattice2x4_4", "a lattice quantizer"),
        *((name, "RaBitQ codes") for name in ("RaBitQ", "RaBitQ4", "RaBitQfs", "IVF4,RaBitQ", "IVF4,RaBitQ4")),
        ("IVF4,RaBitQfs", "RaBitQ codes"),
        *((name, "binary hashes") for name in ("LSH", "IVF4,ITQ8,SH8")),
        *((name, "transformed vectors") for name in ("PCA4,Flat", "OPQ4,PQ4x4", "RR8,Flat", "L2norm,Flat", "ITQ8,LSH")),
    ],
)
def test_what_does_not_hold_the_vectors_is_refused(name: str, what: str, tmp_path: Path) -> None:
    made = index(name)
    made.add_with_ids(X, IDS) if name.startswith("IDMap") else made.add(X)
    with pytest.raises(ValueError, match=rf"x\.faiss holds {what}.* not the vectors .*: write a flat index"):
        shard_file(save(made, tmp_path / "x.faiss"), tmp_path / "shards")
    assert not (tmp_path / "shards" / MANIFEST).exists()


@pytest.mark.parametrize(("name", "kind"), [("IVF4,Flat,RFlat", "IxRF"), ("BHash4", "IBHh"), ("IMI2x2,Flat", "Imiq")])
def test_other_kinds_are_named(name: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"x\.faiss has an index of the kind {kind}, which cannot be read"):
        shard_file(save(filled(name), tmp_path / "x.faiss"), tmp_path / "shards")


def test_ids_in_ids_are_refused(tmp_path: Path) -> None:
    """However deep they are: each takes but a few bytes of the file."""
    inner = octets(mapped("Flat", n=1))
    head = inner[: inner.index(b"IxF2")]
    (tmp_path / "x.faiss").write_bytes(head * 10_000 + inner[len(head) :])
    with pytest.raises(ValueError, match="has an index of the kind IxMp, which cannot be read"):
        list(faiss_vectors(tmp_path / "x.faiss", 10))


@pytest.mark.parametrize("content", [b"", b"I", b"IxF2", b"nothing", b"I\xff\x00\x01" * 20, b"PK\x03\x04" * 50])
def test_what_is_no_index_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.faiss").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.faiss is not a readable index of faiss"):
        list(faiss_vectors(tmp_path / "x.faiss", 10))


def test_an_index_without_vectors_has_no_items(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no items"):
        shard_file(save(filled("IVF7,Flat", 0), tmp_path / "x.faiss"), tmp_path / "shards")


DAMAGED = {
    name: octets(made)
    for name, made in {
        **{name: filled(name, 20) for name in (*FLOATS, *BINARY)},
        **{f"IDMap,{name}": mapped(name, n=20) for name in (*FLOATS, *BINARY)},
        "Lp": filled("HNSW8", 20, faiss.METRIC_Lp),
    }.items()
}


def read_damaged(content: bytes, path: Path) -> None:
    """Read it, or raise ValueError, with no more memory than its size can need."""
    path.write_bytes(content)
    told = path.name
    tracemalloc.start()
    try:
        for columns, _ in faiss_vectors(path, 7):
            assert len({len(column) for column in columns.values()}) == 1
    except ValueError as error:
        told = str(error)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert path.name in told
    assert most < 200_000 + 10 * len(content)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_count_that_is_too_large_asks_for_nothing(name: str, tmp_path: Path) -> None:
    whole = DAMAGED[name]
    for place in range(4, min(len(whole) - 8, 200)):
        for number in (2**40, 2**64 - 1):
            read_damaged(whole[:place] + struct.pack("<Q", number) + whole[place + 8 :], tmp_path / "x.faiss")


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_files_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(DAMAGED[data.draw(st.sampled_from(sorted(DAMAGED)))])
    place = st.integers(0, len(whole) - 1)
    for flipped in data.draw(st.lists(place, max_size=4)):
        whole[flipped] ^= 1 << data.draw(st.integers(0, 7))
    start = data.draw(place)
    whole[start:start] = data.draw(st.binary(max_size=9))
    end = data.draw(st.sampled_from([len(whole), data.draw(place)]))
    with tempfile.TemporaryDirectory() as folder:
        read_damaged(bytes(whole[:end]), Path(folder) / "x.faiss")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_cut_anywhere_is_refused(name: str, tmp_path: Path) -> None:
    whole = DAMAGED[name]
    for end in range(0, len(whole), 37):
        (tmp_path / "x.faiss").write_bytes(whole[:end])
        with pytest.raises(ValueError, match="not a readable index"):
            list(faiss_vectors(tmp_path / "x.faiss", 100))


def test_faiss_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(filled("Flat"), tmp_path / "x.faiss")
    monkeypatch.setitem(sys.modules, "faiss", None)
    shard_file(path, tmp_path / "shards")
    assert np.array_equal(Shards.open(tmp_path / "shards").read(0).vectors, X)
