"""Groups of items by a few rounds of k-means, in blocks."""

import numpy as np

from lookalike.core.progress import track
from lookalike.hashers.projection import centred_blocks

__all__ = ["group_items"]


def group_items(
    X: np.ndarray, mean: np.ndarray, n_groups: int, n_rounds: int, random: np.random.RandomState, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Centres of groups around the mean, (n_groups, n_features), and the share of items in each: k-means."""
    chosen = random.choice(len(X), n_groups, replace=False)
    centres = np.concatenate(list(centred_blocks(X, mean, np.float64, chosen)))
    sizes = np.zeros(n_groups)
    for _ in track(range(n_rounds), n_rounds, f"grouping ({name})"):
        totals, sizes = np.zeros_like(centres), np.zeros(n_groups)
        towards, squares = centres.T.astype(np.float32), (centres**2).sum(1).astype(np.float32)
        for block in centred_blocks(X, mean):
            nearest = np.argmin(squares - 2 * (block @ towards), axis=1)
            member = np.zeros((n_groups, len(block)), np.float32)
            member[nearest, np.arange(len(block))] = 1
            totals += member @ block
            sizes += member.sum(1)
        full = sizes > 0  # a group that lost all its items stays where it was
        centres[full] = totals[full] / sizes[full, None]
    return centres, sizes / len(X)
