"""How many threads to use."""

import os

from lookalike.core.checks import whole_number

__all__ = ["n_threads"]


def n_threads(threads: int | None) -> int:
    """The number of threads to use: `threads`, or by default one for each core that this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return whole_number("threads", threads)
