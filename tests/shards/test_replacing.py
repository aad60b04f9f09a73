"""What replaces something reads and checks its input first, is written beside it, and takes its place at the end.

What a vacuous test would let pass: a kill that comes before anything is written (files are awaited), and a bad input
that is noticed before the first row is read (some are bad at their end).
"""

from __future__ import annotations

import hashlib
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from lookalike.cli import main
from lookalike.core.files import read_arrays, write_arrays
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.shards.convert import hash_shards, shard_file
from lookalike.shards.gallery import MANIFEST, Shards
from lookalike.shards.storage import Location
from lookalike.shards.writer import Edition, ShardWriter
from lookalike.study.study import Study

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(1000, 6)).astype(np.float32)


def state(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def vectors_of(gallery: Shards) -> np.ndarray:
    return np.concatenate([gallery.read(number).vectors for number in range(len(gallery.shards))])


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """A gallery of 1,000 embeddings in four shards."""
    np.savez(tmp_path / "good.npz", embeddings=VECTORS)
    shard_file(tmp_path / "good.npz", tmp_path / "gallery", rows=300)
    return tmp_path / "gallery"


def missing(path: Path) -> Path:
    return path.with_name("missing.npz")


def of_another_kind(path: Path) -> Path:
    return path.with_name("notes.txt")


def damaged_at_its_end(path: Path) -> Path:
    """Rows that can be read, then a file that is cut short."""
    np.savez(path, embeddings=np.ones((200_000, 6)), ids=np.arange(200_000))
    content = path.read_bytes()
    path.write_bytes(content[:5_000_000] + bytes(1000) + content[5_001_000:])
    return path


def with_a_short_table(path: Path) -> Path:
    np.savez(path, embeddings=np.ones((100_000, 6)))
    path.with_suffix(".csv").write_text("id\n" + "".join(f"{n}\n" for n in range(70_000)))
    return path


@pytest.mark.parametrize("source", [missing, of_another_kind, damaged_at_its_end, with_a_short_table])
def test_a_gallery_stays_where_the_new_one_cannot_be_read(
    gallery: Path, tmp_path: Path, source: Callable[[Path], Path]
) -> None:
    (tmp_path / "notes.txt").write_text("no gallery")
    before = state(gallery)
    path = source(tmp_path / "bad.npz")
    table = path.with_suffix(".csv") if path.with_suffix(".csv").exists() else None
    with pytest.raises((ValueError, FileNotFoundError)):
        shard_file(path, gallery, table=table, rows=10_000, replace=True)
    assert state(gallery) == before
    assert np.array_equal(vectors_of(Shards.open(gallery)), VECTORS)


def test_a_gallery_is_replaced_again_and_again(gallery: Path, tmp_path: Path) -> None:
    for turn in range(2, 5):
        np.savez(tmp_path / "next.npz", embeddings=VECTORS[: 200 * turn] + turn)
        written = shard_file(tmp_path / "next.npz", gallery, rows=100, replace=True)
        assert np.array_equal(vectors_of(Shards.open(gallery)), VECTORS[: 200 * turn] + np.float32(turn))
        assert {path.name for path in gallery.iterdir()} == {MANIFEST, *(shard.file for shard in written.shards)}


def test_a_shard_of_the_gallery_is_no_source_for_it(gallery: Path) -> None:
    before = state(gallery)
    with pytest.raises(ValueError, match="is one of those there, and is read"):
        shard_file(gallery / "part-00001.parquet", gallery, replace=True)
    assert state(gallery) == before


def test_a_damaged_gallery_can_be_replaced(gallery: Path, tmp_path: Path) -> None:
    (gallery / MANIFEST).write_text((gallery / MANIFEST).read_text()[:300])
    shard_file(tmp_path / "good.npz", gallery, rows=500, replace=True)
    assert np.array_equal(vectors_of(Shards.open(gallery)), VECTORS)
    assert len(list(gallery.iterdir())) == 3


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    """A file that has the name of a shard, and is none."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "part-00000.parquet").write_bytes(b"somebody's")
    np.savez(tmp_path / "good.npz", embeddings=VECTORS)
    with pytest.raises(FileExistsError, match=r"part-00000\.parquet is another's file"):
        shard_file(tmp_path / "good.npz", folder)
    assert state(folder) == {"part-00000.parquet": hashlib.sha256(b"somebody's").hexdigest()}


def test_links_are_not_written_through(gallery: Path, tmp_path: Path) -> None:
    """A folder of links to another gallery would be that gallery's end."""
    before = state(gallery)
    for name in (MANIFEST, "part-00000.parquet"):
        folder = tmp_path / f"links-{name}"
        folder.mkdir()
        (folder / name).symlink_to(gallery / name)
        with pytest.raises(FileExistsError, match=f"{name} is a link to somewhere else"):
            shard_file(tmp_path / "good.npz", folder, rows=500, replace=True)
    assert state(gallery) == before


def test_the_manifest_of_another_program_stays(tmp_path: Path) -> None:
    folder = tmp_path / "extension"
    folder.mkdir()
    (folder / MANIFEST).write_text('{"name": "my extension", "files": ["part-00000.parquet"]}')
    (folder / "part-00000.parquet").write_text("precious")
    before = state(folder)
    np.savez(tmp_path / "good.npz", embeddings=VECTORS)
    for replace in (False, True):
        with pytest.raises(FileExistsError, match=r"its manifest\.json is another program's"):
            shard_file(tmp_path / "good.npz", folder, replace=replace)
    assert state(folder) == before


def test_what_a_manifest_says_elsewhere_is_no_shard(tmp_path: Path) -> None:
    """A column may have any name, also that of a file."""
    np.savez(tmp_path / "odd.npz", **{"embeddings": VECTORS[:5], "part-00007.parquet": np.arange(5)})
    np.savez(tmp_path / "huge.npz", **{"embeddings": VECTORS[:5], f"part-00000-{9**999}.parquet": np.arange(5)})
    for name in ("odd", "huge"):
        shard_file(tmp_path / f"{name}.npz", tmp_path / name)
        (tmp_path / name / "part-00007.parquet").write_text("precious")
        with pytest.raises(FileExistsError, match=r"part-00007\.parquet is another's file"):
            shard_file(tmp_path / "odd.npz", tmp_path / name, replace=True)
        (tmp_path / name / "part-00007.parquet").unlink()
        assert len(shard_file(tmp_path / "odd.npz", tmp_path / name, replace=True)) == 5


def test_a_manifest_that_cannot_be_written_leaves_the_old_gallery_alone(
    gallery: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = state(gallery), Location.write

    def full(place: Location, name: str, content: bytes) -> None:
        if name == MANIFEST:
            raise OSError(28, "No space left on device")
        write(place, name, content)

    monkeypatch.setattr(Location, "write", full)
    with pytest.raises(OSError, match="No space"):
        shard_file(tmp_path / "good.npz", gallery, rows=100, replace=True)
    assert state(gallery) == before


def test_whole_numbers_that_floats_cannot_hold_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "big.npz", embeddings=np.array([[2**60], [2**60 + 1]]))
    with pytest.raises(ValueError, match="beyond 2\\^53"):
        shard_file(tmp_path / "big.npz", tmp_path / "big")


SLOWLY = """
import sys, time
from lookalike.shards.convert import shard_file
from lookalike.shards.storage import Location
from lookalike.shards.writer import Edition
written = Edition.write
def write(*arguments):
    done = written(*arguments)
    print("written", flush=True)
    sys.stdin.readline()
    return done
Edition.write = write
remove = Location.remove
def removing(*arguments):
    print("swapped", flush=True)
    sys.stdin.readline()
    remove(*arguments)
Location.remove = removing
shard_file(sys.argv[1], sys.argv[2], rows=100, replace=True)
"""


def killed(source: Path, folder: Path, after: str, steps: int) -> None:
    """Replace a gallery, and kill the process after so many steps of a kind."""
    command = [sys.executable, "-c", SLOWLY, str(source), str(folder)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    for line in child.stdout:
        steps -= line.strip() == after
        if not steps:
            break
        child.stdin.write("\n")
        child.stdin.flush()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL


def test_a_killed_replacement_leaves_the_old_gallery_or_the_new_one(gallery: Path, tmp_path: Path) -> None:
    new = VECTORS[:500] + 1
    np.savez(tmp_path / "new.npz", embeddings=new)
    for after, steps, expected in (("written", 1, VECTORS), ("written", 5, VECTORS), ("swapped", 1, new)):
        killed(tmp_path / "new.npz", gallery, after, steps)
        assert np.array_equal(vectors_of(Shards.open(gallery)), expected)
        assert len(list(gallery.glob("part-*"))) > len(Shards.open(gallery).shards)  # what the kill left
    written = shard_file(tmp_path / "good.npz", gallery, rows=700, replace=True)
    assert {path.name for path in gallery.iterdir()} == {MANIFEST, *(shard.file for shard in written.shards)}
    assert np.array_equal(vectors_of(Shards.open(gallery)), VECTORS)


def test_two_do_not_write_one_gallery_at_once(gallery: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOWLY, str(tmp_path / "good.npz"), str(gallery)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "written\n"
    with pytest.raises(TimeoutError, match="another process is writing shards"):
        shard_file(tmp_path / "good.npz", gallery, replace=True)
    child.communicate("\n" * 20)
    assert child.returncode == 0
    assert np.array_equal(vectors_of(Shards.open(gallery)), VECTORS)


def test_a_writer_that_fails_removes_what_it_wrote(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "g", rows=2) as writer:
        writer.add({"embeddings": np.ones((5, 2))})
    before = state(tmp_path / "g")

    def fail() -> None:
        with ShardWriter(tmp_path / "g", rows=2) as writer:
            writer.add({"embeddings": np.zeros((5, 2))})
            writer.add({"embeddings": np.zeros((5, 3))})

    with pytest.raises(ValueError, match="changes on the way"):
        fail()
    assert state(tmp_path / "g") == before


# Hashing that goes on


@pytest.mark.parametrize("lost", ["all of the output", "one shard", "bytes of a shard", "nothing"])
def test_a_partial_counts_if_what_it_wrote_is_there(
    gallery: Path, tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    hasher = la.hashers.ITQ(6, random_state=0).fit(VECTORS)
    codes, partials = tmp_path / "codes", tmp_path / "partials"
    hash_shards(hasher, Shards.open(gallery), codes, threads=1, partials=partials)
    before = state(codes)
    assert len(before) == 5
    (codes / MANIFEST).unlink()  # as of a job that was killed
    if lost == "all of the output":
        for path in codes.iterdir():
            path.unlink()
        codes.rmdir()
    elif lost == "one shard":
        (codes / "part-00002.parquet").unlink()
    elif lost == "bytes of a shard":
        Edition(Location.of(codes), 6).write(1, {"codes": hasher.transform(VECTORS[:9]).to_bytes()})
    with caplog.at_level(logging.WARNING):
        found = hash_shards(hasher, Shards.open(gallery), codes, threads=1, partials=partials)
    assert state(codes) == before
    assert caplog.text.count("it is written again") == {"all of the output": 4, "nothing": 0}.get(lost, 1)
    assert np.array_equal(la.Codes.pack(hasher.transform(VECTORS).unpack()).words, np.concatenate(
        [found.read(number).vectors.words for number in range(4)]
    ))  # fmt: skip


def test_hashed_shards_replace_others_at_the_end(gallery: Path, tmp_path: Path) -> None:
    codes = tmp_path / "codes"
    for bits in (6, 4):
        hasher = la.hashers.LSH(bits, random_state=0).fit(VECTORS)
        hash_shards(hasher, Shards.open(gallery), codes, threads=1, replace=True)
        found = Shards.open(codes)
        assert found.n_bits == bits
        assert len(list(codes.iterdir())) == 5
    before = state(codes)
    (gallery / "part-00003.parquet").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="part-00003"):
        hash_shards(hasher, Shards.open(gallery), codes, threads=1, replace=True)
    assert state(codes).items() >= before.items()
    assert len(Shards.open(codes)) == 1000


# Studies


@pytest.fixture
def study(tmp_path: Path) -> Study:
    study = Study.create(tmp_path / "shop", "shop", Catalogue([f"i{n}" for n in range(40)]), queries=range(5))
    study.add_model("net", gallery=VECTORS[:40])
    return study


def test_a_model_stays_where_the_new_one_cannot_be_read(study: Study, tmp_path: Path) -> None:
    before = state(study.path)
    np.savez(tmp_path / "few.npz", embeddings=VECTORS[:39])
    (tmp_path / "cut.npz").write_bytes((study.path / "models" / "net.npz").read_bytes()[:500])
    (tmp_path / "bad.run").write_text("i0 Q0 i1 1 2.0 r\ni0 Q0 nobody 2 1.0 r\n")
    for file in ("few.npz", "cut.npz", "bad.run", "missing.npz"):
        with pytest.raises(SystemExit) as ended:
            main(["study", "add", str(study.path), "net", str(tmp_path / file), "--replace"])
        assert ended.value.code == 2
        assert state(study.path) == before


def test_a_hasher_and_its_codes_stay_where_new_ones_cannot_be_made(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookalike.study.hashed_models import hash_model

    hash_model(study, "net", "LSH", 4, seed=0)
    before = state(study.path)

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(la.hashers.LSH, "transform", fails)
    with pytest.raises(MemoryError):
        hash_model(study, "net", "LSH", 4, seed=1)
    assert state(study.path) == before


def test_a_pool_is_of_the_items_that_the_study_has_now(study: Study) -> None:
    """A pool that is built while another process changes the queries would be of no use, and lock them for ever."""
    pool = Pool.build({"net": study.model("net").given}, study.collection, k=3)
    Study.open(study.path).set_queries([7, 8, 9])
    with pytest.raises(ValueError, match="have changed since this pool was built: build it again"):
        study.write_pool(pool)
    assert not study.pool_path.exists()
    now = Study.open(study.path)
    now.write_pool(Pool.build({"net": now.model("net").given}, now.collection, k=3))
    assert now.pool().collection.query_ids.tolist() == ["i7", "i8", "i9"]


# What a study holds, damaged


def test_a_damaged_address_of_a_database_is_said(study: Study) -> None:
    from lookalike.judging.store.location import remembered_database

    (study.path / "judging").mkdir()
    for content, words in ((b"\xef\xfe", "it is not text"), (b"nonsense\0", "does not hold the URL")):
        (study.path / "judging" / "database").write_bytes(content)
        with pytest.raises(ValueError, match=words):
            remembered_database(study)


@pytest.mark.parametrize("contents", [np.zeros((40, 1), "S32"), np.zeros(39, "S32"), np.arange(40)])
def test_rows_say_of_which_files_they_are(study: Study, contents: np.ndarray) -> None:
    arrays, about = read_arrays(study.path / "models" / "net.npz")
    write_arrays(study.path / "models" / "net.npz", {**arrays, "contents": contents}, about)
    with pytest.raises(ValueError, match=r"models/net\.npz is damaged: it does not say of which files its rows are"):
        study.model("net")


@pytest.mark.parametrize("damage", [{"query": np.zeros((15, 2), "U2")}, {"rank": None}])
def test_a_pool_has_its_columns(study: Study, damage: dict[str, np.ndarray | None]) -> None:
    study.write_pool(Pool.build({"net": study.model("net").given}, study.collection, k=3))
    arrays, about = read_arrays(study.pool_path)
    changed = {name: array for name, array in {**arrays, **damage}.items() if array is not None}
    write_arrays(study.pool_path.with_suffix(".npz"), changed, about)
    with pytest.raises(ValueError, match=r"pool\.npz is damaged: it must have the columns query, item"):
        Pool.load(study.pool_path.with_suffix(".npz"), study.collection)
