"""A model as a study stores it, and the recipe to make it again from other images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookalike.core.codes import Codes, hasher_in
from lookalike.core.errors import FileError

__all__ = ["UNREADABLE", "Recipe", "Run", "Stored", "recipe_of", "stored_vectors", "unreadable"]

Run = dict[str, dict[str, float]]
UNREADABLE = (ValueError, OSError, MemoryError)  # raised by a model if its file is damaged, gone or too large


@dataclass(frozen=True)
class Recipe:
    """How a model was made from images: by an encoder, and perhaps a hasher; it can be made again from other images."""

    encoder: str | None = None  # as `encoders.load` takes it; None: embeddings came from a file, and were hashed
    version: str | None = None  # of the encoder: another version gives other numbers
    options: Mapping[str, Any] = field(default_factory=dict)  # of the encoder
    source: str | None = None  # the model with the embeddings that were hashed
    source_digest: str | None = None  # of its embeddings
    hasher: str | None = None  # as `hashers.make` takes it
    hasher_digest: str | None = None  # of the file in which it is kept
    n_bits: int | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Stored:
    """A model as a study stores it: embeddings with their similarity, or codes, of queries and gallery; or a run."""

    name: str
    queries: Codes | np.ndarray | None = None
    gallery: Codes | np.ndarray | None = None
    similarity: str | None = None
    run: Run | None = None
    recipe: Recipe | None = None  # None if it came from a file
    contents: np.ndarray | None = None  # (n,) fingerprints of the image files that the rows of the gallery were made of

    @property
    def encoder(self) -> str | None:
        """The name of the encoder that made it; None if none did."""
        return self.recipe.encoder if self.recipe is not None else None

    @property
    def hasher(self) -> str | None:
        """The hasher and its bits, in words; None if the model is not hashed embeddings."""
        if self.recipe is None or self.recipe.hasher is None:
            return None
        return f"{self.recipe.hasher}, {self.recipe.n_bits} bits"

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if self.run is not None:
            return "run"
        made = f", {self.recipe.hasher} of {self.recipe.source}" if self.recipe is not None and self.hasher else ""
        if isinstance(self.gallery, Codes):
            return f"codes of {self.gallery.n_bits} bits{made}"
        assert self.gallery is not None
        return f"embeddings of {self.gallery.shape[1]:,} numbers, {self.similarity}"

    @property
    def given(self) -> Any:
        """The model as pools and leaderboards take it."""
        if self.run is not None:
            return self.run
        return (self.queries, self.gallery, *filter(None, [self.similarity]))

    @property
    def hasher_fingerprint(self) -> str | None:
        """The fingerprint of the hasher that made all its codes; None if it is not known."""
        hashers = {vectors.hasher for vectors in (self.queries, self.gallery) if isinstance(vectors, Codes)}
        return hashers.pop() if len(hashers) == 1 else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Its vectors as arrays for a file, which `stored_vectors` reads; a run has none."""
        arrays: dict[str, np.ndarray] = {}
        for part, vectors in (("query", self.queries), ("gallery", self.gallery)):
            if isinstance(vectors, Codes):
                arrays |= {f"{part}_codes": vectors.to_bytes(), "n_bits": np.array(vectors.n_bits)}
            elif vectors is not None:
                arrays[f"{part}_embeddings"] = vectors
        if self.contents is not None:
            arrays["contents"] = self.contents
        return arrays


def unreadable(name: str, error: BaseException) -> str:
    """Why a model cannot be read, in a sentence, for a caller that goes on with the other models."""
    return f"models/{name}.npz takes more memory than there is" if isinstance(error, MemoryError) else str(error)


def recipe_of(name: str, about: Mapping[str, Any]) -> Recipe | None:
    """How a model was made, from what its file says; None if it came from elsewhere."""
    if "recipe" not in about:
        return None
    try:
        recipe = Recipe(**about["recipe"])
    except TypeError as error:
        raise _damaged(name, "it does not say how the model was made") from error
    texts = (recipe.encoder, recipe.version, recipe.source, recipe.source_digest, recipe.hasher, recipe.hasher_digest)
    right = all(text is None or isinstance(text, str) for text in texts)
    right &= all(number is None or type(number) is int for number in (recipe.n_bits, recipe.seed))
    if not (right and isinstance(recipe.options, Mapping)):
        raise _damaged(name, "it does not say how the model was made")
    return recipe


def stored_vectors(name: str, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Stored | None:
    """A model from the arrays of its file; None if some are missing."""
    more: dict[str, Any] = {"recipe": recipe_of(name, about), "contents": arrays.get("contents")}
    if "contents" in arrays and (arrays["contents"].dtype.kind not in "US" or arrays["contents"].ndim != 1):
        raise _damaged(name, "it does not say of which files its rows are")
    for part in ("query_embeddings", "gallery_embeddings"):
        if part in arrays and (arrays[part].ndim != 2 or arrays[part].dtype.kind not in "fiu"):
            raise _damaged(name, "its embeddings are no table of numbers")
    if "gallery_codes" in arrays and "n_bits" in arrays:
        if arrays["n_bits"].size != 1 or arrays["n_bits"].dtype.kind not in "iu":
            raise _damaged(name, "it does not say how many bits its codes have")
        n_bits = int(arrays["n_bits"].item())
        by = hasher_in(about)
        own = Codes.from_bytes(arrays["query_codes"], n_bits=n_bits, hasher=by) if "query_codes" in arrays else None
        return Stored(name, own, Codes.from_bytes(arrays["gallery_codes"], n_bits=n_bits, hasher=by), **more)
    if "gallery_embeddings" in arrays:
        return Stored(
            name, arrays.get("query_embeddings"), arrays["gallery_embeddings"], about.get("similarity"), **more
        )
    return None


def _damaged(name: str, reason: str) -> FileError:
    path = f"models/{name}.npz"
    return FileError(f"{path} is damaged: {reason}", path=path)
