"""Bootstrap: intervals of means, from what resampled queries would have given."""

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError

__all__ = ["bootstrap_interval", "bootstrap_intervals"]


def bootstrap_interval(
    values: np.ndarray, level: float, random_state: int, resamples: int, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """Percentile interval of the mean of values under resampling; nan is left out.

    weights: of a weighted mean; then all values are resampled with their weights, also those of weight 0.

    >>> low, high = bootstrap_interval(np.array([0.0, 1.0, 1.0, np.nan]), 0.95, 0, 1000)
    >>> low, high
    (0.0, 1.0)
    """
    _check(level, resamples)
    if weights is None:
        values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    generator = np.random.default_rng(random_state)
    step = max(1, 10_000_000 // len(values))
    means = []
    for done in range(0, resamples, step):
        rows = generator.integers(len(values), size=(min(step, resamples - done), len(values)))
        if weights is None:
            means.append(values[rows].mean(1))
        else:
            sums, weight = np.where(weights > 0, values * weights, 0)[rows].sum(1), weights[rows].sum(1)
            means.append(sums[weight > 0] / weight[weight > 0])
    return _ends(np.concatenate(means), level)


def bootstrap_intervals(
    columns: np.ndarray, level: float, random_state: int, resamples: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Percentile intervals of the means of all columns at once, (columns, 2); nan is left out.

    A resample has the same rows for every column, so that intervals of models can be compared.
    columns: (n_queries, n_columns); weights: the same, of weighted means.
    """
    _check(level, resamples)
    defined = ~np.isnan(columns) if weights is None else np.where(np.isnan(columns), 0, weights)
    n = len(columns)
    filled = np.where(np.isnan(columns), 0, columns) * defined
    times = np.random.default_rng(random_state).multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    # a column at a time: in a product of matrices, the last bits of one depend on how many there are
    sums, counts = (np.stack([times @ column for column in part.T.astype(float)], axis=1) for part in (filled, defined))
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return np.array([_ends(column[~np.isnan(column)], level) for column in means.T])


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise InputError(f"the level of an interval must be between 0 and 1, got {level}")
    whole_number("resamples", resamples)


def _ends(means: np.ndarray, level: float) -> tuple[float, float]:
    """Both ends of the interval; nan where there is no mean."""
    if not len(means):
        return float("nan"), float("nan")
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
