"""What looks like an image, as one HTML page with the pictures."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.files import write_text
from lookalike.report.markup import text
from lookalike.report.pictures import uri
from lookalike.report.templates import filled, resource

if TYPE_CHECKING:
    from lookalike.finding import Finder, Looks

PIXELS = 288  # of a picture's longest side: enough for two of a screen's to each of the page's
SMALL = 64  # up to which a picture is enlarged as squares

__all__ = ["write_looks"]


def write_looks(path: str | Path, finder: "Finder", looks: "Looks", query: Path | None, name: str) -> None:
    """Write a page of what was found for a query, equally near items in one box."""
    found = zip(looks.groups.tolist(), looks.items.tolist(), looks.distances.tolist(), strict=True)
    groups, rank = [], 1
    for number, tied in groupby(found, key=lambda each: each[0]):
        members = list(tied)
        more = looks.more if number == int(looks.groups[-1]) else 0
        groups.append(_group(finder, rank, [(item, distance) for _, item, distance in members], more))
        rank += len(members) + more
    measure = f"Hamming distance of {finder.n_bits} bits" if finder.n_bits is not None else f"{finder.similarity}"
    parts = {
        "title": text(f"What looks like {name}"),
        "style": resource("page.css") + resource("looks.css"),
        "study": text(finder.study.name),
        "query": _figure(query, name, ""),
        "name": text(name),
        "how": text(f"by {finder.model}, {measure}; equally near items are in one box, in no order"),
        "groups": "".join(groups),
        "more": f'<p class="more">and {looks.more:,} more as near as the last</p>' if looks.more else "",
    }
    write_text(path, filled(resource("looks.html"), parts))


def _group(finder: "Finder", rank: int, members: list[tuple[int, Any]], more: int) -> str:
    """Equally near items."""
    last = rank + len(members) + more - 1
    ranks = f"{rank}" if last == rank else f"{rank}–{last}"
    distance = members[0][1]
    near = f"{distance} bits" if finder.n_bits is not None else f"{distance:.3f}"
    figures = "".join(_item(finder, item) for item, _ in members)
    tied = ' class="tied"' if last > rank else ""
    return f"<li{tied}><h2><strong>{ranks}</strong> · {near}</h2><div>{figures}</div></li>\n"


def _item(finder: "Finder", item: int) -> str:
    catalogue = finder.study.catalogue
    labels = [] if catalogue.categories is None else [str(catalogue.categories[item])]
    if catalogue.identities is not None:
        labels.append(str(catalogue.identities[item]))
    return _figure(finder.study.image_path(item), str(catalogue.ids[item]), " · ".join(filter(None, labels)))


def _figure(path: Path | None, name: str, label: str) -> str:
    caption = f"{f'<b>{text(label)}</b><br>' if label else ''}{text(name)}"
    return f"<figure>{_picture(path, name)}<figcaption>{caption}</figcaption></figure>"


def _picture(path: Path | None, name: str) -> str:
    from lookalike.encoders.decoding import decode

    if path is None:
        return '<div class="none">no picture</div>'
    try:
        picture = decode(path, enough=PIXELS)
    except (ValueError, OSError):
        return '<div class="none">its file cannot be read any more</div>'
    small = ' class="small"' if max(picture.shape[:2]) <= SMALL else ""
    return f'<img{small} src="{uri(picture, PIXELS)}" alt="{text(name)}">'
