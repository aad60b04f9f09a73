"""A collection as one HTML file: near-duplicates, look-alikes, models compared, what shorter codes cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.core.errors import InputError
from lookalike.core.files import write_text
from lookalike.report.installed import check_installed

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Leaderboard, Pool, Votes
    from lookalike.discovery.bias import LeaveOneOut
    from lookalike.study.study import Study
    from lookalike.study.survey import Survey

__all__ = ["JudgedStudy", "render_collection", "write_collection"]


@dataclass(frozen=True)
class JudgedStudy:
    """The leaderboard of a study that experts judged, and what it was made from."""

    board: "Leaderboard"
    pool: "Pool | None" = None
    loo: "LeaveOneOut | None" = None
    votes: "Votes | None" = None
    judgements: "Judgements | None" = None


def render_collection(survey: "Survey", study: "Study", judged: JudgedStudy | None = None) -> str:
    """The page as text; the same input gives the same bytes.

    study: whose pictures are shown. judged: adds the leaderboard to the same page.
    """
    if not len(survey.ids):
        raise InputError("there is no item in the collection to show")
    check_installed()
    from lookalike.report.collection.page import page

    return page(survey, study, judged)


def write_collection(path: str | Path, survey: "Survey", study: "Study", judged: JudgedStudy | None = None) -> None:
    """Write the page to a file, whole or not at all; see `render_collection`."""
    write_text(path, render_collection(survey, study, judged))
