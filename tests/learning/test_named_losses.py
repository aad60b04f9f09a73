"""The losses of other papers are what an explicit loop says, their gradients are right, and a network learns by each.

DPSH, DTSH, HashNet and MIHash compare examples; GreedyHash, CSQ, DPN and OrthoHash draw each to its class.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import lookalike as la
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core.errors import InputError
from lookalike.learning import losses
from lookalike.learning.heads import BinaryTargets, Classifier, binary_targets
from lookalike.learning.objectives import KINDS
from lookalike.learning.training import TrainingSettings, train

N, BITS, CLASSES = 9, 8, 3
LABELS = np.array([0, 0, 1, 1, 2, 2, 0, 1, 2])
TAGS = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
AFFINITY = np.random.default_rng(3).integers(0, 2, (N, N))  # not mutual


def activations(seed: int = 0, n: int = N) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.8, (n, BITS))).requires_grad_()


def related(kind: str) -> tuple[dict[str, Any], np.ndarray]:
    """What a loss is given, and who belongs to whom, one row for each."""
    if kind == "labels":
        return {"labels": LABELS}, LABELS[:, None] == LABELS
    if kind == "tags":
        return {"labels": TAGS}, TAGS @ TAGS.T > 0
    return {"affinity": AFFINITY}, AFFINITY > 0


def log_of_one_and(x: float) -> float:
    """log(1 + e^x), whatever x is."""
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def pairs(own: np.ndarray) -> list[tuple[int, int, bool]]:
    return [(i, j, bool(own[i, j] or own[j, i])) for i, j in itertools.combinations(range(len(own)), 2)]


every_kind = pytest.mark.parametrize("kind", ["labels", "tags", "affinity"])


@every_kind
def test_dpsh(kind: str) -> None:
    given, own = related(kind)
    u, eta = activations().detach().numpy(), 0.3
    terms = []
    for i, j, together in pairs(own):
        theta = sum(u[i, k] * u[j, k] for k in range(BITS)) / 2
        terms.append(log_of_one_and(theta) - together * theta)
    quantization = sum((value - (1 if value > 0 else -1)) ** 2 for value in u.ravel()) / u.size
    assert losses.dpsh(activations(), **given, quantization=eta).item() == pytest.approx(
        np.mean(terms) + eta * quantization, rel=1e-12
    )


@every_kind
def test_dtsh(kind: str) -> None:
    given, own = related(kind)
    u, margin, weight = activations().detach().numpy(), 1.5, 0.7
    of_examples = []
    for i in range(N):
        terms = [
            log_of_one_and(margin - (u[i] @ u[p] - u[i] @ u[n]) / 2)
            for p, n in itertools.permutations(range(N), 2)
            if i not in (p, n) and own[i, p] and not own[i, n]
        ]
        if terms:
            of_examples.append(np.mean(terms))
    quantization = np.mean((u - np.sign(u)) ** 2)
    found = losses.dtsh(activations(), **given, margin=margin, quantization=weight)
    assert found.item() == pytest.approx(np.mean(of_examples) + weight * quantization, rel=1e-12)


@every_kind
def test_hashnet(kind: str) -> None:
    given, own = related(kind)
    h, slope = np.tanh(1.7 * activations().detach().numpy()), 0.4
    found = pairs(own)
    n_together = sum(together for _, _, together in found)
    total = 0.0
    for i, j, together in found:
        x = slope * (h[i] @ h[j])
        weight = len(found) / (n_together if together else len(found) - n_together)
        if kind == "tags" and together:
            weight *= sum(TAGS[i] & TAGS[j]) / sum(TAGS[i] | TAGS[j])
        total += weight * (log_of_one_and(x) - together * x)
    assert losses.hashnet(activations(), **given, alpha=1.7, slope=slope).item() == pytest.approx(
        total / len(found), rel=1e-12
    )


@every_kind
@pytest.mark.parametrize("compiled", [True, False])
def test_mihash(kind: str, compiled: bool) -> None:
    given, own = related(kind)
    codes = np.tanh(1.3 * activations().detach().numpy())
    informations = []
    for i in range(N):
        table = np.zeros((2, BITS + 1))
        for j in range(N):
            if j != i:
                distance = (BITS - codes[i] @ codes[j]) / 2
                for d in range(BITS + 1):
                    table[int(own[i, j]), d] += max(0.0, 1 - abs(distance - d))
        joint = table / table.sum()
        if not joint.sum(1).all():
            continue
        outer = joint.sum(1, keepdims=True) * joint.sum(0)
        held = joint > 0
        informations.append((joint[held] * np.log(joint[held] / outer[held])).sum())
    found = losses.mihash(activations(), **given, alpha=1.3, compiled=compiled)
    assert found.item() == pytest.approx(-np.mean(informations), rel=1e-10)


def targets_of(given: np.ndarray, head: BinaryTargets) -> np.ndarray:
    table = head.targets.numpy()
    if given.ndim == 1:
        return table[given]
    rows = []
    for tags in given:
        balance = table[tags == 1].sum(0)
        rows.append([head.tie[bit].item() if value == 0 else np.sign(value) for bit, value in enumerate(balance)])
    return np.array(rows)


every_label = pytest.mark.parametrize("labels", [LABELS, TAGS], ids=["labels", "tags"])


@every_label
def test_csq(labels: np.ndarray) -> None:
    head, u = BinaryTargets(BITS, CLASSES), np.tanh(activations().detach().numpy())
    terms = []
    for code, target in zip(u.ravel(), targets_of(labels, head).ravel(), strict=True):
        chance = (code + 1) / 2
        terms.append(-math.log(chance if target > 0 else 1 - chance))
    expected = np.mean(terms) + 0.2 * np.mean((np.abs(u) - 1) ** 2)
    assert losses.csq(activations(), labels, head, quantization=0.2).item() == pytest.approx(expected, rel=1e-9)


@every_label
def test_dpn(labels: np.ndarray) -> None:
    head, u = BinaryTargets(BITS, CLASSES), activations().detach().numpy()
    expected = np.mean([max(0.9 - t * x, 0) for x, t in zip(u.ravel(), targets_of(labels, head).ravel(), strict=True)])
    assert losses.dpn(activations(), labels, head, margin=0.9).item() == pytest.approx(expected, rel=1e-9)


def entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Cross-entropy, of tags to probabilities that sum to 1."""
    terms = []
    for row, label in zip(logits, labels, strict=True):
        logs = row - math.log(sum(math.exp(value) for value in row))
        own = np.eye(CLASSES)[label] if labels.ndim == 1 else label / label.sum()
        terms.append(-sum(own * logs))
    return float(np.mean(terms))


@every_label
def test_orthohash(labels: np.ndarray) -> None:
    head, u = BinaryTargets(BITS, CLASSES), activations().detach().numpy()
    cosines = np.array([[x @ t / np.linalg.norm(x) / np.linalg.norm(t) for t in head.targets.numpy()] for x in u])
    own = np.eye(CLASSES)[labels] if labels.ndim == 1 else labels
    expected = entropy(5 * (cosines - 0.3 * own), labels)
    assert losses.orthohash(activations(), labels, head, scale=5, margin=0.3).item() == pytest.approx(
        expected, rel=1e-6
    )


@every_label
def test_greedy_hash(labels: np.ndarray) -> None:
    head, u = Classifier(BITS, CLASSES).double(), activations()
    signs = np.where(u.detach().numpy() > 0, 1.0, -1.0)
    logits = signs @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    distance = np.mean(np.abs(u.detach().numpy() - signs) ** 3)
    found = losses.greedy_hash(u, labels, head, quantization=0.4)
    assert found.item() == pytest.approx(entropy(logits, labels) + 0.4 * distance, rel=1e-9)
    losses.greedy_hash(u, labels, head, quantization=0).backward()  # the gradient of the signs is that of u
    given = torch.from_numpy(signs).requires_grad_()
    losses.greedy_hash(given, labels, head, quantization=0).backward()
    torch.testing.assert_close(u.grad, given.grad)


# Gradients


def with_head(name: str) -> Callable[[Tensor], Tensor]:
    kind = KINDS[name]
    head = [] if kind.head is None else [kind.head(BITS, CLASSES).double()]
    options = {"alpha": 1.1} if kind.alpha else {}
    return lambda u: kind.function(u, LABELS, *head, **options)


@pytest.mark.parametrize("name", ["dpsh", "dtsh", "hashnet", "mihash", "csq", "dpn", "orthohash"])
def test_gradients(name: str) -> None:
    assert torch.autograd.gradcheck(with_head(name), activations(5), eps=1e-6, atol=1e-6)


# Targets


@pytest.mark.parametrize("n_bits", [4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128])
def test_targets_are_orthogonal_where_there_is_a_hadamard_matrix(n_bits: int) -> None:
    targets = binary_targets(2 * n_bits, n_bits)
    assert set(np.unique(targets)) == {-1.0, 1.0}
    np.testing.assert_array_equal(targets[:n_bits] @ targets[:n_bits].T, n_bits * np.eye(n_bits))
    np.testing.assert_array_equal(targets[n_bits:], -targets[:n_bits])


@pytest.mark.parametrize(("n_classes", "n_bits"), [(10, 10), (20, 30), (100, 36), (150, 64)])
def test_other_targets_are_far_from_each_other_and_stay_with_more_classes(n_classes: int, n_bits: int) -> None:
    targets = binary_targets(n_classes, n_bits)
    distances = (n_bits - targets @ targets.T) / 2
    far = distances[np.triu_indices(n_classes, 1)]
    assert far.mean() >= n_bits / 2 - 0.5
    assert far.min() >= n_bits / 5
    np.testing.assert_array_equal(binary_targets(n_classes // 2, n_bits), targets[: n_classes // 2])
    if n_bits != 64:
        assert (binary_targets(n_classes, n_bits, seed=1) != targets).any()


# Learning


def toy() -> tuple[np.ndarray, np.ndarray]:
    """Three classes that no bit of the input tells apart alone."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), 40)
    centres = rng.normal(0, 1, (CLASSES, 12))
    return (centres[labels] + rng.normal(0, 0.7, (len(labels), 12))).astype(np.float32), labels


NAMED = ("mihash", "dpsh", "dtsh", "hashnet", "greedy-hash", "csq", "dpn", "orthohash")


@pytest.mark.parametrize("name", NAMED)
def test_a_network_learns_by_it(name: str) -> None:
    items, labels = toy()
    torch.manual_seed(0)
    network = torch.nn.Linear(12, BITS)
    settings = TrainingSettings(loss=name, epochs=25, batch_size=60, learning_rate=0.03, weight_decay=0)

    def score() -> float:
        with torch.no_grad():
            codes = la.Codes.pack(network(torch.from_numpy(items)).numpy() > 0)
        own = np.arange(len(items))
        return float(la.evaluate(codes, codes, la.same_label(labels, labels), ["AP"], exclude=(own, own))["AP"].mean)

    before = score()
    training = train(network, items, labels, settings)
    assert score() > max(0.93, before + 0.1)
    assert training.history[-1]["loss"] < training.history[0]["loss"]


@pytest.mark.parametrize("name", NAMED)
def test_tags_are_learned_from(name: str) -> None:
    items, labels = toy()
    tags = np.eye(CLASSES, dtype=int)[labels] | (np.arange(len(labels)) % 7 == 0)[:, None]
    training = train(
        torch.nn.Linear(12, BITS), items, tags, TrainingSettings(loss=name, epochs=3, batch_size=60, learning_rate=0.01)
    )
    assert np.isfinite([epoch["loss"] for epoch in training.history]).all()


# Bad input


def test_what_is_wrong_is_told() -> None:
    u, head, targets = activations().float(), Classifier(BITS, CLASSES), BinaryTargets(BITS, CLASSES)
    with pytest.raises(InputError, match="numbers of classes from 0 to 2, as the head is of 3 classes, got 0 to 7"):
        losses.csq(u, [0, 1, 2, 0, 1, 2, 0, 1, 7], targets)
    with pytest.raises(InputError, match="there are 4 tags, but the head is of 3 classes"):
        losses.greedy_hash(u, np.ones((N, 4)), head)
    with pytest.raises(InputError, match="9 of 9 examples have no tag: they have no target"):
        losses.orthohash(u, np.zeros((N, 3)), targets)
    with pytest.raises(InputError, match="slope must be above 0"):
        losses.hashnet(u, LABELS, slope=0)
    with pytest.raises(InputError, match="margin must be 0 or more"):
        losses.dtsh(u, LABELS, margin=-1)
    for loss in (losses.dpsh, losses.dtsh):
        with pytest.raises(InputError, match="quantization must be 0 or more"):
            loss(u, LABELS, quantization=-1)
    with pytest.raises(InputError, match="quantization must be 0 or more"):
        losses.csq(u, LABELS, targets, quantization=math.nan)
    with pytest.raises(InputError, match="csq has no such options: 'head'"):
        train(torch.nn.Linear(12, BITS), *toy(), TrainingSettings(loss="csq", options={"head": 1}))
    with pytest.raises(InputError, match="did you mean greedy-hash"):
        train(torch.nn.Linear(12, BITS), *toy(), TrainingSettings(loss="greedyhash"))
    with pytest.warns(RuntimeWarning, match="teach nothing"):
        losses.dtsh(u, np.arange(N))
