"""What the text sides of encoders share: texts are checked, and none is cut without a word."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, InputTypeError

__all__ = ["checked_texts", "checked_tokens"]


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list; raises unless each is a text with something in it."""
    if isinstance(texts, str):
        raise InputTypeError(f"pass many texts as a list, a single one as [text], got {texts!r}")
    for text in texts:
        if not isinstance(text, str):
            raise InputTypeError(f"texts must be text, got {text!r}")
        if not text.strip():
            raise InputError("a text is empty: write what pictures should show")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(
                f"{text.encode(errors='replace').decode()!r} is not text: it holds bytes that are no UTF-8"
            )
    return [*texts]


def checked_tokens(text: str, tokens: Callable[[str], Any], name: str) -> Any:
    """The tokens of a text; raises if its last word changes nothing, so that the text is longer than counts."""
    made = tokens(text)
    shorter = text.rstrip().rpartition(" ")[0].strip()
    if shorter and _same(made, tokens(shorter)):
        raise InputError(f"the words are more than {name} reads, the last of them do not count: write fewer")
    return made


def _same(first: Any, second: Any) -> bool:
    """Whether two sets of tokens are the same, tensors or a dictionary of them."""
    if hasattr(first, "keys"):
        return all(_same(first[name], second[name]) for name in first)
    return np.array_equal(np.asarray(first), np.asarray(second))
