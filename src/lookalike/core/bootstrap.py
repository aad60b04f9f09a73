"""Bootstrap: intervals of means, from what resampled queries would have given."""

import functools

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError

KEPT = 1 << 26  # bytes of resamples that are kept for the next call: boards of one study ask for the same ones

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
    draw = _kept_draws if 8 * n * resamples <= KEPT else _draws
    times = draw(n, random_state, resamples)
    sums, counts = (_sums(times, part.astype(float)) for part in (filled, defined))
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return np.array([_ends(column[~np.isnan(column)], level) for column in means.T])


def _draws(n: int, random_state: int, resamples: int) -> np.ndarray:
    """How often each of n rows is in each resample, (resamples, n)."""
    times = np.random.default_rng(random_state).multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    times.flags.writeable = False
    return times


_kept_draws = functools.lru_cache(maxsize=1)(_draws)


def _sums(times: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """times @ columns, the same bits whatever columns there are."""
    out = np.empty((len(times), columns.shape[1]))
    # A column at a time: in a product of matrices, the last bits of one depend on how many there are. A few resamples
    # at a time, which stay in a near cache for all columns; eight at least, which are summed as they are among others.
    step = min(64, max(8, (1 << 17) // max(1, times.shape[1]) // 8 * 8))
    own = np.ascontiguousarray(columns.T)
    for start in range(0, len(times), step):
        part = times[start : start + step]
        for number, column in enumerate(own):
            out[start : start + step, number] = part @ column
    return out


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
