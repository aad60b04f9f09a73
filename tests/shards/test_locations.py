"""Locations: folders and stores, secrets in their addresses, and stores that fail."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lookalike as la
from helpers.small_shards import LABELS, QUERIES, by_label, evaluated, random_codes, small
from lookalike.core import retry
from lookalike.shards import storage
from lookalike.shards.gallery import MANIFEST, Shards
from lookalike.shards.storage import Location
from lookalike.shards.writer import ShardWriter


@pytest.fixture(params=["folder", "store"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    if request.param == "folder":
        yield Location.of(tmp_path / "not there yet" / "below")
        return
    import fsspec

    store = fsspec.filesystem("memory")
    yield Location.of("memory://lookalike-tests/below/")
    if store.exists("/lookalike-tests"):
        store.rm("/lookalike-tests", recursive=True)


def test_a_location_gives_what_it_was_given(location: Location) -> None:
    assert location.sizes(["a.bin", "b.bin"]) == {}
    assert not location.has("a.bin")
    with pytest.raises(FileNotFoundError):
        location.read("a.bin")
    content = bytes(range(256)) * 100
    location.write("a.bin", content)
    location.write("b.bin", b"")
    assert location.read("a.bin") == content
    assert location.read("b.bin") == b""
    assert location.sizes(["a.bin", "b.bin", "c.bin"]) == {"a.bin": 25_600, "b.bin": 0}
    assert location.has("a.bin")
    assert not location.has("c.bin")
    location.write("a.bin", b"less")
    assert location.read("a.bin") == b"less"
    assert pickle.loads(pickle.dumps(location)).read("a.bin") == b"less"


def test_a_gallery_in_a_store(location: Location) -> None:
    codes = random_codes(20)
    with ShardWriter(location.where, n_bits=12, rows=6) as writer:
        writer.add({"codes": codes.to_bytes(), "labels": np.arange(20) % 4})
    gallery = Shards.open(location.where)
    expected = la.evaluate(QUERIES, codes, la.same_label(LABELS, np.arange(20) % 4), ["AP", "LGAP@2"])
    for _ in range(2):
        found = la.evaluate(
            QUERIES, gallery, by_label(gallery), ["AP", "LGAP@2"], partials=f"{location.where}/partials"
        )
        np.testing.assert_array_equal(found["AP"].per_query, expected["AP"].per_query)
        np.testing.assert_array_equal(found["LGAP@2"].per_query, expected["LGAP@2"].per_query)
    with pytest.raises(FileNotFoundError, match=f"there is no {MANIFEST} in {location}/nowhere"):
        Shards.open(f"{location.where}/nowhere")


def test_a_file_that_is_half_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = Location.of(tmp_path)
    location.write("a.bin", b"before")

    def fail(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        location.write("a.bin", b"after")
    assert location.read("a.bin") == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_how_locations_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("x").where == str(tmp_path / "x") == Location.of("./x/").where == Location.of(Path("x")).where
    assert Location.of(f"file://{tmp_path}/x") == Location.of(tmp_path / "x")
    assert Location.of("s3://bucket/x/") == Location.of("s3://bucket/x")
    assert Location.of(Location.of("x")) == Location.of("x")
    assert Location.of("x").local == tmp_path / "x"
    assert Location.of("s3://bucket/x").local is None


def test_secrets_are_not_shown() -> None:
    for address in (
        "s3://KEY:hush@bucket/gallery",
        "s3://KEY:hush@bucket/gallery?secret=hush&region=here",
        "s3://bucket/gallery?access_key=KEY&secret_key=hush",
        "memory://KEY:hush@nowhere/gallery",
    ):
        location = Location.of(address)
        assert "hush" not in str(location)
        assert "KEY" not in str(location)
        assert "gallery" in str(location)
        assert location.where == address
    for address in ("memory://KEY:hush@nowhere/gallery", "nosuchstore://KEY:hush@bucket/gallery?token=hush"):
        with pytest.raises((FileNotFoundError, ValueError)) as caught:
            Shards.open(address)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("case", ["repr", "a slash", "an address that is none", "a store's words"])
def test_secrets_are_not_shown_anywhere(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def words() -> str:
        if case == "repr":
            return repr(Location.of("s3://KEY:hush@bucket/gallery"))
        if case == "a slash":
            return str(Location.of("s3://KEY:hu/hush@bucket/gallery"))
        location = Location.of("s3://KEY:hush@bu cket/gallery")
        if case == "a store's words":
            store = Flaky({}, 99, OSError("cannot reach s3://KEY:hush@bucket/gallery/a.bin"))
            monkeypatch.setattr(storage, "TRIES", 1)
            location = flaky(store, "s3://KEY:hush@bucket/gallery")
        try:
            location.read("a.bin")
        except (ValueError, OSError) as error:
            return str(error)
        return "hush: nothing was refused"

    assert "hush" not in words()


def test_secrets_are_not_logged(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "lookalike")
    store = Flaky({"bucket/x/a.bin": b"hello"}, 1, OSError("cannot reach s3://KEY:hush@bucket/x/a.bin"))
    assert flaky(store).read("a.bin") == b"hello"
    assert "cannot reach" in caplog.text
    assert "hush" not in caplog.text


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="nosuchstore://bucket/x is at no store that is known here"):
        Location.of("nosuchstore://bucket/x").read("a.bin")
    with pytest.raises(ValueError, match="cannot be read as an address"):
        Location.of("s3://a bucket/x").read("a.bin")


class Flaky:
    """A store in memory, as pyarrow has them, that fails so many times before it answers."""

    def __init__(self, files: dict[str, bytes], fails: int, error: Exception) -> None:
        self.files, self.fails, self.error, self.asked = files, fails, error, 0

    def _answer(self) -> None:
        self.asked += 1
        if self.asked <= self.fails:
            raise self.error

    def open_input_file(self, path: str) -> Any:
        self._answer()
        if path not in self.files:
            raise FileNotFoundError(path)
        return pa.BufferReader(self.files[path])

    def open_output_stream(self, path: str) -> Any:
        self._answer()
        store = self

        class Stream:
            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def write(self, content: bytes) -> None:
                store.files[path] = content

        return Stream()

    def get_file_info(self, paths: Any) -> list[Any]:
        from pyarrow import fs

        self._answer()
        if isinstance(paths, fs.FileSelector):
            paths = [path for path in self.files if path.startswith(f"{paths.base_dir}/")]
        kinds = {True: fs.FileType.File, False: fs.FileType.NotFound}
        return [fs.FileInfo(path, kinds[path in self.files], size=len(self.files.get(path, b""))) for path in paths]


def flaky(store: Flaky, address: str = "s3://KEY:hush@bucket/x") -> Location:
    location = Location.of(address)
    location.__dict__["_store"] = (store, "bucket/x")  # where the connection is kept
    return location


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=slept.append))  # there alone: other threads go on
    return slept


@pytest.mark.parametrize("error", [OSError("500 slow down"), TimeoutError("no answer"), ConnectionResetError("reset")])
def test_a_store_is_asked_again(error: Exception, pauses: list[float]) -> None:
    for fails in range(storage.TRIES):
        files: dict[str, bytes] = {"bucket/x/a.bin": b"hello"}
        store = Flaky(files, fails, error)
        pauses.clear()
        assert flaky(store).read("a.bin") == b"hello"
        assert store.asked == fails + 1
        np.testing.assert_allclose(pauses, storage.PAUSE * 2.0 ** np.arange(fails))
        assert flaky(Flaky(files, fails, error)).sizes(["a.bin", "b.bin"]) == {"a.bin": 5}
        flaky(Flaky(files, fails, error)).write("b.bin", b"there")
        assert files["bucket/x/b.bin"] == b"there"


def test_a_store_that_never_answers_is_given_up(pauses: list[float]) -> None:
    for action, words in (
        (lambda location: location.read("a.bin"), "read s3://…@bucket/x/a.bin"),
        (lambda location: location.write("a.bin", b""), "write s3://…@bucket/x/a.bin"),
        (lambda location: location.has("a.bin"), "look into s3://…@bucket/x"),
    ):
        store = Flaky({}, 99, OSError("500\n slow   down"))
        with pytest.raises(OSError, match=f"^cannot {words} after {storage.TRIES} tries: 500 slow down$") as caught:
            action(flaky(store))
        assert "hush" not in str(caught.value)
        assert store.asked == storage.TRIES
    assert len(pauses) == 3 * (storage.TRIES - 1)


@pytest.mark.parametrize("word", storage.FINAL)
def test_a_store_that_has_answered_is_not_asked_again(word: str, pauses: list[float]) -> None:
    store = Flaky({}, 99, OSError(f"AWS Error {word} during GetObject: no"))
    with pytest.raises(OSError, match=f"^cannot read s3://…@bucket/x/a.bin: AWS Error {word}"):
        flaky(store).read("a.bin")
    assert (store.asked, pauses) == (1, [])


def test_a_file_that_is_not_there_is_not_asked_for_again(pauses: list[float]) -> None:
    store = Flaky({}, 0, OSError())
    with pytest.raises(FileNotFoundError):
        flaky(store).read("a.bin")
    assert (store.asked, pauses) == (1, [])


def test_a_gallery_in_a_store_that_fails_now_and_then(
    tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third question fails, whoever asks: the numbers are the same."""
    local = small(tmp_path)
    expected = evaluated(local)
    files = {f"bucket/x/{path.name}": path.read_bytes() for path in tmp_path.iterdir()}
    store = Flaky(files, 0, OSError("500 slow down"))
    count = iter(range(10_000))

    def answer() -> None:
        if next(count) % 3 == 0:
            raise store.error

    monkeypatch.setattr(store, "_answer", answer)
    gallery = Shards(flaky(store), local.manifest)
    monkeypatch.setattr(Location, "_store", (store, "bucket/x"))
    found = evaluated(gallery, threads=2)
    np.testing.assert_array_equal(found["AP"].per_query, expected["AP"].per_query)
    assert len(pauses) >= 2
