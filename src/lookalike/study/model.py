"""Stored: a model as a study keeps it, and the recipe by which it can be made again of other images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookalike.core.codes import Codes

__all__ = ["UNREADABLE", "Recipe", "Run", "Stored", "recipe_of", "stored_vectors", "unreadable"]

Run = dict[str, dict[str, float]]
UNREADABLE = (ValueError, OSError, MemoryError)  # what a model raises whose file is damaged, gone or too large


@dataclass(frozen=True)
class Recipe:
    """How a model was made from images, so that it can be made of others: by an encoder, and perhaps a hasher."""

    encoder: str | None = None  # as `encoders.load` takes it; None: embeddings came from a file, and were hashed
    version: str | None = None  # of the encoder: another one gives other numbers
    options: Mapping[str, Any] = field(default_factory=dict)  # of the encoder
    source: str | None = None  # the model whose embeddings were hashed
    source_digest: str | None = None  # of its embeddings
    hasher: str | None = None  # as `hashers.make` takes it
    hasher_digest: str | None = None  # of the file in which it is kept
    n_bits: int | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Stored:
    """A model as a study keeps it: embeddings with their similarity, or codes, of queries and gallery; or a run."""

    name: str
    queries: Codes | np.ndarray | None = None
    gallery: Codes | np.ndarray | None = None
    similarity: str | None = None
    run: Run | None = None
    recipe: Recipe | None = None  # None where it came from a file
    contents: np.ndarray | None = None  # (n,) fingerprints of the image files that the rows of the gallery were made of

    @property
    def encoder(self) -> str | None:
        """The encoder that made it, where one did."""
        return self.recipe.encoder if self.recipe is not None else None

    @property
    def hasher(self) -> str | None:
        """The hasher that made codes of embeddings, in words, where one did."""
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

    def arrays(self) -> dict[str, np.ndarray]:
        """Its vectors as a file holds them, from which `stored_vectors` reads them; a run has none."""
        found: dict[str, np.ndarray] = {}
        for part, rows in (("query", self.queries), ("gallery", self.gallery)):
            if isinstance(rows, Codes):
                found |= {f"{part}_codes": rows.to_bytes(), "n_bits": np.array(rows.n_bits)}
            elif rows is not None:
                found[f"{part}_embeddings"] = rows
        if self.contents is not None:
            found["contents"] = self.contents
        return found


def unreadable(name: str, error: BaseException) -> str:
    """Why a model cannot be read, in a sentence, for those who go on with the others."""
    return f"models/{name}.npz takes more memory than there is" if isinstance(error, MemoryError) else str(error)


def recipe_of(name: str, about: Mapping[str, Any]) -> Recipe | None:
    """How a model was made, from what its file says; None where it came from elsewhere."""
    if "recipe" not in about:
        return None
    try:
        return Recipe(**about["recipe"])
    except TypeError as error:
        raise ValueError(f"models/{name}.npz is damaged: it does not say how the model was made") from error


def stored_vectors(name: str, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Stored | None:
    """A model from the arrays of its file; None where some are missing."""
    more: dict[str, Any] = {"recipe": recipe_of(name, about), "contents": arrays.get("contents")}
    if "contents" in arrays and (arrays["contents"].dtype.kind not in "US" or arrays["contents"].ndim != 1):
        raise ValueError(f"models/{name}.npz is damaged: it does not say of which files its rows are")
    for part in ("query_embeddings", "gallery_embeddings"):
        if part in arrays and (arrays[part].ndim != 2 or arrays[part].dtype.kind not in "fiu"):
            raise ValueError(f"models/{name}.npz is damaged: its embeddings are no table of numbers")
    if "gallery_codes" in arrays and "n_bits" in arrays:
        if arrays["n_bits"].size != 1 or arrays["n_bits"].dtype.kind not in "iu":
            raise ValueError(f"models/{name}.npz is damaged: it does not say how many bits its codes have")
        n_bits = int(arrays["n_bits"].item())
        own = Codes.from_bytes(arrays["query_codes"], n_bits=n_bits) if "query_codes" in arrays else None
        return Stored(name, own, Codes.from_bytes(arrays["gallery_codes"], n_bits=n_bits), **more)
    if "gallery_embeddings" in arrays:
        return Stored(
            name, arrays.get("query_embeddings"), arrays["gallery_embeddings"], about.get("similarity"), **more
        )
    return None
