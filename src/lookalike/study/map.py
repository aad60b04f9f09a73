"""A map of a catalogue: items as points of the plane, near each other where a model finds them alike.

The embeddings, or codes as ±1, are reduced to their 50 largest principal components. t-SNE (van der Maaten 2014) makes
points of these, of at most 10,000 items that are drawn by a seed. Every other item goes between the drawn items that
are nearest to it. So time and memory are bounded. One thread does all that could depend on the number of threads: on
one machine, the same vectors and settings give the same map.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import LookalikeError, StudyError
from lookalike.core.files import digest, is_whole, provenance, read_arrays, seal, write_arrays
from lookalike.core.progress import report

if TYPE_CHECKING:
    from lookalike.study.model import Stored
    from lookalike.study.study import Study

BLOCK = 4096  # rows that are reduced at a time
MOST_AT_ONCE = 200_000  # items of which all pairs are compared, to find near-duplicates

__all__ = ["ItemMap", "MapSettings", "make_map", "read_map", "vectors_digest"]


@dataclass(frozen=True)
class MapSettings:
    """How a map is made; a stored map that was made otherwise is stale."""

    components: int = 50
    drawn: int = 10_000  # items that t-SNE places
    perplexity: float = 30.0
    iterations: int = 500
    neighbours: int = 5  # among the drawn items, between which another item is placed
    seed: int = 0
    form: int = 1  # changes whenever the same settings would give another map


@dataclass(frozen=True, eq=False)
class ItemMap:
    """A point for each item, and which items are near-duplicates.

    points: (n, 2) float32 between -1 and 1. groups: (n,) int32, the number of the item's group of near-duplicates, -1
    where it has none.
    """

    points: np.ndarray
    groups: np.ndarray


def vectors_digest(stored: "Stored") -> str:
    """The fingerprint of what a map is made of."""
    gallery = _vectors(stored)
    array = gallery.words if isinstance(gallery, Codes) else np.asarray(gallery)
    return digest(array, np.array([str(stored.similarity)]))


def read_map(study: "Study", model: str, stored: "Stored", settings: MapSettings = MapSettings()) -> ItemMap | None:  # noqa: B008
    """The stored map of a model; None if there is none, or it is damaged or stale: make it again."""
    try:
        arrays, about = read_arrays(study.map_path(model))
    except (FileNotFoundError, LookalikeError):
        return None
    facts = (about.get("lookalike"), about.get("settings"), about.get("vectors"))
    if facts != ("map", asdict(settings), vectors_digest(stored)) or not is_whole(arrays, about):
        return None
    points, groups = arrays.get("points"), arrays.get("groups")
    n = len(_vectors(stored))
    if points is None or groups is None or points.shape != (n, 2) or groups.shape != (n,):
        return None
    return ItemMap(points, groups)


def make_map(study: "Study", model: str, settings: MapSettings = MapSettings()) -> ItemMap:  # noqa: B008
    """Make the map of a model and store it in the study, in place of the one before."""
    from threadpoolctl import threadpool_limits

    stored = study.model(model, mapped=True)
    vectors = vectors_digest(stored)
    with threadpool_limits(1):  # sums of several threads depend on how many there are
        points = item_points(stored, settings)
    made = ItemMap(points, near_duplicate_groups(stored))
    arrays = {"points": made.points, "groups": made.groups}
    about = provenance("map", model=model, vectors=vectors, settings=asdict(settings))
    path = study.map_path(model)
    with study.changing():
        path.parent.mkdir(exist_ok=True)
        write_arrays(path, arrays, about | {"seal": seal(arrays, about)})
    return made


def _vectors(stored: "Stored") -> Any:
    if stored.gallery is None:
        raise StudyError(f"the model {stored.name!r} is a run: it has no vectors to make a map of")
    return stored.gallery


def near_duplicate_groups(stored: "Stored") -> np.ndarray:
    """The number of each item's group of near-duplicates, the largest group first; -1 where it has none."""
    from lookalike.study.survey.near_duplicates import find_alike, sample_items

    n = len(_vectors(stored))
    groups = np.full(n, -1, np.int32)
    if n > 1:
        sample = sample_items(n, np.random.default_rng(0))
        for number, group in enumerate(find_alike(stored, None, None, 1, sample, 0).near.groups):
            groups[group.items] = number
    return groups


def item_points(stored: "Stored", settings: MapSettings) -> np.ndarray:
    """A point for each item, (n, 2) float32 between -1 and 1."""
    reduced = principal_components(stored, settings.components)
    rng = np.random.default_rng(settings.seed)
    drawn = np.arange(len(reduced))
    if len(reduced) > settings.drawn:
        drawn = np.sort(rng.choice(len(reduced), settings.drawn, replace=False))
    points = _fitted(_place_between(reduced, drawn, _embedded(reduced[drawn], settings), settings.neighbours))
    report("making the map", 100, 100)
    return points


def principal_components(stored: "Stored", n_components: int) -> np.ndarray:
    """The largest principal components of the vectors, (n, at most n_components) float32."""
    n = len(_vectors(stored))
    sums: Any = 0.0
    for rows in _rows(stored):
        sums = sums + rows.sum(0, dtype=np.float64)
    mean = np.float32(sums / max(n, 1))
    total: Any = 0.0
    for number, rows in enumerate(_rows(stored)):
        centred = rows - mean
        total = total + (centred.T @ centred).astype(np.float64)
        report("making the map", min(10, 10 * number * BLOCK // n), 100)
    _, directions = np.linalg.eigh(total)
    directions = directions[:, ::-1][:, :n_components]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0)
    directions = (directions * np.where(largest < 0, -1, 1)).astype(np.float32)  # eigh leaves the sign open
    return np.concatenate([(rows - mean) @ directions for rows in _rows(stored)])


def _rows(stored: "Stored") -> Iterator[np.ndarray]:
    """The vectors in blocks, as float32: of unit length if the model compares them by cosine, codes as ±1."""
    vectors = _vectors(stored)
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        rows = np.asarray(block.unpack() * 2.0 - 1.0 if isinstance(block, Codes) else block, np.float32)
        if stored.similarity == "cosine":
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
        yield rows


def _embedded(reduced: np.ndarray, settings: MapSettings) -> np.ndarray:
    """Points by t-SNE, which begins with the two largest components; of few or equal items these themselves."""
    start = np.zeros((len(reduced), 2), np.float32)
    start[:, : min(2, reduced.shape[1])] = reduced[:, :2]
    spread = float(start[:, 0].std()) if len(start) else 0.0
    if len(reduced) < 5 or spread == 0:
        return start
    from sklearn.manifold import TSNE

    perplexity = min(settings.perplexity, (len(reduced) - 1) / 3)
    tsne = TSNE(
        init=start / spread * 1e-4, perplexity=perplexity, max_iter=settings.iterations, random_state=settings.seed,
        n_jobs=1, verbose=2,
    )  # fmt: skip
    with contextlib.redirect_stdout(_Steps(settings.iterations)):
        points: np.ndarray = tsne.fit_transform(reduced)
    return points


class _Steps(io.TextIOBase):
    """What t-SNE says of its iterations, as progress."""

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations

    def write(self, text: str) -> int:
        if step := re.search(r"Iteration (\d+)", text):
            report("making the map", 15 + 80 * min(int(step[1]), self._iterations) // self._iterations, 100)
        return len(text)


def _place_between(reduced: np.ndarray, drawn: np.ndarray, points: np.ndarray, neighbours: int) -> np.ndarray:
    """A point for each item: of the drawn ones as given, of others the mean of the nearest of these, by 1/distance²."""
    if len(drawn) == len(reduced):
        return points
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=neighbours, algorithm="brute", n_jobs=1).fit(reduced[drawn])
    distances, near = nearest.kneighbors(reduced)
    weights = 1 / (distances.astype(np.float64) ** 2 + 1e-12)
    weights /= weights.sum(1, keepdims=True)
    placed = (points[near] * weights[:, :, None]).sum(1)
    placed[drawn] = points
    return np.asarray(placed)


def _fitted(points: np.ndarray) -> np.ndarray:
    """Points moved and scaled, in both directions alike, so that they fill -1 to 1."""
    if not len(points):
        return np.zeros((0, 2), np.float32)
    low, high = points.min(0), points.max(0)
    half = max(float((high - low).max()) / 2, 1e-12)
    return np.clip((points - (low + high) / 2) / half, -1, 1).astype(np.float32)
