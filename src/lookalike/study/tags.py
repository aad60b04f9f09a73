"""Tags that people give to items of a study: words to find the items again by, in the file tags.csv.

They are not labels: no metric counts them, and columns of the catalogue stay as they are.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.errors import FileError, InputError, StudyError

if TYPE_CHECKING:
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.study import Study

LONGEST = 50  # characters of a tag
FILE = "tags.csv"

__all__ = ["LONGEST", "StudyTags", "add_tag", "clean_tag", "read_tags", "remove_tag", "tags_path"]


@dataclass(frozen=True)
class StudyTags:
    """The ids that have each tag, in the order in which they got it; an id may be of an item that is gone.

    >>> tags = StudyTags({"sale": ("b", "a"), "red": ("a",)})
    >>> tags.of("a"), tags.ids("sale")
    (['red', 'sale'], ('b', 'a'))
    """

    items: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """All tags, sorted."""
        return sorted(self.items)

    def of(self, item: str) -> list[str]:
        """The tags of an item, sorted."""
        return [tag for tag in self.names() if item in self.items[tag]]

    def by_item(self) -> dict[str, list[str]]:
        """The tags of every item that has any, sorted."""
        tags: dict[str, list[str]] = {}
        for tag in self.names():
            for item in self.items[tag]:
                tags.setdefault(item, []).append(tag)
        return tags

    def ids(self, tag: str) -> tuple[str, ...]:
        """The ids that have a tag; raises if nothing has it."""
        if tag not in self.items:
            similar = nearest(tag, self.names())
            question = "" if similar is None else f", did you mean {similar!r}?"
            shown = ", ".join(self.names()[:10]) or "none"
            raise StudyError(f"no item of the study has the tag {tag!r}{question} (its tags: {shown})")
        return self.items[tag]

    def mask(self, tag: str, catalogue: "Catalogue") -> np.ndarray:
        """Which items of the catalogue have a tag."""
        return np.isin(catalogue.ids, np.array(self.ids(tag), str))

    def counts(self, catalogue: "Catalogue") -> dict[str, tuple[int, int]]:
        """Of each tag, how many items have it, and how many that had it are gone."""
        known = set(catalogue.ids.tolist())
        there = {tag: sum(item in known for item in items) for tag, items in self.items.items()}
        return {tag: (there[tag], len(self.items[tag]) - there[tag]) for tag in self.names()}


def clean_tag(tag: object) -> str:
    """A tag as it is stored: without space around it, letters with accents in one form; raises if it is none.

    >>> clean_tag(" summer sale ")
    'summer sale'
    """
    if not isinstance(tag, str):
        raise InputError(f"a tag is a text, got {tag!r}")
    text = unicodedata.normalize("NFC", tag).strip()
    if not text or len(text) > LONGEST:
        raise InputError(f"a tag has from 1 to {LONGEST} characters, got {len(text):,}")
    if not text.isprintable():
        raise InputError(f"a tag is on one line and has no hidden characters, got {text!r}")
    return text


def tags_path(study: "Study") -> Path:
    """The file of the tags; it is missing while there are none."""
    return study.path / FILE


def read_tags(study: "Study") -> StudyTags:
    """All tags of a study."""
    path = tags_path(study)
    if not path.exists():
        return StudyTags()
    table = read_csv(path, ["item", "tag"])
    items: dict[str, dict[str, None]] = {}
    for item, tag, line in zip(table.columns["item"], table.columns["tag"], table.lines, strict=True):
        try:
            items.setdefault(clean_tag(tag), {})[item] = None
        except InputError as error:
            raise FileError(f"{path}, line {line}: {error}", path=path, line=line) from error
    return StudyTags({tag: tuple(ids) for tag, ids in items.items()})


def add_tag(study: "Study", tag: str, ids: Iterable[str]) -> int:
    """Give a tag to items, and say how many did not have it before. It is on disk when this returns."""
    tag, wanted = clean_tag(tag), dict.fromkeys(map(str, ids))
    study.catalogue.positions(list(wanted), "tagged item")
    with study.changing():
        tags = read_tags(study)
        before = dict.fromkeys(tags.items.get(tag, ()))
        added = [item for item in wanted if item not in before]
        if added:
            _write(study, tags.items | {tag: (*before, *added)})
    return len(added)


def remove_tag(study: "Study", tag: str, ids: Iterable[str] | None = None) -> int:
    """Take a tag from items, or from all that have it, and say from how many. Items that are gone lose it too."""
    tag = clean_tag(tag)
    with study.changing():
        tags = read_tags(study)
        before = tags.ids(tag)
        gone = set(before) if ids is None else set(map(str, ids))
        left = tuple(item for item in before if item not in gone)
        if len(left) < len(before):
            others = {other: items for other, items in tags.items.items() if other != tag}
            _write(study, others | ({tag: left} if left else {}))
    return len(before) - len(left)


def _write(study: "Study", items: dict[str, tuple[str, ...]]) -> None:
    """Replace the file, whole: a process that is killed leaves the one before."""
    rows = [(item, tag) for tag, ids in items.items() for item in ids]
    write_csv(tags_path(study), {"item": [item for item, _ in rows], "tag": [tag for _, tag in rows]})
