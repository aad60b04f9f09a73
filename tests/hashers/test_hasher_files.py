"""A saved hasher comes back with the same codes, and a damaged file is refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import lookalike as la
from helpers.hashing import (
    NAMES,
    RANDOM,
    Array,
    assert_same,
    border_rows,
    every_hasher,
    fitted,
    make,
    teach,
    teach_and_hash,
    whole_numbers,
)
from lookalike import hashers
from lookalike.core import files


@every_hasher
def test_a_file_gives_back_the_hasher(name: str, tmp_path: Path) -> None:
    hasher, rows = fitted(name), border_rows(fitted(name), whole_numbers(), 300)
    path = tmp_path / "hasher.npz"
    hasher.save(path)
    for loaded in (hashers.load(path), hashers.load(str(path)), hashers.HASHERS[name].load(path)):
        assert_same(loaded, hasher)
        assert loaded.transform(rows) == hasher.transform(rows)
        np.testing.assert_array_equal(loaded.project(rows), hasher.project(rows))
    assert_same(teach(clone(loaded), whole_numbers()), hasher)
    loaded.save(str(tmp_path / "again.npz"))
    assert_same(hashers.load(tmp_path / "again.npz"), hasher)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.npz", "hasher.npz"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("LSH", {"seed": None}),
        ("ITQ", {"seed": 2**32 - 1, "n_rounds": 3, "max_samples": 50}),
        ("SKLSH", {"gamma": 0.125}),
        ("SKLSH", {"gamma": np.float32(0.1), "n_bits": np.int64(9), "seed": np.int64(4)}),
        ("DensityDSH", {"alpha": 2, "n_neighbours": 5, "n_rounds": 2}),
    ],
)
def test_a_file_gives_back_parameters_other_than_the_default(
    name: str, parameters: dict[str, Any], tmp_path: Path
) -> None:
    hasher = teach(make(name, **parameters), whole_numbers())
    hasher.save(tmp_path / "hasher.npz")
    assert_same(hashers.load(tmp_path / "hasher.npz"), hasher)


@pytest.mark.parametrize("name", RANDOM)
def test_a_hasher_of_a_random_stream_is_saved_without_it(name: str, tmp_path: Path) -> None:
    hasher = teach(make(name, seed=np.random.RandomState(3)), whole_numbers())
    hasher.save(tmp_path / "hasher.npz")
    loaded = hashers.load(tmp_path / "hasher.npz")
    assert loaded.transform(whole_numbers()) == hasher.transform(whole_numbers())
    assert loaded.random_state is None
    assert isinstance(hasher.random_state, np.random.RandomState)


@every_hasher
def test_a_file_is_plain_arrays(name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "hasher.npz")
    with np.load(tmp_path / "hasher.npz", allow_pickle=False) as file:
        arrays = dict(file)
    assert len(arrays) > 1
    assert all(array.dtype.kind in "fiubU" for array in arrays.values())


def rewritten(path: Path, change: Callable[[dict[str, Array]], Any]) -> Path:
    """The same file with some of its arrays changed."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    change(arrays)
    target = path.with_name("changed.npz")
    np.savez(target, **arrays)
    return target


def refused_or_the_same(path: Path, hasher: Any, what: str) -> None:
    try:
        loaded = hashers.load(path)
    except ValueError as error:
        assert str(path) in str(error), what  # noqa: PT017  # where no error is right too
    else:
        assert loaded.transform(whole_numbers()) == hasher.transform(whole_numbers()), what


@every_hasher
def test_a_changed_file_never_gives_other_codes(name: str, tmp_path: Path) -> None:
    hasher, path = fitted(name), tmp_path / "hasher.npz"
    hasher.save(path)
    with np.load(path) as file:
        shapes = {key: file[key].shape for key in file.files}
    for key, shape in shapes.items():
        refused_or_the_same(rewritten(path, lambda arrays, key=key: arrays.pop(key)), hasher, f"no {key}")
        for axis in range(len(shape)):
            shorter = rewritten(
                path, lambda arrays, key=key, axis=axis: arrays.update({key: np.delete(arrays[key], 0, axis)})
            )
            refused_or_the_same(shorter, hasher, f"{key} shorter along axis {axis}")
        if shape:
            flat = rewritten(path, lambda arrays, key=key: arrays.update({key: arrays[key].ravel()[:1]}))
            refused_or_the_same(flat, hasher, f"one value of {key}")
            words = rewritten(path, lambda arrays, key=key: arrays.update({key: arrays[key].astype(str)}))
            refused_or_the_same(words, hasher, f"words for {key}")
            empty = rewritten(path, lambda arrays, key=key: arrays.update({key: arrays[key] * np.nan}))
            refused_or_the_same(empty, hasher, f"nan for {key}")


@every_hasher
def test_the_class_of_a_file_is_checked(name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "hasher.npz")
    other = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
    with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
        hashers.HASHERS[other].load(tmp_path / "hasher.npz")
    assert other in str(caught.value)


def broken_files(folder: Path) -> dict[str, Path]:
    """Files that are no hasher, by what is wrong with them."""
    fitted("ITQ").save(folder / "good.npz")
    whole = (folder / "good.npz").read_bytes()
    (folder / "half.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.npz").write_bytes(b"")
    (folder / "noise.npz").write_bytes(bytes(range(256)) * 20)
    flipped = bytearray(whole)
    for place in range(len(whole) // 4, len(whole) // 4 + 64):
        flipped[place] ^= 255
    (folder / "flipped.npz").write_bytes(flipped)
    np.savez(folder / "foreign.npz", directions=np.eye(3))
    np.savez(folder / "pickle.npz", directions=np.array([{"a": 1}], dtype=object))
    with zipfile.ZipFile(folder / "zip.npz", "w") as archive:
        archive.writestr("readme.txt", "no arrays")
    la.Codes.pack([[0, 1], [1, 0]]).save(folder / "codes.npz")
    return {path.stem: path for path in sorted(folder.glob("*.npz")) if path.stem != "good"}


def test_what_is_no_hasher_is_not_loaded(tmp_path: Path) -> None:
    for what, path in broken_files(tmp_path).items():
        for load in (hashers.load, hashers.ITQ.load):
            with pytest.raises(ValueError, match=path.name) as caught:
                load(path)
            assert "\n" not in str(caught.value), what
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        hashers.load(tmp_path / "missing.npz")


def test_a_file_of_a_later_version_or_an_unknown_hasher_is_not_loaded(tmp_path: Path) -> None:
    fitted("LSH").save(tmp_path / "hasher.npz")
    with np.load(tmp_path / "hasher.npz") as file:
        about = str(file["about"])  # what every saved file of the library says of itself
    assert "LSH" in about
    later = {**json.loads(about), "format": 999, "version": "99.0"}
    for text, match in ((json.dumps(later), "99.0.*newer"), (about.replace("LSH", "QSH"), "QSH")):
        path = rewritten(tmp_path / "hasher.npz", lambda arrays, text=text: arrays.update(about=np.array(text)))
        with pytest.raises(ValueError, match=match):
            hashers.load(path)


@pytest.mark.parametrize("name", ["LSH", "SpH"])
def test_a_failed_save_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_full(file: Any, *arrays: Any, **named: Any) -> None:
        file.write(b"PK")
        raise OSError("no space left on device")

    with pytest.raises(NotFittedError):
        make(name).save(tmp_path / "unfitted.npz")
    for wrong in ("hasher.txt", "hasher", "hasher.parquet"):
        with pytest.raises(ValueError, match=r"\.npz"):
            fitted(name).save(tmp_path / wrong)
    with pytest.raises(ValueError, match="folder"):
        fitted(name).save(tmp_path / "missing" / "hasher.npz")
    assert list(tmp_path.iterdir()) == []
    teach(make(name, n_bits=4), whole_numbers()).save(tmp_path / "old.npz")
    old = (tmp_path / "old.npz").read_bytes()
    monkeypatch.setattr(files, "write_npz", disk_full)
    for path in (tmp_path / "new.npz", tmp_path / "old.npz"):
        with pytest.raises(OSError, match="no space left"):
            fitted(name).save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["old.npz"]
    assert (tmp_path / "old.npz").read_bytes() == old


def test_a_saved_sph_of_before_is_learned_again_as_it_was() -> None:
    """Files from before the paper's rule do not name one: their spheres were made by the strict rule."""
    old = Path(__file__).parents[1] / "data" / "old"
    saved = hashers.load(old / "SpH.npz")
    assert isinstance(saved, hashers.SpH)
    assert (saved.strict, saved.tolerance) == (True, 0.05)
    embeddings = np.load(old / "items.npz")["embeddings"]
    assert teach_and_hash(clone(saved), embeddings) == la.Codes.load(old / "SpH-codes.npz")
