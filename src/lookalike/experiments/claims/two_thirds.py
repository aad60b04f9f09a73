"""Claim: classes that lie apart leave a third of all codes unused."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

GROUP = "Largest share of codes in use"

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """The largest use of all codes under the premise: of all arrangements for few bits, of edges alone for more."""
    for n_bits in run.settings["exhaustive"]:
        yield MeasuredNumber(f"{n_bits} bits, all arrangements", _largest(n_bits), printed=2 / 3, group=GROUP)
    for n_bits in run.settings["edges"]:
        yield MeasuredNumber(f"{n_bits} bits, classes of two codes", _edges_apart(n_bits), printed=2 / 3, group=GROUP)
        yield MeasuredNumber(f"{n_bits} bits, most that classes of two codes can", n_bits / (2 * n_bits - 1))


def judge(numbers: Numbers) -> list[Check]:
    """At most two thirds; and how much of that can be reached."""
    exhaustive = numbers.ending("all arrangements")
    values = [number.value for number in [*exhaustive, *numbers.ending(", classes of two codes")]]
    return [
        Check("no arrangement of two classes or more uses over two thirds", all(v <= 2 / 3 + 1e-9 for v in values)),
        Check("some arrangement can be made from three bits on", any(number.value > 0 for number in exhaustive)),
    ]


def _distances(n_bits: int) -> np.ndarray:
    codes = np.arange(2**n_bits)
    return np.bitwise_count(codes[:, None] ^ codes[None, :]).astype(int)


def _largest(n_bits: int) -> float:
    """The largest use of all ways to put two classes or more on codes, each wider than a point and lying apart."""
    apart = _distances(n_bits)
    # A class of diameter h has two codes that differ in h bits. A code that is h + 1 from both needs 2h + 2 <= 2b - h.
    widest = (2 * n_bits - 2) // 3
    classes = [codes for codes in _narrow(apart, widest) if len(codes) > 1]
    if not classes:
        return 0.0
    members = np.zeros((len(classes), 2**n_bits), bool)
    for number, codes in enumerate(classes):
        members[number, codes] = True
    widths = np.array([apart[np.ix_(codes, codes)].max() for codes in classes])
    nearest = np.stack([apart[codes].min(0) for codes in classes])  # of each code to each class
    between = np.stack([np.where(members, row, n_bits + 1).min(1) for row in nearest])
    together = between > np.maximum(widths[:, None], widths[None, :])
    return _heaviest(together, members.sum(1)) / 2**n_bits


def _narrow(apart: np.ndarray, widest: int) -> Iterator[list[int]]:
    """All sets of codes of at most this diameter."""
    chosen: list[int] = []

    def extend(start: int) -> Iterator[list[int]]:
        yield list(chosen)
        for code in range(start, len(apart)):
            if all(apart[code, other] <= widest for other in chosen):
                chosen.append(code)
                yield from extend(code + 1)
                chosen.pop()

    return extend(0)


def _heaviest(together: np.ndarray, sizes: np.ndarray) -> int:
    """The largest total size of two classes or more that can all be together."""
    best = 0
    order = np.argsort(-sizes)
    together, sizes = together[np.ix_(order, order)], sizes[order]

    def grow(total: int, number: int, left: np.ndarray) -> None:
        nonlocal best
        if number >= 2:
            best = max(best, total)
        for position, candidate in enumerate(left):
            if total + sizes[left[position:]].sum() <= best:
                return
            rest = left[position + 1 :]
            grow(total + int(sizes[candidate]), number + 1, rest[together[candidate, rest]])

    grow(0, 0, np.arange(len(sizes)))
    return best


def _edges_apart(n_bits: int) -> float:
    """The largest use by classes of two neighbouring codes, any two classes at least two bits apart."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    edges = [(code, code | 1 << bit) for code in range(2**n_bits) for bit in range(n_bits) if not code >> bit & 1]
    place = {edge: number for number, edge in enumerate(edges)}
    rows = np.zeros((len(edges), len(edges)))
    for number, ends in enumerate(edges):  # all edges that touch one edge exclude each other
        for code, bit in itertools.product(ends, range(n_bits)):
            other = code ^ 1 << bit
            rows[number, place[min(code, other), max(code, other)]] = 1
    found = milp(
        -np.ones(len(edges)), constraints=LinearConstraint(rows, ub=1), integrality=np.ones(len(edges)),
        bounds=Bounds(0, 1), options={"time_limit": 20},
    )  # fmt: skip
    return 0.0 if found.x is None else 2 * float(np.rint(found.x).sum()) / 2**n_bits


CLAIM = PaperClaim(
    name="two-thirds",
    title="Classes that lie apart use two thirds of all codes at most",
    paper="Ding et al. 2018",
    place="proposition 1",
    says="A perfect global mAP implies that at most 2/3 of the code space is used; the bound is not the least one.",
    protocol=(
        "Every arrangement of two classes or more, each of diameter 1 or more and smaller than its distance to the "
        "next, for few bits; for more bits the best one of classes that have two neighbouring codes, which use at "
        "most b/(2b − 1): each code next to such a class has at most b neighbours."
    ),
    data="all codes of b bits",
    criterion="No arrangement passes 2/3, and at least one exists.",
    settings={
        "quick": {"exhaustive": [2, 3, 4], "edges": [3, 4, 5], "seeds": []},
        "full": {"exhaustive": [2, 3, 4], "edges": [3, 4, 5, 6], "seeds": []},
    },
    measure=measure,
    judge=judge,
)
