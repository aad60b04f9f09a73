"""What every part of a survey looks at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.model import Stored

__all__ = ["Interval", "SurveyData"]

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class SurveyData:
    """The items, the models that have vectors of them, and how items are drawn to be searched for."""

    catalogue: "Catalogue"
    vectors: "Mapping[str, Stored]"
    n_queries: int  # how many items to draw, at most
    rng: np.random.Generator
    threads: int | None
