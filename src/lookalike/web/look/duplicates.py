"""The page Duplicates: review pairs, then move the files that were dropped, or make them links, and undo it."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import FastAPI, Query
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookalike.core.decode import pillow
from lookalike.core.errors import LookalikeError
from lookalike.study.duplicate_actions import MovePlan, images_of, plan_links, plan_moves, put_back, undo_entries
from lookalike.study.duplicates import KEEP, Duplicates, decided_duplicates
from lookalike.web.guard import RequestRefusedError
from lookalike.web.look.review import Review, ReviewPair, Reviews, Settings, recent, tally
from lookalike.web.look.snapshot import Shelf
from lookalike.web.sent import SentValue, parsed

if TYPE_CHECKING:
    from lookalike.web.look.app import Looking

__all__ = ["add_duplicates"]

MOST_PAIRS, MOST_SENT, SHOWN = 24, 200, 100  # pairs in an answer, decisions in a request, moves that are listed
MOST_SKIPPED = 10_000
MOST_BYTES = 4_000_000  # of a request
WORDS = {"bits": "{:.0f} bits apart", "cosine": "cosine {:.4f}", "distance": "distance {:.4f}"}
CLOSED = (
    "Files can be moved only from a page that this machine alone can open, and this one is open to others. "
    "Run the command below instead."
)

Text = Annotated[str, Field(min_length=1, max_length=5_000)]
Name = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class SentSettings(SentValue):
    """Which duplicates are reviewed, and which pairs were put off, by their places."""

    model: Text | None = None
    near: Annotated[float, Field(ge=0, le=1e9)] | None = None
    keep: Literal["largest", "oldest", "first"] = "largest"
    skip: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=MOST_SKIPPED)] = Field(
        default_factory=list
    )
    n: Annotated[int, Field(ge=1, le=MOST_PAIRS)] = 12

    @property
    def settings(self) -> Settings:
        """What the search needs of it."""
        return Settings(self.model, self.near, self.keep)


class SentDecision(SentValue):
    """One decision about two items: `first` is kept and `second` dropped, or they are no duplicates."""

    id: Name
    kind: Literal["drop", "apart"]
    first: Text
    second: Text


class SentDecisions(SentSettings):
    """Decisions in the order in which they were made."""

    decisions: Annotated[list[SentDecision], Field(min_length=1, max_length=MOST_SENT)]


class SentBatch(SentSettings):
    """A batch of decisions: to be made, as the rule suggests, or to be undone."""

    batch: Name


class SentPlan(SentValue):
    """What to do with the files that are dropped. digest: of the plan that was shown."""

    way: Literal["move", "link"]
    folder: Annotated[str, Field(max_length=4_000)] = ""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SentUndo(SentValue):
    """The name of something that was done."""

    name: Annotated[str, Field(pattern="^[0-9-]{1,40}$")]


class Duplicating:
    """The page Duplicates of one study. may_act: whether files may be moved from it."""

    def __init__(self, looking: "Looking") -> None:
        self.looking, self.may_act = looking, looking.alone
        self.reviews = Reviews(looking.shelves.now().study)

    def page(self, settings: SentSettings) -> Response:
        """The page, which asks for its pairs itself: to find them may take a while."""
        shelf = self.looking.shelves.now()
        models = [model.name for model in shelf.models if model.problem is None]
        if settings.model is not None and settings.model not in models:
            raise RequestRefusedError(404, f"The study has no model {settings.model[:100]!r} to compare images by.")
        return self.looking.pages.answer(
            "duplicates.html", shelf=shelf, models=models, settings=settings, keeps=KEEP, may_act=self.may_act
        )

    def pairs(self, sent: SentSettings, first: int | None = None) -> dict[str, Any]:
        """The next pairs, how many are left, and what was decided last. first: the place of the pair to begin with."""
        shelf, review = self._review(sent)
        decisions = self.reviews.log.read()
        left = list(review.pairs(decisions))
        skipped = set(sent.skip) - {first}
        shown = sorted((pair for pair in left if pair.place not in skipped), key=lambda pair: pair.place != first)
        return {
            "pairs": [self._facts(shelf, review, pair) for pair in shown[: sent.n]],
            "left": len(left),
            "groups": len(review.found.groups),
            "limit": review.found.limit,
            "unit": review.found.unit,
            "notes": review.found.notes[:20],
            "recent": recent(decisions),
            **tally(decisions),
        }

    def decide(self, sent: SentDecisions) -> dict[str, Any]:
        """Keep decisions; those that do not fit are told."""
        _, review = self._review(sent)
        made = [review.decision(each.id, each.kind, each.first, each.second) for each in sent.decisions]
        problems = self.reviews.log.add(made)
        return self.pairs(sent) | {"problems": [f"{problem}." for problem in problems if problem]}

    def accept(self, sent: SentBatch) -> dict[str, Any]:
        """Drop the second of all pairs that are left; only for files of the same bytes."""
        _, review = self._review(sent)
        if sent.model is not None:
            raise RequestRefusedError(422, "Only files of the same bytes are decided all at once: look at the others.")
        self.reviews.log.add(review.suggested(self.reviews.log.read(), sent.batch))
        return self.pairs(sent)

    def undo(self, sent: SentBatch) -> dict[str, Any]:
        """Take a decision or a batch back, and go to its pair."""
        _, review = self._review(sent)
        gone = self.reviews.undone([sent.batch])
        items = {frozenset((each.first, each.second)) for each in gone}
        left = review.pairs(self.reviews.log.read())
        place = next((p.place for p in left if frozenset((review.ids[p.first], review.ids[p.second])) in items), None)
        return self.pairs(sent, place) | {"undone": len(gone), "place": place}

    # What is done in the end

    def plan(self, way: str, folder: str) -> dict[str, Any]:
        """What would happen, and what happened before."""
        study = self.looking.shelves.now().study
        found = decided_duplicates(study)
        folder = folder.strip() or (str(self._beside(study)) if study.folder is not None else "")
        plan = self._planned(study, found, way, folder)
        target = f"--move {shlex.quote(folder)}" if way == "move" else "--link"
        return {
            "files": len(plan.moves),
            "bytes": plan.n_bytes,
            "dropped": len(found.copies),
            "same": sum(copy.same_bytes for copy in found.copies),
            "notes": [*found.notes, *plan.notes][:50],
            "moves": [self._move(move.source, move.kept or move.target) for move in plan.moves[:SHOWN]],
            "digest": plan.digest,
            "folder": folder if self.may_act else "",
            "can_move": study.folder is not None,
            "closed": None if self.may_act else CLOSED,
            "command": f"lookalike duplicates {shlex.quote(str(study.path) if self.may_act else study.path.name)} "
            f"--decided {target if self.may_act or way == 'link' else '--move FOLDER'} --apply",
            "done": [{"name": each.name, "files": each.n_files, "links": each.links} for each in undo_entries(study)],
        }

    def apply(self, sent: SentPlan) -> dict[str, Any]:
        """Do it, if it is still what was shown."""
        self._check_may_act()
        study = self.looking.shelves.now().study
        plan = self._planned(study, decided_duplicates(study), sent.way, sent.folder.strip())
        if plan.digest != sent.digest:
            raise RequestRefusedError(
                409, "Decisions or files have changed since this was shown, and nothing was done. Look at it again."
            )
        try:
            path = plan.apply(study)
        finally:
            self.reviews.forget()
        if path is None:
            raise RequestRefusedError(409, "There is nothing to do.")
        return {"files": len(plan.moves), "bytes": plan.n_bytes, "undo": path.parent.name}

    def put_back(self, sent: SentUndo) -> dict[str, Any]:
        """Undo what was done, all or none."""
        self._check_may_act()
        study = self.looking.shelves.now().study
        entry = next((each for each in undo_entries(study) if each.name == sent.name), None)
        if entry is None:
            raise RequestRefusedError(404, "There is nothing of that name to undo: it may be undone already.")
        try:
            return {"files": put_back(study, entry.path)}
        finally:
            self.reviews.forget()

    # Parts

    def _review(self, sent: SentSettings) -> tuple[Shelf, Review]:
        shelf = self.looking.shelves.now()
        return shelf, self.reviews.of(shelf.study, sent.settings)

    def _check_may_act(self) -> None:
        if not self.may_act:
            raise RequestRefusedError(403, CLOSED)

    def _planned(self, study: Any, found: Duplicates, way: str, folder: str) -> MovePlan:
        if way == "link":
            return plan_links(study, found)
        if "\0" in folder or (self.may_act and not Path(folder).expanduser().is_absolute()):
            raise RequestRefusedError(422, "The folder must be a whole path, such as /home/ann/copies.")
        return plan_moves(study, found, Path(folder).expanduser() if self.may_act else self._beside(study))

    @staticmethod
    def _beside(study: Any) -> Path:
        """A folder beside the images that is not there yet."""
        images = images_of(study)
        names = (f"{images.name}-copies{f'-{n}' if n else ''}" for n in range(1000))
        return next(path for name in names if not (path := images.with_name(name)).exists())

    def _move(self, source: str, target: str) -> list[str]:
        if self.may_act:
            return [str(Path(source).resolve()), target]
        return [Path(source).name, Path(target).name]

    def _facts(self, shelf: Shelf, review: Review, pair: ReviewPair) -> dict[str, Any]:
        found, group = review.found, review.found.groups[pair.group]
        same = found.files[pair.first].content == found.files[pair.second].content
        words = "same bytes" if same else "" if found.unit is None else WORDS[found.unit].format(pair.nearness)
        return {
            "place": pair.place,
            "group": pair.group,
            "members": len(group.copies) + 1,
            "same": same,
            "nearness": words,
            "items": [self._member(shelf, review, position) for position in (pair.first, pair.second)],
        }

    def _member(self, shelf: Shelf, review: Review, position: int) -> dict[str, Any]:
        file = review.found.files[position]
        return {
            "id": review.ids[position],
            "name": shelf.name(position),
            "path": self.looking.place(shelf, position),
            "bytes": file.size,
            "time": file.modified // 10**6,
            "pixels": _pixels(shelf.path(position)),
            "view": self.looking.view(shelf, position),
        }


def add_duplicates(app: FastAPI, looking: "Looking") -> None:
    """Add the page Duplicates and what it asks for to an app."""
    page = Duplicating(looking)

    @app.get("/duplicates")
    def duplicates(
        model: Annotated[str | None, Query(max_length=200)] = None,
        near: Annotated[float | None, Query(ge=0, le=1e9)] = None,
        keep: Literal["largest", "oldest", "first"] = "largest",
    ) -> Response:
        return page.page(SentSettings(model=model or None, near=near, keep=keep))

    @app.get("/duplicates/plan")
    async def plan(
        way: Literal["move", "link"] = "move", folder: Annotated[str, Query(max_length=4_000)] = ""
    ) -> Response:
        return await _answer(page.plan, way, folder)

    def posting(path: str, kind: type[SentValue], act: Callable[[Any], dict[str, Any]]) -> None:
        async def posted(request: Request) -> Response:
            body = await request.body()
            if len(body) > MOST_BYTES:
                raise RequestRefusedError(413, "That is too large.")
            return await _answer(act, parsed(kind, body))

        app.post(f"/duplicates/{path}")(posted)

    posting("pairs", SentSettings, page.pairs)
    posting("decide", SentDecisions, page.decide)
    posting("accept", SentBatch, page.accept)
    posting("undo", SentBatch, page.undo)
    posting("apply", SentPlan, page.apply)
    posting("put-back", SentUndo, page.put_back)


async def _answer(act: Callable[..., dict[str, Any]], *arguments: Any) -> Response:
    """What an act gives, as JSON; what a user can put right is said, and nothing else."""
    try:
        answer = await run_in_threadpool(act, *arguments)
    except LookalikeError as error:
        raise RequestRefusedError(422, f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    except OSError as error:
        words = error.strerror or str(error)
        raise RequestRefusedError(409, f"That did not work: {words}.") from error
    return JSONResponse(answer, headers={"cache-control": "no-store"})


def _pixels(path: Path | None) -> list[int] | None:
    """The width and height of a picture, upright; None where it cannot be read."""
    try:
        with pillow().open(path) as image:
            turned = image.getexif().get(0x0112, 1) >= 5
            return [image.height, image.width] if turned else [image.width, image.height]
    except (OSError, ValueError, SyntaxError, TypeError, AttributeError):
        return None
