"""What learning costs: the time of a loss and its gradient, and one thread for work on shared cores."""

import contextlib
import time
from collections.abc import Iterator

import torch

from lookalike.core.checks import whole_number
from lookalike.learning.losses import tie_aware_dcg

__all__ = ["gradient_seconds", "one_thread"]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within this block torch uses one thread: on cores that others use too, two are often slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def gradient_seconds(n_examples: int, n_bits: int, n_grades: int = 2, *, repeats: int = 5, seed: int = 0) -> float:
    """The shortest time of the tie-aware DCG loss of a batch with its gradient, on one thread (He et al. 2018, eq. 37).

    n_grades: how many different grades, 0 included, pairs of examples have.
    """
    for name, value in (("n_examples", n_examples), ("n_bits", n_bits), ("repeats", repeats)):
        whole_number(name, value)
    whole_number("n_grades", n_grades, 2)
    generator = torch.Generator().manual_seed(seed)
    activations = torch.randn(n_examples, n_bits, generator=generator).requires_grad_()
    affinity = torch.randint(0, n_grades, (n_examples, n_examples), generator=generator)
    affinity = torch.triu(affinity, 1)
    affinity = affinity + affinity.T
    shortest = float("inf")
    with one_thread():
        for _ in range(repeats + 1):  # the first one compiles
            activations.grad = None
            started = time.perf_counter()
            torch.autograd.backward(tie_aware_dcg(activations, affinity=affinity, alpha=1.0))
            shortest = min(shortest, time.perf_counter() - started)
    return shortest
