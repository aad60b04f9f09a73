"""The demo: what ties and denominators do to a number, on the handwritten digits that come with scikit-learn."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.codes import Codes
from lookalike.evaluation import evaluate
from lookalike.relevance import same_label

LENGTHS = (4, 8, 12, 16, 24, 32, 48, 64)
DENOMINATORS = ("retrieved", "min", "total")
N_QUERIES = 297

__all__ = ["Demo", "argsort_map", "run_demo"]


@dataclass(frozen=True)
class Demo:
    """A row for each code length, and how long the evaluations took together."""

    rows: list[dict[str, Any]]
    seconds: float
    n_queries: int
    n_items: int


def run_demo(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> Demo:
    """Evaluate signs of random projections of the digits, and ask an argsort for the same numbers."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(images))
    images, labels = images[order] - images.mean(0), labels[order]
    query_labels, gallery_labels = labels[:N_QUERIES], labels[N_QUERIES:]
    projections = generator.standard_normal((images.shape[1], max(lengths)))
    relevance = same_label(query_labels, gallery_labels)
    by_class = np.argsort(gallery_labels, kind="stable")  # as folders and archives of images store them
    metrics = ["AP", *(f"AP(norm={norm!r})@100" for norm in DENOMINATORS)]
    codes = {n_bits: Codes.pack(images @ projections[:, :n_bits] > 0) for n_bits in lengths}
    evaluate(codes[lengths[0]][:1], codes[lengths[0]][:1], same_label([0], [0]), metrics)  # compiled before the clock
    rows, seconds = [], 0.0
    for n_bits, all_codes in codes.items():
        queries, gallery = all_codes[:N_QUERIES], all_codes[N_QUERIES:]
        started = time.perf_counter()
        result = evaluate(queries, gallery, relevance, metrics)
        seconds += time.perf_counter() - started
        ap = result["AP"]
        rows.append(
            {
                "bits": n_bits,
                "expected": ap.mean,
                "best": ap.best,
                "worst": ap.worst,
                "argsort": argsort_map(queries, gallery, query_labels, gallery_labels),
                "argsort_by_class": argsort_map(queries, gallery[by_class], query_labels, gallery_labels[by_class]),
                **{f"at_100_{norm}": result[f"AP(norm={norm!r})@100"].mean for norm in DENOMINATORS},
            }
        )
    return Demo(rows, seconds, N_QUERIES, len(gallery_labels))


def argsort_map(queries: Codes, gallery: Codes, query_labels: np.ndarray, gallery_labels: np.ndarray) -> float:
    """Mean average precision as scripts compute it: argsort the distances, and let ties fall as they will."""
    q, g = (2.0 * codes.unpack() - 1 for codes in (queries, gallery))
    values = []
    for code, label in zip(q, query_labels, strict=True):
        order = np.argsort(0.5 * (queries.n_bits - g @ code), kind="stable")
        relevant = gallery_labels[order] == label
        ranks = np.flatnonzero(relevant) + 1
        values.append(float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0)
    return float(np.mean(values))
