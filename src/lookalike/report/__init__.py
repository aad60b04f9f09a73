"""A report: one HTML file, sufficient in itself, that shows hashers side by side, accuracy next to use of the space."""

import importlib.util
from pathlib import Path

from lookalike.core.files import write_text
from lookalike.experiments.trials import Trials

NEEDED = ("altair", "vl_convert", "PIL")

__all__ = ["check_installed", "render", "write_report"]


def render(trials: Trials, *, queries: int = 4, random_state: int = 0) -> str:
    """The page as text; the same trials give the same bytes.

    queries: examples to show with their nearest items; random_state draws them and the items among tied ones.
    """
    if not trials.trials:
        raise ValueError("there is no trial to report on")
    if queries < 0:
        raise ValueError(f"queries must be a whole number from 0, got {queries}")
    check_installed()
    from lookalike.report.page import page

    return page(trials, queries, random_state)


def check_installed() -> None:
    """Raise where a package that reports need is missing: known before any work is done."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                'a report needs altair, vl-convert-python and pillow: pip install "lookalike[report]"', name=name
            )


def write_report(trials: Trials, path: str | Path, *, queries: int = 4, random_state: int = 0) -> None:
    """Write the page to a file, whole or not at all."""
    write_text(path, render(trials, queries=queries, random_state=random_state))
