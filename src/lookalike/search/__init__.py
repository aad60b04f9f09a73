"""The nearest items, exactly or by an index, and near-duplicates."""

from lookalike.search.index import KINDS, Index
from lookalike.search.index import Neighbours as Found
from lookalike.search.measured_recall import Measured, recall

__all__ = ["KINDS", "Found", "Index", "Measured", "recall"]
