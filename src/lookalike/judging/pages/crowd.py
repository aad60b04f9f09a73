"""The open link: anybody who has it judges some pairs as a new expert, and sees a completion code at the end."""

import re
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lookalike.judging.pages.links import EXPERT, Pass
from lookalike.judging.pages.organiser import sentence
from lookalike.judging.pages.sessions import Rate, Sessions
from lookalike.judging.store.crowd import CrowdFullError, crowd_link, crowd_terms, join_crowd, member_of
from lookalike.web.guard import LOOPBACK, RequestRefusedError
from lookalike.web.server import Pages

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store

__all__ = ["CrowdPages", "add_crowd_routes"]

PARTICIPANT = ("prolific_pid", "participant", "participant_id", "participantid", "workerid", "worker_id")
IDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
AT_ONCE, EVERY = 20.0, 30.0  # people who may join from one address at once; seconds until one more may
NOT_OPEN = "This link is closed, or it is not whole. If a platform sent you here, return your place there."


class CrowdPages:
    """What people of the crowd see before their first pair and after their last one."""

    def __init__(self, store: "Store", sessions: Sessions, pages: Pages) -> None:
        self.store, self.sessions, self.pages = store, sessions, pages
        self.joining = Rate(1 / EVERY, AT_ONCE)

    def welcome(self, token: str, request: Request, question: str) -> Response:
        """A page that says what is asked, with a button; programs that look at links make nobody an expert."""
        self._number(token)
        participant = _participant(request)
        if self._is_back(request, participant):
            return RedirectResponse("/judge", 303)
        terms = crowd_terms(self.store)
        if terms is None:
            raise RequestRefusedError(410, NOT_OPEN)
        return self.pages.answer(
            "crowd.html",
            terms=terms,
            question=self.store.briefing().question or question,
            participant=participant,
            practice="practice" in self.store.meta(),
            csrf=self.sessions.token(request),
            action=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        )

    def begin(self, token: str, request: Request) -> Response:
        """Make somebody an expert, or find who they are; the session is as that of a personal link."""
        number, participant = self._number(token), _participant(request)
        if self._is_back(request, participant):
            return RedirectResponse("/judge", 303)
        self._count(request)
        try:
            expert = join_crowd(self.store, number, participant)
        except CrowdFullError as error:
            raise RequestRefusedError(410 if error.reason == "closed" else 403, sentence(error)) from error
        return self.sessions.admitted(Pass(expert.name, EXPERT, expert.link_number, expert.expires), request)

    def _number(self, token: str) -> int:
        """The number of a link that is open; refused for all else."""
        link = self.sessions.keys.read("crowd", token)
        number = crowd_link(self.store)
        if link is None or number is None or link.number != number:
            raise RequestRefusedError(410, NOT_OPEN)
        return number

    def _is_back(self, request: Request, participant: str | None) -> bool:
        """Whether this browser has a session of somebody of the crowd, and not of another participant."""
        visitor = self.sessions.visitor(request)
        member = member_of(self.store, visitor.name) if visitor is not None else None
        if visitor is None or member is None or participant not in (None, member.participant):
            return False
        expert = self.store.expert(visitor.name)
        return expert is not None and expert.revoked is None and expert.link_number == visitor.number

    def _count(self, request: Request) -> None:
        """Refuse an address from which many have joined lately."""
        try:
            self.joining.take(_address(request))
        except RequestRefusedError as error:
            raise RequestRefusedError(
                429, "Many people have begun from your network just now: wait a minute, then try again."
            ) from error

    def end(self, request: Request) -> Response:
        """How it ended: the completion code, or kind words."""
        name = self.sessions.expert(request)
        member, terms = member_of(self.store, name), crowd_terms(self.store)
        if member is None or terms is None:
            return RedirectResponse("/judge", 303)
        progress = self.store.progress(name)
        if member.screened is None and member.completed is None and progress.left:
            return RedirectResponse("/judge", 303)
        code = terms.screened_code if member.screened is not None else terms.code if member.completed else None
        return self.pages.answer("crowd_end.html", member=member, done=progress.done, code=code)


def _participant(request: Request) -> str | None:
    """The id that a platform has put into the address; None where there is none."""
    for name, value in request.query_params.multi_items():
        if name.lower() in PARTICIPANT and value:
            if not IDS.fullmatch(value):
                raise RequestRefusedError(
                    422, "The id of the participant in this link is not one: open the link as the platform gave it."
                )
            return value
    return None


def _address(request: Request) -> str:
    """From where somebody comes; a proxy on this machine says for whom it asks."""
    peer = request.client.host if request.client is not None else ""
    passed = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return passed if passed and (peer in LOOPBACK or peer == "::1") else peer


def add_crowd_routes(app: FastAPI, crowd: CrowdPages, question: str) -> None:
    """Add the pages of the open link."""

    @app.get("/crowd/{token}")
    def welcome(token: str, request: Request) -> Response:
        return crowd.welcome(token, request, question)

    @app.post("/crowd/{token}")
    async def begin(token: str, request: Request) -> Response:
        return await run_in_threadpool(crowd.begin, token, request)

    @app.get("/end")
    def end(request: Request) -> Response:
        return crowd.end(request)
