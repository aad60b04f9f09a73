"""Examples: queries with their nearest items. Tied items are in one box, since nothing ranks them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.experiments.task import Task
from lookalike.report.hashers.entries import HasherComparison, HasherEntry
from lookalike.report.html import text
from lookalike.report.inline_images import PIXELATED, uri
from lookalike.report.numbers import percent, plural

SHOWN, FEWEST = 12, 4  # pictures of a group, at most and where there are many groups
BUDGET = 3200  # pictures on the page, about
RADIUS, GROUPS, ITEMS = (
    3,
    4,
    20,
)  # groups of a query: up to this radius, and on until so many groups or items

__all__ = ["ExampleGroup", "Examples", "chosen_queries", "distances", "nearest_groups", "top_five"]


@dataclass(frozen=True, eq=False)
class ExampleGroup:
    """Items at one distance from a query."""

    distance: int
    items: np.ndarray
    relevant: np.ndarray  # of these items, bool


def distances(query: Codes, gallery: Codes) -> np.ndarray:
    """Hamming distances of one code to all of a gallery, (n,)."""
    return np.bitwise_count(query.words ^ gallery.words).sum(1, dtype=np.int64)


def nearest_groups(away: np.ndarray, relevant: np.ndarray) -> list[ExampleGroup]:
    """The nearest groups of tied items: up to radius 3, and further until there are 4 groups or 20 items."""
    groups: list[ExampleGroup] = []
    for distance in np.unique(away).tolist():
        if distance > RADIUS and (len(groups) >= GROUPS or sum(len(group.items) for group in groups) >= ITEMS):
            break
        items = np.flatnonzero(away == distance)
        groups.append(ExampleGroup(distance, items, relevant[items]))
    return groups


def chosen_queries(task: Task, relevance: Any, n: int, random_state: int) -> list[int]:
    """Queries drawn at random that have relevant items, of different labels as far as possible."""
    order = np.random.default_rng(random_state).permutation(len(task.query_labels)).tolist()
    first: list[int] = []
    later: list[int] = []
    seen: set[str] = set()
    for query in order:
        label = str(task.query_labels[query])
        if (label and label in seen) or not (
            relevance.block(slice(query, query + 1), slice(0, relevance.n_gallery)) > 0
        ).any():
            later.append(query)
        else:
            first.append(query)
            seen.add(label)
        if len(first) == n:
            break
    return (first + later)[:n]


class Examples:
    """The example section of a page: a panel for each hasher and length. Each picture is stored once."""

    def __init__(self, comparison: HasherComparison, queries: int, random_state: int) -> None:
        self.comparison, self.task = comparison, comparison.task
        self.lengths = sorted({comparison.lengths[0], comparison.lengths[-1]})
        self.entries = [entry for entry in comparison.entries if entry.bits in self.lengths]
        n_queries, n_items = comparison.n_queries, comparison.n_items
        relevance = self.task.relevance.bound(np.arange(n_queries), range(n_items))
        self.queries = chosen_queries(self.task, relevance, queries, random_state)
        everything = slice(0, n_items)
        self.relevant = {query: relevance.block(slice(query, query + 1), everything)[0] > 0 for query in self.queries}
        generator = np.random.default_rng(random_state)
        self.luck = {query: generator.permutation(n_items) for query in self.queries}  # the same for every hasher
        cells = max(1, len(self.entries) * len(self.queries) * GROUPS)
        self.shown = min(SHOWN, max(FEWEST, BUDGET // cells))
        self.pictured: set[int] = set()
        self.start = comparison.top("mAP", comparison.of_length(self.lengths[0])) or self.entries[0]
        self.panels = "".join(self._panel(entry) for entry in self.entries) if self.queries else ""

    def style(self) -> str:
        """A class for every picture that the panels show."""
        rules = []
        for letter, picture, positions in (
            ("q", self.task.query_picture, self.queries),
            ("g", self.task.gallery_picture, sorted(self.pictured)),
        ):
            if picture is not None:
                rules += [
                    f".{letter}{position}{{background-image:url({uri(picture(position))})}}" for position in positions
                ]
        return "\n".join(rules)

    @property
    def pixelated(self) -> bool:
        """Whether pictures are so small that they are shown as squares."""
        picture = self.task.gallery_picture
        return picture is not None and max(np.shape(picture(0))[:2]) <= PIXELATED

    def _panel(self, entry: HasherEntry) -> str:
        index = self.comparison.hashers.index(entry.hasher)
        hidden = "" if entry is self.start else " hidden"
        inner = "".join(self._query(entry, query) for query in self.queries)
        return f'<div class="panel" data-hasher="{index}" data-bits="{entry.bits}"{hidden}>{inner}</div>'

    def _query(self, entry: HasherEntry, query: int) -> str:
        relevant = self.relevant[query]
        away = distances(entry.trial.queries[query], entry.trial.gallery)
        groups = nearest_groups(away, relevant)
        label = text(str(self.task.query_labels[query]))
        picture = (
            f'<i class="picture q{query}" role="img" aria-label="query, {label}"></i>'
            if self.task.query_picture is not None
            else ""
        )
        boxes, next_distance = [], 0
        for group in groups:
            if group.distance > next_distance:
                boxes.append(_nothing(next_distance, group.distance - 1))
            boxes.append(self._group(query, group))
            next_distance = group.distance + 1
        return (
            f'<article class="query"><header>{picture}<h3>Query {query}<br><span class="label" title="{label}">{label}'
            f"</span></h3><p>{int(relevant.sum()):,} of {plural(len(relevant), 'item')} relevant</p></header>"
            f'<div class="ties">{"".join(boxes)}<p class="top">{top_five(groups)}</p></div></article>'
        )

    def _group(self, query: int, group: ExampleGroup) -> str:
        luck = self.luck[query]
        shown = sorted(group.items.tolist(), key=lambda item: luck[item])[: self.shown]
        self.pictured.update(shown)
        tied, hits = len(group.items), int(group.relevant.sum())
        drawn = f"{len(shown)} of {tied:,}, drawn at random: nothing ranks them" if len(shown) < tied else ""
        caption = (
            f"<b>distance {group.distance}</b> · {tied:,} {'tied' if tied > 1 else 'item'}"
            f"<i> · </i><span>{hits:,} relevant ({percent(hits / tied)})</span>"
        )
        tiles = "".join(self._tile(item, bool(self.relevant[query][item])) for item in shown)
        return (
            f'<div class="tie" data-distance="{group.distance}" data-tied="{tied}" data-relevant="{hits}">'
            f"<p>{caption}{f'<small>{drawn}</small>' if drawn else ''}</p><ul>{tiles}</ul></div>"
        )

    def _tile(self, item: int, relevant: bool) -> str:
        label = text(str(self.task.gallery_labels[item])) or f"item {item}"
        description = f"{label}, {'relevant' if relevant else 'not relevant'}"
        kind = "hit" if relevant else "miss"
        if self.task.gallery_picture is not None:
            inner = f'<i class="picture g{item}" role="img" aria-label="{description}"></i>'
        else:
            inner = f'<i class="word g{item}"><span class="unseen">{description}: </span>{label}</i>'
        return f'<li class="{kind}" title="{description} (item {item})">{inner}</li>'


def top_five(groups: list[ExampleGroup], k: int = 5) -> str:
    """A sentence on what a list of the first k shows, and how many of them can be relevant.

    >>> top_five([ExampleGroup(2, np.arange(9), np.arange(9) < 4)])
    'A “top 5” is any 5 of the 9 at distance 2: from 0 to 4 of them relevant, by luck.'
    """
    parts, fewest, most, left = [], 0, 0, k
    for group in groups:
        tied, hits = len(group.items), int(group.relevant.sum())
        n_of_group = min(left, tied)
        if not n_of_group:
            break
        fewest += max(0, n_of_group - (tied - hits))
        most += min(hits, n_of_group)
        if n_of_group < tied:
            parts.append(f"any {n_of_group} of the {tied:,} at distance {group.distance}")
        else:
            parts.append(f"{'the one' if tied == 1 else f'all {tied}'} at distance {group.distance}")
        left -= n_of_group
    same = "none" if not most else "all" if most == k - left else str(most)
    span = f"from {fewest} to {most} of them relevant, by luck" if fewest < most else f"{same} of them relevant"
    return f"A “top {k - left}” is {' and '.join(parts)}: {span}."


def _nothing(first: int, last: int) -> str:
    span = f"distance {first}" if first == last else f"distance {first} to {last}"
    return f'<div class="tie none"><p><b>{span}</b> · no item</p></div>'
