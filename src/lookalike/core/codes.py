"""Binary codes packed into 64-bit words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.arrow_arrays import arrow_to_numpy
from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import FileError, InputError, InputTypeError, LookalikeError, Option
from lookalike.core.files import digest, provenance, read_arrays, write_arrays

MAX_BITS = 4096
NOTHING = np.empty(0)
ZEROS = ("one", "minus")  # what a 0 among -1 and +1 counts

__all__ = ["Codes"]


class Codes:
    """Binary codes of equal length, 64 bits a word; made by `Codes.pack` or `Codes.from_bytes`, never changed.

    hasher: the fingerprint of the hasher that made them, None if it is not known. Codes of two different hashers
    cannot be compared.

    >>> codes = Codes.pack([[1, 0, 1], [0, 0, 1]])
    >>> codes
    Codes(2 codes of 3 bits)
    >>> codes.words
    array([[5],
           [4]], dtype=uint64)
    """

    __slots__ = ("_digest", "hasher", "n_bits", "words")

    words: np.ndarray
    n_bits: int
    hasher: str | None

    def __init__(self, words: np.ndarray, n_bits: int, *, hasher: str | None = None) -> None:
        """Store words (n, ceil(n_bits / 64)) of uint64, least significant bit first, unused bits zero."""
        words = np.ascontiguousarray(words)
        check_n_bits(n_bits)
        width = -(-n_bits // 64)
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != width:
            raise InputError(
                f"words of {n_bits}-bit codes must be (n, {width}) of uint64, got {words.shape} of {words.dtype}"
            )
        if n_bits % 64 and (words[:, -1] >> np.uint64(n_bits % 64)).any():
            raise InputError(
                f"bits beyond the {n_bits} of a code are set: n_bits is too small or the words are not codes"
            )
        words = words.copy() if words.flags.writeable else words  # nobody else may change it
        words.flags.writeable = False
        self.words, self.n_bits, self.hasher, self._digest = words, n_bits, hasher, ""

    @classmethod
    def pack(cls, bits: Any, *, zero: str | None = None) -> "Codes":
        """Pack (n, n_bits) of 0/1, bool or -1/+1: a numpy, torch or pyarrow array, or lists.

        zero: what a 0 among -1 and +1 counts, such as the sign of 0: "one" or "minus"; without it, it is an error.

        >>> Codes.pack([[1, 0, -1]], zero="one").unpack()
        array([[1, 1, 0]], dtype=uint8)
        """
        values = as_numpy(bits)
        if zero is not None:
            choice("zero", zero, ZEROS)
        if values.ndim != 2:
            raise InputError(f"bits must be a matrix (n, n_bits), got shape {values.shape}")
        check_n_bits(values.shape[1])
        if values.dtype.kind not in "biuf":
            raise InputTypeError(f"bits must be numbers or booleans, got {values.dtype}")
        ones = values if values.dtype == bool else values == 1
        if values.dtype != bool:
            zeros, minus = values == 0, values == -1
            if not (ones | zeros | minus).all():
                raise _not_bits(values, ~(ones | zeros | minus))
            if zeros.any() and minus.any():
                if zero is None:
                    raise _three_values(zeros)
                ones = ones | zeros if zero == "one" else ones
        return cls.from_bytes(np.packbits(ones, axis=1, bitorder="little"), n_bits=values.shape[1])

    @classmethod
    def from_bytes(cls, packed: Any, *, n_bits: int, hasher: str | None = None) -> "Codes":
        """Codes from packed bytes (n, ceil(n_bits / 8)) of uint8, least significant bit first, as faiss has them."""
        packed = as_numpy(packed)
        check_n_bits(n_bits)
        width = -(-n_bits // 8)
        if packed.ndim != 2 or packed.shape[1] != width or packed.dtype != np.uint8:
            raise InputError(
                f"packed codes of {n_bits} bits must be (n, {width}) of uint8, got {packed.shape} of {packed.dtype}"
            )
        padded = np.zeros((len(packed), -(-width // 8) * 8), np.uint8)
        padded[:, :width] = packed
        words = padded.view("<u8").astype(np.uint64, copy=False)
        words.flags.writeable = False
        return cls(words, int(n_bits), hasher=hasher)

    @classmethod
    def load(cls, path: str | Path) -> "Codes":
        """Read codes from a .npz or .parquet file."""
        arrays, about = read_arrays(path, ("codes", "packed", "n_bits"))
        if (
            Path(path).suffix == ".parquet"
            and "packed" not in arrays
            and arrays.get("codes", NOTHING).dtype == np.uint8
        ):
            arrays["packed"] = arrays.pop("codes")  # there, only bytes of one length have this type
            if about.get("n_bits") is None and "n_bits" not in arrays and arrays["packed"].ndim == 2:
                about["n_bits"] = 8 * arrays["packed"].shape[1]
        return cls.from_arrays(arrays, about, path)

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, np.ndarray], about: dict[str, Any], path: str | Path, *, zero: str | None = None
    ) -> "Codes":
        """Find codes among the named arrays of a file: `codes` as bits or bytes, or `packed` with `n_bits`.

        about: what the file says of itself. zero: as `pack` has it.
        """
        hasher = hasher_in(about)
        n_bits = about.get("n_bits")
        if n_bits is None and len(lengths := np.unique(arrays.get("n_bits", ()))) == 1:
            n_bits = lengths[0]
        if "packed" in arrays:
            packed = arrays["packed"]
            if n_bits is None:
                raise FileError(f"{path} has packed codes but not their `n_bits`: add it", path=path)
        elif "codes" in arrays:
            bits = cls.pack(arrays["codes"], zero=zero)
            return cls(bits.words, bits.n_bits, hasher=hasher)
        else:
            message = f"{path} holds no codes: expected an array 'codes' or 'packed', or 'embeddings'"
            raise FileError(message, path=path)
        if packed.ndim != 2:
            message = f"{path}: packed codes must be a matrix (n, bytes), got shape {packed.shape}"
            raise FileError(message, path=path)
        return cls.from_bytes(packed, n_bits=n_bits, hasher=hasher)

    def save(self, path: str | Path) -> None:
        """Write to .npz (arrays `packed` and `n_bits`) or .parquet (a fixed-size binary column `codes`)."""
        parquet = Path(path).suffix == ".parquet"
        arrays = {"codes": self.to_bytes()} if parquet else {"packed": self.to_bytes(), "n_bits": np.array(self.n_bits)}
        write_arrays(path, arrays, self.about())

    def about(self) -> dict[str, Any]:
        """What files say of these codes: how many bits they have, their fingerprint, and that of their hasher."""
        of_hasher = {} if self.hasher is None else {"hasher": self.hasher}
        return provenance("codes", n_bits=self.n_bits, digest=self.digest, **of_hasher)

    def to_bytes(self) -> np.ndarray:
        """Packed bytes (n, ceil(n_bits / 8)) of uint8, least significant bit first, as faiss has them."""
        octets = self.words.astype("<u8", copy=False).view(np.uint8)
        return np.ascontiguousarray(octets[:, : -(-self.n_bits // 8)])

    def unpack(self) -> np.ndarray:
        """The bits, (n, n_bits) of uint8, 0 or 1.

        >>> Codes.pack([[1, -1, 1]]).unpack()
        array([[1, 0, 1]], dtype=uint8)
        """
        return np.unpackbits(self.to_bytes(), axis=1, count=self.n_bits, bitorder="little")

    @property
    def digest(self) -> str:
        """A fingerprint of the codes."""
        if not self._digest:
            self._digest = digest(np.array(self.n_bits), self.words)
        return self._digest

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codes and of bits: the shape of the matrix that `unpack` makes."""
        return len(self.words), self.n_bits

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The bits, for functions that want a matrix; unpacking makes a copy."""
        if copy is False:
            raise InputError("packed codes cannot be seen as a matrix without a copy")
        return self.unpack().astype(dtype or np.uint8, copy=False)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> "Codes":
        words = np.atleast_2d(self.words[rows])
        words.flags.writeable = False
        return Codes(words, self.n_bits, hasher=self.hasher)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codes):
            return NotImplemented
        return self.n_bits == other.n_bits and np.array_equal(self.words, other.words)

    __hash__ = None  # type: ignore[assignment]  # equal by content, and content can be large

    def __repr__(self) -> str:
        return f"Codes({len(self):,} codes of {self.n_bits} bits)"


def as_numpy(values: Any) -> np.ndarray:
    """Values of a user as a numpy array: numpy, torch (any device), pyarrow, pandas, lists."""
    try:
        if hasattr(values, "detach"):  # torch
            values = values.detach().cpu().numpy()
        elif type(values).__module__.partition(".")[0] == "pyarrow":
            values = arrow_to_numpy(values, "the array")
        return np.asarray(values)
    except LookalikeError:
        raise
    except (ValueError, TypeError, OverflowError) as error:  # rows of different lengths, types that numpy lacks
        raise InputError(f"the values cannot be an array: {error}") from error


def hasher_in(about: Mapping[str, Any]) -> str | None:
    """The fingerprint of the hasher that made codes, from what their file says; None if it does not say it.

    >>> hasher_in({"hasher": "129d7c8430eea69d"}), hasher_in({})
    ('129d7c8430eea69d', None)
    """
    hasher = about.get("hasher")
    return hasher if isinstance(hasher, str) and hasher else None


def _not_bits(values: np.ndarray, wrong: np.ndarray) -> InputError:
    """The error that some values are no bits."""
    row, bit = np.argwhere(wrong)[0]
    text = f"bits must be 0/1 or -1/+1, got {values[row, bit]} in row {row}, bit {bit}"
    if values.dtype == np.uint8:
        text += (
            "; if these are packed codes, name the array `packed` and add `n_bits` (Codes.from_bytes), "
            "if embeddings, name it `embeddings`"
        )
    return InputError(text)


def _three_values(zeros: np.ndarray) -> InputError:
    """The error that codes of -1 and +1 have a 0 too."""
    rows = np.flatnonzero(zeros.any(1))
    listed = ", ".join(map(str, rows[:3])) + (", …" if len(rows) > 3 else "")
    return InputError(
        f"bits must be 0/1 or -1/+1, got -1, 0 and others together: {len(rows):,} of {len(zeros):,} rows have a 0 "
        f"(row{'s' * (len(rows) > 1)} {listed}): say what it counts with ",
        Option("zero", "one"),
        " or ",
        Option("zero", "minus"),
    )


def check_n_bits(n_bits: int) -> None:
    """Raise if codes cannot have this many bits."""
    whole_number("n_bits", n_bits, 1, MAX_BITS)
