"""The results of a search by image as one HTML page with the pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.core.files import write_text
from lookalike.report.html import text
from lookalike.report.inline_images import uri
from lookalike.report.templates import filled, head, resource
from lookalike.study.finder import grouped, nearness

if TYPE_CHECKING:
    from lookalike.study.finder import Finder, Looks, NearestGroup

PIXELS = 288  # of a picture's longest side: enough for two of a screen's to each of the page's
SMALL = 64  # up to which a picture is enlarged as squares

__all__ = ["write_looks"]


def write_looks(path: str | Path, finder: "Finder", looks: "Looks", query: Path | None, name: str) -> None:
    """Write a page with the items nearest to a query; tied items are in one box."""
    word, shown = nearness(finder)
    groups = [_group(finder, group, f"{word} {shown(group.distance)}") for group in grouped(looks)]
    measure = f"Hamming distance of {finder.n_bits} bits" if finder.n_bits is not None else f"{finder.similarity}"
    parts = {
        "head": head(f"What looks like {name}", ["page.css", "search_results.css"]),
        "study": text(finder.study.name),
        "query": _figure(query, name, ""),
        "name": text(name),
        "how": text(f"by {finder.model}, {measure}; equally near items are in one box, in no order"),
        "groups": "".join(groups),
        "more": f'<p class="more">and {looks.more:,} more as near as the last</p>' if looks.more else "",
    }
    write_text(path, filled(resource("search_results.html"), parts))


def _group(finder: "Finder", group: "NearestGroup", near: str) -> str:
    """One box of tied items."""
    figures = "".join(_item(finder, item) for item in group.items)
    tied = ' class="tied"' if group.size > 1 else ""
    return f"<li{tied}><h2><strong>{group.ranks}</strong> · {text(near)}</h2><div>{figures}</div></li>\n"


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
    from lookalike.core.decode import decode

    if path is None:
        return '<div class="none">no picture</div>'
    try:
        picture = decode(path, enough=PIXELS)
    except (ValueError, OSError):
        return '<div class="none">its file cannot be read any more</div>'
    small = ' class="small"' if max(picture.shape[:2]) <= SMALL else ""
    return f'<img{small} src="{uri(picture, PIXELS)}" alt="{text(name)}">'
