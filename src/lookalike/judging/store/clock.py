"""Times that the store is given: milliseconds since 1970, and for how long a seat is held."""

import time

from lookalike.core.errors import InputError
from lookalike.judging.store.pairs import LONGEST
from lookalike.judging.store.types import LAST_MOMENT

MOST_IN_HAND = 100  # pairs

__all__ = ["check_moment", "hold_length", "milliseconds"]


def milliseconds(now: int | None) -> int:
    """The time `now`, or that of this machine's clock where it is None.

    A clock that is wildly wrong is brought to where dates have four digits.
    """
    return min(max(int(time.time() * 1000) if now is None else int(now), 0), LAST_MOMENT)


def check_moment(moment: int | None) -> None:
    """Raise if this is not a time in milliseconds."""
    if moment is not None and (isinstance(moment, bool) or not isinstance(moment, int) or not 0 <= moment < 2**53):
        raise InputError(f"expires is a time in milliseconds since 1970, or None, got {moment!r}", parameter="expires")


def hold_length(n: int, seconds: float) -> int:
    """For how many milliseconds an expert holds n seats; an error if n or the seconds are out of bounds."""
    if not 1 <= n <= MOST_IN_HAND:
        raise InputError(f"an expert can have from 1 to {MOST_IN_HAND} pairs in hand, got {n}", parameter="n", value=n)
    length = int(seconds * 1000)
    if not 1 <= length <= LONGEST:
        raise InputError(f"a seat can be held for up to {LONGEST // 1000:,} seconds, got {seconds}")
    return length
