"""What looks like words, pictures, or several of them together: `photo.jpg + red − dress` in the box of `look`."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from lookalike.core.errors import InputError, LookalikeError
from lookalike.search.expressions import QueryPart, named, parse, written
from lookalike.study.combined import Ingredient, is_single, read_ingredients
from lookalike.web.guard import RequestRefusedError
from lookalike.web.thumbnails import lent

if TYPE_CHECKING:
    from lookalike.web.look.app import Looking, State
    from lookalike.web.look.snapshot import Shelf

__all__ = ["like_words", "with_more"]

PICTURE = re.compile("picture:([A-Za-z0-9_-]{8,64})")  # one that was brought, in an expression


@dataclass(frozen=True)
class Chip:
    """A part as a page shows it: what it was taken for, and the expression without it, empty if nothing is left."""

    ingredient: Ingredient
    token: str | None
    without: str


def like_words(looking: "Looking", words: str, state: "State") -> Response:
    """What looks like all parts of an expression together."""
    shelf, state = looking.settled(state)
    with contextlib.ExitStack() as pictures:

        def picture(text: str) -> tuple[Path, str] | None:
            if (brought := PICTURE.fullmatch(text)) is None:
                return None
            upload = looking.upload(brought[1])
            return pictures.enter_context(lent(upload.body)), upload.name

        try:
            ingredients = read_ingredients(words, shelf.names, picture)
        except LookalikeError as error:
            raise RequestRefusedError(422, f"{str(error)[0].upper()}{str(error)[1:]}.") from error
        if is_single(ingredients):
            return RedirectResponse(_address_of(shelf, ingredients[0], state), 303)
        state = _able(shelf, ingredients, state)
        answers = looking.answers(shelf, state, ingredients)
    values = {"item": None, "upload": None, "token": None, "answers": answers, "chips": _chips(ingredients)}
    expression = written([each.part for each in ingredients])
    return looking.page("words.html", shelf, state, here=("/like", {"words": expression}), words=expression, **values)


def with_more(shelf: "Shelf", words: str, more: str, sign: int) -> str:
    """An expression with more added to it, or taken away from it."""
    try:
        parts = parse(words)
        if shelf.position(more.strip()) is not None:
            added: tuple[QueryPart, ...] = (named(more.strip(), sign),)
        else:
            added = tuple(replace(part, sign=sign * part.sign) for part in parse(more, allow_minus=True))
        return written([*parts, *added])
    except InputError as error:
        raise RequestRefusedError(422, f"{str(error)[0].upper()}{str(error)[1:]}.") from error


def _address_of(shelf: "Shelf", only: Ingredient, state: "State") -> str:
    """The page of one item, or of one picture that was brought."""
    if only.item is not None:
        return state.at("/like", item=str(shelf.catalogue.ids[only.item]))
    return state.at("/like", picture=only.part.text.partition(":")[2])


def _able(shelf: "Shelf", ingredients: Sequence[Ingredient], state: "State") -> "State":
    """The state, with a model that takes words if there are words, and no model is chosen."""
    if state.models or all(each.kind == "picture" for each in ingredients):
        return state
    able = [name for name, lacking in shelf.takes_words.items() if lacking is None]
    first = shelf.models[0].name if shelf.models else None
    return state.but(models=(able[0],)) if able and first not in able else state


def _chips(ingredients: Sequence[Ingredient]) -> list[Chip]:
    chips = []
    for at, each in enumerate(ingredients):
        others = [other.part for place, other in enumerate(ingredients) if place != at]
        left = written(others) if any(part.sign > 0 for part in others) else ""
        brought = PICTURE.fullmatch(each.part.text) if each.picture is not None else None
        chips.append(Chip(each, brought[1] if brought else None, left))
    return chips
