"""What metrics need of a tally."""

from dataclasses import dataclass

__all__ = ["Needs"]


@dataclass(frozen=True)
class Needs:
    """What metrics need of a tally: codes within a radius, the first k ranks alone, the scores of marks or radii."""

    radius: int | None = None
    k: int | None = None
    marks: bool = False
    distances: tuple[float, ...] = ()
