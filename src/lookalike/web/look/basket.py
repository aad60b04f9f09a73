"""The basket of `lookalike look`: tags of the study, and what a selection becomes. Browsers hold the ids themselves."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from lookalike.core.errors import FileError, LookalikeError
from lookalike.study.basket import basket_csv, basket_paths, link_folder, present
from lookalike.study.tags import StudyTags, add_tag, clean_tag, read_tags, remove_tag, tags_path
from lookalike.web.guard import RequestRefusedError

if TYPE_CHECKING:
    from lookalike.study.study import Study
    from lookalike.web.look.snapshot import Shelf, Shelves

__all__ = ["ShownTags", "add_basket_routes"]

MOST = 100_000  # items of a basket

ItemId = Annotated[str, StringConstraints(max_length=2000)]
Sent = TypeVar("Sent", bound="SentBasket")


class SentBasket(BaseModel):
    """Ids that a page has selected."""

    model_config = ConfigDict(strict=True, extra="forbid")
    ids: list[ItemId]


class SentTag(SentBasket):
    """A tag for them."""

    tag: str
    remove: bool = False


class SentExport(SentBasket):
    """What they are to become; queries are replaced only if that is confirmed."""

    form: Literal["csv", "paths", "links", "queries"]
    confirmed: bool = False


class ShownTags:
    """The tags of a study, read again when their file has changed."""

    def __init__(self, study: "Study") -> None:
        self._study, self._lock = study, threading.Lock()
        self._state: Any = None
        self._tags = StudyTags()
        self.problem: str | None = None

    def now(self) -> "ShownTags":
        """The tags as they are now."""
        with self._lock:
            state = _state(tags_path(self._study))
            if state != self._state:
                try:
                    self._tags, self.problem = read_tags(self._study), None
                except (FileError, OSError) as error:
                    self._tags, self.problem = StudyTags(), str(error)
                self._state = state
        return self

    def mask(self, tag: str, shelf: "Shelf") -> np.ndarray | None:
        """Which items have a tag; None where none is asked for."""
        return self.now()._tags.mask(clean_tag(tag), shelf.catalogue) if tag else None

    def counts(self, shelf: "Shelf") -> dict[str, int]:
        """How many items of the shelf have each tag."""
        return {tag: there for tag, (there, _) in self._tags.counts(shelf.catalogue).items()}

    def of(self, item: str) -> list[str]:
        """The tags of an item."""
        return self._tags.of(item)


class HasShelves(Protocol):
    """A study that is shown."""

    shelves: "Shelves"
    tags: ShownTags


def add_basket_routes(app: FastAPI, looking: HasShelves) -> None:
    """Add what the basket asks for."""

    @app.post("/basket/tags")
    async def tag(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(lambda: _tagged(looking, _parsed(SentTag, body)))

    @app.post("/basket/export")
    async def export(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(lambda: _exported(looking, _parsed(SentExport, body)))


def _parsed(kind: type[Sent], body: bytes) -> Sent:
    try:
        sent = kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:2]) or "all of it"
        raise RequestRefusedError(422, f"What was sent is not a basket: {where}, {first['msg'].lower()}.") from error
    if not sent.ids:
        raise RequestRefusedError(422, "Nothing is selected. Select items first.")
    if len(sent.ids) > MOST:
        raise RequestRefusedError(413, f"A basket has at most {MOST:,} items, this one has {len(sent.ids):,}.")
    return sent


def _tagged(looking: HasShelves, sent: SentTag) -> Response:
    shelf = looking.shelves.now()
    if sent.remove:
        changed, gone = _refusing(lambda: remove_tag(shelf.study, sent.tag, sent.ids)), 0
    else:
        positions, gone = present(shelf.study, sent.ids)
        if not len(positions):
            raise RequestRefusedError(422, "None of the selected items is in the study any more.")
        ids = shelf.catalogue.ids[positions].tolist()
        changed = _refusing(lambda: add_tag(shelf.study, sent.tag, ids))
    counts = looking.tags.now().counts(shelf)
    return JSONResponse({"changed": changed, "gone": gone, "tags": counts}, headers={"cache-control": "no-store"})


def _exported(looking: HasShelves, sent: SentExport) -> Response:
    study = looking.shelves.now().study
    positions, gone = present(study, sent.ids)
    if not len(positions):
        raise RequestRefusedError(422, "None of the selected items is in the study any more.")
    headers = {"cache-control": "no-store", "x-gone": str(gone)}
    if sent.form == "csv":
        table = _refusing(lambda: basket_csv(study, positions))
        return PlainTextResponse(table, headers=headers, media_type="text/csv")
    if sent.form == "paths":
        return PlainTextResponse(_refusing(lambda: basket_paths(study, positions)), headers=headers)
    if sent.form == "links":
        made = _refusing(lambda: link_folder(study, positions))
        facts: dict[str, Any] = {"folder": str(made.path), "links": made.links, "missing": made.missing, "gone": gone}
        return JSONResponse(facts, headers=headers)
    before = len(study.queries)
    if not sent.confirmed:
        return JSONResponse({"asks": True, "before": before, "after": len(positions)}, headers=headers)
    _refusing(lambda: study.set_queries(positions))
    return JSONResponse({"queries": len(positions), "before": before, "gone": gone}, headers=headers)


Result = TypeVar("Result")


def _refusing(act: Callable[[], Result]) -> Result:
    """What an act gives; what it refuses is refused in a sentence."""
    try:
        return act()
    except LookalikeError as error:
        raise RequestRefusedError(422, _sentence(str(error))) from error
    except PermissionError as error:
        raise RequestRefusedError(403, _sentence(str(error))) from error
    except TimeoutError as error:
        raise RequestRefusedError(503, _sentence(str(error))) from error
    except OSError as error:
        raise RequestRefusedError(507, _sentence(error.strerror or str(error))) from error


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _state(path: Path) -> Any:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns
