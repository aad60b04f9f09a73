"""The organiser's page: progress, agreement between experts, links, and files to download."""

import re
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lookalike.core.csv_files import csv_text
from lookalike.core.errors import InputError
from lookalike.discovery.exports import export_judgements, export_votes
from lookalike.discovery.rules import RULES, judge_by
from lookalike.discovery.verdicts import VERDICT
from lookalike.judging.pages.beside import Beside
from lookalike.judging.pages.images import Images
from lookalike.judging.pages.sessions import Sessions, expert_link, now_ms, open_link
from lookalike.judging.pages.statistics import Figures, reading
from lookalike.judging.store.crowd import admit, counted_votes
from lookalike.judging.store.participants import EXPERT_COLUMNS, expert_rows, participants_of
from lookalike.judging.store.remarks import all_notes, all_verdicts, machines
from lookalike.judging.store.scale import stored_scale
from lookalike.judging.store.types import Expert, ExpertError, check_expert_name
from lookalike.web.guard import RequestRefusedError
from lookalike.web.server import Pages, Sent, read_form

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study

__all__ = ["Organising", "sentence"]

PER_PAGE = 12  # disagreements
FRESH = 2.0  # seconds for which figures are shown again
DAY, MOST_DAYS = 86_400_000, 36_500
EXPORTS = {
    "csv": ("votes", "text/csv; charset=utf-8"),
    "parquet": ("votes", "application/vnd.apache.parquet"),
    "qrels": ("judgements", "text/plain; charset=utf-8"),
    "json": ("judgements", "application/json"),
}


@dataclass(frozen=True)
class Done:
    """What was done to whom, for the page to say."""

    name: str
    words: str


class Organising:
    """What the organiser sees and does."""

    def __init__(self, study: "Study", store: "Store", sessions: Sessions, images: Images, pages: Pages) -> None:
        self.study, self.store, self.sessions, self.images, self.pages = study, store, sessions, images, pages
        self._figures: tuple[float, Figures] | None = None
        self._counting = threading.Lock()

    def page(self, request: Request, page: int, done: Done | None = None) -> Response:
        """The page, with the change that was just made, if any."""
        self.sessions.organiser(request)
        figures, people = self.figures(), participants_of(self.store)
        n_pages = max(1, -(-len(figures.disagreements) // PER_PAGE))
        page = min(page, n_pages)
        shown = figures.disagreements[(page - 1) * PER_PAGE : page * PER_PAGE]
        return self.pages.answer(
            "organise.html",
            figures=figures,
            briefing=self.store.briefing(),
            done=done,
            reading=reading(figures.agreement.alpha),
            people=people,
            open_link=None if people.link is None else self._open_link(request, people.link),
            links=[
                (expert, _state(expert), self._link(request, expert))
                for expert in self.store.experts()
                if expert.name not in people.members
            ],
            disagreements=shown,
            page=page,
            n_pages=n_pages,
            scale=figures.agreement.scale,
            now=now_ms(),
            thumbnail=self.images.thumbnail_address,
            csrf=self.sessions.token(request),
            beside=Beside.of(self.store, figures.disagreements, self.study.gold()),
        )

    def figures(self) -> Figures:
        """The figures, at most two seconds old."""
        with self._counting:
            now = time.monotonic()
            if self._figures is None or now - self._figures[0] > FRESH:
                votes = counted_votes(self.store, self.store.votes())
                figures = Figures.of(self.store.status(), votes, self.study.gold(), now_ms())
                self._figures = (time.monotonic(), figures)
            return self._figures[1]

    def thumbnail(self, side: str, given: str, request: Request) -> Response:
        """A small image."""
        self.sessions.organiser(request)
        return self.images.thumbnail(side, given, request)

    def _link(self, request: Request, expert: Expert) -> str:
        return expert_link(self.sessions.keys, expert, self._base(request))

    def _open_link(self, request: Request, number: int) -> str:
        return open_link(self.sessions.keys, number, self._base(request))

    def _base(self, request: Request) -> str:
        scheme = "https" if self.sessions.is_secure(request) else "http"
        return f"{scheme}://{request.headers['host']}"

    async def change(self, request: Request, act: Callable[[str, int | None], str]) -> Response:
        """Do something to the expert whom a form names, and show the page anew; within an open page, say what was done.

        act: from a name and the moment at which a link is to end, to what was done in words.
        """
        form = await read_form(request)
        name, days = form.get("name"), form.get("days", "")

        def done() -> Response:
            self.sessions.organiser(request)
            if not isinstance(name, str) or isinstance(days, Sent):
                raise RequestRefusedError(422, "The name of an expert is missing.")
            try:
                words = act(name, _moment(days))
            except InputError as error:
                raise RequestRefusedError(422, sentence(error)) from error
            self._figures = None
            if request.headers.get("hx-request") == "true":
                return self.page(request, 1, Done(name, words))
            return RedirectResponse("/organise#links", 303)

        return await run_in_threadpool(done)

    def add(self, name: str, expires: int | None) -> str:
        """Let somebody new judge."""
        check_expert_name(name)
        if self.store.expert(name) is not None:
            raise InputError(f"there is an expert {name!r} already")
        self.store.add_expert(name, expires)
        return f"{name} was added"

    def renew(self, name: str, expires: int | None) -> str:
        """Give somebody a new link, which makes the old one worthless."""
        self.store.renew(name, expires)
        return f"{name} has a new link"

    def revoke(self, name: str, _: int | None) -> str:
        """Let somebody judge no more."""
        self.store.revoke(name)
        return f"The link of {name} was revoked"

    def admit(self, name: str, _: int | None) -> str:
        """Let somebody begin who has not passed the practice, or count again who was screened out."""
        words = admit(self.store, name)
        return f"{words[:1].upper()}{words[1:]}"

    def experts(self, request: Request) -> Response:
        """Every expert with what is known of them, as a CSV file."""
        self.sessions.organiser(request)
        rows = expert_rows(self.store, self.study)
        text = csv_text([EXPERT_COLUMNS, *(row.values() for row in rows)])
        headers = {"content-disposition": 'attachment; filename="experts.csv"', "cache-control": "no-store"}
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)

    def export(self, request: Request, kind: str, rule: str | None, what: str) -> Response:
        """Votes, each with its expert, the judgements that a rule makes of them, notes or verdicts, as a file."""
        self.sessions.organiser(request)
        if kind not in EXPORTS:
            raise RequestRefusedError(404, f"There is no such export: there are {', '.join(EXPORTS)}.")
        if rule is not None and rule not in (*RULES, VERDICT):
            raise RequestRefusedError(422, f"There is no such rule: there are {', '.join((*RULES, VERDICT))}.")
        usual, media = EXPORTS[kind]
        what = what or usual
        if what != usual and not (usual == "votes" and what in ("notes", "verdicts")):
            raise RequestRefusedError(422, "There is no such export: notes and verdicts are csv or parquet.")
        with tempfile.TemporaryDirectory(prefix="lookalike-") as folder:
            path = Path(folder) / f"export.{kind}"
            self._write(path, what, rule)
            body = path.read_bytes()
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.study.name).strip("-.")[:60] or "study"
        headers = {"content-disposition": f'attachment; filename="{name}-{what}.{kind}"', "cache-control": "no-store"}
        return Response(body, media_type=media, headers=headers)

    def _write(self, path: Path, what: str, rule: str | None) -> None:
        """Write what there is to a file."""
        if what == "notes":
            all_notes(self.store).write(path)
            return
        if what == "verdicts":
            all_verdicts(self.store).write(path, scale=stored_scale(self.store))
            return
        pool = self.study.pool() if self.study.pool_path.exists() else None
        if what == "votes":
            export_votes(path, self.store.votes(machines=True), pool, machines=machines(self.store))
            return
        votes = counted_votes(self.store, self.store.votes())
        judgements = judge_by(rule, votes, verdicts=all_verdicts(self.store)) if len(votes) else None
        if judgements is None or not len(judgements):
            raise RequestRefusedError(404, "Nothing has been judged yet: there is nothing to export.")
        try:
            export_judgements(path, judgements, pool)
        except InputError as error:  # an id that the format cannot hold
            raise RequestRefusedError(422, sentence(error)) from error


def _state(expert: Expert) -> str:
    """The state of an expert's link: open, or why it does not work."""
    try:
        expert.check(now_ms())
    except ExpertError as error:
        return error.reason
    return "open"


def _moment(days: str) -> int | None:
    """So many days from now, in milliseconds since 1970; None where nothing is said."""
    text = days.strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= MOST_DAYS:
        raise InputError(f"a link works for so many days, up to {MOST_DAYS:,}, or without end, got {text!r:.100}")
    return now_ms() + round(number * DAY)


def sentence(error: Exception) -> str:
    """What an error says, as a sentence on a page."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
