"""Hash functions as scikit-learn estimators, with and without labels; `make` also knows those learned by a network."""

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError
from lookalike.hashers.base import Hasher, kind, load
from lookalike.hashers.bre import BRE
from lookalike.hashers.density import DensityDSH
from lookalike.hashers.dgh import DGH
from lookalike.hashers.itq import ITQ
from lookalike.hashers.kernelised import SKLSH
from lookalike.hashers.klsh import KLSH
from lookalike.hashers.ksh import KSH
from lookalike.hashers.linear import LSH, PCAH, PCARR
from lookalike.hashers.mlh import MLH
from lookalike.hashers.sdh import SDH
from lookalike.hashers.spectral import SH
from lookalike.hashers.spherical import SpH, spherical_distances

HASHERS: dict[str, type[Hasher]] = {
    cls.__name__: cls for cls in (LSH, PCAH, PCARR, ITQ, SH, SKLSH, SpH, DensityDSH, KLSH, BRE, DGH, KSH, MLH, SDH)
}
FIGURE_1 = tuple(HASHERS)[:8]  # of Ding et al. 2018: no labels, learned in a moment; what commands compare by default
LEARNED = (  # by a network, from labels
    "tie-aware-ap",
    "tie-aware-dcg",
    "dsh",
    "dispersed-dsh",
    "dispersed-dsh-hierarchy",
    "mihash",
    "dpsh",
    "dtsh",
    "hashnet",
    "greedy-hash",
    "csq",
    "dpn",
    "orthohash",
    "cross-entropy",
)

__all__ = [
    "BRE",
    "DGH",
    "FIGURE_1",
    "HASHERS",
    "ITQ",
    "KLSH",
    "KSH",
    "LEARNED",
    "LSH",
    "MLH",
    "PCAH",
    "PCARR",
    "SDH",
    "SH",
    "SKLSH",
    "DensityDSH",
    "Hasher",
    "SpH",
    "kind",
    "load",
    "make",
    "spherical_distances",
]


def make(name: str, n_bits: int, random_state: int | None = 0) -> Hasher:
    """A hasher by its name, in capital or small letters.

    >>> make("itq", 24)
    ITQ(n_bits=24, random_state=0)
    """
    spelt = {listed.lower(): listed for listed in (*HASHERS, *LEARNED)}
    if name.lower() not in spelt:
        similar = nearest(name, (*HASHERS, *LEARNED))
        hint = "" if similar is None else f"did you mean {similar}? "
        raise InputError(
            f"there is no hasher {name!r}: {hint}Known are {', '.join(HASHERS)}; learned by a network "
            f"{', '.join(LEARNED)}; or pass a saved .npz"
        )
    if name.lower() in LEARNED:
        return kind("LearnedHasher")(n_bits=n_bits, loss=name.lower(), random_state=random_state)
    return HASHERS[spelt[name.lower()]](n_bits=n_bits, random_state=random_state)
