"""Progress of long work: the library reports it, the caller decides how to show it."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Report = Callable[[str, int, int], None]

_report: ContextVar[Report | None] = ContextVar("report", default=None)

__all__ = ["Report", "report", "reporting", "track"]


@contextlib.contextmanager
def reporting(show: Report) -> Iterator[None]:
    """Within this block, `show(what, done, total)` is called as work goes on.

    >>> with reporting(lambda *step: print(*step)):
    ...     total = sum(track([10, 20], 2, "adding"))
    adding 1 2
    adding 2 2
    """
    token = _report.set(show)
    try:
        yield
    finally:
        _report.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Report how far work is; the part of `what` after a colon may change between reports."""
    show = _report.get()
    if show is not None:
        show(what, done, total)


def track(steps: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The same steps, each reported when it is done."""
    for done, step in enumerate(steps, 1):
        report(what, done, total)
        yield step
