"""The cost of a gradient is a time, and one thread is given back."""

import pytest
import torch

from lookalike.core.errors import InputError
from lookalike.learning.cost import gradient_seconds, one_thread


def test_a_larger_batch_takes_longer() -> None:
    small, large = gradient_seconds(32, 16, repeats=3), gradient_seconds(1024, 64, 4, repeats=3)
    assert 0 < small < large
    with pytest.raises(InputError, match="n_grades must be a whole number from 2"):
        gradient_seconds(8, 8, 1)


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    with pytest.raises(RuntimeError), one_thread():
        raise RuntimeError
    assert torch.get_num_threads() == before
