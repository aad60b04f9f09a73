"""Records of votes: few pairs and experts that collide, and experts who tell the truth as often as they are said to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import strategies as st

from lookalike.discovery.judgements import Judgements
from lookalike.discovery.votes import Votes
from reference import votes as slow

START = datetime(2024, 5, 1, 12, tzinfo=UTC)

single_votes = st.tuples(
    st.sampled_from("pq"),
    st.sampled_from("abc"),
    st.sampled_from(["ann", "bob", "eve"]),
    st.sampled_from([1, 0, -1]),
    st.one_of(st.none(), st.integers(0, 2)),
)
records = st.lists(single_votes, max_size=40)


def votes_of(rows: list[slow.Vote]) -> Votes:
    queries, items, experts, answers, times = zip(*rows, strict=True) if rows else ([],) * 5
    moments = [None if time is None else START + timedelta(seconds=time) for time in times]
    return Votes(queries, items, experts, answers, moments)


def simulated(
    seed: int, n_pairs: int, sensitivity: list[float], specificity: list[float], prevalence: float
) -> tuple[np.ndarray, Votes]:
    """Which pairs are similar, and the votes of experts who tell so well; items are numbered."""
    generator = np.random.default_rng(seed)
    similar = generator.random(n_pairs) < prevalence
    rates = np.where(similar[:, None], sensitivity, 1 - np.array(specificity))
    answers = generator.random(rates.shape) < rates
    pair, expert = np.indices(answers.shape).reshape(2, -1)
    return similar, Votes(["q"] * answers.size, pair, [f"e{i}" for i in expert], answers.ravel())


def accuracy(judgements: Judgements, similar: np.ndarray) -> float:
    return float((judgements.grades == similar[judgements.items.astype(int)]).mean())
