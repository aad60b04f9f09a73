"""The base class of hashers: checking, learning, hashing in blocks, saving."""

import contextlib
import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lookalike.core.checks import whole_number
from lookalike.core.codes import MAX_BITS, Codes
from lookalike.core.errors import FileError, InputError, InputTypeError, LookalikeError, Option
from lookalike.core.files import digest, is_whole, provenance, read_arrays, seal, write_arrays
from lookalike.hashers.projection import BLOCK, centred_blocks, project_blocks

LEARNED_KINDS = ("LearnedHasher",)  # they need torch, and register themselves when `lookalike.learning` is imported

__all__ = ["Hasher", "UnfittedError", "check_number", "input_errors", "kind", "load"]


class UnfittedError(InputError, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """A hasher was used before it was fitted; it is scikit-learn's NotFittedError too."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Within this block, scikit-learn's errors about a user's values become errors of this package."""
    try:
        yield
    except LookalikeError:
        raise
    except NotFittedError as error:
        raise UnfittedError(str(error)) from error
    except TypeError as error:
        raise InputTypeError(str(error)) from error
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from error


class Hasher(TransformerMixin, BaseEstimator, ABC, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    """A hash function in scikit-learn's manner: bit j of an item is whether its j-th real value is above 0.

    Every hasher centres the data on the mean of its training items, projects it on `_directions()`, and may bend
    the projections in `_bend`. The bits of an item depend on that item alone, never on its neighbours in a block.
    """

    kinds: ClassVar[dict[str, type["Hasher"]]] = {}
    of_each_bit: ClassVar[tuple[str, ...]] = ()  # what was learned that has one number for each bit
    learns_labels: bool = False  # whether fit needs y
    n_bits: int
    mean_: np.ndarray
    directions_: np.ndarray
    n_features_in_: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Hasher.kinds[cls.__name__] = cls

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are bits, whatever they are made of
        tags.target_tags.required = self.learns_labels
        return tags

    @abstractmethod
    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        """Set the learned attributes, which end in _, from items in rows; `mean_` is set already."""

    def _directions(self) -> np.ndarray:
        """What centred items are projected on, (n_features, n_bits)."""
        return self.directions_

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        """The real values of a block of items, from their projections, which may be overwritten."""
        return projected

    def _n_learned(self) -> int:
        """The number of bits that was learned; `n_bits` may have been set anew since."""
        return self._directions().shape[1]

    def _shapes(self) -> list[tuple[np.ndarray, tuple[int, ...]]]:
        """Learned arrays of numbers, and the shapes that they must have in a file that is not damaged."""
        shapes: list[tuple[np.ndarray, tuple[int, ...]]] = [(self.mean_, (self.n_features_in_,))]
        shapes += [(getattr(self, name), (self.n_bits,)) for name in self.of_each_bit]
        if type(self).project is Hasher.project:
            shapes.append((self._directions(), (self.n_features_in_, self.n_bits)))
        return shapes

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from items in rows, (n_items, n_features); y is for hashers that learn from labels."""
        whole_number("n_bits", self.n_bits, 1, MAX_BITS)
        before = dict(self.__dict__)
        try:
            self._fit(X, y)
        except BaseException:  # a fit that failed is none, and does not mix with the one before
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any) -> None:
        with input_errors():
            X = validate_data(self, X, dtype="numeric", ensure_min_samples=2, ensure_all_finite=False)
            random = check_random_state(getattr(self, "random_state", None))
        self.mean_ = _mean(X)
        if not any(block.any() for block in centred_blocks(X, self.mean_)):
            raise InputError(
                f"all {X.shape[1]} features are constant: there is nothing to hash (n_features={X.shape[1]}, "
                f"n_samples={X.shape[0]})"
            )
        self._learn(X, y, random)

    def transform(self, X: Any) -> Codes:
        """The codes of items in rows."""
        X, directions = self._prepare(X)
        n_bits = self._n_learned()
        packed = np.zeros((len(X), -(-n_bits // 64) * 8), np.uint8)

        def pack(rows: slice, projected: np.ndarray, centred: np.ndarray) -> None:
            bits = np.packbits(self._bend(projected, centred) > 0, axis=1, bitorder="little")
            packed[rows, : bits.shape[1]] = bits

        project_blocks(X, self.mean_, directions, pack)
        words = packed.view("<u8").astype(np.uint64, copy=False)
        words.flags.writeable = False
        return Codes(words, n_bits, hasher=self.fingerprint)

    def project(self, X: Any) -> np.ndarray:
        """The real values behind the bits, (n_items, n_bits) of float32; a bit is 1 where its value is above 0."""
        X, directions = self._prepare(X)
        out = np.empty((len(X), self._n_learned()), np.float32)

        def keep(rows: slice, projected: np.ndarray, centred: np.ndarray) -> None:
            out[rows] = self._bend(projected, centred)

        project_blocks(X, self.mean_, directions, keep)
        return out

    def save(self, path: str | Path) -> None:
        """Write everything that was set and learned to a .npz file of plain arrays."""
        with input_errors():
            check_is_fitted(self)
        if Path(path).suffix != ".npz":
            raise FileError(f"cannot write {path}: the name of a hasher's file must end in .npz", path=path)
        plain = _plain_arrays(self._learned())
        set_by_user = {name: _plain_value(value) for name, value in self.get_params().items()}
        about = provenance("hasher", hasher=type(self).__name__, parameters=set_by_user, digest=_fingerprint(plain))
        write_arrays(path, plain, about | {"seal": seal(plain, about)})

    @property
    def fingerprint(self) -> str:
        """A fingerprint of what was learned; codes carry it, and codes of two different ones are never compared."""
        with input_errors():
            check_is_fitted(self)
        return _fingerprint(_plain_arrays(self._learned()))

    @property
    def title(self) -> str:
        """The name of the hasher in tables."""
        return type(self).__name__

    def _learned(self) -> dict[str, Any]:
        """What was learned, by name, as arrays or numbers."""
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the attributes that `_learned` gave."""
        for name, array in arrays.items():
            setattr(self, name, array[()] if array.ndim == 0 else array)
        self.n_features_in_ = operator.index(self.n_features_in_)

    @classmethod
    def _parameters_of_file(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters that a file was saved with; of an older file, with those that did not exist yet."""
        return parameters

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        hasher = load(path)
        if not isinstance(hasher, cls):
            message = f"{path} holds a hasher of the kind {type(hasher).__name__}, not {cls.__name__}"
            raise FileError(message, path=path)
        return hasher

    def _prepare(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Items of the right form, and what to project them on; `project_blocks` checks the numbers."""
        with input_errors():
            check_is_fitted(self)
            X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        return X, self._directions()


def kind(name: str) -> type[Hasher]:
    """A class of hashers by its name, as it registered itself when it was imported."""
    if name in LEARNED_KINDS and name not in Hasher.kinds:
        import lookalike

        _ = lookalike.learning  # the package imports it on first use
    return Hasher.kinds[name]


def load(path: str | Path) -> Hasher:
    """Read a hasher of any kind that `save` wrote."""
    arrays, about = read_arrays(path)
    if about.get("lookalike") != "hasher":
        raise FileError(f"{path} holds no hasher: it was not written by a hasher's save", path=path)
    name = about.get("hasher")
    if name not in (*Hasher.kinds, *LEARNED_KINDS):
        message = f"{path} holds a hasher of the kind {name!r}, which this version does not know"
        raise FileError(message, path=path)
    cls = kind(str(name))
    hollow = any(array.ndim > 1 and not array.size for array in arrays.values())  # and yet of a huge shape, perhaps
    if about.get("digest") != _fingerprint(arrays) or not is_whole(arrays, about) or hollow:
        raise FileError(f"{path} is damaged: it does not hold the hasher that was saved", path=path)
    try:
        hasher = cls(**cls._parameters_of_file(about["parameters"]))
        hasher._restore(arrays)
        works = _works(hasher)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        message = f"{path} is damaged: what it holds does not make a hasher of the kind {cls.__name__}"
        raise FileError(message, path=path) from error
    if not works:
        message = f"{path} is damaged: what it learned does not give {hasher.n_bits} bits of an item"
        raise FileError(message, path=path)
    return hasher


def _works(hasher: Hasher) -> bool:
    """Whether the learned attributes give one real value for each bit."""
    whole_number("n_bits", hasher.n_bits, 1, MAX_BITS)
    for array, shape in hasher._shapes():  # before anything compiled reads them
        if array.shape != shape or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            return False
    nameless = copy.copy(hasher)  # the mean has no names of columns, which scikit-learn would warn of
    if hasattr(nameless, "feature_names_in_"):
        del nameless.feature_names_in_
    values = nameless.project(hasher.mean_[None])
    return values.shape == (1, hasher.n_bits) and bool(np.isfinite(values).all())


def check_number(name: str, value: Any) -> None:
    """Raise if a parameter is not a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputTypeError(Option(name), f" must be a number, got {value!r}", parameter=name, value=value)
    if not 0 < value < np.inf:
        raise InputError(Option(name), f" must be above 0 and finite, got {value}", parameter=name, value=value)


def _mean(X: np.ndarray) -> np.ndarray:
    """Mean of the items; raises if a number is nan, or too large to be squared in float32.

    It is float32 if float32 holds all items, else float64: then items are centred in float64 before they are rounded.
    """
    blocks = [X[start : start + BLOCK] for start in range(0, len(X), BLOCK)]
    ends = np.array([(block.min(), block.max()) for block in blocks], np.float64)
    if np.isnan(ends).any():
        raise InputError("Input X contains NaN: a hasher cannot learn from it; fill or drop such items")
    if (largest := np.abs(ends).max()) > 1e18:
        raise InputError(f"Input X contains infinity or a value too large for float32, {largest:.3g}: scale the items")
    if np.can_cast(X.dtype, np.float32) or all((block.astype(np.float32) == block).all() for block in blocks):
        totals = sum(block.sum(0, dtype=np.float64) for block in blocks)
        return (totals / len(X)).astype(np.float32)
    origin = X[0].astype(np.float64)  # far from 0 a sum of differences keeps more digits than a sum of items
    totals = sum((block - origin).sum(0, dtype=np.float64) for block in blocks)
    return np.asarray(origin + totals / len(X), np.float64)


def _plain_arrays(learned: dict[str, Any]) -> dict[str, np.ndarray]:
    """What was learned as arrays of numbers and text."""
    arrays = {name: np.asarray(value) for name, value in learned.items()}
    return {name: array.astype(str) if array.dtype.kind == "O" else array for name, array in arrays.items()}


def _fingerprint(arrays: dict[str, np.ndarray]) -> str:
    return digest(np.array(sorted(arrays)), *(arrays[name] for name in sorted(arrays)))


def _plain_value(value: Any) -> Any:
    """A parameter as JSON can hold it; None for anything else, such as a generator of random numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple | list):
        return [_plain_value(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain_value(part) for name, part in value.items()}
    return value if isinstance(value, int | float | str | type(None)) else None
