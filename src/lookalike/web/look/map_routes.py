"""The routes of the map: its page, its points, its sheets of thumbnails, and making it."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookalike.web.guard import RequestRefusedError
from lookalike.web.image_responses import image_response, not_modified
from lookalike.web.look.map import ShownMap, model_map

if TYPE_CHECKING:
    from lookalike.web.look.app import Looking, State
    from lookalike.web.look.snapshot import Shelf

__all__ = ["add_map_routes"]

FRESH = {"cache-control": "no-store"}


def add_map_routes(app: FastAPI, looking: "Looking", state_of: Callable[..., "State"]) -> None:
    """Add the map of a study to its pages."""
    stated: Any = Depends(state_of)

    @app.get("/map")
    def page(state: Any = stated) -> Response:
        shelf, settled, model = _chosen(looking, state)
        mask = looking.mask(shelf, settled)
        values = {"model": model, "total": len(shelf) if mask is None else int(mask.sum())}
        return looking.page("map.html", shelf, settled, here=("/map", {}), **values)

    @app.get("/map/points")
    def points(state: Any = stated) -> Response:
        shelf, settled, model = _chosen(looking, state)
        shown = _made(looking, shelf, model)
        if shown is None:
            return JSONResponse({"ready": False, **looking.maker.state(str(model))}, headers=FRESH)
        mask: np.ndarray | None = looking.mask(shelf, settled)
        return JSONResponse({"ready": True, **shown.facts(mask)}, headers=FRESH)

    @app.post("/map/make")
    def make(state: Any = stated) -> Response:
        shelf, _, model = _chosen(looking, state)
        if model is None:
            raise RequestRefusedError(422, "This study has no model with vectors to make a map of.")
        if _made(looking, shelf, model) is None:
            looking.maker.make(shelf.study, model)
        return JSONResponse(looking.maker.state(model), headers=FRESH)

    @app.get("/map/sheets/{number}")
    async def sheet(number: str, request: Request, state: Any = stated) -> Response:
        shelf, _, model = _chosen(looking, state)
        shown = await run_in_threadpool(_made, looking, shelf, model)
        return await looking.draw(_sheet, looking, shown, number, request)


def _sheet(looking: "Looking", shown: ShownMap | None, number: str, request: Request) -> Response:
    n_sheets = 0 if shown is None else shown.n_sheets
    if shown is None or not re.fullmatch("[0-9]{1,9}", number) or int(number) >= n_sheets:
        raise RequestRefusedError(404, f"The map has {n_sheets:,} sheets of thumbnails, by their numbers from 0.")
    if (unchanged := not_modified(shown.sheet_version(int(number)), request)) is not None:
        return unchanged
    return image_response(shown.sheet(int(number), looking.thumbnails), request)


def _chosen(looking: "Looking", state: "State") -> "tuple[Shelf, State, str | None]":
    """The study, the state, and the model whose map is meant: the first that the address names, or the usual one."""
    shelf, settled = looking.settled(state)
    usable = [model.name for model in shelf.models if model.problem is None]
    model = settled.models[0] if settled.models else next(iter(usable), None)
    return shelf, settled, model


def _made(looking: "Looking", shelf: "Shelf", model: str | None) -> ShownMap | None:
    return None if model is None else model_map(looking.maps, shelf, model)
