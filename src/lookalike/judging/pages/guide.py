r"""The guide of experts: a little Markdown, with images of the study.

Headings, paragraphs, lists, **bold**, *emphasis*, and lines of images: ![a caption](item:ID), or query:ID for a query.
Images on one line are shown side by side. Everything else is text, HTML too. A parser of our own is enough for this: it
names the line of a mistake, and nothing in a guide can become more than these few elements.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from lookalike.core.errors import FileError

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["GuideBlock", "GuideImage", "GuidePiece", "check_guide", "parse_guide", "shown_guide"]

_IMAGE = re.compile(r"!\[([^\]]*)\]\(\s*((?:[^()]|\([^()]*\))*?)\s*\)")  # an address may have parentheses, in pairs
_MARKED = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*|\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?!\*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
_ENTRY = re.compile(r"[-*+]\s+")


class GuidePiece(NamedTuple):
    """A piece of text, plain or marked."""

    text: str
    mark: Literal["", "strong", "em"] = ""


class GuideImage(NamedTuple):
    """An image of the study. address: where a browser finds it, None while that is not known."""

    side: str
    id: str
    caption: str
    address: str | None = None


@dataclass(frozen=True)
class GuideBlock:
    """A part of a guide. texts: of a heading or a paragraph one, of a list one for each entry."""

    kind: Literal["heading", "text", "list", "images"]
    texts: tuple[tuple[GuidePiece, ...], ...] = ()
    images: tuple[GuideImage, ...] = ()


def parse_guide(guide: str, path: str | None = None) -> list[GuideBlock]:
    r"""A guide in parts.

    path: of its file. With it, an image that is not one of a study raises FileError with its line; without, such as for
    a guide of before, the line is text.

    >>> [block.kind for block in parse_guide("# Cups\nLook at the shape,\nnot the *colour*.\n- cups\n- mugs")]
    ['heading', 'text', 'list']
    >>> parse_guide("![alike](item:a1) ![not](item:b1)")[0].images[1]
    GuideImage(side='item', id='b1', caption='not', address=None)
    """
    blocks: list[GuideBlock] = []
    numbered = enumerate(map(str.strip, guide.splitlines()), 1)
    for filled, group in groupby(numbered, lambda entry: bool(entry[1])):
        for block in _joined(_lines(group, path)) if filled else ():
            if block.kind == "list" and blocks and blocks[-1].kind == "list":  # an empty line between entries
                blocks[-1] = GuideBlock("list", blocks[-1].texts + block.texts)
            else:
                blocks.append(block)
    return blocks


_Line = tuple[str, str, tuple[GuideImage, ...]]  # kind, text, images


def _lines(group: Iterator[tuple[int, str]], path: str | None) -> Iterator[_Line]:
    """Lines without an empty one between them, each with its kind."""
    for number, line in group:
        if "![" in line and (images := _images(line, number, path)) is not None:
            yield "images", "", images
        elif heading := _HEADING.match(line):
            yield "heading", heading[2], ()
        elif entry := _ENTRY.match(line):
            yield "list", line[entry.end() :], ()
        else:
            yield "text", line, ()


def _images(line: str, number: int, path: str | None) -> tuple[GuideImage, ...] | None:
    """The images of a line that has nothing else; None where there is none."""
    images, problem = [], ""
    for one in _IMAGE.finditer(line):
        side, _, name = one[2].partition(":")
        if side not in ("item", "query") or not name.strip():
            problem = f"images of a guide are those of the study, as in ![alike](item:ID), got {one[2]!r:.80}"
        images.append(GuideImage(side, name.strip(), one[1].strip()))
    if images and not problem and (rest := _IMAGE.sub("", line).strip()):
        problem = f"images stand on a line of their own, got {rest!r:.80} beside them"
    if problem and path is not None:
        raise FileError(f"{path}, line {number}: {problem}", path=path, line=number)
    return None if problem or not images else tuple(images)


def _joined(lines: Iterator[_Line]) -> Iterator[GuideBlock]:
    """Parts: a line of text goes on with the text or the entry before it, entries make one list."""
    kind, texts = "", list[str]()
    for line_kind, text, images in lines:
        if line_kind == "text" and kind in ("text", "list"):
            texts[-1] += f" {text}"
            continue
        if line_kind == "list" and kind == "list":
            texts.append(text)
            continue
        yield from _block(kind, texts)
        kind, texts = line_kind, [text]
        if line_kind == "images":
            yield GuideBlock("images", images=images)
        elif line_kind == "heading":
            yield GuideBlock("heading", (_pieces(text),))
    yield from _block(kind, texts)


def _block(kind: str, texts: list[str]) -> Iterator[GuideBlock]:
    if kind in ("text", "list"):
        yield GuideBlock("list" if kind == "list" else "text", tuple(map(_pieces, texts)))


def _pieces(text: str) -> tuple[GuidePiece, ...]:
    """Text in pieces, plain, bold or emphasised.

    >>> _pieces("2 * 3, **not** *5*")
    (GuidePiece(text='2 * 3, ', mark=''), GuidePiece(text='not', mark='strong'), GuidePiece(text=' ', mark=''), \
GuidePiece(text='5', mark='em'))
    """
    pieces, end = [], 0
    for marked in _MARKED.finditer(text):
        if marked.start() > end:
            pieces.append(GuidePiece(text[end : marked.start()]))
        pieces.append(GuidePiece(marked[1], "strong") if marked[1] else GuidePiece(marked[2], "em"))
        end = marked.end()
    if end < len(text):
        pieces.append(GuidePiece(text[end:]))
    return tuple(pieces)


def check_guide(guide: str, study: "Study", path: str) -> None:
    """Raise where a guide has an image that the study does not have, with its line."""
    for number, line in enumerate(map(str.strip, guide.splitlines()), 1):
        for image in _images(line, number, path) or ():
            if not _has(study, image):
                sentence = f"{path}, line {number}: there is no {image.side} {image.id!r:.80} in the study"
                raise FileError(sentence, path=path, line=number)


def _has(study: "Study", image: GuideImage) -> bool:
    return image.id in (study.queries if image.side == "query" else study.catalogue)


def shown_guide(guide: str, study: "Study", address: Callable[[str, str], str]) -> list[GuideBlock]:
    """A guide as a page shows it. address: of an image, by its side and id; None where the study has lost it."""

    def found(image: GuideImage) -> GuideImage:
        return image._replace(address=address(image.side, image.id) if _has(study, image) else None)

    return [GuideBlock(block.kind, block.texts, tuple(map(found, block.images))) for block in parse_guide(guide)]
