"""Numbers as tables show them and as JSON takes them."""

import math
from typing import Any

__all__ = ["shown", "without_nan"]


def shown(value: float, digits: int = 4) -> str:
    """A number in tables: four digits, or as many as are asked for; where these would be zeros, its size.

    >>> shown(0.25), shown(0.0000123), shown(0.0), shown(0.04, 2), shown(0.004, 2)
    ('0.2500', '1.2e-05', '0.0000', '0.04', '4.0e-03')
    """
    smallest = (5 if digits >= 4 else 0.5) * 10.0**-digits  # of many digits, one that is not 0 is too few
    return f"{value:.1e}" if 0 < abs(value) < smallest else f"{value:.{digits}f}"


def without_nan(value: Any) -> Any:
    """The same with None for nan, which JSON does not know."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
