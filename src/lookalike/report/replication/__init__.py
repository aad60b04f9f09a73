"""Claims of papers tried again, in one HTML file: verdicts, numbers beside the printed ones, and charts."""

from collections.abc import Sequence
from pathlib import Path

from lookalike.core.errors import InputError
from lookalike.core.files import write_text
from lookalike.experiments.replicate import Replication
from lookalike.report.installed import check_installed

__all__ = ["render_replication", "write_replication"]


def render_replication(results: Sequence[Replication]) -> str:
    """The page as text; the same results give the same bytes."""
    if not results:
        raise InputError("there is no result to show: run lookalike replicate")
    check_installed()
    from lookalike.report.replication.page import page

    return page(results)


def write_replication(results: Sequence[Replication], path: str | Path) -> None:
    """Write the page to a file, whole or not at all."""
    write_text(path, render_replication(results))
