"""Loads the compiled loops when they are first needed, and says so when they have to be compiled.

Only this module imports the files beside it that need numba, which is slow to load. Importing them compiles nothing:
each loop is compiled, or read from disk, alone, when it is first called. As long as a process has little to do, `plain`
and `plain_product` do it in numpy, to the same bits.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lookalike.core.kernels import plain, plain_product
from lookalike.core.locks import lock

logger = logging.getLogger("lookalike")


SMALL = 1 << 24  # steps that numpy takes in about the time in which numba is loaded


def kernels(steps: float = math.inf) -> Any:
    """The loops of counting and of the metrics: their twins in numpy as long as a process has few steps to do.

    Both give the same bits. Numba compiles each loop once for a machine and keeps it on disk.

    >>> kernels().popcount.__name__
    'popcount'
    """
    if is_little(steps):
        return plain
    return _compiled(
        "lookalike.core.kernels.scan",
        "lookalike.core.kernels.tables",
        "lookalike.core.kernels.scores",
        "lookalike.core.kernels.buckets",
        "lookalike.core.kernels.metric_sums",
        "lookalike.core.kernels.tie_orders",
    )


def plane_kernels() -> SimpleNamespace:
    """The scan of codes as bit planes."""
    return _compiled("lookalike.core.kernels.bit_planes")


def product_kernel(steps: float = math.inf, *rows: np.ndarray) -> Any:
    """The matrix product of these rows, and the loops that give rows of one direction the same form; see `kernels`."""
    if is_little(steps) and all(map(plain_product.fits, rows)):
        return plain_product
    return _compiled("lookalike.core.kernels.product", "lookalike.core.kernels.directions")


_steps = 0.0  # that this process took without numba


def is_little(steps: float) -> bool:
    """Whether numpy should do so many steps, of some 10 ns each: not if compiled loops are in use, nor after many."""
    global _steps
    if _compiled.cache_info().currsize or _steps + steps > SMALL:
        return False
    _steps += steps
    return True


def place_kernels() -> SimpleNamespace:
    """The loops that rank for pools and leaderboards."""
    return _compiled("lookalike.core.kernels.places")


def pair_kernels() -> SimpleNamespace:
    """The scores of single pairs of embeddings."""
    return _compiled("lookalike.core.kernels.pairs")


def bend_kernels() -> SimpleNamespace:
    """The last steps of hashers."""
    return _compiled("lookalike.core.kernels.hashing")


def search_kernels() -> SimpleNamespace:
    """The line search of a hasher that is learned weight by weight."""
    return _compiled("lookalike.core.kernels.line_search")


def prepare_hashing() -> None:
    """Compile what hashers need, before a clock starts."""
    product, bends = product_kernel(), bend_kernels()
    product.pack.prepare(np.dtype(np.float32))
    for loop in (product.row_product, bends._cosines, bends._insides, bends._gaussians, bends._nearest_gaussians):
        loop.prepare()


def soft_kernels() -> SimpleNamespace:
    """The loops of the ranking losses."""
    return _compiled("lookalike.core.kernels.losses")


@functools.cache
def _compiled(*names: str) -> SimpleNamespace:
    """What these modules define, in one namespace."""
    contents: dict[str, Any] = {}
    for name in names:
        contents |= vars(importlib.import_module(name))
    return SimpleNamespace(**{name: value for name, value in contents.items() if not name.startswith("__")})


class _Notice:
    """Says once that loops are compiled, here or by a process that is waited for, if that takes a second in all."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._started = 0.0
        self._left = 1.0

    def start(self) -> None:
        """Something is compiled from now on."""
        if self._timer is None and self._left > 0:
            self._started = time.monotonic()
            self._timer = threading.Timer(self._left, self._say)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Nothing is compiled for now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= time.monotonic() - self._started

    def _say(self) -> None:
        self._left = 0
        logger.warning("compiling for this machine: a few seconds the first time, later a moment to load it")


_notice = _Notice()
_loading = threading.Lock()


@contextlib.contextmanager
def compiling(module: str, name: str, signature: str) -> Iterator[None]:
    """Within this block one thread of one process compiles a loop for a signature, or reads it from disk.

    The notice starts when numba begins to compile; what it reads from disk is not compiled.
    """
    events: Any = importlib.import_module("numba.core.event")

    class Listener(events.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            _notice.start()

        def on_end(self, _: Any) -> None:
            pass

    with _loading, events.install_listener("numba:compile", Listener()):
        try:
            with _alone(module, name, signature):
                yield
        finally:
            _notice.stop()


@contextlib.contextmanager
def _alone(module: str, name: str, signature: str) -> Iterator[None]:
    """Wait while another process compiles the same loop.

    Numba writes to disk without a lock. Of processes that start together, such as the workers of a cluster, one could
    read the code of another signature, and each would compile everything.
    """
    folder = _folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        yield
        return
    state = _state_of(module)
    done = folder / f"{module}.{name}-{_short((state, signature))}.compiled"  # marks what is on disk
    if done.exists():
        yield
        return
    with (folder / f"{module}.{name}-{_short(state)}.lock").open("w") as file:  # its signatures share an index
        _notice.start()
        with contextlib.suppress(OSError):  # a disk that cannot lock, or a process that holds the lock for ever
            lock(file.fileno(), 300, "")
        _notice.stop()
        yield
        done.touch()


@functools.cache
def _state_of(module: str) -> tuple[Any, ...]:
    """What the code compiled from a module depends on: its text, Python, numba and the processor."""
    import llvmlite.binding

    source = Path(__file__).with_name(f"{module.rpartition('.')[2]}.py")
    state = source.stat()
    cpu = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten())
    return source, state.st_mtime_ns, state.st_size, sys.version, importlib.metadata.version("numba"), cpu


def _short(facts: Any) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


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
