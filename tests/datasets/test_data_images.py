"""The images of a data set written out as files: the same pixels, balanced classes, all files or none."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers.commands import numbers, run
from lookalike import datasets
from lookalike.core import progress
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.export import write_images


def made(n: int, classes: tuple[str, ...] = ("cat", "dog", "T-shirt/top"), colours: tuple[int, ...] = ()) -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 7, 9, *colours)).astype(np.uint8)
    return Dataset("made", images, np.arange(n) % len(classes), classes)


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# In which order


@given(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4), seed=st.integers(0, 2**32 - 1))
def test_classes_take_turns(sizes: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = np.random.default_rng(seed).permutation(labels)
    data = Dataset("some", np.zeros((len(labels), 1, 1), np.uint8), shuffled, tuple("abcd"[: len(sizes)]))
    order = data.shuffled(seed)
    assert sorted(order) == list(range(len(labels)))
    for n in range(len(labels) + 1):
        counts = np.bincount(shuffled[order[:n]], minlength=len(sizes))
        most = counts.max()
        assert all(most - count <= 1 or count == size for count, size in zip(counts, sizes, strict=True))


def test_the_order_is_drawn_with_the_seed() -> None:
    data = datasets.load("digits")
    assert np.array_equal(data.shuffled(3), data.shuffled(3))
    assert not np.array_equal(data.shuffled(3)[:100], data.shuffled(4)[:100])
    firsts = np.array([data.shuffled(seed)[0] for seed in range(300)])  # of class 0, which has 178
    assert len(np.unique(firsts)) > 100


# What is written


@pytest.mark.parametrize("colours", [(), (3,)], ids=["grey", "colours"])
def test_files_hold_the_pixels_in_folders_of_their_class(colours: tuple[int, ...], tmp_path: Path) -> None:
    data = made(7, colours=colours)
    rows = write_images(data, tmp_path / "out")
    assert rows.tolist() == list(range(7))
    folders = {"cat": "cat", "dog": "dog", "T-shirt/top": "T-shirt-top"}
    expected = [f"{folders[data.classes[data.labels[row]]]}/{row:05}.png" for row in range(7)]
    assert files_below(tmp_path / "out") == sorted(expected)
    for row, name in enumerate(expected):
        with Image.open(tmp_path / "out" / name) as image:
            np.testing.assert_array_equal(np.asarray(image), data.images[row])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_written_is_a_data_set_again(tmp_path: Path) -> None:
    digits = datasets.load("digits")
    rows = write_images(digits, tmp_path / "digits", first=100, random_state=5)
    again = datasets.image_folder(tmp_path / "digits", size=8)
    numbered = [int(path.stem) for path in again.paths]
    assert sorted(numbered) == rows.tolist() == sorted(digits.shuffled(5)[:100])
    np.testing.assert_array_equal(again.images[..., 0], digits.images[numbered])
    assert [again.classes[label] for label in again.labels] == [
        digits.classes[label] for label in digits.labels[numbered]
    ]
    assert np.bincount(again.labels).tolist() == [10] * 10


def test_an_empty_folder_is_filled_and_may_be_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_images(made(6), ".")
    assert len(files_below(Path())) == 6  # seen from where we still are
    assert oct((tmp_path / "cat").stat().st_mode & 0o777) == oct(0o777 & ~_umask())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_images(made(30, colours=(3,)), tmp_path / name, first=20)
    for file in files_below(tmp_path / "one"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


# All or none


@pytest.mark.parametrize("there", [False, True])
def test_what_breaks_off_leaves_nothing(there: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()

    def interrupted(what: str, done: int, total: int) -> None:
        if done == 10:
            assert list(out.rglob("*.png"))
            raise KeyboardInterrupt

    with progress.reporting(interrupted), pytest.raises(KeyboardInterrupt):
        write_images(made(3000), out)
    assert out.exists() == there
    assert not list(tmp_path.rglob("*.png"))
    write_images(made(3), out)  # and may be tried again


def test_what_is_killed_leaves_nothing_that_looks_like_images(tmp_path: Path) -> None:
    code = (
        "import sys; from lookalike import datasets; from lookalike.core import progress\n"
        "def wait(what, done, total):\n"
        "    print(done, flush=True)\n"
        "    if done == 10:\n"
        "        sys.stdin.readline()\n"  # for ever: it is killed here
        "with progress.reporting(wait):\n"
        "    datasets.write_images(datasets.load('digits'), sys.argv[1])"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert isinstance(writer.stdout, io.BufferedReader)
        assert b"10\n" in iter(writer.stdout.readline, b"")
        os.kill(writer.pid, signal.SIGKILL)
    assert [path.name[0] for path in out.iterdir()] == ["."]
    with pytest.raises(ValueError, match="has no images"):
        datasets.load(out)
    write_images(made(3), out)  # clears that away
    assert [path for path in out.iterdir() if path.name.startswith(".")] == []
    assert len([*out.rglob("*.png")]) == 3


# What is wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folder": "full"}, r"cannot write images into .*full: it is not empty, it holds \.hidden; name a new folder"),
        ({"folder": "file"}, "cannot write images into .*file: it is not a folder"),
        ({"folder": "none/out"}, "the folder .*none does not exist"),
        ({"first": 0}, "first must be from 1 to 6, the images of made, got 0"),
        ({"first": 7}, "first must be from 1 to 6, the images of made, got 7"),
        ({"dataset": made(6, ("a/b", "a:b"))}, "classes 'a/b', 'a:b' would share the folder a-b: rename them"),
        ({"dataset": made(6, ("a", ".."))}, r"class '\.\.' has nothing to name a folder by"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").touch()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    given = {"dataset": made(6), "folder": "out", "first": None, **change}
    with pytest.raises(ValueError, match=message):
        write_images(given["dataset"], tmp_path / given["folder"], first=given["first"])
    assert sorted(tmp_path.rglob("*")) == before


def test_names_of_classes_stay_inside_the_folder(tmp_path: Path) -> None:
    write_images(made(4, ("../../up", "/etc", "a\nb", "ключ")), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"-..-up", "-etc", "a-b", "ключ"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# The command


def test_the_command_writes_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = numbers(capsys, "data", "digits", "--images", tmp_path / "a", "--first", 25, "--seed", 2)
    counts = dict.fromkeys("01234", 3) | dict.fromkeys("56789", 2)
    assert said["written"] == {"folder": str(tmp_path / "a"), "images": 25, "classes": counts}
    assert len(files_below(tmp_path / "a")) == 25
    code, out, err = run(capsys, "data", "digits", "--images", tmp_path / "b", "--first", 25)
    assert (code, err) == (0, "")
    assert f"written to {tmp_path / 'b'}: 25 images, 2 to 3 of each class" in out
    assert files_below(tmp_path / "a") != files_below(tmp_path / "b")  # another seed
    assert numbers(capsys, "data", "digits")["written"] is None
    out = run(capsys, "data", "digits", "--images", tmp_path / "c", "--output", tmp_path / "d", "--first", 20)[1]
    assert "20 images, 2 of each class" in out
    assert "gallery.npz" in out
    assert (tmp_path / "d" / "gallery.npz").is_file()


def test_the_command_refuses_before_it_reads_or_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").touch()
    out = tmp_path / "out"
    for arguments, message in (
        (("data", "no-such-set", "--images", tmp_path / "full"), "it is not empty, it holds a.txt"),
        (("data", "digits", "--first", 10), "--first says how many images to write: say where with --images"),
        (("data", "digits", "--images", out, "--first", 0), "--first"),
        (
            ("data", "digits", "--images", out, "--first", 1798, "--output", tmp_path / "o"),
            "first must be from 1 to 1,797",
        ),
        (("data", "digits", "--images", out, "--output", tmp_path / "full" / "a.txt"), "it is not a folder"),
    ):
        code, _, err = run(capsys, *arguments)
        assert code != 0
        assert message in " ".join(err.split())
    write_images(made(20), tmp_path / "photos")
    code, _, err = run(capsys, "data", tmp_path / "photos", "--images", out)
    assert code == 2
    assert "photos is a folder of images already: expected a data set that has a name" in err
    assert not out.exists()
    assert not (tmp_path / "o").exists()
