"""Hashers side by side in one HTML file: accuracy, what ties decide, and how many codes are in use."""

from pathlib import Path

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError
from lookalike.core.files import write_text
from lookalike.experiments.trials import Trials
from lookalike.report.installed import check_installed

__all__ = ["render", "write_report"]


def render(trials: Trials, *, queries: int = 4, random_state: int = 0) -> str:
    """The page as text; the same trials give the same bytes.

    queries: examples to show with their nearest items; random_state draws them and the items among tied ones.
    """
    if not trials.trials:
        raise InputError("there is no trial to report on")
    whole_number("queries", queries, 0)
    check_installed()
    from lookalike.report.hashers.page import page

    return page(trials, queries, random_state)


def write_report(trials: Trials, path: str | Path, *, queries: int = 4, random_state: int = 0) -> None:
    """Write the page to a file, whole or not at all."""
    write_text(path, render(trials, queries=queries, random_state=random_state))
