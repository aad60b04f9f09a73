"""Loads the compiled loops when they are first needed, and says so when that takes long."""

import functools
import importlib
import logging
import threading
from types import ModuleType

logger = logging.getLogger("lookalike")


@functools.cache
def kernels() -> ModuleType:
    """The module of compiled loops; numba compiles them once for a machine and keeps them on disk.

    >>> kernels().popcount.__name__
    'popcount'
    """
    return _load("lookalike._kernels")


@functools.cache
def product_kernel() -> ModuleType:
    """The module of the compiled matrix product."""
    return _load("lookalike._product")


@functools.cache
def bend_kernels() -> ModuleType:
    """The module of the compiled ends of projections."""
    return _load("lookalike._bends")


@functools.cache
def soft_kernels() -> ModuleType:
    """The module of the compiled loops of the ranking losses."""
    return _load("lookalike._soft")


_loading = threading.Lock()


def _load(name: str) -> ModuleType:
    importlib.import_module("numba")  # first, so that the timer sees compiling alone
    message = "compiling for this machine: up to half a minute the first time, later a moment to load it"
    notice = threading.Timer(1.0, logger.warning, [message])
    notice.daemon = True
    with _loading:  # not once for each thread
        notice.start()
        try:
            return importlib.import_module(name)
        finally:
            notice.cancel()
