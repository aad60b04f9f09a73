"""Emoji of several vendors: which are read, what is known of each, licences, and packages that are wrong."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.archive_server import serving
from helpers.archives import tar_gz, unpacked
from helpers.caches import folder  # noqa: F401  # fixtures
from helpers.catalogues import DRAWN, EMOJI, drawing, emoji_files, emoji_folder, emoji_table, fluent_files
from lookalike import datasets
from lookalike.datasets import cache, emoji
from lookalike.datasets.emoji import VENDORS, Vendor

pytestmark = pytest.mark.usefixtures("folder")  # a cache of its own, and no network by accident


@pytest.fixture
def packages(folder: Path) -> Path:
    return emoji_folder(folder / "packages")


def on_white(image: Image.Image) -> np.ndarray:
    white = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(white, image).convert("RGB"))


def test_emoji_that_all_draw_by_three_vendors(packages: Path) -> None:
    dataset = datasets.load("emoji", source=packages)
    assert dataset.name == "emoji"
    order = DRAWN[::-1]  # as sort_order says
    identities = [EMOJI[number][0].lower() for number in order]
    assert dataset.identities is not None
    assert dataset.identities.tolist() == [*identities, *identities, *identities[1:]]  # fluent lacks the flag
    assert dataset.columns["vendor"].tolist() == ["google"] * 6 + ["twitter"] * 6 + ["fluent"] * 5
    assert dataset.ids is not None
    assert dataset.ids[[1, 7, 12]].tolist() == ["google-1f42d", "twitter-1f42d", "fluent-1f42d"]
    for row in range(len(dataset)):
        number = next(n for n in DRAWN if EMOJI[n][0].lower() == dataset.identities[row])
        _, name, category, subcategory, _ = EMOJI[number]
        assert dataset.columns["name"][row] == name
        assert dataset.classes[dataset.labels[row]] == subcategory
        assert dataset.coarse is not None
        assert dataset.coarse_classes[dataset.coarse[row]] == category
        expected = on_white(drawing(str(dataset.columns["vendor"][row]), number))
        np.testing.assert_array_equal(dataset.images[row], expected)
    assert datasets.load("emoji", source=packages, labels="coarse").classes == (
        "Flags", "Animals & Nature", "Smileys & Emotion"
    )  # fmt: skip


def test_one_vendor_from_its_package_and_from_what_it_holds(folder: Path, packages: Path) -> None:
    archive = packages / "emoji-datasource-twitter-16.0.0.tgz"
    inside = unpacked(folder / "unpacked", emoji_files("twitter"))
    for source in (archive, inside, inside / "package", packages):
        dataset = datasets.load("emoji:twitter", source=source)
        assert (dataset.name, len(dataset)) == ("emoji:twitter", 6)
        np.testing.assert_array_equal(dataset.images[-1], on_white(drawing("twitter", 0)))
    both = datasets.load("Emoji:Fluent,Google", source=packages)
    assert both.name == "emoji:fluent,google"
    assert both.columns["vendor"].tolist() == ["fluent"] * 5 + ["google"] * 6
    assert datasets.load("emoji:fluent", source=packages).ids.tolist() == both.ids[:5].tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("emoji:gogle", {}, "no vendor 'gogle' of emoji: did you mean google.* google, twitter, fluent, apple"),
        ("emoji:google,google", {}, "names a vendor twice"),
        ("emoji:", {}, "no vendor '' of emoji"),
        ("emoji:google", {"accept_licence": ["aple"]}, "no vendor 'aple' of emoji: did you mean apple"),
        ("digits", {"accept_licence": ["apple"]}, "accept_licence is for vendors of emoji, not for digits"),
        ("cifar10:google", {}, "there is no data set 'cifar10:google'"),
        ("emoji", {"labels": "x.csv"}, "emoji has labels of its own"),
    ],
)
def test_names_that_are_not_known(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load(name, **options)


@pytest.mark.parametrize("vendor", ["apple", "facebook"])
def test_a_narrow_licence_is_accepted_by_name(folder: Path, packages: Path, vendor: str) -> None:
    name = f"emoji:google,{vendor}"
    with pytest.raises(ValueError, match=rf"{VENDORS[vendor].licence}.* accept_licence='{vendor}'"):
        datasets.load(name)
    with pytest.raises(OSError, match=r"emoji-google is not in the cache .* there is no npm here"):
        datasets.load(name, accept_licence=[vendor])
    assert len(datasets.load(name, source=packages)) == 12  # who has them needs no permission of ours
    (datasets.cache_folder() / f"emoji-datasource-{vendor}-16.0.0.tgz").touch()
    with pytest.raises(OSError, match="there is no npm here"):  # accepted before
        datasets.load(name)
    assert datasets.licences(name) == {key: VENDORS[key].licence for key in ("google", vendor)}


def test_emoji_are_fetched_checked_and_decoded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tar_gz(folder / "archive", emoji_files("google")).read_bytes()
    with serving(content) as server:
        small = replace(VENDORS["google"], n_images=len(DRAWN))
        monkeypatch.setitem(emoji.VENDORS, "google", small)
        monkeypatch.setattr(Vendor, "fetched", property(lambda self: server.archive(self.archive)))
        first = datasets.load("emoji:google")
        names = sorted(path.name for path in datasets.cache_folder().iterdir())
        assert names == ["emoji-datasource-google-16.0.0.tgz", "emoji-google.npz"]
        again = datasets.load("emoji:google")
        assert len(server.asked) == 1
    np.testing.assert_array_equal(again.images, first.images)
    np.testing.assert_array_equal(again.columns["name"], first.columns["name"])


def test_what_is_known_of_images_comes_back_from_the_cache(folder: Path, packages: Path) -> None:
    dataset = datasets.load("emoji", source=packages)
    cache.keep(dataset, folder / "kept.npz")
    back = cache.recall(folder / "kept.npz")
    assert back is not None
    for name in ("ids", "identities", "coarse", "images"):
        np.testing.assert_array_equal(getattr(back, name), getattr(dataset, name))
    assert back.columns.keys() == dataset.columns.keys()
    np.testing.assert_array_equal(back.columns["vendor"], dataset.columns["vendor"])


def changed(vendor: str, **files: bytes | None) -> dict[str, bytes]:
    """A package with other files, or without some."""
    contents = {**emoji_files(vendor), **{f"package/{name}": content for name, content in files.items()}}
    return {name: content for name, content in contents.items() if content is not None}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (emoji_files("twitter"), r"is not emoji-datasource-google-16\.0\.0\.tgz, .* it has no img/google/64"),
        (fluent_files(), r"is not emoji-datasource-google-16\.0\.0\.tgz, .* it has no emoji\.json"),
        (changed("google", **{"img/google/64/1f600.png": None}), "is not all of .* it has no 1f600.png"),
        (changed("google", **{"img/google/64/1f600.png": b"x"}), "is damaged: 1f600.png cannot be read"),
        (changed("google", **{"emoji.json": b"[1,"}), "archive is not"),
        (changed("google", **{"emoji.json": b'[{"name": 1}]'}), "must say image, unified, name, category, subcategory"),
        (changed("google", **{"emoji.json": b"[]"}), "has no img/google/64"),
    ],
)
def test_a_wrong_package_is_told_in_a_sentence(folder: Path, contents: dict[str, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load("emoji:google", source=tar_gz(folder / "archive", contents))


def test_packages_that_are_missing_are_told_in_a_sentence(folder: Path, packages: Path) -> None:
    (packages / "fluent-emoji-3d-1.1.0.tgz").unlink()
    with pytest.raises(ValueError, match=r"is not fluent-emoji-3d-1\.1\.0\.tgz, nor a folder that has it"):
        datasets.load("emoji", source=packages)
    (packages / "emoji-datasource-google-16.0.0.tgz").unlink()
    with pytest.raises(ValueError, match=r"is not emoji-datasource-google-16\.0\.0\.tgz, nor a folder that has it"):
        datasets.load("emoji", source=packages)


def test_a_wild_split_has_queries_of_a_vendor_that_the_gallery_lacks(packages: Path) -> None:
    dataset = datasets.load("emoji", source=packages).wild("vendor", "twitter")
    split, vendors = dataset.split(2), dataset.columns["vendor"]
    assert set(vendors[split.queries]) == {"twitter"}
    assert set(vendors[split.gallery]) == {"google", "fluent"}
    np.testing.assert_array_equal(split.training, split.gallery)
    with pytest.raises(ValueError, match="vendor must be one of 'fluent', 'google', 'twitter', got 'apple'"):
        dataset.wild("vendor", "apple")
    with pytest.raises(ValueError, match="all images of emoji:google are of the vendor google"):
        datasets.load("emoji:google", source=packages).wild("vendor", "google")
    with pytest.raises(ValueError, match="digits does not say the vendor"):
        datasets.load("digits").wild("vendor", "google")


def test_the_table_of_the_tests_has_the_keys_of_the_package() -> None:
    assert {"name", "unified", "image", "category", "subcategory", "sort_order"} < set(emoji_table()[0])
    assert json.loads(emoji_files("apple")["package/emoji.json"]) == emoji_table()
