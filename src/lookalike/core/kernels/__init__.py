"""Loads the compiled loops when they are first needed, and says so when that takes long."""

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
from types import ModuleType

from lookalike.core.locks import lock

logger = logging.getLogger("lookalike")


@functools.cache
def kernels() -> ModuleType:
    """The module of compiled loops; numba compiles them once for a machine and keeps them on disk.

    >>> kernels().popcount.__name__
    'popcount'
    """
    return _load("lookalike.core.kernels.scan")


@functools.cache
def product_kernel() -> ModuleType:
    """The module of the compiled matrix product."""
    return _load("lookalike.core.kernels.product")


@functools.cache
def bend_kernels() -> ModuleType:
    """The module of the compiled ends of projections."""
    return _load("lookalike.core.kernels.hashing")


@functools.cache
def soft_kernels() -> ModuleType:
    """The module of the compiled loops of the ranking losses."""
    return _load("lookalike.core.kernels.losses")


_loading = threading.Lock()


def _load(name: str) -> ModuleType:
    importlib.import_module("numba")  # first, so that the timer sees compiling alone
    message = "compiling for this machine: up to half a minute the first time, later a moment to load it"
    notice = threading.Timer(1.0, logger.warning, [message])
    notice.daemon = True
    with _loading:  # not once for each thread
        notice.start()
        try:
            with _alone(name):
                return importlib.import_module(name)
        finally:
            notice.cancel()


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait while another process compiles a module for the first time on this machine.

    Numba writes what it keeps without a lock: of processes that begin together, such as the workers of a cluster, one
    could be given the code of another signature; and each would compile everything.
    """
    done = _mark(name)
    if done is None or done.exists():
        yield
        return
    with done.with_suffix(".lock").open("w") as held:
        with contextlib.suppress(OSError):  # a disk that cannot lock, or one who holds it for ever
            lock(held.fileno(), 300, "")
        yield
        done.touch()


def _folder() -> Path:
    """Where compiled loops are kept."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")


def folder_of(error: BaseException) -> Path | None:
    """Where compiled loops are kept, if this is an error of keeping them; numba names no file."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_globals.get("__name__") == "numba.core.caching":
            return _folder()
        frame = frame.tb_next
    return None


def _mark(name: str) -> Path | None:
    """A file that says that a module was compiled here; None where there is no place for it beside the code."""
    import llvmlite.binding

    source = Path(__file__).with_name(f"{name.rpartition('.')[2]}.py")
    folder = _folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        return None
    about = source.stat()
    key = (source, about.st_mtime_ns, about.st_size, sys.version, importlib.metadata.version("numba"))
    cpu = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten())
    return folder / f"{name}-{hashlib.sha256(repr((key, cpu)).encode()).hexdigest()[:16]}.compiled"
