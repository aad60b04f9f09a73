"""A discovery leaderboard as one HTML file: who leads, how far to trust it, who built the pool, what experts said."""

from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.core.errors import InputError
from lookalike.core.files import write_text
from lookalike.report.installed import check_installed

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Leaderboard, Pool, Votes
    from lookalike.discovery.bias import LeaveOneOut
    from lookalike.study.study import Study

__all__ = ["render_leaderboard", "write_leaderboard"]


def render_leaderboard(
    board: "Leaderboard",
    *,
    title: str,
    pool: "Pool | None" = None,
    loo: "LeaveOneOut | None" = None,
    study: "Study | None" = None,
    votes: "Votes | None" = None,
    judgements: "Judgements | None" = None,
) -> str:
    """The page as text; the same input gives the same bytes.

    pool: shows how far proposals overlap and what judging them costs; with judgements, how many are positive. loo: the
    change of each model without its own pairs. votes: how far experts agree, and pairs on which they do not, with the
    pictures of the study.
    """
    if not board.evaluations:
        raise InputError("there is no model on the leaderboard to show")
    check_installed()
    from lookalike.report.leaderboard.page import page, parts

    return page(title, parts(board, title, pool, loo, study, votes, judgements))


def write_leaderboard(
    path: str | Path,
    board: "Leaderboard",
    *,
    title: str,
    pool: "Pool | None" = None,
    loo: "LeaveOneOut | None" = None,
    study: "Study | None" = None,
    votes: "Votes | None" = None,
    judgements: "Judgements | None" = None,
) -> None:
    """Write the page to a file, whole or not at all; see `render_leaderboard`."""
    page = render_leaderboard(board, title=title, pool=pool, loo=loo, study=study, votes=votes, judgements=judgements)
    write_text(path, page)
