"""Distances between pairs of items of one collection: of codes in bits, of embeddings by angle or distance."""

from typing import Any, Protocol

import numpy as np

from lookalike.core.codes import Codes

BLOCK = 2048  # items that are converted to float64 at once

__all__ = ["CodePairs", "EmbeddingPairs", "PairSpace", "pair_space"]


class PairSpace(Protocol):
    """Items, and the squared distance between each two of them; of codes, the number of bits that differ."""

    unit: str

    def __len__(self) -> int:
        """How many items there are."""

    def rows(self, items: np.ndarray) -> np.ndarray:
        """The coordinates of items, (n, dim) of float64."""

    def squares(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The squared distance of each pair of items, 0 exactly where they are the same."""

    def shown(self, square: float) -> float:
        """A squared distance as people read it."""

    def square(self, shown: float) -> float:
        """The squared distance of what people read."""


class CodePairs:
    """Codes: the squared distance is the number of bits that differ."""

    unit = "bits"

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, items: np.ndarray) -> np.ndarray:
        return self.codes[items].unpack().astype(np.float64)

    def squares(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        differing = self.codes.words[first] ^ self.codes.words[second]
        return np.bitwise_count(differing).sum(1, dtype=np.int64).astype(np.float64)

    def shown(self, square: float) -> float:
        return int(square)

    def square(self, shown: float) -> float:
        return float(shown)


class EmbeddingPairs:
    """Embeddings: compared by the angle between them for cosine, by their distance otherwise."""

    def __init__(self, vectors: np.ndarray, similarity: str | None) -> None:
        self.vectors = vectors
        self.unit = "cosine" if similarity in (None, "cosine") else "distance"
        self.lengths = np.ones(len(vectors))
        if self.unit == "cosine":
            for start in range(0, len(vectors), BLOCK):
                block = vectors[start : start + BLOCK].astype(np.float64)
                self.lengths[start : start + BLOCK] = np.sqrt((block * block).sum(1))
            self.lengths[self.lengths == 0] = 1.0

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, items: np.ndarray) -> np.ndarray:
        rows: np.ndarray = self.vectors[items].astype(np.float64) / self.lengths[items, None]
        return rows

    def squares(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        apart = self.rows(first) - self.rows(second)
        squares: np.ndarray = (apart * apart).sum(1)
        return squares

    def shown(self, square: float) -> float:
        return float(1 - square / 2) if self.unit == "cosine" else float(np.sqrt(square))

    def square(self, shown: float) -> float:
        return 2 * (1 - shown) if self.unit == "cosine" else shown * shown


def pair_space(vectors: Any, similarity: str | None = None) -> PairSpace:
    """The space of Codes, or of embeddings (n, dim): by angle for cosine, by distance for dot and euclidean."""
    return CodePairs(vectors) if isinstance(vectors, Codes) else EmbeddingPairs(np.asarray(vectors), similarity)
