"""Trying again: an action that fails is repeated after a pause, and each pause is twice as long as the one before."""

import itertools
import math
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

__all__ = ["retry"]


def retry(
    action: Callable[[], T],
    kind: type[E],
    check: Callable[[E, int, float], None],
    *,
    first: float,
    longest: float = math.inf,
) -> T:
    """What an action returns; after an error of this kind, it is tried again.

    check: called after each failure with the error, the number of tries so far and the pause before the next one; it
    raises if there should be no next one. first, longest: seconds of the first pause, and of the longest.

    >>> answers = iter([OSError("busy"), OSError("busy"), "done"])
    >>> def ask():
    ...     answer = next(answers)
    ...     if isinstance(answer, Exception):
    ...         raise answer
    ...     return answer
    >>> retry(ask, OSError, lambda error, tries, pause: print(error, tries, pause), first=0.001)
    busy 1 0.001
    busy 2 0.002
    'done'
    """
    pause = first
    for tries in itertools.count(1):
        try:
            return action()
        except kind as error:
            check(error, tries, pause)
        time.sleep(pause)
        pause = min(2 * pause, longest)
    raise AssertionError("tries never end")
