"""The pages of `lookalike look`: the catalogue, and what looks like an item or like a visitor's own picture."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, TypeVarTuple
from urllib.parse import urlencode

import anyio
import numpy as np
from fastapi import Depends, FastAPI, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lookalike.core.decode import ImageError
from lookalike.core.errors import InputError, LookalikeError, StudyError
from lookalike.search.expressions import named, written
from lookalike.study.finder import NearestGroup, grouped, nearness
from lookalike.web.guard import LOOPBACK, RequestRefusedError, Tokens
from lookalike.web.image_responses import image_response, not_modified, with_version
from lookalike.web.look.basket import ShownTags, add_basket_routes
from lookalike.web.look.duplicates import add_duplicates
from lookalike.web.look.map import MapMaker, ShownMaps
from lookalike.web.look.map_routes import add_map_routes
from lookalike.web.look.snapshot import Shelf, Shelves, ShownModel
from lookalike.web.look.uploads import Upload, Uploads
from lookalike.web.look.words import like_words, with_more
from lookalike.web.server import LIMIT, Pages, Sent, create_app, read_form
from lookalike.web.thumbnails import THUMBNAIL, VIEW, Drawing, Drawn, Thumbnails, able_to_draw, lent, shown, version_of

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["create_look_app"]

Given = TypeVarTuple("Given")
Made = TypeVar("Made")

PER_PAGE = 60
MOST_MODELS = 3
COUNTS = (12, 24, 48, 96)
LONGEST = 2_000  # letters of an expression
FILTER = "is."  # before the names of columns, which may be anything


@dataclass(frozen=True)
class State:
    """What an address says beside what it shows: search, filters, models and numbers, which every link keeps."""

    search: str = ""
    wanted: tuple[tuple[str, str], ...] = ()
    models: tuple[str, ...] = ()
    k: int = 24
    order: str = "mixed"
    page: int = 1
    tag: str = ""

    def but(self, **changes: Any) -> "State":
        """The same with changes."""
        return dataclasses.replace(self, **changes)

    def fields(self) -> list[tuple[str, str]]:
        """Names and values, without those that go without saying."""
        fields = [("q", self.search)] if self.search else []
        fields += [(FILTER + name, value) for name, value in self.wanted] + [("model", name) for name in self.models]
        fields += [("tag", self.tag)] if self.tag else []
        fields += [("k", str(self.k))] if self.k != State.k else []
        fields += [("order", self.order)] if self.order != State.order else []
        return fields + ([("page", str(self.page))] if self.page > 1 else [])

    def at(self, path: str, **more: str) -> str:
        """The address of a page in this state.

        >>> State(search="a b", models=("dino",)).at("/like", item="x/y")
        '/like?item=x%2Fy&q=a+b&model=dino'
        """
        query = urlencode([*more.items(), *self.fields()])
        return f"{path}?{query}" if query else path


def state_of(
    request: Request,
    q: Annotated[str, Query(max_length=500)] = "",
    model: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies it
    k: Annotated[int, Query(ge=1, le=500)] = State.k,
    order: Literal["mixed", "listed"] = "mixed",
    page: Annotated[int, Query(ge=1)] = 1,
    tag: Annotated[str, Query(max_length=200)] = "",
) -> State:
    """The state that an address holds."""
    wanted = {
        name.removeprefix(FILTER): value
        for name, value in request.query_params.multi_items()
        if name.startswith(FILTER) and value
    }
    models = tuple(dict.fromkeys(filter(None, model)))
    if len(models) > MOST_MODELS:
        raise RequestRefusedError(
            422, f"At most {MOST_MODELS} models can stand side by side, the address names {len(models)}."
        )
    return State(q.strip(), tuple(wanted.items()), models, k, order, page, tag.strip())


Stated = Annotated[State, Depends(state_of)]


def _problem(error: Exception, name: str) -> str:
    """Why a picture that a page calls by this name cannot be used."""
    if isinstance(error, ImageError):
        return f"{name} {error.problem}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory for {name}"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


@dataclass(frozen=True)
class SearchAnswer:
    """What one model finds, or why it finds nothing."""

    model: ShownModel
    unit: str = ""
    near: Callable[[Any], str] = str  # how near that is, in words
    groups: tuple[NearestGroup, ...] = ()
    same: Mapping[int, str | None] = dataclasses.field(default_factory=dict)  # what each item shares with the query
    problem: str | None = None

    @property
    def shown(self) -> int:
        """How many items."""
        return len(self.same)

    def sharing(self, what: str) -> int:
        """How many items share an identity, or a category, with the query."""
        kinds = {"identity": ("identity",), "category": ("identity", "category")}[what]
        return sum(same in kinds for same in self.same.values())


class Looking:
    """A study in a browser: everything that its pages show."""

    def __init__(self, study: "Study", thumbnails: Thumbnails | None = None, *, alone: bool = False) -> None:
        """alone: whether this machine alone can open the pages."""
        self.alone = alone
        self.shelves, self.uploads = Shelves(study), Uploads()
        self.thumbnails = Thumbnails() if thumbnails is None else thumbnails
        self.drawing, self.tokens = Drawing(), Tokens()
        self.tags, self.maps, self.maker = ShownTags(study), ShownMaps(), MapMaker()
        self.pages = Pages(csrf=self.tokens.make(), limit=LIMIT)

    # Pages

    def grid(self, state: State) -> Response:
        """The catalogue, a page at a time."""
        shelf, state = self.settled(state)
        mask = self._mask(shelf, state.search, state)
        items = shelf.mixed if state.order == "mixed" and not state.search else np.arange(len(shelf))
        items = items if mask is None else items[mask[items]]
        n_pages = max(1, -(-len(items) // PER_PAGE))
        if state.page > n_pages:
            raise RequestRefusedError(
                404, f"There is no page {state.page:,}: these {len(items):,} items fill {n_pages:,}."
            )
        shown = items[(state.page - 1) * PER_PAGE : state.page * PER_PAGE].tolist()
        values = {"items": shown, "total": len(items), "n_pages": n_pages, "like": state.but(page=1)}
        values["copies"] = shelf.copies.words(items)
        return self.page("grid.html", shelf, state, here=("/", {}), **values)

    def like_item(self, name: str, state: State) -> Response:
        """What looks like an item."""
        shelf, state = self.settled(state)
        item = shelf.position(name)
        if item is None:
            raise RequestRefusedError(404, f"The study has no item {name[:200]!r}.")
        answers = self.answers(shelf, state, item)
        values = {"item": item, "upload": None, "token": None, "answers": answers}
        return self.page("like.html", shelf, state, here=("/like", {"item": name}), **values)

    def like_picture(self, token: str, state: State) -> Response:
        """What looks like a picture that was brought."""
        upload = self.upload(token)
        shelf, state = self.settled(state)
        with lent(upload.body) as path:
            answers = self.answers(shelf, state, path)
        values = {"item": None, "upload": upload, "token": token, "answers": answers}
        return self.page("like.html", shelf, state, here=("/like", {"picture": token}), **values)

    async def bring(self, request: Request, state: State) -> Response:
        """Take a picture, and go to what looks like it."""
        file = (await read_form(request)).get("picture")
        if not isinstance(file, Sent) or not file.name:
            raise RequestRefusedError(422, "No picture was chosen. Choose an image file, or drop one on the page.")
        token = await self.draw(self._taken, file)
        return RedirectResponse(state.but(page=1).at("/like", picture=token), 303)

    def _taken(self, file: Sent) -> str:
        name = PurePath(file.name.replace("\\", "/")).name[:200] or "picture"
        with lent(file.body) as path:
            try:
                upload = Upload(name, file.body, shown(path, VIEW))
            except (ImageError, OSError, MemoryError) as error:
                words = f"{_problem(error, name)}. Bring a JPEG, PNG, WebP, GIF, BMP or TIFF."
                raise RequestRefusedError(422, words) from error
        return self.uploads.add(upload)

    # Pictures

    async def draw(self, act: Callable[[*Given], Made], *arguments: *Given) -> Made:
        """What an act gives that decodes pictures: in one of the few threads that do."""
        return await anyio.to_thread.run_sync(act, *arguments, limiter=self.drawing.limiter)

    def picture(self, item: str, request: Request, longest: int) -> Response:
        """The picture of the item at a position, as a thumbnail or filling a screen."""
        shelf = self.shelves.now()
        if not re.fullmatch("[0-9]{1,12}", item) or int(item) >= len(shelf):
            raise RequestRefusedError(404, f"The study has {len(shelf):,} items, by their positions from 0.")
        path = shelf.path(int(item))
        version = version_of(path, longest)
        if (unchanged := not_modified(version, request)) is not None:
            return unchanged
        return image_response(self.thumbnails.view(path) if longest == VIEW else self.thumbnails.of(path), request)

    def upload(self, token: str) -> Upload:
        """A picture that was brought, if it is still held."""
        upload = self.uploads.get(token)
        if upload is None:
            raise RequestRefusedError(
                410, "This picture is no longer held: the server keeps the last ones, until it ends. Bring it again."
            )
        return upload

    def view(self, shelf: Shelf, item: int) -> str:
        """The address of an item's picture that fills a screen."""
        return _address(shelf, item, "views", VIEW)

    def place(self, shelf: Shelf, item: int) -> str:
        """The whole path of an item's file; for others than this machine, its id."""
        path = shelf.path(item)
        return str(path.resolve()) if self.alone and path is not None else str(shelf.catalogue.ids[item])

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While the server runs."""
        with able_to_draw(), self.maker.running():
            yield

    # What pages are made of

    def settled(self, state: State) -> tuple[Shelf, State]:
        """The study, and the state, whose models it must have."""
        shelf = self.shelves.now()
        names = [model.name for model in shelf.models]
        if unknown := [name for name in state.models if name not in names]:
            has = f"it has {', '.join(names)}" if names else "it has none with vectors"
            raise RequestRefusedError(404, f"The study has no model {unknown[0][:100]!r} to search by: {has}.")
        return shelf, state

    def _mask(self, shelf: Shelf, search: str, state: State) -> np.ndarray | None:
        try:
            mask = shelf.mask(search, dict(state.wanted))
            tagged = self.tags.mask(state.tag, shelf)
        except (InputError, StudyError) as error:
            raise RequestRefusedError(404, f"{error}.") from error
        return mask if tagged is None else tagged if mask is None else mask & tagged

    def mask(self, shelf: Shelf, state: State) -> np.ndarray | None:
        """The items that fit the search, the filters and the tag of a state; None for all."""
        return self._mask(shelf, state.search, state)

    def answers(self, shelf: Shelf, state: State, query: Any) -> list[SearchAnswer]:
        """What each model of a state finds. query: the position of an item, the file of a picture, or ingredients."""
        among = self._mask(shelf, "", state)
        models = {model.name: model for model in shelf.models}
        chosen = state.models or tuple(models)[:1]
        return [self._answer(shelf, models[name], query, state.k, among) for name in chosen]

    def _answer(self, shelf: Shelf, model: ShownModel, query: Any, k: int, among: np.ndarray | None) -> SearchAnswer:
        if model.problem is not None:
            return SearchAnswer(model, problem=model.problem)
        try:
            finder = shelf.finder(model.name)
            if not isinstance(query, int | list) and not finder.can_encode:
                words = "was added from a file, without an encoder: it can search by items, not by new pictures."
                return SearchAnswer(model, problem=f"{model.name} {words}")
            find = shelf.like_parts if isinstance(query, list) else shelf.looks
            looks = find(model.name, query, k, among)
        except (LookalikeError, OSError, MemoryError) as error:
            return SearchAnswer(model, problem=_problem(error, "this picture"))
        item = query if isinstance(query, int) else None
        same = {other: shelf.shared(item, other) for other in looks.items.tolist()}
        return SearchAnswer(model, *nearness(finder), tuple(grouped(looks)), same)

    def page(
        self, template: str, shelf: Shelf, state: State, here: tuple[str, dict[str, str]], **values: Any
    ) -> Response:
        """A page of this study."""
        path, more = here
        return self.pages.answer(
            template,
            shelf=shelf,
            state=state,
            shown_models=state.models or tuple(model.name for model in shelf.models[:1]),
            here=lambda state: state.at(path, **more),
            action=path,
            kept=more,
            named=lambda name: written([named(name)]),
            counts=sorted({*COUNTS, state.k}),
            tags=self.tags.now(),
            thumbnail=lambda item: _address(shelf, item, "thumbnails", THUMBNAIL),
            view=lambda item: self.view(shelf, item),
            place=lambda item: self.place(shelf, item),
            **{"words": "", **values},
        )


def create_look_app(study: "Study", *, hosts: Iterable[str] = (), thumbnails: Thumbnails | None = None) -> FastAPI:
    """The app of a study's page; hosts: names it answers to beside those of the loopback."""
    hosts = tuple(hosts)
    looking = Looking(study, thumbnails, alone=set(hosts) <= LOOPBACK)
    app = create_app(looking.pages, tokens=looking.tokens, hosts=hosts, running=looking.running)
    add_map_routes(app, looking, state_of)
    add_basket_routes(app, looking)

    @app.get("/")
    def grid(state: Stated, by: Literal["names", "looks"] = "names") -> Response:
        if by == "looks" and state.search:
            return RedirectResponse(state.but(search="", page=1).at("/like", words=state.search), 303)
        return looking.grid(state)

    @app.get("/like")
    async def like(
        state: Stated,
        item: str | None = None,
        picture: str | None = None,
        words: Annotated[str | None, Query(max_length=LONGEST)] = None,
        more: Annotated[str, Query(max_length=500)] = "",
        sign: Literal["+", "-"] = "+",
    ) -> Response:
        if [item, picture, words].count(None) != 2:
            raise RequestRefusedError(422, "The address must name an item, a picture or words.")
        if words is not None and more.strip():
            together = with_more(looking.shelves.now(), words, more, 1 if sign == "+" else -1)
            return RedirectResponse(state.at("/like", words=together), 303)
        if words is not None:
            return await looking.draw(like_words, looking, words, state)
        if picture is not None:
            return await looking.draw(looking.like_picture, picture, state)
        return await run_in_threadpool(looking.like_item, str(item), state)

    @app.post("/pictures")
    async def bring(request: Request, state: Stated) -> Response:
        return await looking.bring(request, state)

    @app.get("/pictures/{token}")
    def brought(token: str, request: Request) -> Response:
        return image_response(Drawn(looking.upload(token).shown, "image/jpeg"), request)

    @app.get("/thumbnails/{item}")
    async def thumbnail(item: str, request: Request) -> Response:
        return await looking.draw(looking.picture, item, request, THUMBNAIL)

    @app.get("/views/{item}")
    async def view(item: str, request: Request) -> Response:
        return await looking.draw(looking.picture, item, request, VIEW)

    add_duplicates(app, looking)
    return app


def _address(shelf: Shelf, item: int, kind: str, longest: int) -> str:
    """Where a picture is, with its version, so that browsers may keep it."""
    version = version_of(shelf.path(item), longest)
    return with_version(f"/{kind}/{item}", version)
