"""How many threads to use."""

import os

import numpy as np

__all__ = ["n_threads"]


def n_threads(threads: int | None) -> int:
    """How many threads to use: as many as told, or one for each core that this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise ValueError(f"threads must be a whole number from 1, got {threads!r}")
    return int(threads)
