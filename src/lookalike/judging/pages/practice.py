"""The page on which experts practise: pairs with a known answer, one after the other, each with feedback."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from lookalike.judging.pages.guide import shown_guide
from lookalike.judging.pages.images import Images
from lookalike.judging.pages.organiser import sentence
from lookalike.judging.pages.sessions import Sessions
from lookalike.judging.store.practice import PracticeAnswer, answer_practice, needed_practice, practice_round
from lookalike.judging.store.scale import stored_scale
from lookalike.judging.store.types import ExpertError, VoteRefusedError
from lookalike.web.guard import RequestRefusedError
from lookalike.web.sent import SentValue, parsed
from lookalike.web.server import Pages

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store

__all__ = ["Practising", "add_practice_routes"]

Place = Annotated[int, Field(ge=0, lt=1000)]


class SentPracticeAsk(SentValue):
    """Which round is wanted: the one after a finished one, to try again, or None for where the expert is."""

    round: Annotated[int, Field(ge=1, lt=2**31)] | None = None


class SentPracticeAnswer(SentValue):
    """An answer to a pair of practice."""

    mark: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    round: Annotated[int, Field(ge=1, lt=2**31)]
    place: Place
    answer: Annotated[int, Field(ge=-1, le=9)]


class Practising:
    """What an expert who practises sees and does."""

    def __init__(self, store: "Store", sessions: Sessions, images: Images, pages: Pages) -> None:
        self.store, self.sessions, self.images, self.pages = store, sessions, images, pages

    def page(self, request: Request, question: str) -> Response:
        """The page; whoever need not practise goes on to the pairs."""
        name = self.sessions.expert(request)
        if needed_practice(self.store, name) is None:
            return RedirectResponse("/judge", 303)
        briefing = self.store.briefing()
        return self.pages.answer(
            "practice.html",
            name=name,
            csrf=self.sessions.token(request),
            question=briefing.question or question,
            guide=shown_guide(briefing.guide, self.images.study, partial(self.images.address, name)),
            scale=stored_scale(self.store),
        )

    def ask(self, request: Request, body: bytes) -> dict[str, Any]:
        """Where the expert is: a pair to answer, the result of a round, or the end of it."""
        name = self.sessions.expert(request)
        return self._where(name, parsed(SentPracticeAsk, body).round)

    def _where(self, name: str, wanted: int | None = None) -> dict[str, Any]:
        practice = needed_practice(self.store, name)
        if practice is None:
            return {"state": "over"}
        with self.store.reading() as connection:
            at = practice_round(connection, practice, name)
        n, number, place = len(practice.pairs), at.number, at.answered
        if place == n and wanted == number + 1:
            number, place = wanted, 0
        if place == n:
            needed = next(right for right in range(1, n + 1) if practice.passes(right))
            return {"state": "result", "round": number, "right": at.right, "of": n, "needed": needed}
        pair = practice.in_order(name, number)[place]
        shown = {side: self.images.address(name, side, getattr(pair, side)) for side in ("query", "item")}
        return {"state": "pair", "mark": practice.mark, "round": number, "place": place, "of": n, **shown}

    def answer(self, request: Request, body: bytes) -> dict[str, Any]:
        """Take an answer: whether it is right, the right one, and why."""
        visitor, sent = self.sessions.bearer(request), parsed(SentPracticeAnswer, body)
        given = PracticeAnswer(sent.mark, sent.round, sent.place, sent.answer)
        try:
            pair = answer_practice(self.store, visitor.name, visitor.number, given)
        except ExpertError:
            raise
        except VoteRefusedError as error:
            raise RequestRefusedError(409, sentence(error)) from error
        return {"right": sent.answer == pair.answer, "answer": pair.answer, "why": pair.why}


def add_practice_routes(app: FastAPI, practising: Practising, question: str) -> None:
    """Add the page of practice, and what its script asks for."""

    @app.get("/practice")
    def page(request: Request) -> Response:
        return practising.page(request, question)

    @app.post("/api/practice")
    async def ask(request: Request) -> Response:
        body = await request.body()
        return _json(await run_in_threadpool(practising.ask, request, body))

    @app.post("/api/practice/answer")
    async def answer(request: Request) -> Response:
        body = await request.body()
        return _json(await run_in_threadpool(practising.answer, request, body))


def _json(content: dict[str, Any]) -> Response:
    return JSONResponse(content, headers={"cache-control": "no-store"})
