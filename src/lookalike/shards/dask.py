"""Work on a gallery in shards by the workers of a Dask cluster: a task for each shard, and a tree of sums.

Or, where queries are many and the gallery is small, a task for each thread of a worker.
"""

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from lookalike.core.errors import FileError, InputError, MissingPackageError, missing_package
from lookalike.core.files import read_json
from lookalike.core.progress import track
from lookalike.core.version import __version__
from lookalike.shards.map_reduce import Partial, ShardTask, summed

REACHED = 8.0  # seconds within which a scheduler must answer
WORKERS = 30.0  # seconds to wait for a first worker
TOGETHER = 8  # sums that become one
UNLIMITED = 1 << 32  # bytes that a worker without a limit of memory is taken to have

__all__ = ["WorkerThread", "computed", "connected", "outcomes", "worker_threads"]


class WorkerThread(NamedTuple):
    """A thread of a worker: the address of the worker, and the thread's part of its memory, in bytes."""

    worker: str
    memory: int


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a Dask scheduler. address: such as tcp://scheduler:8786, or the .json file that the scheduler wrote.

    Raises within ten seconds if there is no scheduler.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise missing_package("a cluster", "Dask", "cluster") from error
    if address.endswith(".json"):
        address = _address_in(Path(address))
    try:
        with ThreadPoolExecutor(1) as pool:  # a thread of its own, for where there is a loop already, as in notebooks
            pool.submit(asyncio.run, _greet(address)).result()
        client = Client(address, timeout=REACHED, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ConnectionError(f"there is no Dask scheduler at {address}: {_line(error)}") from error
    with _quiet(), client:
        yield client


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within this block, Dask does not log: its errors are raised as well, in one sentence."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in ("distributed", *names)}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _address_in(file: Path) -> str:
    """The address in the file that a scheduler wrote."""
    try:
        about = read_json(file.read_bytes(), file)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {file}: dask scheduler --scheduler-file writes it") from None
    if not isinstance(about, dict) or not isinstance(about.get("address"), str):
        raise FileError(f"{file} is not the file of a Dask scheduler: it does not say an address", path=file)
    return str(about["address"])


async def _greet(address: str) -> None:
    """Raise if nobody answers at an address; a client of Dask would wait for ever."""
    from distributed.comm.core import connect
    from distributed.security import Security

    options = Security().get_connection_args("client")
    connection = await asyncio.wait_for(connect(address, timeout=REACHED, **options), REACHED)
    connection.abort()


def outcomes(client: Any, task: ShardTask, what: str) -> list[Partial[Any]]:
    """The sum over all shards, for each block of queries."""
    _check_reached(client)
    blocks, numbers = range(len(task.work.blocks)), range(len(task.shards.shards))
    shared = _shared(client, task)
    firsts = [
        client.map(_outcome, numbers, block=block, task=shared, version=__version__, pure=False) for block in blocks
    ]
    lasts = [_tree(client, futures) for futures in firsts]
    steps = [future for futures in firsts for future in futures]
    del firsts  # what is held here stays in the memory of workers, long after it is part of a sum
    return _results(client, steps, lasts, shared, what)


def computed(
    client: Any, function: Callable[[Any], Any], arguments: Sequence[Any], threads: Sequence[WorkerThread], what: str
) -> list[Any]:
    """What a function gives for each argument, each computed by one of these threads, or by others if they are gone."""
    shared = _shared(client, function)
    futures = [
        client.submit(
            _value,
            argument,
            function=shared,
            version=__version__,
            pure=False,
            workers=[threads[i % len(threads)].worker],
            allow_other_workers=True,
        )
        for i, argument in enumerate(arguments)
    ]
    return _results(client, list(futures), futures, shared, what)


def worker_threads(client: Any) -> list[WorkerThread]:
    """The threads of all workers."""
    _check_reached(client)
    workers = client.scheduler_info()["workers"]
    return [
        WorkerThread(address, (workers[address]["memory_limit"] or UNLIMITED) // n)
        for address, n in client.nthreads().items()
        if address in workers
        for _ in range(n)
    ]


def _check_reached(client: Any) -> None:
    try:
        check_workers(client)
    except OSError as error:
        raise _worded(error) from error


def _shared(client: Any, task: Any) -> Any:
    """A future of a task that all others are given."""
    with warnings.catch_warnings():
        # The task is part of the graph: what is sent beside it is lost with the workers that hold it. Workers are given
        # bytes, which every version can take, and look at the version before they look into them.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return client.submit(_itself, _sent(task), pure=False)


def _results(client: Any, steps: list[Any], lasts: list[Any], shared: Any, what: str) -> list[Any]:
    """The results of the last futures, after all steps, which are let go one by one."""
    from distributed.protocol.serialize import deserialize_bytes

    n_steps = len(steps)
    finished = _finished(client, steps)
    try:
        for _ in track(finished, n_steps, what):
            pass
        return [deserialize_bytes(total) for total in client.gather(lasts)]
    except BaseException as error:
        finished.close()
        for future in (*lasts, shared):  # then nobody wants the rest, and it is not begun
            future.release()
        raise _worded(error) from error


def check_workers(client: Any) -> None:
    """Raise if there is no worker, or if one has another version of this package."""
    with contextlib.suppress(TimeoutError):
        client.wait_for_workers(1, timeout=WORKERS)
    if not client.nthreads():  # ask the scheduler: a client forgets workers now and then
        raise ConnectionError(f"the scheduler at {_address(client)} has no workers, and none came in {WORKERS:.0f} s")
    import importlib.metadata

    versions = client.run(importlib.metadata.version, "lookalike", on_error="return")
    for worker, version in versions.items():
        if isinstance(version, Exception):
            text = f"worker {worker} has no lookalike: install lookalike {__version__} there"
            raise MissingPackageError(text, package="lookalike")
        if version != importlib.metadata.version("lookalike"):
            raise InputError(f"worker {worker} has lookalike {version}, here it is {__version__}: install the same")


def _tree(client: Any, futures: list[Any]) -> Any:
    """The sum of the results of futures, a few at a time."""
    while len(futures) > 1:
        groups = [futures[start : start + TOGETHER] for start in range(0, len(futures), TOGETHER)]
        futures = client.map(_summed, groups, version=__version__, pure=False)
    return futures[0]


def _finished(client: Any, futures: list[Any]) -> Generator[None, None, None]:
    """A step for each future that is done and released; raises the error of the first that failed."""
    from distributed import as_completed

    waiting = as_completed(futures, loop=client.loop)
    futures.clear()
    try:
        for future in waiting:
            if future.status in ("error", "cancelled"):
                future.result()
            del future
            yield
    finally:
        for future in list(waiting.futures):  # which it would hold until they are done
            future.release()


def _itself(task: bytes) -> bytes:
    return task


def _outcome(number: int, block: int, task: bytes, version: str) -> Any:
    """On a worker: the outcome of one shard."""
    return _sent(_received(task, version).outcome(number, block))


def _value(argument: Any, function: bytes, version: str) -> Any:
    """On a worker: what a function gives for an argument."""
    return _sent(_received(function, version)(argument))


def _summed(partials: list[bytes], version: str) -> Any:
    """On a worker: the sum of the outcomes of some shards."""
    return _sent(summed([_received(partial, version) for partial in partials]))


def _received(content: bytes, version: str) -> Any:
    from distributed.protocol.serialize import deserialize_bytes

    if version != __version__:
        raise InputError(f"this worker has lookalike {__version__}, the one who asks has {version}: install the same")
    return deserialize_bytes(content)


def _sent(value: Any) -> Any:
    from distributed.protocol.serialize import serialize_bytes

    return serialize_bytes(value)


def _worded(error: BaseException) -> BaseException:
    """An error of the cluster as a sentence; errors about shards stay as they are."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    if isinstance(error, KilledWorker):
        return ChildProcessError(
            f"workers died again and again at the same shard ({_line(error)}): they may have too little memory, or be "
            "killed by others; start again, and with partials it goes on"
        )
    if isinstance(error, CommClosedError) or "scheduler-connection-lost" in str(error):
        return ConnectionError("the scheduler went away: start it and this again, and with partials it goes on")
    if isinstance(error, CancelledError):
        return ConnectionError(f"the work was cancelled, or the scheduler went away: {_line(error)}")
    if isinstance(error, ModuleNotFoundError) and "lookalike" in str(error):
        text = f"a worker has no lookalike: install lookalike {__version__} there"
        return MissingPackageError(text, package="lookalike")
    return error


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "") or client)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
