"""One thread that writes for all: what waits at the same time is done together, in one transaction."""

import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from lookalike.core.retry import retry
from lookalike.judging.store.types import StoreAwayError, StoreFullError

MOST = 256  # operations of one transaction
GAP = 0.02  # seconds from one transaction of several operations to the next: a crowd is served together

__all__ = ["Operation", "Writer"]


@dataclass(eq=False)
class Operation:
    """Something to do within a transaction. clients: ids of the answers in it, which are looked up beforehand."""

    run: Callable[[Any], Any]
    clients: Sequence[str] = ()
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Runs operations, many in one transaction, and answers each when that is on disk.

    attempt: does all of some operations in one transaction and returns what each gives, or an error for it alone, or
    raises, and then nothing was done. recover: forgets everything that may differ from the database. patience: seconds
    for which a database that has gone away is tried again.
    """

    def __init__(
        self, attempt: Callable[[list[Operation]], list[Any]], recover: Callable[[], None], patience: float
    ) -> None:
        self._attempt, self._recover, self._patience = attempt, recover, patience
        self._waiting: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self.away = False  # whether the database was given up on last time: then one attempt must do
        self._closed = False
        self._gate = threading.Lock()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name="lookalike-writer", daemon=True)
        self._thread.start()

    def do(self, run: Callable[[Any], Any], clients: Sequence[str] = ()) -> Any:
        """Have something done and wait for it."""
        return self.ask(run, clients).result()

    def ask(self, run: Callable[[Any], Any], clients: Sequence[str] = ()) -> Future[Any]:
        """Have something done, some time soon."""
        if os.getpid() != self._process:
            raise RuntimeError("this store was opened by another process, before it forked: open one in each process")
        operation = Operation(run, clients)
        with self._gate:
            if self._closed:
                raise RuntimeError("this store is closed: open it again")
            self._waiting.put(operation)
        return operation.done

    def close(self) -> None:
        """Do what is waiting, and end."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        if os.getpid() == self._process:
            self._thread.join()

    def _work(self) -> None:
        ending, next_crowd = False, -math.inf
        while not ending:
            batch = [self._waiting.get()]
            time.sleep(max(0.0, next_crowd - time.monotonic()))
            begun = time.monotonic()
            while len(batch) < MOST and not self._waiting.empty():
                batch.append(self._waiting.get())
            next_crowd = begun + GAP if len(batch) > 1 else -math.inf  # who comes alone is served at once
            ending = None in batch
            # one that nobody waits for any more is not done; one that is begun cannot be called back
            operations = [
                operation for operation in batch if operation and operation.done.set_running_or_notify_cancel()
            ]
            try:
                if operations:
                    self._do_all(operations)
            except Exception as error:  # nobody is left waiting, whatever happens
                for operation in operations:
                    if not operation.done.done():
                        operation.done.set_exception(error)

    def _do_all(self, operations: list[Operation], *, again: bool = True) -> None:
        try:
            outcomes = self._attempt_in_time(operations)
        except (StoreAwayError, StoreFullError) as error:
            outcomes = [error] * len(operations)
        except Exception as error:
            if again:  # alone, so that the others do not suffer from one that cannot be done
                for operation in operations:
                    self._do_all([operation], again=False)
                return
            outcomes = [error]
        for operation, outcome in zip(operations, outcomes, strict=True):
            if isinstance(outcome, Exception):
                operation.done.set_exception(outcome)
            else:
                operation.done.set_result(outcome)

    def _attempt_in_time(self, operations: list[Operation]) -> list[Any]:
        """The outcomes of operations; a database that is away is tried again, as long as there is patience."""
        deadline = time.monotonic() + (0 if self.away else self._patience)

        def attempt() -> list[Any]:
            try:
                return self._attempt(operations)
            except BaseException:
                self._recover()
                raise

        def check(error: StoreAwayError, _: int, pause: float) -> None:
            self.away = time.monotonic() + pause > deadline
            if self.away:
                raise error

        outcomes = retry(attempt, StoreAwayError, check, first=0.02, longest=1.0)
        self.away = False
        return outcomes
