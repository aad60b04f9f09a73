"""KLSH, KSH, SDH and DGH do what defines them: tested against references that make every matrix whole.

What a vacuous test would let pass: a law that holds for any random plane (here angles are those of the centred kernel,
far from those of the items); a residue or loss that the hasher reports of itself (here it is made again from its bits).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.hashing import Array, bounds, digits, refused, whole_numbers
from lookalike import hashers
from lookalike.hashers import dgh, ksh, sdh
from lookalike.hashers.labels import group_labels
from reference.hashers import differing_by_angle
from reference.learned_hashers import all_codes, gaussian, residue


def some_digits(n: int = 300) -> tuple[Array, Array]:
    items, classes = digits()
    return items[:n].astype(np.float64), classes[:n]


def kernels_of(hasher: Any, items: Array) -> Array:
    return gaussian(items.astype(np.float64), hasher.anchors_.astype(np.float64), float(hasher.gamma_))


@pytest.mark.parametrize(
    "hasher", [hashers.KLSH(16, random_state=0), hashers.KSH(8, random_state=0), hashers.SDH(8, random_state=0)]
)
def test_values_are_weighted_sums_of_kernels(hasher: Any) -> None:
    items, classes = some_digits()
    hasher.fit(items, classes)
    wanted = kernels_of(hasher, items) @ hasher.weights_ + hasher.offsets_
    scale = np.abs(hasher.weights_).sum(0).max()
    np.testing.assert_allclose(hasher.project(items), wanted, atol=1e-6 * scale)
    distances = ((items[:, None] - hasher.anchors_[None]) ** 2).sum(2)
    if not isinstance(hasher, hashers.KLSH):
        assert hasher.gamma_ == pytest.approx(1 / distances.mean(), rel=1e-9)


# KLSH


def klsh_angles(hasher: Any, items: Array) -> Array:
    """Angles between items in the space of the centred kernel that the anchors span."""
    anchors = kernels_of(hasher, hasher.anchors_)
    centring = np.eye(len(anchors)) - 1 / len(anchors)
    centred = centring @ anchors @ centring
    among = (kernels_of(hasher, items) - anchors.mean(0)) @ centring
    products = among @ np.linalg.pinv(centred, rcond=1e-7, hermitian=True) @ among.T
    lengths = np.sqrt(np.diag(products))
    return np.arccos(np.clip(products / np.outer(lengths, lengths), -1, 1))


def test_klsh_bits_differ_by_the_angle_of_the_centred_kernel() -> None:
    """1 - angle / pi of the bits are equal; far from what the angle between the items, or without centring, gives.

    A direction is a sum of anchors, which is normal in the limit: half of 300 are near to it, the paper's 30 less so.
    """
    anchors, items = np.split(some_digits(500)[0], [300])
    hasher = hashers.KLSH(4096, n_subset=150, random_state=0).fit(anchors)
    angles, rng = klsh_angles(hasher, items), np.random.default_rng(0)
    pairs = rng.integers(0, 200, (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.vstack([pairs, [(i, int(np.argsort(angles[i])[1])) for i in range(50)]])  # and near ones
    one, other = pairs.T
    assert np.ptp(angles[one, other]) > 1  # near and far ones
    shares = np.array([differing_by_angle(float(angle)) for angle in angles[one, other]])
    bits = hasher.transform(items).unpack()
    differing = (bits[one] != bits[other]).mean(1)
    assert (np.abs(differing - shares) < [bounds(float(share), 4096) for share in shares]).all()
    assert abs(bits.mean() - 0.5) < 0.01
    bits = hashers.KLSH(4096, random_state=0).fit(anchors).transform(items).unpack()
    assert np.abs((bits[one] != bits[other]).mean(1) - shares).mean() < 0.02
    assert abs(bits.mean() - 0.5) < 0.05


def test_klsh_subsets_and_anchors_are_as_asked() -> None:
    items, _ = some_digits(100)
    assert len(hashers.KLSH(4, n_anchors=20, n_subset=5, random_state=0).fit(items).anchors_) == 20
    refused("n_subset=20 of 20 anchors", hashers.KLSH(4, n_anchors=20, n_subset=20).fit, items)
    refused("at least 2 anchors", hashers.KLSH(4, n_anchors=1).fit, items)


# KSH


def similarities(classes: Array) -> Array:
    return np.where(classes[:, None] == classes[None], 1.0, -1.0)


def ksh_bits(hasher: Any, items: Array) -> Array:
    values = kernels_of(hasher, items) @ hasher.weights_ + hasher.offsets_
    return np.where(values > 0, 1.0, -1.0)


def test_ksh_residue_falls_with_every_bit() -> None:
    items, classes = some_digits()
    hasher = hashers.KSH(12, random_state=0).fit(items, classes)
    bits = ksh_bits(hasher, items)
    squares = [(residue(similarities(classes), bits[:, :k], 12) ** 2).sum() for k in range(13)]
    np.testing.assert_allclose(hasher.residues_, squares, rtol=1e-3)  # an item on a border may be rounded over it
    assert (np.diff(squares) < 0).all()
    assert squares[-1] < 0.9 * squares[0]


def test_ksh_starts_from_the_largest_generalised_eigenvector() -> None:
    """K^T R K a = l K^T K a with the largest l: nothing is larger than a^T K^T R K a / a^T K^T K a."""
    items, classes = some_digits()
    anchors = items[::10]
    kernels = gaussian(items, anchors, 1e-3)
    kernels -= kernels.mean(0)
    left = ksh.Residue(group_labels("KSH", classes, len(items)), 12)
    whole = residue(similarities(classes), np.empty((len(items), 0)), 12)
    rng = np.random.default_rng(0)
    for _ in range(3):
        basis, back = ksh.orthonormal(kernels)
        values = rng.normal(size=(len(items), 2))
        np.testing.assert_allclose(left.times(values), whole @ values, atol=1e-9 * np.abs(whole).sum(1).max())
        direction = back @ ksh.largest_direction(basis.T @ left.times(basis))
        one, other = kernels.T @ whole @ kernels, kernels.T @ kernels
        largest = direction @ one @ direction / (direction @ other @ direction)
        np.testing.assert_allclose(one @ direction, largest * (other @ direction), atol=1e-8 * np.abs(one).max())
        for rival in rng.normal(size=(200, len(anchors))):
            assert rival @ one @ rival <= largest * (rival @ other @ rival) * (1 + 1e-9)
        bit = ksh.signs(kernels @ direction)
        assert left.fit(bit) == pytest.approx(bit @ whole @ bit)
        left.take(bit)
        whole = whole - np.outer(bit, bit)
        assert left.square == pytest.approx((whole**2).sum())


def test_ksh_refinement_is_not_worse_than_its_start() -> None:
    items, classes = some_digits()
    hasher = hashers.KSH(12, random_state=0).fit(items, classes)
    assert (hasher.refined_ >= hasher.spectral_).all()
    assert (hasher.refined_ > hasher.spectral_).mean() > 0.5  # and mostly better
    falls = -np.diff(hasher.residues_)
    np.testing.assert_allclose(falls, 2 * hasher.refined_ - len(items) ** 2)


# SDH


def test_sdh_loss_never_rises() -> None:
    items, classes = some_digits(500)
    for nu in (1e-5, 1e-2, 1.0):
        losses = hashers.SDH(10, nu=nu, random_state=0).fit(items, classes).losses_
        assert (np.diff(losses) <= 1e-9 * losses[:-1]).all()
        assert losses[-1] < 0.9 * losses[0]
        assert len(losses) == 11  # before the first round, and two steps in each of five


def test_sdh_loss_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    targets, bits, kernels = np.eye(3)[rng.integers(0, 3, 20)], np.sign(rng.normal(size=(20, 4))), rng.random((20, 6))
    hasher = hashers.SDH(4, alpha=0.7, nu=0.3, ridge=0.2, n_rounds=1)
    losses, weights = hasher._alternate(kernels, targets, bits)
    fitted = np.linalg.solve(kernels.T @ kernels + 0.2 * np.eye(6), kernels.T @ bits)
    np.testing.assert_allclose(weights, fitted)  # the function of new items fits the bits as they are in the end
    classifier = np.linalg.solve(bits.T @ bits + 0.7 * np.eye(4), bits.T @ targets)
    loss = ((targets - bits @ classifier) ** 2).sum() + 0.7 * (classifier**2).sum()
    loss += 0.3 * (((bits - kernels @ weights) ** 2).sum() + 0.2 * (weights**2).sum())
    assert losses[-1] == pytest.approx(loss)


@pytest.mark.parametrize("seed", range(5))
def test_sdh_sets_a_bit_to_its_exact_minimiser(seed: int) -> None:
    """Of one bit of all items, every assignment is tried: 2 to the power of 6 items."""
    rng = np.random.default_rng(seed)
    n, n_bits = 6, 3
    bits, linear = np.sign(rng.normal(size=(n, n_bits))), rng.normal(size=(n, n_bits))
    classifier = rng.normal(size=(n_bits, 2))

    def loss(codes: Array) -> float:
        return float(((codes @ classifier) ** 2).sum() - 2 * (codes * linear).sum())

    def best(codes: Array, bit: int) -> float:
        return min(loss(np.column_stack([codes[:, :bit], z, codes[:, bit + 1 :]])) for z in all_codes(n))

    before = loss(bits)
    sdh.cycle(bits, linear, classifier)
    assert loss(bits) < before
    for bit in range(n_bits):  # it has ended: no bit alone can be better
        assert loss(bits) == pytest.approx(best(bits, bit))


# DGH


def graph_of(n: int = 200, n_anchors: int = 40) -> tuple[dgh.AnchorGraph, Array]:
    """A random graph, and its A made whole."""
    rng = np.random.default_rng(0)
    near = np.argsort(rng.random((n, n_anchors)), axis=1)[:, :3]
    shares = rng.random((n, 3))
    shares /= shares.sum(1, keepdims=True)
    graph = dgh.AnchorGraph(near, shares, n_anchors)
    links = np.zeros((n, n_anchors))
    np.put_along_axis(links, near, shares, axis=1)
    return graph, links / links.sum(0) @ links.T


def test_dgh_step_climbs_the_objective() -> None:
    graph, whole = graph_of()
    np.testing.assert_allclose(whole.sum(1), 1)
    rng, rho = np.random.default_rng(1), 0.1
    links, sizes = graph.matrix(), graph.sizes()[:, None]
    for _ in range(5):
        bits, pull = np.sign(rng.normal(size=(200, 6))), rho * dgh.balance(np.sign(rng.normal(size=(200, 6))))

        def value(b: Array, pull: Array = pull) -> float:
            return float(np.trace(b.T @ whole @ b) + np.trace(b.T @ pull))

        while True:
            following = dgh.climb(links, sizes, bits, pull)
            np.testing.assert_array_equal(following, np.sign(2 * whole @ bits + pull))
            assert dgh.objective(links, sizes, following, pull) == pytest.approx(value(following))
            if np.array_equal(following, bits):
                break
            assert value(following) > value(bits) - 1e-9
            bits = following


@pytest.mark.parametrize("rotate", [True, False])
def test_dgh_objective_never_falls(rotate: bool) -> None:
    items, _ = some_digits(600)
    for rho in (0.1, 10.0):
        hasher = hashers.DGH(12, rho=rho, rotate=rotate, n_anchors=60, random_state=0).fit(items)
        assert (np.diff(hasher.objectives_) >= -1e-9 * hasher.objectives_[-1]).all()


def assert_balanced(values: Array) -> None:
    n, n_bits = values.shape
    np.testing.assert_allclose(values.sum(0), 0, atol=1e-9 * n)
    np.testing.assert_allclose(values.T @ values, n * np.eye(n_bits), atol=1e-9 * n)


def test_dgh_continuous_bits_are_balanced_and_uncorrelated() -> None:
    graph, whole = graph_of()
    start = dgh.spectral_start(graph, 6)
    assert_balanced(start)
    values = np.sort(np.linalg.eigvalsh(whole - 1 / 200))[::-1][:6]
    np.testing.assert_allclose(whole @ start, start * values, atol=1e-8)  # the largest eigenvectors beside 1
    rng = np.random.default_rng(2)
    assert_balanced(dgh.rotated(start, np.random.RandomState(0)))
    for bits in (np.sign(rng.normal(size=(50, 6))), np.ones((50, 6)), np.tile(np.sign(rng.normal(size=(50, 1))), 6)):
        balanced = dgh.balance(bits)  # also of bits that are all equal or all alike
        assert_balanced(balanced)
        for _ in range(50):  # none that is balanced is nearer
            assert (bits * balanced).sum() >= (bits * dgh.balance(np.sign(rng.normal(size=(50, 6))))).sum() - 1e-9


def test_dgh_hashes_a_new_item_by_its_anchors() -> None:
    """b(x) = sgn(B^T Z L^-1 z(x)), z the shares of the nearest anchors: made again from the items it learned from."""
    items, _ = some_digits(600)
    hasher = hashers.DGH(12, n_anchors=60, random_state=0).fit(items[:500])
    anchors = hasher.anchors_.astype(np.float64)

    def links(rows: Array) -> Array:
        kernels = gaussian(rows, anchors, float(hasher.gamma_))
        kernels[kernels < np.sort(kernels, axis=1)[:, -3:-2]] = 0
        return kernels / kernels.sum(1, keepdims=True)

    distances = np.sort(((items[:500, None] - anchors[None]) ** 2).sum(2), axis=1)[:, 2]
    assert hasher.gamma_ == pytest.approx(2 / np.sqrt(distances).mean() ** 2, rel=1e-3)  # exp(-d^2 / t)
    np.testing.assert_allclose(hasher.project(items), links(items) @ hasher.weights_, atol=1e-4)
    # the weights are those of bits of the training items, which a step without Y would hardly change
    trained = links(items[:500])
    bits = np.sign(trained @ hasher.weights_)
    weights = trained.T @ bits / trained.sum(0)[:, None]
    assert (np.sign(trained @ weights) == bits).mean() > 0.99
    assert np.abs(weights - hasher.weights_).mean() < 0.05


def test_dgh_says_how_many_bits_its_graph_has() -> None:
    items, _ = some_digits(300)
    refused(
        "DGH can make at most 19 bits here, got n_bits=20", hashers.DGH(20, n_anchors=20, random_state=0).fit, items
    )
    assert hashers.DGH(19, n_anchors=20, random_state=0).fit_transform(items).n_bits == 19


# All with anchors


@pytest.mark.parametrize("kind", [hashers.KLSH, hashers.KSH, hashers.SDH, hashers.DGH, hashers.BRE])
def test_more_anchors_than_items_are_refused(kind: Any) -> None:
    items, labels = whole_numbers(40), np.arange(40) % 2
    sentence = refused("n_anchors=41", kind(4, n_anchors=41).fit, items, labels)
    assert "set n_anchors to 40 or fewer" in sentence
    assert kind(4, n_anchors=40, random_state=0).fit(items, labels).transform(items).n_bits == 4


def test_labels_help() -> None:
    """On items of the same classes, codes learned from labels find more than those learned without."""
    items, classes = digits()
    train, queries = slice(0, 1000), slice(1000, None)
    relevance = la.same_label(classes[queries], classes[train])

    def mean_ap(hasher: Any) -> float:
        hasher.fit(items[train], classes[train])
        codes = [hasher.transform(items[part]) for part in (queries, train)]
        return la.evaluate(codes[0], codes[1], relevance, ["AP"])["AP"].mean

    without = max(mean_ap(hashers.make(name, 16)) for name in ("ITQ", "DGH", "KLSH"))
    for hasher in (hashers.KSH(16, random_state=0), hashers.SDH(16, random_state=0)):
        assert mean_ap(hasher) > without + 0.1, hasher
    assert mean_ap(hashers.MLH(16, random_state=0)) > without + 0.02  # its functions are linear
    assert mean_ap(hashers.BRE(16, supervised=True, random_state=0)) > mean_ap(hashers.BRE(16, random_state=0)) + 0.1
