"""The judging app: the page on which experts judge, what that page asks for, and the page of the organiser."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import FastAPI, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from lookalike.core.errors import InputError
from lookalike.judging.pages.crowd import CrowdPages, add_crowd_routes
from lookalike.judging.pages.guide import shown_guide
from lookalike.judging.pages.images import Images
from lookalike.judging.pages.links import Keys
from lookalike.judging.pages.organiser import Organising, sentence
from lookalike.judging.pages.practice import Practising, add_practice_routes
from lookalike.judging.pages.requests import Given, SentClaim, SentMissing, SentNote, SentPair, SentVotes, parsed
from lookalike.judging.pages.sessions import Sessions, expert_link, organiser_link
from lookalike.judging.pages.settling import Settling
from lookalike.judging.store.crowd import member_of
from lookalike.judging.store.practice import needed_practice
from lookalike.judging.store.remarks import Remark, add_note
from lookalike.judging.store.scale import stored_scale
from lookalike.judging.store.sheets import read_layout
from lookalike.judging.store.types import Answer, ExpertError, JudgingTask, Progress, StoreAwayError, StoreFullError
from lookalike.web.guard import RequestRefusedError
from lookalike.web.server import Pages, add_frequent, create_app
from lookalike.web.thumbnails import Thumbnails, able_to_draw

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study

__all__ = ["create_judge_app", "expert_link", "organiser_link"]

LIMIT = 64_000  # bytes of a request
RATE = 40.0  # requests a second of one session; five answers a second with all that goes with them are 20
RECENT = 20  # judged pairs that a page knows when it is opened, for undoing
QUESTION = "Do they look alike?"  # where the organiser asks nothing else
NOT_KEPT = {
    "enough": "Enough others had judged the pair meanwhile.",
    "unknown": "The pair is no longer among those to judge.",
    "changed": "An answer with the same mark was kept before.",
    "scale": "The answers that can be given have changed: load this page again.",
    "often": "You changed your answers very often within a minute. The one before counts; wait a minute to change it.",
}
NOTE_REFUSED = {
    "unknown": (404, "The pair is no longer among those to judge."),
    "changed": (409, "A note with the same mark was kept before."),
    "often": (429, "That are very many notes within a minute: this one is kept in your browser and sent again."),
}

logger = logging.getLogger(__name__)


class JudgePages(Pages):
    """Pages for judging; what a script or an image asked for is refused in JSON."""

    def problem(self, status: int, sentence: str, request: Any = None) -> Any:
        """A page for what went wrong, a notice within an open page, or words in JSON."""
        path = request.url.path if request is not None else ""
        if path.startswith(("/api/", "/picture/")):
            return JSONResponse({"problem": sentence}, status, {"cache-control": "no-store"})
        return super().problem(status, sentence, request)


class Judging:
    """What an expert sees and does."""

    def __init__(self, store: "Store", sessions: Sessions, images: Images, pages: Pages) -> None:
        self.store, self.sessions, self.images, self.pages = store, sessions, images, pages

    def page(self, request: Request) -> Response:
        """The page on which an expert judges."""
        name = self.sessions.expert(request)
        if needed_practice(self.store, name) is not None:
            return RedirectResponse("/practice", 303)
        box = self.sessions.keys.proof("box", name)[:16]  # where the browser keeps answers of this expert to this study
        briefing, layout, scale = self.store.briefing(), read_layout(self.store), stored_scale(self.store)
        return self.pages.answer(
            "sheet.html" if layout.name == "sheet" else "judge.html",
            sheet_size=layout.sheet_size,
            name=name,
            crowd=member_of(self.store, name) is not None,
            box=box,
            csrf=self.sessions.token(request),
            question=briefing.question or QUESTION,
            guide=shown_guide(briefing.guide, self.images.study, partial(self.images.address, name)),
            scale=scale,
            briefing=hashlib.sha256(f"{briefing!r}{scale.mark}".encode()).hexdigest()[:16],
        )

    async def claim(self, request: Request) -> Response:
        """Pairs to judge."""
        visitor, sent = self.sessions.bearer(request), parsed(SentClaim, await request.body())
        name, recent = visitor.name, max(RECENT, sent.sheet or 0) if sent.recent else 0
        handed = await asyncio.wrap_future(
            self.store.hand_out(name, visitor.number, sent.n, sheet=sent.sheet or 1, recent=recent)
        )
        tiles = sent.sheet is not None

        def shown() -> dict[str, Any]:
            answer: dict[str, Any] = {"tasks": [self._shown(name, task, tiles) for task in handed.tasks]}
            if sent.recent:
                answer["recent"] = [
                    {**self._shown(name, task, tiles), "answered": answered} for task, answered in handed.recent
                ]
            if handed.closed is not None:
                answer["elsewhere"] = f"/{handed.closed}"
            return answer | {"progress": _progress(handed.progress)}

        return _json(await run_in_threadpool(shown))

    async def vote(self, request: Request) -> Response:
        """Take answers: whatever is said to be kept is on disk. Frequent, so it has no thread of its own to wait in."""
        visitor, sent = self.sessions.bearer(request), parsed(SentVotes, await request.body())
        answers = [
            Answer(vote.client, self._pair(visitor.name, vote.pair), vote.answer, vote.seconds, vote.at, vote.scale)
            for vote in sent.votes
        ]
        outcome = await asyncio.wrap_future(self.store.take(visitor.name, visitor.number, answers))
        rows = [
            {"client": answer.client, "status": verdict}
            | ({"words": words} if (words := NOT_KEPT.get(verdict)) else {})
            for answer, verdict in zip(answers, outcome.verdicts, strict=True)
        ]
        return _json({"votes": rows, "progress": _progress(outcome.progress)})

    def later(self, name: str, sent: SentPair) -> dict[str, Any]:
        """Put a pair off."""
        if not self.store.later(name, self._pair(name, sent.pair)):
            raise RequestRefusedError(404, "There is no such pair to put off, or you have judged it.")
        return {}

    def missing(self, name: str, sent: SentMissing) -> dict[str, Any]:
        """Note an image that did not load."""
        pair = self._pair(name, sent.pair)
        if self.store.task(name, pair) is None or not self.store.missing(name, pair, sent.side):
            raise RequestRefusedError(404, "There is no such pair.")
        return {}

    def note(self, name: str, sent: SentNote) -> dict[str, Any]:
        """Keep a note or a flag; it is on disk when this returns."""
        try:
            remark = Remark(sent.client, self._pair(name, sent.pair), sent.kind, sent.text)
        except InputError as error:
            raise RequestRefusedError(422, sentence(error)) from error
        outcome = add_note(self.store, name, remark)
        if outcome in NOTE_REFUSED:
            raise RequestRefusedError(*NOTE_REFUSED[outcome])
        return {"status": outcome}

    def _shown(self, name: str, task: JudgingTask, tile: bool = False) -> dict[str, Any]:
        """A pair as its page gets it: addresses of images, and nothing of what they are or where they come from.

        tile: whether the page also needs the candidate as one of many.

        Its number is disguised, for each expert in another way: numbers follow ranks, and nobody is to answer what was
        never handed out.
        """
        query, item = self.images.address(name, "query", task.query), self.images.address(name, "item", task.item)
        number = self.sessions.keys.disguised(f"pair {name}", task.pair)
        small = {"tile": self.images.address(name, "tile", task.item)} if tile else {}
        return {"pair": number, "query": query, "item": item, "answered": None, **small}

    def _pair(self, name: str, number: int) -> int:
        """The pair that was handed to an expert by this number."""
        return self.sessions.keys.revealed(f"pair {name}", number)

    def picture(self, side: str, given: str, request: Request) -> Response:
        """An image that was handed to this expert."""
        return self.images.handed(self.sessions.expert(request), side, given, request)

    async def api(self, request: Request, kind: type[Given], act: Callable[[str, Given], dict[str, Any]]) -> Response:
        """What the expert's page asked for, in JSON."""
        body = await request.body()
        return await run_in_threadpool(lambda: _json(act(self.sessions.expert(request), parsed(kind, body))))


def create_judge_app(
    study: "Study",
    store: "Store",
    keys: Keys,
    *,
    hosts: Iterable[str] = (),
    secure: bool = False,
    thumbnails: Thumbnails | None = None,
    rate: float = RATE,
) -> FastAPI:
    """The app on which a study is judged.

    hosts: names that it answers to beside those of the loopback. secure: whether browsers reach it by https alone; a
    proxy may say so too, by X-Forwarded-Proto. rate: requests a second that a session may make, for long.
    """
    sessions, images = Sessions(store, keys, secure=secure, rate=rate), Images(study, keys, thumbnails)
    pages = JudgePages(study=study.name, date=_date, usual_question=QUESTION)
    app = create_app(
        pages,
        tokens=sessions.tokens,
        hosts=hosts,
        limit=LIMIT,
        subject=sessions.subject,
        running=able_to_draw,
    )
    _answer_errors(app, pages)
    judging = Judging(store, sessions, images, pages)
    _add_expert_routes(app, judging)
    organising = Organising(study, store, sessions, images, pages)
    _add_organiser_routes(app, organising)
    add_remark_routes(app, judging, Settling(organising))
    add_practice_routes(app, Practising(store, sessions, images, pages), QUESTION)
    add_crowd_routes(app, CrowdPages(store, sessions, pages), QUESTION)
    return app


def _answer_errors(app: FastAPI, pages: Pages) -> None:
    def ended(request: Request, error: Any) -> Response:
        return pages.problem(401, sentence(error), request)

    def away(request: Request, error: Any) -> Response:
        logger.warning("%s", _without_secrets(str(error)))
        words = "The database cannot be reached at this moment. Answers are kept in this browser and sent again."
        return _again(pages.problem(503, words, request))

    def full(request: Request, error: Any) -> Response:
        logger.warning("%s", _without_secrets(str(error)))
        words = "The disk of the server is full. Answers are kept in this browser and sent again; tell the organiser."
        return _again(pages.problem(507, words, request))

    app.add_exception_handler(ExpertError, ended)
    app.add_exception_handler(StoreAwayError, away)
    app.add_exception_handler(StoreFullError, full)


def _add_expert_routes(app: FastAPI, judging: Judging) -> None:
    @app.get("/")
    def start(request: Request) -> Response:
        return judging.sessions.start(request)

    @app.get("/join/{token}")
    def join(token: str, request: Request) -> Response:
        return judging.sessions.join(token, request)

    @app.get("/judge")
    def judge(request: Request) -> Response:
        return judging.page(request)

    add_frequent(app, "/api/claim", judging.claim)
    add_frequent(app, "/api/votes", judging.vote)

    @app.post("/api/later")
    async def later(request: Request) -> Response:
        return await judging.api(request, SentPair, judging.later)

    @app.post("/api/missing")
    async def missing(request: Request) -> Response:
        return await judging.api(request, SentMissing, judging.missing)

    @app.get("/picture/{side}/{given}")
    async def picture(side: str, given: str, request: Request) -> Response:
        return await anyio.to_thread.run_sync(judging.picture, side, given, request, limiter=judging.images.drawing)


def _add_organiser_routes(app: FastAPI, organising: Organising) -> None:
    @app.get("/organise")
    def organise(request: Request, page: Annotated[int, Query(ge=1)] = 1) -> Response:
        return organising.page(request, page)

    @app.post("/organise/add")
    async def add(request: Request) -> Response:
        return await organising.change(request, organising.add)

    @app.post("/organise/revoke")
    async def revoke(request: Request) -> Response:
        return await organising.change(request, organising.revoke)

    @app.post("/organise/renew")
    async def renew(request: Request) -> Response:
        return await organising.change(request, organising.renew)

    @app.post("/organise/admit")
    async def admit(request: Request) -> Response:
        return await organising.change(request, organising.admit)

    @app.get("/organise/experts.csv")
    def experts(request: Request) -> Response:
        return organising.experts(request)

    @app.get("/organise/picture/{side}/{given}")
    async def picture(side: str, given: str, request: Request) -> Response:
        return await anyio.to_thread.run_sync(
            organising.thumbnail, side, given, request, limiter=organising.images.drawing
        )

    @app.get("/organise/export.{kind}")
    def export(kind: str, request: Request, rule: str | None = None, what: str = "") -> Response:
        return organising.export(request, kind, rule, what)


def add_remark_routes(app: FastAPI, judging: Judging, settling: Settling) -> None:
    """The routes of notes and flags, and of verdicts on disagreements."""

    @app.post("/api/note")
    async def note(request: Request) -> Response:
        return await judging.api(request, SentNote, judging.note)

    @app.get("/organise/notes")
    def notes(request: Request, page: Annotated[int, Query(ge=1)] = 1, machines: bool = False) -> Response:
        return settling.notes(request, page, machines=machines)

    @app.get("/organise/verdicts")
    def verdicts(
        request: Request, at: Annotated[int, Query(ge=0)] = 0, again: Annotated[int, Query(ge=0)] = 0
    ) -> Response:
        return settling.page(request, at, again)

    @app.post("/organise/verdict")
    async def verdict(request: Request) -> Response:
        return await settling.give(request)

    @app.get("/organise/view/{side}/{given}")
    async def view(side: str, given: str, request: Request) -> Response:
        return await anyio.to_thread.run_sync(settling.view, side, given, request, limiter=judging.images.drawing)


def _json(content: dict[str, Any]) -> Response:
    return JSONResponse(content, headers={"cache-control": "no-store"})


def _progress(progress: Progress) -> dict[str, int]:
    return {**vars(progress), "total": progress.total}


def _again(answer: Response) -> Response:
    answer.headers["retry-after"] = "2"
    return answer


def _without_secrets(text: str) -> str:
    """A sentence for the log, in which addresses of databases are without names and passwords.

    >>> _without_secrets("cannot reach postgresql://me:secret@db/x")
    'cannot reach postgresql://…@db/x'
    """
    return re.sub(r"://[^@/\s]*@", "://…@", text)


def _date(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%d %B %Y")
