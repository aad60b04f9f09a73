"""Copies of images: found, one of each kept, the others moved or linked so that all of it can be undone.

Sizes: groups of two and three, a chain whose ends are far apart, no copies, files that changed, links. A vacuous
test would let a move pass that loses a file: every test that moves compares all bytes of both folders before and after.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.photos import command, contents, picture, write
from lookalike.core.errors import FileError
from lookalike.discovery.catalogue import Catalogue
from lookalike.study.duplicates import find_duplicates
from lookalike.study.file_moves import FileMove, UndoFile, undo
from lookalike.study.image_files import fingerprint
from lookalike.study.study import Study


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of five images: b is a, byte for byte; c is a, smaller; d and e are alone."""
    monkeypatch.chdir(tmp_path)
    photos = tmp_path / "photos"
    for name, seed in (("a.png", 0), ("sub/d.png", 3), ("e.png", 4)):
        write(photos / name, seed)
    shutil.copy(photos / "a.png", photos / "b.png")
    Image.fromarray(picture(0)).resize((18, 15)).save(photos / "c.png")
    assert command("encode", "photos", "--model", "colour") == 0
    return tmp_path / "photos-study"


def ids(study: Study, position: int) -> str:
    return str(study.catalogue.ids[position])


def groups_of(study: Study, **options: object) -> dict[str, list[tuple[str, bool]]]:
    found = find_duplicates(study, **{"keep": "first", **options})  # type: ignore[arg-type]
    return {ids(study, g.kept): [(ids(study, c.position), c.same_bytes) for c in g.copies] for g in found.groups}


def test_same_bytes_are_told_apart_from_same_looks(shop: Path) -> None:
    study = Study.open(shop)
    assert groups_of(study) == {"a.png": [("b.png", True)]}
    assert groups_of(study, model="colour", near=0.9) == {"a.png": [("b.png", True), ("c.png", False)]}


def test_which_file_is_kept(shop: Path) -> None:
    study, photos = Study.open(shop), shop.parent / "photos"
    os.utime(photos / "c.png", (1, 1))
    os.utime(photos / "b.png", (2, 2))
    kept = {
        keep: list(groups_of(study, model="colour", near=0.9, keep=keep)) for keep in ("first", "largest", "oldest")
    }
    assert kept == {"first": ["a.png"], "largest": ["a.png"], "oldest": ["c.png"]}


def test_an_item_far_from_the_kept_one_is_no_copy(tmp_path: Path) -> None:
    """A chain: a is near b, b is near c, but a and c are far apart. With a kept, c stays."""
    paths = [write(tmp_path / f"{name}.png", seed) for seed, name in enumerate("abc")]
    catalogue = Catalogue(["a", "b", "c"], paths=[str(path) for path in paths])  # type: ignore[arg-type]
    study = Study.create(tmp_path / "s", "s", catalogue, ["a"])
    angles = np.deg2rad([0, 20, 40])
    study.add_model("m", gallery=np.stack([np.cos(angles), np.sin(angles)], 1))
    assert groups_of(study, model="m", near=0.9) == {"a": [("b", False)]}


def test_what_somebody_said_is_no_duplicate_is_not_listed_again(shop: Path) -> None:
    assert command("duplicates", str(shop), "--not-duplicates", "b.png", "a.png") == 0
    assert groups_of(Study.open(shop)) == {}
    assert groups_of(Study.open(shop), model="colour", near=0.9) == {"a.png": [("c.png", False)]}
    assert command("duplicates", str(shop), "--not-duplicates", "b.png", "z.png") == 2


def test_a_file_that_changed_since_it_was_encoded_is_left_out(shop: Path) -> None:
    write(shop.parent / "photos" / "c.png", 9)
    found = find_duplicates(Study.open(shop), model="colour", near=0.9, keep="first")
    assert [len(group.copies) for group in found.groups] == [1]
    assert found.notes == ["c.png has changed since it was encoded, and is left out: run lookalike encode again"]


def test_nothing_changes_unless_told(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(shop.parent)
    assert command("duplicates", str(shop), "--near", "0.9", "--move", "copies") == 0
    assert command("duplicates", str(shop), "--exact", "--link") == 0
    assert contents(shop.parent) == before
    assert "nothing was changed: add --apply" in capsys.readouterr().out


def test_move_and_undo(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = shop.parent / "photos"
    before = contents(photos)
    assert command("duplicates", str(shop), "--near", "0.9", "--move", "copies", "--apply", "--json") == 0
    undo_file = json.loads(capsys.readouterr().out)["undo"]
    assert sorted(contents(shop.parent / "copies")) == ["b.png", "c.png"]
    assert contents(photos) | contents(shop.parent / "copies") == before
    assert command("duplicates", str(shop), "--undo", undo_file) == 0
    assert contents(photos) == before
    assert command("duplicates", str(shop), "--undo", undo_file) == 2
    assert "is undone already" in capsys.readouterr().err


def test_link_and_undo(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = shop.parent / "photos"
    before, inode = contents(photos), (photos / "b.png").stat().st_ino
    assert command("duplicates", str(shop), "--near", "0.9", "--link", "--apply", "--json") == 0
    undo_file = json.loads(capsys.readouterr().out)["undo"]
    assert (photos / "b.png").samefile(photos / "a.png")
    assert not (photos / "c.png").samefile(photos / "a.png")  # it only looks the same
    assert contents(photos) == before
    assert command("duplicates", str(shop), "--exact") == 0
    assert "no duplicates" in capsys.readouterr().out  # one file under two names is no copy
    assert command("duplicates", str(shop), "--undo", undo_file) == 0
    assert contents(photos) == before
    assert (photos / "b.png").stat().st_ino == inode


@pytest.mark.parametrize("harm", ["changed", "taken", "gone"])
def test_an_undo_that_no_longer_fits_is_refused_whole(
    shop: Path, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, copies = shop.parent / "photos", shop.parent / "copies"
    assert command("duplicates", str(shop), "--near", "0.9", "--move", "copies", "--apply", "--json") == 0
    undo_file = json.loads(capsys.readouterr().out)["undo"]
    if harm == "changed":
        (copies / "c.png").write_bytes(b"something else")
    elif harm == "taken":
        (photos / "c.png").write_bytes(b"something else")
    else:
        (copies / "c.png").unlink()
    before = contents(shop.parent)
    assert command("duplicates", str(shop), "--undo", undo_file) == 2
    assert "nothing was undone" in capsys.readouterr().err
    assert contents(shop.parent) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--exact", "--near", "0.9"], "--exact compares bytes alone"),
        (["--move", "copies", "--link"], "choose one"),
        (["--apply"], "add --move FOLDER or --link"),
        (["--near", "1.5"], "a cosine above 0, up to 1, got 1.5"),
        (["--move", "photos/copies", "--apply"], "where lookalike encode would find them"),
        (["--move", "photos", "--apply"], "where lookalike encode would find them"),
        (["--undo", "photos/a.png"], "is not a JSON file"),
        (["--undo", "nothing.json"], "there is no file nothing.json"),
        (["--model", "none"], "none"),
    ],
)
def test_refused(shop: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(shop.parent)
    assert command("duplicates", str(shop), *options) == 2
    assert sentence in capsys.readouterr().err
    assert contents(shop.parent) == before


def test_a_catalogue_keeps_its_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write(tmp_path / "a.png", 0)
    b = shutil.copy(a, tmp_path / "b.png")
    study = Study.create(tmp_path / "s", "s", Catalogue(["a", "b"], paths=[str(a), str(b)]), ["a"])  # type: ignore[arg-type]
    assert command("duplicates", str(study.path), "--exact", "--move", str(tmp_path / "m"), "--apply") == 2
    assert "--link leaves every file in its place" in capsys.readouterr().err
    assert command("duplicates", str(study.path), "--exact", "--link", "--apply") == 0
    assert a.samefile(b)


def moves_between(source: Path, target: Path, n: int) -> list[FileMove]:
    source.mkdir()
    for number in range(n):
        (source / f"{number}.bin").write_bytes(os.urandom(20_000))
    return [
        FileMove(str(path), str(target / path.name), path.stat().st_size, fingerprint(path))
        for path in sorted(source.iterdir())
    ]


def elsewhere(tmp_path: Path) -> Path:
    """A folder on another device, where this machine has one."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second device")
    return shared / f"lookalike-{os.getpid()}-{tmp_path.name}"


def test_a_move_to_another_device_copies_and_checks(tmp_path: Path) -> None:
    target = elsewhere(tmp_path)
    try:
        moves = moves_between(tmp_path / "photos", target, 5)
        before = contents(tmp_path / "photos")
        plan = UndoFile.begin(tmp_path / "undo", moves)
        plan.apply()
        assert contents(target) == before
        assert contents(tmp_path / "photos") == {}
        assert undo(plan.path) == 5
        assert contents(tmp_path / "photos") == before
    finally:
        shutil.rmtree(target, ignore_errors=True)


APPLY = """
import sys
from pathlib import Path
from lookalike.study.file_moves import UndoFile
plan = UndoFile.read(Path(sys.argv[1]))
print("ready", flush=True)
plan.apply()
"""


@pytest.mark.parametrize("other_device", [False, True])
def test_a_kill_leaves_every_file_in_one_of_its_places(tmp_path: Path, other_device: bool) -> None:
    target = elsewhere(tmp_path) if other_device else tmp_path / "copies"
    rng = np.random.default_rng(0)
    stopped = set()
    try:
        for round_ in range(6):
            photos = tmp_path / f"photos{round_}"
            moves = moves_between(photos, target / str(round_), 300)
            before = contents(photos)
            plan = UndoFile.begin(tmp_path / f"undo{round_}", moves)
            process = subprocess.Popen([sys.executable, "-c", APPLY, str(plan.path)], stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            moved = contents(target / str(round_)) if (target / str(round_)).exists() else {}
            moved = {name: content for name, content in moved.items() if not name.endswith(".part")}
            stopped.add(len(moved))
            assert contents(photos) | moved == before
            undo(plan.path)
            assert contents(photos) == before
    finally:
        if other_device:
            shutil.rmtree(target, ignore_errors=True)
    assert any(0 < n < 300 for n in stopped)  # else no kill came in the middle


UNDO = """
import sys
from pathlib import Path
from lookalike.study.file_moves import undo
print("ready", flush=True)
undo(Path(sys.argv[1]))
"""


def killed(script: str, plan: Path, seconds: float) -> None:
    """Run a script on an undo file in a process of its own, and kill that."""
    with subprocess.Popen([sys.executable, "-c", script, str(plan)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)


def test_a_kill_while_linking_or_undoing_loses_no_file(tmp_path: Path) -> None:
    rng, stopped = np.random.default_rng(1), set()
    for round_ in range(5):
        photos = tmp_path / f"photos{round_}"
        photos.mkdir()
        moves = []
        for number in range(150):
            kept, copy = photos / f"{number}.bin", photos / f"copy-{number}.bin"
            kept.write_bytes(os.urandom(5_000))
            shutil.copy(kept, copy)
            target = tmp_path / f"undo{round_}" / "originals" / copy.name
            moves.append(FileMove(str(copy), str(target), 5_000, fingerprint(copy), str(kept)))
        before = contents(photos)
        plan = UndoFile.begin(tmp_path / f"undo{round_}", moves)
        killed(APPLY, plan.path, rng.uniform(0, 0.03))
        names = {name: content for name, content in contents(photos).items() if not name.endswith(".part")}
        assert names == before  # every name is there at every moment, with its bytes
        stopped.add(sum((photos / f"{n}.bin").samefile(photos / f"copy-{n}.bin") for n in range(150)))
        killed(UNDO, plan.path, rng.uniform(0, 0.03))
        assert {name: each for name, each in contents(photos).items() if not name.endswith(".part")} == before
        if plan.path.exists():
            undo(plan.path)
        assert not any((photos / f"{n}.bin").samefile(photos / f"copy-{n}.bin") for n in range(150))
        assert {name: each for name, each in contents(photos).items() if not name.endswith(".part")} == before
    assert any(0 < n < 150 for n in stopped)  # else no kill came in the middle


def test_undo_files_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "moves.json"
    for text in ('{"lookalike": "undo"}', '{"lookalike": "undo", "moves": [{"from": 1}]}', "[]", '{"moves": []}'):
        path.write_text(text)
        with pytest.raises(FileError):
            undo(path)
