"""What all tests of hashers share."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Matrix products this small wait for their threads longer than they compute."""
    with threadpool_limits(1):
        yield
