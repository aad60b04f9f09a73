"""What results say of themselves: what was evaluated, what is relevant, and how items without a rank count."""

from collections.abc import Callable, Iterable
from typing import Any

from lookalike.core.errors import Option

__all__ = ["relevance_text", "unlisted_note", "vectors_text"]


def vectors_text(about: dict[str, Any]) -> str:
    """What queries and items were taken as; nothing where it is not known."""
    if "bits" in about:
        return f"codes of {about['bits']} bits"
    if "similarity" not in about:
        return ""
    size = f" of {about['columns']} numbers" if "columns" in about else ""
    return f"embeddings{size}, {about['similarity']}"


def relevance_text(kinds: str | dict[str, str]) -> str:
    """What makes an item relevant, for all metrics or for each.

    >>> relevance_text({"AP": "labels", "nDCG": "attributes", "P@5": "labels"})
    'relevant by labels (AP, P@5) and attributes (nDCG)'
    """
    if isinstance(kinds, str):
        return f"relevant by {kinds}" if kinds else ""
    names: dict[str, list[str]] = {}
    for metric, kind in kinds.items():
        names.setdefault(kind, []).append(metric)
    return "relevant by " + " and ".join(f"{kind} ({', '.join(metrics)})" for kind, metrics in names.items())


def unlisted_note(areas: Iterable[str], policy: str, of_run: bool, spell: Callable[[Option], str] = str) -> str:
    """What became of judged items without a rank in areas under curves.

    >>> unlisted_note(["AUC"], "below", True)
    "AUC: judged items that the run does not list tie below all that it lists (unlisted='out' leaves them out)"
    """
    where, others = ("that the run does not list", "that it lists") if of_run else ("not in the gallery", "in it")
    if policy == "out":
        return f"{', '.join(areas)}: judged items {where} are left out"
    option = f" ({spell(Option('unlisted', 'out'))} leaves them out)" if of_run else ""
    return f"{', '.join(areas)}: judged items {where} tie below all {others}{option}"
