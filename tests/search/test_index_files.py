"""The file of an index is whole or refused, and the same for the same items."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.searching import clustered, many_codes, same
from lookalike.search.index import Index


@pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
@pytest.mark.parametrize("what", ["codes", "cosine", "dot", "euclidean"])
def test_what_is_saved_is_loaded(kind: str, what: str, tmp_path: Path) -> None:
    items: Any = many_codes(2000, 40) if what == "codes" else clustered(np.random.default_rng(0), 2000, 8)
    similarity = "cosine" if what == "codes" else what
    ids = [f"item {i}" for i in range(2000)]
    index = Index.build(items, ids=ids, kind=kind, similarity=similarity, target=0.8)
    index.save(tmp_path / "index.npz")
    again = Index.load(tmp_path / "index.npz")
    assert repr(index).startswith(repr(again)[:-1])
    assert ("times as fast" in repr(index), "times as fast" in repr(again)) == (kind != "exact", False)
    assert (again.effort, again.digest) == (index.effort, index.digest)
    assert again.measured == (index.measured and replace(index.measured, speedup=None))
    found = [each.search(items[:70], 9) for each in (index, again)]
    assert same(*found)
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    assert again.fits(items)
    assert [path.name for path in tmp_path.iterdir()] == ["index.npz"]


def test_a_file_says_where_it_comes_from(tmp_path: Path) -> None:
    index = Index.build(many_codes(500), kind="ivf")
    index.save(tmp_path / "index.npz")
    about = json.loads(str(np.load(tmp_path / "index.npz", allow_pickle=False)["about"]))
    assert about["lookalike"] == "index"
    assert about["version"] == la.__version__
    assert about["digest"] == index.digest == many_codes(500).digest
    asked = {"target": 0.99, "seed": 0}
    assert about["measured"] == {"recall": index.measured.recall, "k": 10, "n_queries": 25, **asked}


SAVE_ALL = """
import os, sys
import numpy as np
import lookalike as la
from lookalike.search.index import Index
if sys.argv[2] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
vectors = np.random.default_rng(0).standard_normal((4000, 24)).astype("f4")
vectors += 3 * vectors[np.arange(4000) % 30]
for what, items in (("codes", la.Codes.pack(vectors > 0)), ("embeddings", vectors)):
    for kind in ("exact", "ivf", "hnsw"):
        Index.build(items, ids=range(4000), kind=kind, target=0.9, seed=3).save(f"{sys.argv[1]}/{what}-{kind}.npz")
"""


def test_the_same_items_give_the_same_file_whatever_the_time_and_the_cores(tmp_path: Path) -> None:
    files = []
    for run, cores in (("first", "1"), ("second", "all"), ("third", "1")):
        (tmp_path / run).mkdir()
        subprocess.run([sys.executable, "-c", SAVE_ALL, str(tmp_path / run), cores], check=True)
        files.append({path.name: path.read_bytes() for path in (tmp_path / run).iterdir()})
    assert len(files[0]) == 6
    for name, octets in files[0].items():
        assert octets == files[1][name], name
        assert octets == files[2][name], name


def loaded_or_refused(path: Path) -> Index | None:
    try:
        return Index.load(path)
    except ValueError as error:
        if path.name not in str(error):
            raise
    return None


def test_every_cut_and_many_changed_bytes_are_refused(tmp_path: Path) -> None:
    path, items = tmp_path / "index.npz", many_codes(150)
    index = Index.build(items, kind="ivf")
    index.save(path)
    expected = index.search(items, 5)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [whole[:end] for end in rng.integers(0, len(whole), 60)]
    for damaged in cuts:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"index\.npz"):
            Index.load(path)
    for place in rng.integers(0, len(whole), 200):  # what a changed byte does not break, it does not change
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        loaded = loaded_or_refused(path)
        assert loaded is None or same(loaded.search(items, 5), expected)


def test_an_array_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    Index.build(many_codes(150), kind="ivf").save(path)
    arrays = dict(np.load(path, allow_pickle=False))
    for name in ("packed", "faiss", "order"):
        changed = arrays[name].copy()
        changed.flat[len(changed) // 2] ^= 1
        np.savez(path, **{**arrays, name: changed})
        with pytest.raises(ValueError, match=r"index\.npz is damaged: build the index again"):
            Index.load(path)


def test_newer_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    Index.build(many_codes(60)).save(path)
    arrays = dict(np.load(path, allow_pickle=False))
    about = json.loads(str(arrays["about"]))
    np.savez(path, **{**arrays, "about": np.array(json.dumps({**about, "format": 99, "version": "9.9"}))})
    with pytest.raises(ValueError, match=r"index\.npz was written by lookalike 9\.9, which is newer: upgrade"):
        Index.load(path)
    many_codes(60).save(path)
    with pytest.raises(ValueError, match=r"index\.npz is not an index: expected a file that Index\.save wrote"):
        Index.load(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Index.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        Index.build(many_codes(60)).save(tmp_path / "index.parquet")


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    Index.build(many_codes(60)).save(path)
    before = path.read_bytes()
    code = (
        "import numpy as np, sys; from lookalike.search.index import Index;"
        "index = Index.build(np.ones((100_000, 40), 'f4'), kind='exact'); print('ready', flush=True);\n"
        "while True: index.save(sys.argv[1])"
    )
    for wait in (0.01, 0.03):
        path.write_bytes(before)
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert len(Index.load(path)) in (60, 100_000)
