"""Loads the compiled loops when they are first needed, and says so when that takes long.

Only this module imports the files beside it: numba is slow to load, and compiles what it does not find on disk.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lookalike.core.locks import lock

logger = logging.getLogger("lookalike")


@functools.cache
def kernels() -> SimpleNamespace:
    """The compiled loops of counting and of the metrics; numba compiles them once for a machine and keeps them on disk.

    >>> kernels().popcount.__name__
    'popcount'
    """
    return _load(
        "lookalike.core.kernels.scan",
        "lookalike.core.kernels.tables",
        "lookalike.core.kernels.scores",
        "lookalike.core.kernels.metric_sums",
    )


@functools.cache
def product_kernel() -> SimpleNamespace:
    """The compiled matrix product, and the loops that give rows of one direction the same form."""
    return _load("lookalike.core.kernels.product", "lookalike.core.kernels.directions")


@functools.cache
def bend_kernels() -> SimpleNamespace:
    """The compiled last steps of hashers."""
    return _load("lookalike.core.kernels.hashing")


@functools.cache
def soft_kernels() -> SimpleNamespace:
    """The compiled loops of the ranking losses."""
    return _load("lookalike.core.kernels.losses")


_loading = threading.Lock()


def _load(*names: str) -> SimpleNamespace:
    """The loops of these modules in one namespace. Importing a module compiles its loops or reads them from disk."""
    importlib.import_module("numba")  # first, so that the timer sees compiling alone
    message = "compiling for this machine: up to half a minute the first time, later a moment to load it"
    notice = threading.Timer(1.0, logger.warning, [message])
    notice.daemon = True
    contents: dict[str, Any] = {}
    with _loading:  # not once for each thread
        notice.start()
        try:
            for name in names:
                with _alone(name):
                    contents |= vars(importlib.import_module(name))
        finally:
            notice.cancel()
    return SimpleNamespace(**{name: value for name, value in contents.items() if not name.startswith("__")})


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait while another process compiles a module for the first time on this machine.

    Numba writes to disk without a lock. Of processes that start together, such as the workers of a cluster, one could
    read the code of another signature, and each would compile everything.
    """
    done = _mark(name)
    if done is None or done.exists():
        yield
        return
    with done.with_suffix(".lock").open("w") as file:
        with contextlib.suppress(OSError):  # a disk that cannot lock, or a process that holds the lock for ever
            lock(file.fileno(), 300, "")
        yield
        done.touch()


def _folder() -> Path:
    """The folder of compiled loops."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")


def folder_of(error: BaseException) -> Path | None:
    """The folder of compiled loops if the error came from writing them there, else None; numba names no file."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_globals.get("__name__") == "numba.core.caching":
            return _folder()
        frame = frame.tb_next
    return None


def _mark(name: str) -> Path | None:
    """The path of a file that marks a module as compiled; None if the folder cannot be written to."""
    import llvmlite.binding

    source = Path(__file__).with_name(f"{name.rpartition('.')[2]}.py")
    folder = _folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        return None
    state = source.stat()
    key = (source, state.st_mtime_ns, state.st_size, sys.version, importlib.metadata.version("numba"))
    cpu = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten())
    return folder / f"{name}-{hashlib.sha256(repr((key, cpu)).encode()).hexdigest()[:16]}.compiled"
