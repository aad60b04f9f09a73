"""The organiser settles disagreements, one pair at a time, and reads what experts wrote."""

import uuid
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lookalike.core.errors import InputError
from lookalike.discovery.rules import usual_rule
from lookalike.discovery.verdicts import TAKEN_BACK
from lookalike.judging.pages.beside import Beside
from lookalike.judging.pages.organiser import Organising, sentence
from lookalike.judging.pages.sessions import now_ms
from lookalike.judging.pages.statistics import Disagreement
from lookalike.judging.store.crowd import counted_votes
from lookalike.judging.store.remarks import give_verdict
from lookalike.judging.store.scale import stored_scale
from lookalike.web.guard import RequestRefusedError
from lookalike.web.server import read_form

__all__ = ["Settling"]

PER_PAGE = 24  # notes


class Settling:
    """The pages of verdicts and of notes."""

    def __init__(self, organising: Organising) -> None:
        self.organising = organising
        self.store, self.sessions = organising.store, organising.sessions
        self.images, self.pages = organising.images, organising.pages

    def page(self, request: Request, at: int, again: int) -> Response:
        """One disagreement without a verdict, that after `at` others, which were skipped.

        again: how many verdicts to go back; then the pair with that verdict is shown, to change it.
        """
        self.sessions.organiser(request)
        disagreements = self.organising.figures().disagreements
        beside = Beside.of(self.store, disagreements)
        settled = list(reversed(beside.verdicts.by_pair.items()))  # the last first
        pair, verdict = None, None
        if again and settled:
            again = min(again, len(settled))
            (query, item), verdict = settled[again - 1]
            same = [one for one in disagreements if (one.query, one.item) == (query, item)]
            pair = same[0] if same else Disagreement(query, item, self._answers(query, item))
        elif at < len(beside.unsettled):
            again, pair = 0, beside.unsettled[at]
        else:
            again = 0
        coming = beside.unsettled[at + (not again) :][:1]
        scale = stored_scale(self.store)
        return self.pages.answer(
            "verdicts.html",
            pair=pair,
            verdict=verdict,
            counts=[]
            if pair is None
            else [(words, answer, pair.count(answer)) for answer, words in scale.answers.items()],
            scale=scale,
            usual=usual_rule(scale),
            notes=[] if pair is None else beside.on(pair.query, pair.item),
            coming=coming,
            at=at,
            again=again,
            n_open=len(beside.unsettled),
            n_settled=len(settled),
            question=self.store.briefing().question,
            taken_back=TAKEN_BACK,
            client=str(uuid.uuid4()),
            view=self.images.view_address,
            csrf=self.sessions.token(request),
        )

    def _answers(self, query: str, item: str) -> tuple[tuple[str, int], ...]:
        """The last answers to a pair that is no disagreement any more."""
        votes = counted_votes(self.store, self.store.votes()).last()
        here = (votes.queries == query) & (votes.items == item)
        return tuple(zip(votes.experts[here].tolist(), votes.answers[here].tolist(), strict=True))

    async def give(self, request: Request) -> Response:
        """Keep a verdict, then show the next pair."""
        form = await read_form(request)

        def done() -> Response:
            self.sessions.organiser(request)
            texts = {name: form.get(name) for name in ("query", "item", "answer", "client", "at")}
            if not all(isinstance(text, str) for text in texts.values()):
                raise RequestRefusedError(422, "A verdict needs a pair and an answer.")
            pair = str(texts["query"]), str(texts["item"])
            try:
                outcome = give_verdict(self.store, pair, _whole(texts["answer"]), str(texts["client"]))
            except InputError as error:
                raise RequestRefusedError(422, sentence(error)) from error
            if outcome == "unknown":
                raise RequestRefusedError(404, "There is no such pair with votes.")
            if outcome == "changed":
                raise RequestRefusedError(409, "Another verdict was given from this page: load it again.")
            return RedirectResponse(f"/organise/verdicts?at={max(0, min(_whole(texts['at']), 10**9))}", 303)

        return await run_in_threadpool(done)

    def notes(self, request: Request, page: int, *, machines: bool) -> Response:
        """Notes and flags with their images, the last first. machines: those of machines, not of people."""
        self.sessions.organiser(request)
        beside = Beside.of(self.store, ())
        rows = list(reversed((beside.of_machines if machines else beside.notes).rows))
        n_pages = max(1, -(-len(rows) // PER_PAGE))
        page = min(page, n_pages)
        return self.pages.answer(
            "notes.html",
            rows=rows[(page - 1) * PER_PAGE : page * PER_PAGE],
            n_notes=len(rows),
            n_flagged=len(beside.notes.flagged),
            n_others=len(beside.notes if machines else beside.of_machines),
            machines=machines,
            page=page,
            n_pages=n_pages,
            now=now_ms(),
            thumbnail=self.images.thumbnail_address,
            csrf=self.sessions.token(request),
        )

    def view(self, side: str, given: str, request: Request) -> Response:
        """A large image."""
        self.sessions.organiser(request)
        return self.images.view(side, given, request)


def _whole(text: Any) -> int:
    """A whole number in a form.

    >>> _whole("-1")
    -1
    """
    try:
        return int(str(text)[:12])
    except ValueError:
        raise RequestRefusedError(422, "A verdict is a whole number.") from None
