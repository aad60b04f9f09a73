"""Losses of a batch of activations, to learn hash functions with: of rankings, of pairs, of triplets, of classes.

Each takes activations (n_examples, n_bits): real numbers, their signs become the bits. Which examples belong together
is given by `labels` or by `affinity`:

labels: one for each example; or a 0/1 matrix of tags (n_examples, tags), where the grade is the number shared.
affinity: grades (n_examples, n_examples), whole numbers from 0; row i says how relevant the others are to i, which need
not be mutual. The diagonal is ignored.

Losses that draw each example to its class take labels and a head, made by `lookalike.learning.heads`: a classifier
that learns with the network, or targets that stay. Labels are then numbers of classes from 0, or tags.

Each returns a scalar to minimise, on any device, and is computed in float32 at least, under autocast too.
"""

from lookalike.learning.losses.likelihoods import dpsh, dtsh, hashnet
from lookalike.learning.losses.modules import (
    CSQ,
    DPN,
    DPSH,
    DSH,
    DTSH,
    DispersedDSH,
    DispersedDSHHierarchy,
    GreedyHash,
    HashNet,
    MIHash,
    OrthoHash,
    TieAwareAP,
    TieAwareDCG,
)
from lookalike.learning.losses.pairs import dispersed_dsh, dispersed_dsh_hierarchy, dsh
from lookalike.learning.losses.ranking import mihash, tie_aware_ap, tie_aware_dcg
from lookalike.learning.losses.targets import csq, dpn, greedy_hash, orthohash

__all__ = [
    "CSQ",
    "DPN",
    "DPSH",
    "DSH",
    "DTSH",
    "DispersedDSH",
    "DispersedDSHHierarchy",
    "GreedyHash",
    "HashNet",
    "MIHash",
    "OrthoHash",
    "TieAwareAP",
    "TieAwareDCG",
    "csq",
    "dispersed_dsh",
    "dispersed_dsh_hierarchy",
    "dpn",
    "dpsh",
    "dsh",
    "dtsh",
    "greedy_hash",
    "hashnet",
    "mihash",
    "orthohash",
    "tie_aware_ap",
    "tie_aware_dcg",
]
