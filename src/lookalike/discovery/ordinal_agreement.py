"""Agreement on a scale: answers that lie further apart disagree more."""

from typing import Any

import numpy as np

from lookalike.core.errors import InputError

__all__ = ["as_counts", "gwet_ac2", "ordinal_alpha", "weighted_kappa"]


def as_counts(counts: Any) -> np.ndarray:
    """Counts as a matrix of floats; raises where they are none."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "biuf":
        raise InputError(f"counts must be a matrix of numbers with two answers or more, got shape {array.shape}")
    if (array < 0).any() or (array != np.floor(array)).any():
        raise InputError("counts must be whole numbers from 0")
    return array.astype(float)


def ordinal_alpha(counts: Any) -> float:
    """Krippendorff's alpha for ordered answers: 1 is perfect agreement, 0 what chance gives (Krippendorff 2011).

    Two answers are as far apart as there are answers between them, each of the two counted half. counts: (n_pairs,
    n_steps), how many experts gave each grade; pairs with fewer than two answers say nothing. nan where no pair has
    two, or where all answers are the same. Of two steps it is the alpha for unordered answers.

    >>> round(ordinal_alpha([[2, 0, 0], [0, 1, 1], [0, 0, 2]]), 4)     # 1 - 2·4 / (2·(2·9/4 + 6·49/4 + 3·4) / 5)
    0.7778
    """
    table = as_counts(counts)
    table = table[table.sum(1) > 1]
    per_pair, per_grade = table.sum(1), table.sum(0)
    below = per_grade.cumsum() - per_grade / 2  # answers below, and half of those at the grade
    apart = (below[:, None] - below[None, :]) ** 2
    both = (table / (per_pair - 1)[:, None]).T @ table - np.diag((table / (per_pair - 1)[:, None]).sum(0))
    expected = (np.outer(per_grade, per_grade) * apart).sum() / max(per_grade.sum() - 1, 1)
    return float(1 - (both * apart).sum() / expected) if expected > 0 else float("nan")


def gwet_ac2(counts: Any) -> float:
    """Gwet's AC2 with quadratic weights: agreement beyond chance that skewed answers do not spoil (Gwet 2014).

    Two grades agree by 1 - (difference / largest difference)². counts: (n_pairs, n_steps), how many experts gave each
    grade. Pairs with two answers or more say how far experts agree, all pairs how common a grade is. nan where no pair
    has two. Of two steps it is AC1.

    >>> round(gwet_ac2([[2, 0, 0], [0, 1, 1], [0, 0, 2]]), 4)      # (11/12 - 11/18) / (1 - 11/18)
    0.7857
    """
    table = as_counts(counts)
    table = table[table.sum(1) > 0]
    n, n_steps = table.sum(1), table.shape[1]
    several = n > 1
    if not several.any():
        return float("nan")
    weights = 1 - _squares(n_steps) / (n_steps - 1) ** 2
    agreeing = (table * (table @ weights - 1)).sum(1)[several] / (n * (n - 1))[several]
    common = (table / n[:, None]).mean(0)
    chance = weights.sum() * (common * (1 - common)).sum() / (n_steps * (n_steps - 1))
    return float((agreeing.mean() - chance) / (1 - chance))


def weighted_kappa(table: Any) -> float:
    """Cohen's kappa of two experts with quadratic weights: grades that are twice as far apart count four times.

    table: (n_steps, n_steps), how many pairs the first gave the grade of the row, the second that of the column
    (Cohen 1968). nan where there is no pair, or where both gave one grade alone. Of two steps it is Cohen's kappa.

    >>> round(weighted_kappa([[1, 0, 0], [0, 0, 1], [0, 0, 1]]), 4)        # 1 - 3·1 / 15
    0.8
    """
    counts = as_counts(table)
    if counts.shape[0] != counts.shape[1]:
        raise InputError(f"a table of two experts has as many rows as columns, got shape {counts.shape}")
    squares = _squares(len(counts))
    expected = (np.outer(counts.sum(1), counts.sum(0)) * squares).sum()
    return float(1 - counts.sum() * (counts * squares).sum() / expected) if expected > 0 else float("nan")


def _squares(n_steps: int) -> np.ndarray:
    """The square of the difference of every two grades."""
    grades = np.arange(n_steps)
    return np.asarray((grades[:, None] - grades[None, :]) ** 2, float)
