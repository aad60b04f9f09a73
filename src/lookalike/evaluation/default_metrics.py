"""The metrics that are computed when none is named; the command line shows them without loading anything else."""

__all__ = ["DEFAULT_METRICS"]

DEFAULT_METRICS = ("AP", "AP@1000", "nDCG@100", "P@100", "R@100")
