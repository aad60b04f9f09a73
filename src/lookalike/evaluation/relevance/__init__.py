"""How relevant each item is to each query: by labels, tags, attributes, grades or judged pairs."""

from lookalike.evaluation.relevance.base import MAX_GRADE, UNJUDGED, Groups, Relevance, Unranked
from lookalike.evaluation.relevance.grades import grades
from lookalike.evaluation.relevance.judged import Judged, judged
from lookalike.evaluation.relevance.labels import (
    SameLabel,
    hierarchy,
    matching_attributes,
    same_label,
    shared_tags,
)
from lookalike.evaluation.relevance.shards import InShards

__all__ = [
    "MAX_GRADE",
    "UNJUDGED",
    "Groups",
    "InShards",
    "Judged",
    "Relevance",
    "SameLabel",
    "Unranked",
    "grades",
    "hierarchy",
    "judged",
    "matching_attributes",
    "same_label",
    "shared_tags",
]
