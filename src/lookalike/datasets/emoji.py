"""Emoji as several vendors draw them: the same things drawn differently, from npm packages, 64 × 64."""

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.decode import square
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.files import read_json
from lookalike.core.progress import track
from lookalike.datasets.archives import members
from lookalike.datasets.cache import cache_folder
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.download import Archive, has_digest
from lookalike.datasets.source import Origin, obtain

__all__ = ["DEFAULT_VENDORS", "VENDORS", "Vendor", "load_emoji", "read_fluent", "read_vendor", "vendors_in"]

SIDE = 64
TABLE = "emoji.json"
DRAWN_BY = ("google", "twitter", "apple", "facebook")  # an emoji of the set is drawn by all of them


@dataclass(frozen=True)
class Vendor:
    """Who draws emoji: the npm package of the drawings, their licence, and the digest of the package."""

    package: str
    version: str
    licence: str
    integrity: str
    n_images: int = 1857
    is_narrow: bool = False  # the licence must be accepted by name

    @property
    def archive(self) -> str:
        """The name of the file that npm serves."""
        return f"{self.package.rpartition('/')[2]}-{self.version}.tgz"

    @property
    def fetched(self) -> Archive:
        """The archive, how to find its address, and its check."""
        command = ("npm", "view", f"{self.package}@{self.version}", "dist.tarball")
        return Archive(self.archive, (*command, "--loglevel=error", "--fetch-retries=0"), has_digest(self.integrity))


VENDORS = {
    "google": Vendor(
        "emoji-datasource-google",
        "16.0.0",
        "Apache-2.0 (Noto Emoji)",
        "sha512-ZRexfzs7MVoLnmzZmNsO4TKhnAJp5D++Vm6PpUpH/jEQQlemp3l88CjZ+DoZ2faM9R4QxZkOPJCoT8DlPhfQ3A==",
    ),
    "twitter": Vendor(
        "emoji-datasource-twitter",
        "16.0.0",
        "CC-BY-4.0 (Twemoji)",
        "sha512-7F+uCuHH+7Qnrc15P5tnbvKkg9E6tlzi4MnT2uW1RlN4pLYTza6cP/dstIfSDMtpjFLWuZewWg8jBbuL2eyELQ==",
    ),
    "fluent": Vendor(
        "@lobehub/fluent-emoji-3d",
        "1.1.0",
        "MIT (Microsoft's Fluent Emoji)",
        "sha512-Wlq2lVStTnr8BDpIJ0pEnTKO4LuDxxqTEhTvRtD1DLRF0me7ogeRQjKoehDHXuVJ2Qaecgl5wRBv60lUAG3h7g==",
        n_images=1834,
    ),
    "apple": Vendor(
        "emoji-datasource-apple",
        "16.0.0",
        "© Apple Inc., not licensed for commercial use",
        "sha512-dVYjsK0FnCry9F+PBtnivhG2K0xdwlmqYaSgiUtztUdAGPYiHYhZcVKvNBqC791g2qyEcFNTBO6utg4eQ3uLTw==",
        is_narrow=True,
    ),
    "facebook": Vendor(
        "emoji-datasource-facebook",
        "16.0.0",
        "© Facebook, Inc., without a clear licence",
        "sha512-b9ZxJdB7nMWGckH1vyCjPSosaa6MJYuojPPFiQ0LmDIZS8vlG454XKcmTFKrXIMAA72O4MRJMYFhvWI8pjyciQ==",
        is_narrow=True,
    ),
}
DEFAULT_VENDORS = ("google", "twitter", "fluent")


def vendors_in(name: str) -> tuple[str, ...]:
    """The vendors that the name of a data set asks for.

    >>> vendors_in("emoji"), vendors_in("emoji:twitter,google")
    (('google', 'twitter', 'fluent'), ('twitter', 'google'))
    """
    _, colon, listed = name.partition(":")
    if not colon:
        return DEFAULT_VENDORS
    vendors = tuple(vendor.strip().lower() for vendor in listed.split(","))
    for vendor in vendors:
        if vendor not in VENDORS:
            similar = nearest(vendor, VENDORS)
            question = "" if similar is None else f": did you mean {similar}?"
            raise InputError(f"there is no vendor {vendor!r} of emoji{question} Vendors are {', '.join(VENDORS)}")
    if len(set(vendors)) < len(vendors):
        raise InputError(f"{name!r} names a vendor twice")
    return vendors


def load_emoji(name: str, source: str | Path | None = None, accepted: Collection[str] = ()) -> Dataset:
    """The emoji that these vendors draw: labels are subcategories, coarse labels are categories, identities emoji.

    name: "emoji", or as in "emoji:google,apple". source: a folder with the packages as npm serves them; of one vendor,
    also the package. accepted: vendors whose narrower licence is accepted.
    """
    vendors = vendors_in(name)
    for vendor in accepted:
        vendors_in(f"emoji:{vendor}")  # raises for one that is not known
    for vendor in vendors:
        _check_licence(vendor, source, accepted)
    tabled = next((vendor for vendor in vendors if vendor in DRAWN_BY), DRAWN_BY[0])  # its package has the table
    first = obtain(_origin(tabled), source)
    sets = [first if vendor == tabled else obtain(_origin(vendor, first), source) for vendor in vendors]
    return _joined("emoji" if vendors == DEFAULT_VENDORS else f"emoji:{','.join(vendors)}", sets)


def _check_licence(vendor: str, source: str | Path | None, accepted: Collection[str]) -> None:
    """Raise for drawings of a narrow licence that nobody accepted; who has them already did."""
    facts = VENDORS[vendor]
    cached = (cache_folder() / name for name in (f"emoji-{vendor}.npz", facts.archive))
    if facts.is_narrow and vendor not in accepted and source is None and not any(path.is_file() for path in cached):
        raise InputError(
            f"the emoji of {vendor} are {facts.licence}: if your use is within that, say so once to lookalike data or "
            "datasets.load with ",
            Option("accept_licence", vendor),
        )


def _origin(vendor: str, table: Dataset | None = None) -> Origin:
    """Where the drawings of a vendor come from. table: a set of emoji, which says what each is, for fluent."""
    facts = VENDORS[vendor]
    read = partial(read_vendor, vendor=vendor)
    if vendor not in DRAWN_BY:
        assert table is not None
        read = partial(read_fluent, table=table)
    return Origin(f"emoji-{vendor}", facts.n_images, read, (), facts.archive, facts.fetched)


def read_vendor(source: Path, vendor: str) -> Dataset:
    """Read a package emoji-datasource-…, or a folder with what it holds."""
    drawings = next((path for path in source.glob(f"**/img/{vendor}/64")), None) if source.is_dir() else source
    table = members(source, (TABLE,)).get(TABLE)
    if table is None or drawings is None:
        missing = TABLE if table is None else f"img/{vendor}/64"
        raise _other_package(source, vendor, missing)
    rows = _rows(table, source)
    contents = members(drawings, {row["image"] for row in rows})
    drawn = [row for row in rows if row["image"] in contents]
    if not drawn or not _names(source, vendor):
        raise _other_package(source, vendor, f"img/{vendor}/64")
    if len(drawn) < len(rows):
        missing = next(row["image"] for row in rows if row["image"] not in contents)
        raise FileError(f"{source} is not all of {VENDORS[vendor].archive}: it has no {missing}", path=source)
    images = _decoded(source, [contents[row["image"]] for row in drawn])
    classes, coarse_classes = (tuple(dict.fromkeys(row[key] for row in rows)) for key in ("subcategory", "category"))
    return Dataset(
        f"emoji-{vendor}",
        images,
        np.array([classes.index(row["subcategory"]) for row in drawn], np.int64),
        classes,
        None,
        np.array([coarse_classes.index(row["category"]) for row in drawn], np.int64),
        coarse_classes,
        **_named(vendor, [row["unified"].lower() for row in drawn], [row["name"] for row in drawn]),
    )


def read_fluent(source: Path, table: Dataset) -> Dataset:
    """Read the package fluent-emoji-3d, or a folder with what it holds. table: emoji that say what each is."""
    assert table.identities is not None
    assert table.coarse is not None
    files = {f"{identity}.webp": row for row, identity in enumerate(table.identities.tolist())}
    folder = next((path for path in source.glob("**/assets")), source) if source.is_dir() else source
    contents = members(folder, files)
    if not contents:
        raise _other_package(source, "fluent", "assets of emoji, such as 1f600.webp")
    drawn = [name for name in files if name in contents]
    rows = np.array([files[name] for name in drawn])
    named = _named("fluent", table.identities[rows].tolist(), table.columns["name"][rows].tolist())
    images = _decoded(source, [contents[name] for name in drawn])
    return replace(
        table, name="emoji-fluent", images=images, labels=table.labels[rows], coarse=table.coarse[rows], **named
    )


def _rows(table: bytes, source: Path) -> list[dict[str, Any]]:
    """The rows of the table of emoji that all vendors of the packages draw, in the order of Unicode."""
    keys = ("image", "unified", "name", "category", "subcategory")
    rows = read_json(table, source)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and all(isinstance(row.get(key), str) for key in keys) for row in rows
    ):
        raise FileError(f"{source} is damaged: {TABLE} must say {', '.join(keys)} of each emoji", path=source)
    drawn = [row for row in rows if all(row.get(f"has_img_{vendor}") for vendor in DRAWN_BY)]
    return sorted(drawn, key=lambda row: row.get("sort_order", 0))


def _names(source: Path, vendor: str) -> bool:
    """Whether an archive or folder is that of the vendor: packages of all vendors have files of the same names."""
    if source.is_dir():
        return True  # img/VENDOR/64 is there
    package = members(source, ("package.json",)).get("package.json", b"{}")
    about = read_json(package, source)
    return isinstance(about, dict) and about.get("name") == VENDORS[vendor].package


def _named(vendor: str, identities: list[str], names: list[str]) -> dict[str, Any]:
    """Ids, identities and columns of the drawings of a vendor."""
    return {
        "ids": np.array([f"{vendor}-{identity}" for identity in identities]),
        "identities": np.array(identities),
        "columns": {"name": np.array(names), "vendor": np.array([vendor] * len(names))},
    }


def _decoded(source: Path, contents: Sequence[bytes]) -> np.ndarray:
    images = []
    try:
        images = [square(io.BytesIO(content), SIDE) for content in track(contents, len(contents), "reading emoji")]
    except (OSError, ValueError, SyntaxError) as error:
        raise FileError(f"{source} is damaged: drawing {len(images)} cannot be read", path=source) from error
    return np.array(images, np.uint8).reshape(-1, SIDE, SIDE, 3)


def _other_package(source: Path, vendor: str, missing: str) -> FileError:
    wanted = VENDORS[vendor].archive
    return FileError(
        f"{source} is not {wanted}, nor a folder that has it or its content: it has no {missing}", path=source
    )


def _joined(name: str, sets: Sequence[Dataset]) -> Dataset:
    """Sets of the same classes as one, one set after the other."""
    keys = ("images", "labels", "coarse", "ids", "identities")
    columns = {key: np.concatenate([each.columns[key] for each in sets]) for key in sets[0].columns}
    joined: dict[str, Any] = {key: np.concatenate([getattr(each, key) for each in sets]) for key in keys}
    return replace(sets[0], name=name, columns=columns, **joined)
