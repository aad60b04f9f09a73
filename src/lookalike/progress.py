"""Progress of long work: the library reports it, whoever runs it decides how to show it."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Report = Callable[[str, int, int], None]

_report: ContextVar[Report | None] = ContextVar("report", default=None)

__all__ = ["Report", "reporting", "track"]


@contextlib.contextmanager
def reporting(report: Report) -> Iterator[None]:
    """Within this block, `report(what, done, total)` is called as work goes on.

    >>> with reporting(lambda *step: print(*step)):
    ...     total = sum(track([10, 20], 2, "adding"))
    adding 1 2
    adding 2 2
    """
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def track(steps: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The same steps, each reported when it is done."""
    report = _report.get()
    for done, step in enumerate(steps, 1):
        if report is not None:
            report(what, done, total)
        yield step
