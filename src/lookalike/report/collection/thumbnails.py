"""Pictures of items on a page. Each is stored once, however often it is shown."""

from typing import TYPE_CHECKING

import numpy as np

from lookalike.core.decode import default_limit, fitted
from lookalike.report.html import text
from lookalike.report.inline_images import PIXELATED, uri

if TYPE_CHECKING:
    from lookalike.study.study import Study

PIXELS = 144  # a picture's longest side

__all__ = ["InlineThumbnails"]


class InlineThumbnails:
    """Pictures of a study's items, and the style that holds them."""

    def __init__(self, study: "Study") -> None:
        self._study = study
        self._classes: dict[int, str] = {}
        self._rules: list[str] = []

    def of(self, item: int, description: str) -> str:
        """The picture of an item, or its id where there is none. description: for readers who do not see pictures."""
        if item not in self._classes:
            self._classes[item] = self._read(item)
        if self._classes[item]:
            return f'<i class="picture {self._classes[item]}" role="img" aria-label="{text(description)}"></i>'
        return f'<span class="absent"><small>no picture</small>{text(self._study.catalogue.ids[item])}</span>'

    def style(self) -> str:
        """A class for every picture that was asked for."""
        return "\n".join(self._rules)

    def _read(self, item: int) -> str:
        picture = _decoded(self._study, item)
        if picture is None:
            return ""
        name = f"t{item}"
        self._rules.append(f".{name}{{background-image:url({uri(picture, PIXELS)})}}")
        return f"{name} tiny" if max(picture.shape[:2]) <= PIXELATED else name


def _decoded(study: "Study", item: int) -> np.ndarray | None:
    path = study.image_path(item)
    if path is None or not path.is_file():
        return None
    try:
        with default_limit():
            return fitted(path, PIXELS)
    except Exception:  # whatever is wrong with a file, its id is shown instead
        return None
