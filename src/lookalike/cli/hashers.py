"""Hashers as options name them."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from lookalike.hashers import Hasher

__all__ = ["choose", "choose_all"]


def choose(hasher: str, bits: int | None, seed: int) -> tuple["Hasher", bool]:
    """A hasher by name, or a fitted one from a file; and whether it is fitted."""
    from lookalike import hashers

    if not hasher.endswith(".npz"):
        return hashers.make(hasher, 64 if bits is None else bits, seed), False
    fitted = hashers.load(hasher)
    if bits not in (None, fitted.n_bits):
        raise InputError(f"{hasher} makes codes of {fitted.n_bits} bits, not {bits}: leave --bits away")
    return fitted, True


def choose_all(names: str | None, bits: str, seed: int) -> list[tuple[str, "Hasher"]]:
    """Names to show, and hashers, the shortest codes first; without names the eight, with "all" every one."""
    from lookalike.hashers import FIGURE_1, HASHERS

    lengths = re.split(r"[,\s]+", bits.strip())
    if not all(length.isdecimal() and len(length) < 10 and int(length) > 0 for length in lengths):
        raise InputError(f'--bits must be lengths such as "12 24 48", got {bits!r}')
    chosen = []
    listed = FIGURE_1 if names is None else [*HASHERS] if names == "all" else re.split(r"[,\s]+", names.strip())
    for name in listed:
        saved = name.endswith(".npz")
        for n_bits in [None] if saved else sorted({int(length) for length in lengths}):
            hasher, _ = choose(name, n_bits, seed)
            chosen.append((Path(name).stem if saved else hasher.title, hasher))
    return sorted(chosen, key=lambda named: named[1].n_bits)
