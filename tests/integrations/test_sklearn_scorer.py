"""The scorer within scikit-learn's own searches, on real images, codes and embeddings."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import lookalike as la
from lookalike.integrations.sklearn import retrieval_scorer


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    data = la.datasets.load("digits")
    return data.pixels()[:600], data.labels[:600]


def test_a_score_is_a_leave_one_out_search_in_the_fold(digits: Any) -> None:
    pixels, y = digits
    folds = StratifiedKFold(3)
    scores = cross_val_score(
        la.hashers.ITQ(n_bits=8, random_state=0), pixels, y, cv=folds, scoring=retrieval_scorer("AP@20")
    )
    for score, (train, test) in zip(scores, folds.split(pixels, y), strict=True):
        codes = la.hashers.ITQ(n_bits=8, random_state=0).fit(pixels[train]).transform(pixels[test])
        wanted = la.evaluate(codes, codes, la.same_label(y[test], y[test]), ["AP@20"], exclude="self")["AP@20"].mean
        assert score == wanted
    assert len(set(scores)) == 3


def test_a_grid_search_over_a_pipeline_in_two_processes(digits: Any) -> None:
    steps = Pipeline([("scale", StandardScaler()), ("hash", la.hashers.ITQ(n_bits=8, random_state=0))])
    grid = {"hash__n_bits": [4, 16]}
    found = {
        n_jobs: GridSearchCV(clone(steps), grid, scoring=retrieval_scorer("AP"), cv=3, n_jobs=n_jobs).fit(*digits)
        for n_jobs in (1, 2)
    }
    means = found[1].cv_results_["mean_test_score"]
    np.testing.assert_array_equal(means, found[2].cv_results_["mean_test_score"])
    assert found[1].best_params_ == {"hash__n_bits": 16}
    assert means[0] < means[1] - 0.05
    assert found[1].best_estimator_.transform(digits[0][:3]).n_bits == 16


def test_embeddings_are_compared_as_asked(digits: Any) -> None:
    pixels, y = digits
    pca = PCA(4, random_state=0).fit(pixels)
    scores = {name: retrieval_scorer("P@5", similarity=name)(pca, pixels, y) for name in ("cosine", "euclidean", "dot")}
    embeddings, relevance = pca.transform(pixels), la.same_label(y, y)
    wanted = la.evaluate(embeddings, embeddings, relevance, ["P@5"], similarity="euclidean", exclude="self")
    assert scores["euclidean"] == wanted["P@5"].mean
    assert len(set(scores.values())) == 3


def test_tags(digits: Any) -> None:
    pixels, y = digits
    hasher = la.hashers.LSH(n_bits=8, random_state=0).fit(pixels)
    score = retrieval_scorer("P@5")(hasher, pixels, y)
    assert retrieval_scorer("P@5")(hasher, pixels, np.eye(10, dtype=int)[y]) == pytest.approx(score)


def test_of_a_metric_where_lower_is_better_the_lowest_is_taken(digits: Any) -> None:
    scorer = retrieval_scorer("FNMR(fmr=0.1)")
    by_bits = {n: la.hashers.ITQ(n_bits=n, random_state=0).fit(digits[0]).transform(digits[0]) for n in (2, 16)}
    relevance = la.same_label(digits[1], digits[1])
    fnmr = {
        n: la.evaluate(codes, codes, relevance, ["FNMR(fmr=0.1)"], exclude="self")["FNMR(fmr=0.1)"].mean
        for n, codes in by_bits.items()
    }
    assert fnmr[16] < fnmr[2] - 0.05
    assert scorer(la.hashers.ITQ(n_bits=16, random_state=0).fit(digits[0]), *digits) == pytest.approx(-fnmr[16])
    search = GridSearchCV(la.hashers.ITQ(random_state=0), {"n_bits": [2, 16]}, scoring=scorer, cv=3)
    assert search.fit(*digits).best_params_ == {"n_bits": 16}


def test_labels_that_nobody_shares_are_left_out(digits: Any) -> None:
    pixels, y = digits[0][:20], np.r_[digits[1][:19], 99]
    hasher = la.hashers.LSH(n_bits=8, random_state=0).fit(pixels)
    codes = hasher.transform(pixels)
    wanted = la.evaluate(codes, codes, la.same_label(y, y), ["AP"], exclude="self", undefined="skip")["AP"]
    assert wanted.undefined >= 1
    assert retrieval_scorer("AP")(hasher, pixels, y) == wanted.mean
    with pytest.raises(ValueError, match="no item of the fold shares its label"):
        retrieval_scorer("AP")(hasher, pixels, np.arange(20))


def test_mistakes_are_one_sentence(digits: Any) -> None:
    pixels, y = digits
    scorer = retrieval_scorer("AP@10")
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    with pytest.raises(ValueError, match="needs labels"):
        scorer(la.hashers.LSH(n_bits=8).fit(pixels), pixels)
    with pytest.raises(TypeError, match="LogisticRegression has none"):
        scorer(LogisticRegression(max_iter=5), pixels, y)
    with pytest.raises(ValueError, match="there is no metric 'APP'"):
        retrieval_scorer("APP")
