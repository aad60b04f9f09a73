"""Loads the compiled loops when they are first needed, and says so when they have to be compiled.

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
def place_kernels() -> SimpleNamespace:
    """The compiled loops that rank for pools and leaderboards."""
    return _load("lookalike.core.kernels.places")


@functools.cache
def pair_kernels() -> SimpleNamespace:
    """The compiled scores of single pairs of embeddings."""
    return _load("lookalike.core.kernels.pairs")


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
    contents: dict[str, Any] = {}
    with _loading, _noticing() as notice:  # not once for each thread
        for name in names:
            with _alone(name, notice):
                contents |= vars(importlib.import_module(name))
    return SimpleNamespace(**{name: value for name, value in contents.items() if not name.startswith("__")})


class _Notice:
    """Says once that loops are compiled, here or by a process that is waited for, if that takes a second."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._said = False

    def start(self) -> None:
        """Something is compiled from now on."""
        if self._timer is None and not self._said:
            self._timer = threading.Timer(1.0, self._say)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Nothing is compiled any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self) -> None:
        self._said = True
        logger.warning("compiling for this machine: up to half a minute the first time, later a moment to load it")


@contextlib.contextmanager
def _noticing() -> Iterator[_Notice]:
    """A notice that starts when numba begins to compile; what it reads from disk is not compiled."""
    events: Any = importlib.import_module("numba.core.event")
    notice = _Notice()

    class Listener(events.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            notice.start()

        def on_end(self, _: Any) -> None:
            pass

    with events.install_listener("numba:compile", Listener()):
        try:
            yield notice
        finally:
            notice.stop()


@contextlib.contextmanager
def _alone(name: str, notice: _Notice) -> Iterator[None]:
    """Wait while another process compiles a module for the first time on this machine.

    Numba writes to disk without a lock. Of processes that start together, such as the workers of a cluster, one could
    read the code of another signature, and each would compile everything.
    """
    done = _mark(name)
    if done is None or done.exists():
        yield
        return
    with done.with_suffix(".lock").open("w") as file:
        notice.start()
        with contextlib.suppress(OSError):  # a disk that cannot lock, or a process that holds the lock for ever
            lock(file.fileno(), 300, "")
        notice.stop()
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
