"""Work on a gallery in shards by the workers of a Dask cluster: each shard a task, and a tree of sums."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lookalike._version import __version__
from lookalike.gathering import Partial, Task, summed
from lookalike.progress import track

REACHED = 8.0  # seconds within which a scheduler must answer
WORKERS = 30.0  # seconds to wait for a first worker
TOGETHER = 8  # sums that become one

__all__ = ["connected", "outcomes"]


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address, such as tcp://scheduler:8786, or whose file, .json, says where it is.

    Raises within ten seconds where there is none.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('a cluster needs Dask: pip install "lookalike[cluster]"') from error
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    if "scheduler_file" in where and not Path(address).is_file():
        raise FileNotFoundError(f"there is no file {address}: dask scheduler --scheduler-file writes it")
    try:
        client = Client(**where, timeout=REACHED, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConnectionError(f"there is no Dask scheduler at {address}: {_line(error)}") from error
    with client:
        yield client


def outcomes(client: Any, task: Task, what: str) -> list[Partial[Any]]:
    """What all shards give, for each block of queries, in one sum each."""
    from distributed.protocol.serialize import deserialize_bytes, serialize_bytes

    check_workers(client)
    blocks, numbers = range(len(task.work.blocks)), range(len(task.shards.shards))
    with warnings.catch_warnings():
        # The task is part of the graph: what is sent beside it is lost with the workers that hold it. Workers are given
        # bytes, which every version can take, and look at the version before they look into them.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        shared = client.submit(_itself, serialize_bytes(task), pure=False)
    firsts = [
        client.map(_outcome, numbers, block=block, task=shared, version=__version__, pure=False) for block in blocks
    ]
    lasts = [_tree(client, futures) for futures in firsts]
    every = [future for futures in firsts for future in futures]
    try:
        for _ in track(_finished(client, every), len(every), what):
            pass
        return [deserialize_bytes(total) for total in client.gather(lasts)]
    except BaseException as error:
        client.cancel([*every, *lasts, shared], force=True)
        raise _worded(error) from error


def check_workers(client: Any) -> None:
    """Raise where there is no worker, or one that has not the same version of this package."""
    with contextlib.suppress(TimeoutError):
        client.wait_for_workers(1, timeout=WORKERS)
    if not client.scheduler_info(n_workers=-1)["workers"]:
        raise ConnectionError(f"the scheduler at {_address(client)} has no workers, and none came in {WORKERS:.0f} s")
    import importlib.metadata

    found = client.run(importlib.metadata.version, "lookalike", on_error="return")
    for worker, version in found.items():
        if isinstance(version, Exception):
            raise ModuleNotFoundError(f"worker {worker} has no lookalike: install lookalike {__version__} there")
        if version != importlib.metadata.version("lookalike"):
            raise ValueError(f"worker {worker} has lookalike {version}, here it is {__version__}: install the same")


def _tree(client: Any, futures: list[Any]) -> Any:
    """The sum of what futures give, of a few at a time."""
    while len(futures) > 1:
        groups = [futures[start : start + TOGETHER] for start in range(0, len(futures), TOGETHER)]
        futures = client.map(_summed, groups, version=__version__, pure=False)
    return futures[0]


def _finished(client: Any, futures: list[Any]) -> Iterator[Any]:
    """Futures as they are done; raises the error of the first that failed."""
    from distributed import as_completed

    for future in as_completed(futures, loop=client.loop):  # type: ignore[no-untyped-call]
        if future.status in ("error", "cancelled"):
            future.result()
        yield future


def _itself(task: bytes) -> bytes:
    return task


def _outcome(number: int, block: int, task: bytes, version: str) -> Any:
    """On a worker: what one shard gives."""
    return _sent(_received(task, version).outcome(number, block))


def _summed(partials: list[bytes], version: str) -> Any:
    """On a worker: the sum of what some shards gave."""
    return _sent(summed([_received(partial, version) for partial in partials]))


def _received(content: bytes, version: str) -> Any:
    from distributed.protocol.serialize import deserialize_bytes

    if version != __version__:
        raise ValueError(f"this worker has lookalike {__version__}, the one who asks has {version}: install the same")
    return deserialize_bytes(content)


def _sent(value: Any) -> Any:
    from distributed.protocol.serialize import serialize_bytes

    return serialize_bytes(value)


def _worded(error: BaseException) -> BaseException:
    """An error of the cluster in words; those of shards have their own."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return ChildProcessError(
            f"workers died again and again at the same shard ({_line(error)}): they may have too little memory"
        )
    if isinstance(error, CancelledError):
        return ConnectionError(f"the work was cancelled, or the scheduler went away: {_line(error)}")
    if isinstance(error, ModuleNotFoundError) and "lookalike" in str(error):
        return ModuleNotFoundError(f"a worker has no lookalike: install lookalike {__version__} there")
    return error


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "") or client)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
