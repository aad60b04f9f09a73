"""Settings of all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from helpers.judges import Server

settings.register_profile("lookalike", deadline=None)  # the first call compiles, and machines are shared
settings.load_profile("lookalike")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell that began this in the background: processes that
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests stop by Ctrl-C would never hear it


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, started when the first test asks for it."""
    from helpers.judges import Server

    running = Server()
    yield running
    running.close()
