"""Maps of studies: neighbours stay neighbours, the same vectors give the same map, and a stale map is noticed.

What a vacuous test would let pass: a map of random points (trustworthiness is measured, against chance), a fingerprint
that never changes, one thread everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.manifold import trustworthiness

import lookalike as la
from helpers.small_study import RUN, catalogue_of, create
from lookalike.core.errors import StudyError
from lookalike.core.files import read_arrays, write_arrays
from lookalike.core.progress import reporting
from lookalike.study.map import ItemMap, MapSettings, item_points, make_map, near_duplicate_groups, read_map
from lookalike.study.model import Stored
from lookalike.study.study import Study

QUICK = MapSettings(iterations=300)


def digits(n: int) -> np.ndarray:
    return la.datasets.load("digits").pixels()[:n]


def stored(gallery: Any, similarity: str | None = "cosine") -> Stored:
    return Stored("m", None, gallery, similarity)


def trust(vectors: np.ndarray, points: np.ndarray) -> float:
    return float(trustworthiness(vectors, points, n_neighbors=12, metric="cosine"))


def test_neighbours_stay_neighbours() -> None:
    vectors = digits(400)
    points = item_points(stored(vectors), QUICK)
    assert points.shape == (400, 2)
    assert points.dtype == np.float32
    assert np.abs(points).max() == 1
    assert trust(vectors, points) > 0.94
    assert trust(vectors, np.random.default_rng(0).normal(size=(400, 2))) < 0.6
    bits = la.hashers.ITQ(n_bits=32, random_state=0).fit(vectors).transform(vectors)
    assert trust(vectors, item_points(stored(bits, None), QUICK)) > 0.85


def test_items_that_are_not_drawn_go_beside_their_neighbours() -> None:
    vectors = digits(400)
    vectors[399] = vectors[0]
    settings = replace(QUICK, drawn=200)
    points = item_points(stored(vectors), settings)
    assert trust(vectors, points) > 0.9
    assert np.allclose(points[399], points[0], atol=1e-3)
    assert np.array_equal(points, item_points(stored(vectors), settings))
    assert not np.array_equal(points, item_points(stored(vectors), replace(settings, seed=1)))


@pytest.mark.parametrize("n", [1, 2, 4, 5, 7])
@pytest.mark.parametrize("vectors", ["equal", "zero", "random", "one number", "codes"])
def test_few_equal_and_empty_vectors_have_a_map(n: int, vectors: str) -> None:
    rng = np.random.default_rng(n)
    galleries: dict[str, Any] = {
        "equal": np.ones((n, 3), np.float32), "zero": np.zeros((n, 3), np.float32),
        "random": rng.normal(size=(n, 3)), "one number": rng.normal(size=(n, 1)),
        "codes": la.Codes.pack(rng.integers(0, 2, (n, 5))),
    }  # fmt: skip
    model = stored(galleries[vectors], None if vectors == "codes" else "euclidean" if n % 2 else "cosine")
    points = item_points(model, QUICK)
    assert points.shape == (n, 2)
    assert np.isfinite(points).all()
    assert near_duplicate_groups(model).shape == (n,)


def test_copies_share_a_group() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 20))
    vectors[7] = vectors[3]
    vectors[9] = vectors[4] * 1.5
    groups = near_duplicate_groups(stored(vectors))
    assert groups[7] == groups[3] >= 0
    assert groups[9] == groups[4] >= 0
    assert groups[3] != groups[4]
    assert (groups >= 0).sum() == 4


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = create(tmp_path / "digits", catalogue=catalogue_of([f"d{n}" for n in range(90)]), queries=["d0"])
    made.add_model("pixels", gallery=digits(90))
    return made


def test_a_map_is_stored_once_and_made_again_when_it_is_stale(study: Study) -> None:
    steps: list[tuple[str, int, int]] = []

    def read(settings: MapSettings = QUICK) -> ItemMap | None:
        return read_map(study, "pixels", study.model("pixels", mapped=True), settings)

    assert read() is None
    with reporting(lambda *step: steps.append(step)):
        made = make_map(study, "pixels", QUICK)
    assert {done for what, done, _ in steps if what == "making the map"} >= {15 + 80 * 50 // 300, 95, 100}
    again = read()
    assert again is not None
    assert np.array_equal(again.points, made.points)
    assert np.array_equal(again.groups, made.groups)
    assert read(replace(QUICK, seed=1)) is None
    path = study.map_path("pixels")
    arrays, about = read_arrays(path)
    write_arrays(path, arrays | {"points": arrays["points"] + 1}, about)  # not what was sealed
    assert read() is None
    path.write_bytes(path.read_bytes()[:-50])
    assert read() is None
    make_map(study, "pixels", QUICK)
    assert read() is not None
    study.add_model("pixels", gallery=digits(91)[1:], replace=True)
    assert read() is None
    study.remove_model("pixels")
    assert not path.exists()


def test_a_run_has_no_map(closed: Study) -> None:
    closed.add_model("ran", run=RUN)
    with pytest.raises(StudyError, match="is a run"):
        make_map(closed, "ran")


def test_any_number_of_threads_makes_the_same_map(study: Study) -> None:
    code = (
        "import sys; from lookalike.study.map import MapSettings, make_map; from lookalike.study.study import Study; "
        "from lookalike.core.files import digest; from dataclasses import replace; "
        "print(digest(make_map(Study.open(sys.argv[1]), 'pixels', MapSettings(iterations=260)).points))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, str(study.path)], capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        ).stdout.split()[-1]
        for threads in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1]
