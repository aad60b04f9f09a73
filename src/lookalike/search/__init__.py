"""The nearest items, exactly or by an index, and near-duplicates."""

from lookalike.search.index import Index, recall

__all__ = ["Index", "recall"]
