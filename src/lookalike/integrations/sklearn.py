"""scikit-learn: a scorer of hashers and embeddings for `GridSearchCV` and `cross_val_score`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.codes import Codes, as_numpy
from lookalike.core.errors import InputError, InputTypeError
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label, shared_tags
from lookalike.metrics.metric import Metric

__all__ = ["RetrievalScorer", "retrieval_scorer"]


def retrieval_scorer(metric: str | Metric = "AP", *, similarity: str | None = None) -> "RetrievalScorer":
    """A scorer for `GridSearchCV(scoring=…)`: how well the codes or embeddings of held-out items find their class.

    A scorer sees the held-out items alone. So each of them is a query that is searched for among all others of the
    fold (leave-one-out). The value compares settings on the same folds; it is not that of a larger gallery. Items
    whose label nobody shares in the fold are left out. similarity: of embeddings, as `evaluate` has it.

    >>> import lookalike as la
    >>> digits = la.datasets.load("digits")
    >>> hasher = la.hashers.ITQ(n_bits=16, random_state=0).fit(digits.pixels()[:1000])
    >>> round(retrieval_scorer("P@10")(hasher, digits.pixels()[1000:], digits.labels[1000:]), 2)
    0.83
    """
    return RetrievalScorer(str(Metric.parse(metric)), similarity)


@dataclass(frozen=True)
class RetrievalScorer:
    """A metric of leave-one-out search within X, by what `estimator.transform` gives; `retrieval_scorer` makes it."""

    metric: str
    similarity: str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:  # noqa: N803  # as scikit-learn calls it
        """The mean over all items; of a metric of which lower is better, such as FNMR, times -1, so that higher is."""
        if y is None:
            raise InputError("a retrieval scorer needs labels: pass y to fit or cross_val_score")
        if not hasattr(estimator, "transform"):
            raise InputTypeError(
                f"a retrieval scorer needs an estimator with transform, and {type(estimator).__name__} has none"
            )
        vectors, labels = estimator.transform(X), as_numpy(y)
        if not isinstance(vectors, Codes):
            vectors = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors)
        relevance = (shared_tags if labels.ndim == 2 else same_label)(labels, labels)
        score = evaluate(
            vectors,
            vectors,
            relevance,
            [self.metric],
            similarity=self.similarity,
            exclude="self",
            undefined="skip",
            threads=1,  # GridSearchCV has processes of its own
        )[self.metric]
        if np.isnan(score.mean):
            raise InputError("no item of the fold shares its label with another: use fewer folds, or stratify them")
        return Metric.parse(self.metric).sign * score.mean
