"""The metrics for torchmetrics and Lightning: equal to `la.evaluate`, bit for bit, however batches come."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
import torchmetrics
from torch.utils.data import DataLoader, TensorDataset

import lookalike as la
from lookalike.core.errors import InputError, MissingPackageError
from lookalike.integrations.torchmetrics import EmbeddingRetrieval, HammingRetrieval

METRICS = ["AP", "AP@20", "AP(norm='total')@20", "nDCG@10", "DCG", "P@5", "R@5", "P(radius=2)", "Hit@3", "RR", "AUC"]
METRICS += ["AUC(average='micro')", "PRAUC", "RBP", "VSDHR@5", "AP(empty='skip')@3"]
OF_CODES = [*METRICS, "LGAP@0", "LGAP@2"]
OF_EMBEDDINGS = [metric for metric in METRICS if "radius" not in metric]


def values_of(result: la.Evaluation) -> dict[str, float]:
    out = {}
    for metric, score in result.scores.items():
        out |= {f"{metric}": score.mean, f"{metric}/best": score.best, f"{metric}/worst": score.worst}
    return out


def computed(metric: torchmetrics.Metric) -> dict[str, float]:
    return {name: value.item() for name, value in metric.compute().items()}


class Searched:
    """Codes and embeddings with labels of all kinds: 60 queries, 500 items."""

    def __init__(self, n_bits: int = 12) -> None:
        rng = np.random.default_rng(n_bits)
        self.n_bits = n_bits
        self.fine = rng.integers(0, 12, 560)
        self.labels = {
            "labels": self.fine,
            "hierarchy": np.stack([self.fine, self.fine // 4], axis=1),
            "tags": (rng.random((560, 7)) < 0.3).astype(int),
        }
        noise = rng.random((560, n_bits)) < 0.2
        self.bits = (rng.integers(0, 2, (12, n_bits))[self.fine] ^ noise).astype(np.int64)
        self.embeddings = np.round(rng.standard_normal((560, 6)) + self.fine[:, None] % 5, 1).astype(np.float32)

    def relevance(self, kind: str) -> la.Relevance:
        labels = self.labels[kind]
        queries, gallery = labels[:60], labels[60:]
        if kind == "tags":
            return la.shared_tags(queries, gallery)
        return (
            la.hierarchy(tuple(queries.T), tuple(gallery.T)) if kind == "hierarchy" else la.same_label(queries, gallery)
        )

    def evaluated(self, kind: str = "labels", metrics: Any = OF_CODES, **options: Any) -> dict[str, float]:
        codes = la.Codes.pack(self.bits)
        return values_of(la.evaluate(codes[:60], codes[60:], self.relevance(kind), metrics, **options))


def give(metric: torchmetrics.Metric, vectors: Any, labels: Any, order: str = "queries first", step: int = 37) -> None:
    """Give 60 queries and the items in batches."""
    batches = [
        {"queries": vectors[i : i + step][: 60 - i], "labels": labels[i : i + step][: 60 - i]}
        for i in range(0, 60, step)
    ]
    items = [{"gallery": vectors[i : i + step], "labels": labels[i : i + step]} for i in range(60, len(vectors), step)]
    both = [*batches, *items] if order == "queries first" else [*items, *batches]
    for batch in both if order != "mixed" else [items[0], batches[0], items[1], batches[1], *items[2:]]:
        metric.update(**batch)


@pytest.mark.parametrize("kind", ["labels", "hierarchy", "tags"])
@pytest.mark.parametrize("n_bits", [1, 12, 64, 70])
def test_codes_in_batches_are_those_of_evaluate(n_bits: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, results = Searched(n_bits), []
    expected = data.evaluated(kind)
    monkeypatch.setattr("lookalike.integrations.torchmetrics.WAITING", 100)
    for order, options in (("queries first", {}), ("gallery first", {}), ("mixed", {"keep_gallery": True})):
        metric = HammingRetrieval(OF_CODES, n_bits=n_bits, relevance=kind, **options)
        give(metric, torch.tensor(data.bits), data.labels[kind], order)
        results.append(computed(metric))
    assert results == [expected] * 3


@pytest.mark.parametrize("kind", ["labels", "hierarchy", "tags"])
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_embeddings_in_batches_are_those_of_evaluate(similarity: str, kind: str) -> None:
    data, metrics = Searched(), METRICS if similarity == "euclidean" else OF_EMBEDDINGS
    x = data.embeddings
    expected = values_of(la.evaluate(x[:60], x[60:], data.relevance(kind), metrics, similarity=similarity))
    for order in ("queries first", "gallery first", "mixed"):
        metric = EmbeddingRetrieval(metrics, similarity=similarity, relevance=kind)
        give(metric, torch.tensor(x, requires_grad=True), torch.tensor(data.labels[kind]), order)
        assert computed(metric) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_embeddings_keep_their_type(dtype: torch.dtype) -> None:
    x = torch.tensor(Searched().embeddings).to(dtype)
    metric = EmbeddingRetrieval("AP")
    give(metric, x, Searched().fine)
    array = (x.float() if dtype == torch.bfloat16 else x).numpy()
    assert computed(metric) == values_of(la.evaluate(array[:60], array[60:], Searched().relevance("labels"), "AP"))


@pytest.mark.parametrize("form", ["signs", "floats", "booleans", "bytes", "codes"])
def test_codes_come_in_many_forms(form: str) -> None:
    data = Searched()
    bits = torch.tensor(data.bits)
    forms = {"signs": bits * 2 - 1, "floats": (bits * 2 - 1).float(), "booleans": bits.bool()}
    forms |= {"bytes": bits.to(torch.uint8), "codes": la.Codes.pack(data.bits)}
    metric = HammingRetrieval(OF_CODES, n_bits=12)
    give(metric, forms[form], data.fine)
    assert computed(metric) == data.evaluated()


def test_items_are_queries_to_all_others() -> None:
    data = Searched()
    codes, same = la.Codes.pack(data.bits), la.same_label(data.fine, data.fine)
    hamming, embedding = HammingRetrieval(OF_CODES, n_bits=12), EmbeddingRetrieval(OF_EMBEDDINGS)
    order = np.random.default_rng(0).permutation(560)  # ids put them in order again
    for rows in np.array_split(order, 9):
        hamming.update(items=torch.tensor(data.bits[rows]), labels=data.fine[rows], ids=rows)
        embedding.update(items=torch.tensor(data.embeddings[rows]), labels=data.fine[rows], ids=torch.tensor(rows))
    assert computed(hamming) == values_of(la.evaluate(codes, codes, same, OF_CODES, exclude="self"))
    x = data.embeddings
    assert computed(embedding) == values_of(la.evaluate(x, x, same, OF_EMBEDDINGS, exclude="self"))


@pytest.mark.parametrize("keep", [False, True])
def test_a_query_does_not_find_itself_by_its_id(keep: bool) -> None:
    data = Searched()
    codes, ids = la.Codes.pack(data.bits), np.arange(560) + 1000
    relevance = la.same_label(data.fine[:60], data.fine)
    expected = la.evaluate(codes[:60], codes, relevance, OF_CODES, query_ids=ids[:60], gallery_ids=ids, exclude="self")
    metric = HammingRetrieval(OF_CODES, n_bits=12, exclude="self", keep_gallery=keep)
    metric.update(queries=torch.tensor(data.bits[:60]), labels=data.fine[:60], ids=ids[:60])
    for rows in np.array_split(np.arange(560), 5):
        metric.update(gallery=torch.tensor(data.bits[rows]), labels=data.fine[rows], ids=ids[rows])
    assert computed(metric) == values_of(expected)


def test_both_in_one_call_and_forward() -> None:
    data = Searched()
    bits = torch.tensor(data.bits)
    metric = HammingRetrieval(OF_CODES, n_bits=12)
    batch = {"queries": bits[:60], "query_labels": data.fine[:60]}
    assert metric(**batch) == {}
    half = metric.forward(gallery=bits[60:300], labels=data.fine[60:300])
    assert half == {}  # a gallery alone has no value
    metric.update(gallery=bits[300:], labels=data.fine[300:])
    assert computed(metric) == data.evaluated()
    whole = HammingRetrieval(OF_CODES, n_bits=12, keep_gallery=True)
    first = whole(**batch, gallery=bits[60:], gallery_labels=data.fine[60:])
    assert {name: value.item() for name, value in first.items()} == data.evaluated()
    second = whole(queries=bits[:9], query_labels=data.fine[:9], gallery=bits[9:20], gallery_labels=data.fine[9:20])
    assert second != first
    assert whole.update_count == 2
    assert len(torch.cat(whole.queries)) == 69  # both batches are kept


def test_memory_does_not_grow_with_the_gallery() -> None:
    data = Searched(64)

    def size_after(times: int) -> int:
        metric = HammingRetrieval("AP@1000 nDCG@100", n_bits=64)
        metric.update(queries=data.bits[:60], labels=data.fine[:60])
        for _ in range(times):
            metric.update(gallery=np.repeat(data.bits[60:], 10, axis=0), labels=np.repeat(data.fine[60:], 10))
        states = [
            part for state in metric.metric_state.values() for part in (state if isinstance(state, list) else [state])
        ]
        return sum(part.numel() * part.element_size() for part in states)

    assert size_after(2) == size_after(20)


def test_collections_prefix_names_and_keep_metrics_apart() -> None:
    """A collection updates one of those metrics whose states are equal, and lets the others share them."""
    data = Searched()
    metrics = {
        "ap": HammingRetrieval("AP@20", n_bits=12),
        "near": HammingRetrieval("LGAP@2", n_bits=12),
        "dcg": HammingRetrieval("nDCG@10", n_bits=12),
    }
    collection = torchmetrics.MetricCollection(metrics, prefix="val/")
    for _ in range(2):
        give(collection, torch.tensor(data.bits), data.fine)
        expected = data.evaluated(metrics="AP@20 LGAP@2 nDCG@10")
        assert {name: value.item() for name, value in collection.compute().items()} == {
            f"val/{name}": value for name, value in expected.items()
        }
        assert sorted(map(sorted, collection.compute_groups.values())) == [["ap", "dcg"], ["near"]]
        collection.reset()
    both = torchmetrics.MetricCollection(
        {"a": EmbeddingRetrieval("AP"), "b": EmbeddingRetrieval("AP", similarity="dot")}
    )
    give(both, torch.tensor(data.embeddings), data.fine)
    assert list(both.compute()) == [f"{side}_AP{part}" for side in "ab" for part in ("", "/best", "/worst")]
    first = {
        "queries": data.embeddings[:60],
        "query_labels": data.fine[:60],
    }  # by a call after an update: states are shared
    again = both.clone()
    again.reset()
    again.update(**first)
    again(gallery=data.embeddings[60:], gallery_labels=data.fine[60:])
    assert again.compute() == both.compute()
    tracker = torchmetrics.MetricTracker(torchmetrics.MetricCollection([EmbeddingRetrieval("AP")]), maximize=True)
    tracker.increment()
    give(tracker, torch.tensor(data.embeddings), data.fine)
    assert tracker.best_metric()["AP"] == both.compute()["a_AP"].item()


@pytest.mark.parametrize("keep", [False, True])
def test_states_merge(keep: bool) -> None:
    data, bits = Searched(), torch.tensor(Searched().bits)
    parts = []
    for rows in (slice(60, 200), slice(200, 560)):
        part = HammingRetrieval(OF_CODES, n_bits=12, keep_gallery=keep)
        if not keep or rows.start == 60:
            part.update(queries=bits[:60], labels=data.fine[:60])
        part.update(gallery=bits[rows], labels=data.fine[rows])
        parts.append(part)
    whole = HammingRetrieval(OF_CODES, n_bits=12, keep_gallery=keep)
    for part in parts:
        part.compute() if not keep else None  # which counts what waits
        whole.merge_state(part)
    assert computed(whole) == data.evaluated()
    parts[0].merge_state(parts[1].metric_state)
    assert computed(parts[0]) == data.evaluated()
    embedding = [EmbeddingRetrieval("AP"), EmbeddingRetrieval("AP")]
    embedding[0].update(queries=data.embeddings[:60], labels=data.fine[:60])
    embedding[1].update(gallery=data.embeddings[60:], labels=data.fine[60:])
    embedding[0].merge_state(embedding[1])
    x = data.embeddings
    assert computed(embedding[0]) == values_of(la.evaluate(x[:60], x[60:], data.relevance("labels"), "AP"))


def test_what_cannot_be_merged() -> None:
    data, bits = Searched(), torch.tensor(Searched().bits)
    metric, other = HammingRetrieval("AP", n_bits=12), HammingRetrieval("AP", n_bits=12)
    metric.update(queries=bits[:9], labels=data.fine[:9])
    other.update(queries=bits[1:9], labels=data.fine[1:9])
    with pytest.raises(InputError, match="different queries"):
        metric.merge_state(other)
    for stranger, message in (
        (EmbeddingRetrieval("AP"), "only a HammingRetrieval"),
        (HammingRetrieval("LGAP@1", n_bits=12), "not made in the same way"),
        ({}, "states to merge lack queries"),
    ):
        with pytest.raises(InputError, match=message):
            metric.merge_state(stranger)
    own = HammingRetrieval("AP", n_bits=12)
    own.update(items=bits[:9], labels=data.fine[:9])
    with pytest.raises(InputError, match="another items"):
        metric.merge_state(own)


def test_copies_pickles_and_states() -> None:
    data = Searched()
    metric = HammingRetrieval(OF_CODES, n_bits=12)
    give(metric, torch.tensor(data.bits), data.fine)
    expected = data.evaluated()
    assert metric.state_dict() == {}
    for other in (metric.clone(), pickle.loads(pickle.dumps(metric)), metric.to("cpu").half().set_dtype(torch.float16)):
        assert computed(other) == expected
    metric.persistent(True)
    other = HammingRetrieval(OF_CODES, n_bits=12)
    other.load_state_dict(metric.state_dict())
    other._update_count = 1  # torchmetrics does not restore it, and would warn
    assert computed(other) == expected
    metric.reset()
    assert metric.update_count == 0
    give(metric, torch.tensor(data.bits), data.fine)
    assert computed(metric) == expected


def test_more_items_after_a_number() -> None:
    data, bits = Searched(), torch.tensor(Searched().bits)
    metric = HammingRetrieval(OF_CODES, n_bits=12)
    metric.update(queries=bits[:60], labels=data.fine[:60])
    metric.update(gallery=bits[60:100], labels=data.fine[60:100])
    first = computed(metric)
    metric.update(gallery=bits[100:], labels=data.fine[100:])
    assert first != computed(metric) == data.evaluated()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*LeafSpec:FutureWarning")
def test_the_example_for_lightning() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "integrations.md").read_text()
    (block,) = re.findall(r"(?s)```python\n(class Hashing.*?)```", page)
    names = {"lightning": lightning, "la": la, "torch": torch, "HammingRetrieval": HammingRetrieval}
    exec(block, names)  # the page of this very repository
    data = Searched()
    x, y = torch.tensor(data.embeddings), torch.tensor(data.fine)
    module = names["Hashing"](torch.nn.Linear(6, 8), 8)  # type: ignore[operator]
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    loaders = [DataLoader(TensorDataset(x[rows], y[rows]), batch_size=64) for rows in (slice(60), slice(60, None))]
    trainer.fit(module, DataLoader(TensorDataset(x, y), batch_size=280), loaders)
    codes = la.Codes.pack(module.network(x) > 0)
    expected = values_of(la.evaluate(codes[:60], codes[60:], data.relevance("labels"), "AP@1000 P@1"))
    assert {name: value.item() for name, value in trainer.callback_metrics.items()} == expected


CODE, EMBEDDING = torch.zeros((2, 12)), torch.ones((2, 3))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({}, "update needs a batch"),
        ({"queries": CODE}, "queries need labels"),
        ({"queries": CODE, "labels": [1]}, r"there are 2 queries, but labels of the shape \(1,\)"),
        ({"queries": CODE, "labels": ["a", "b"]}, "number them"),
        ({"queries": CODE, "labels": [0.5, 1]}, "whole numbers, got fractions"),
        ({"queries": CODE, "labels": torch.ones((2, 3))}, "relevance='tags'"),
        ({"queries": CODE, "labels": [1, 2], "ids": [1]}, "ids of the shape"),
        ({"queries": CODE[:, :11], "labels": [1, 2]}, r"shape \(n, 12\)"),
        ({"queries": la.Codes.pack([[1]]), "labels": [1]}, "codes of 1 bits, but n_bits is 12"),
        ({"queries": CODE + 0.3, "labels": [1, 2]}, r"got 0\.3: for activations pass activations\.sign\(\)"),
        ({"queries": torch.arange(-1, 11.0).sign()[None], "labels": [1]}, "sign of 0"),
        ({"queries": CODE, "gallery": CODE, "labels": [1, 2]}, "pass query_labels and gallery_labels"),
        ({"queries": CODE, "labels": [1, 2], "gallery_labels": [1, 2]}, "gallery_labels are given, but no gallery"),
        ({"queries": CODE, "labels": [1, 2], "query_labels": [1, 2]}, "labels and query_labels are given"),
        ({"items": CODE, "queries": CODE, "labels": [1, 2]}, "give items alone"),
    ],
)
def test_mistakes_of_a_batch_are_named(batch: dict[str, Any], message: str) -> None:
    metric = HammingRetrieval("AP", n_bits=12)
    with pytest.raises(InputError, match=message):
        metric.update(**batch)
    assert not metric.queries  # nothing was kept


def test_mistakes_between_batches_are_named() -> None:
    metric = HammingRetrieval("AP", n_bits=12)
    metric.update(queries=CODE, labels=[1, 2])
    with pytest.raises(InputError, match="others have none"):
        metric.update(queries=CODE, labels=[1, 2], ids=[1, 2])
    with pytest.raises(InputError, match="give items alone"):
        metric.update(items=CODE, labels=[1, 2])
    with pytest.raises(InputError, match="no gallery was given"):
        metric.compute()
    metric.update(gallery=CODE, labels=[1, 2])
    with pytest.raises(InputError, match="keep_gallery=True"):
        metric.update(queries=CODE, labels=[1, 2])
    metric.compute()
    with pytest.raises(InputError, match="others have none"):
        metric.update(gallery=CODE, labels=[1, 2], ids=[1, 2])
    embedding = EmbeddingRetrieval("AP", exclude="self")
    with pytest.raises(InputError, match="exclude='self' needs ids"):
        embedding.update(queries=EMBEDDING, labels=[1, 2])
    embedding.update(gallery=EMBEDDING, labels=[1, 2], ids=[1, 2])
    for batch, message in (
        (EMBEDDING.double(), "float64"),
        (EMBEDDING[:, 1:], "2 columns"),
        (EMBEDDING.long(), "codes are"),
    ):
        with pytest.raises(InputError, match=message):
            embedding.update(queries=batch, labels=[1, 2], ids=[1, 2])
    with pytest.raises(InputError, match="no queries were given"):
        embedding.compute()
    both = {"queries": EMBEDDING, "gallery": EMBEDDING.double(), "query_labels": [1, 2], "gallery_labels": [1, 2]}
    with pytest.raises(InputError, match="as many columns, of one type"):
        EmbeddingRetrieval("AP").update(**both)
    embedding = EmbeddingRetrieval("AP")
    embedding.update(items=EMBEDDING * torch.nan, labels=[1, 2])
    with pytest.raises(InputError, match="hold nan"):
        embedding.compute()


def test_repeated_ids(caplog: pytest.LogCaptureFixture) -> None:
    """Counted items cannot be taken back; items that are kept are taken once."""
    data = Searched()
    bits, ids = torch.tensor(data.bits), np.arange(560)
    padded = np.r_[60:560, 60:65]
    counted, kept = (HammingRetrieval("AP", n_bits=12, keep_gallery=keep) for keep in (False, True))
    for metric in (counted, kept):
        metric.update(queries=bits[:60], labels=data.fine[:60], ids=ids[:60])
        for rows in np.array_split(padded, 2):
            metric.update(gallery=bits[rows], labels=data.fine[rows], ids=ids[rows])
    with pytest.raises(InputError, match="DistributedSampler"):
        counted.compute()
    assert computed(kept) == data.evaluated(metrics="AP")
    assert "5 of 505 gallery items have the id of another" in caplog.text
    kept.update(gallery=bits[:1], labels=data.fine[60:61] + 1, ids=[60])
    with pytest.raises(InputError, match="different labels"):
        kept.compute()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HammingRetrieval("AP", n_bits=0), "n_bits"),
        (lambda: HammingRetrieval("mapp", n_bits=8), "there is no metric"),
        (lambda: HammingRetrieval("AUC(negatives='sampled')", n_bits=8), "judged pairs"),
        (lambda: HammingRetrieval("AP", n_bits=8, relevance="label"), "relevance"),
        (lambda: EmbeddingRetrieval("AP", exclude="me"), "exclude"),
        (lambda: EmbeddingRetrieval("LGAP@2"), "LGAP is a metric of codes"),
        (lambda: EmbeddingRetrieval("P(radius=2)"), "a radius needs a distance"),
        (lambda: EmbeddingRetrieval("AP", similarity="l2"), "similarity"),
    ],
)
def test_mistakes_are_named_when_a_metric_is_made(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("package", ["torchmetrics", "pytorch_metric_learning"])
def test_a_missing_package_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"lookalike.integrations.{package}", raising=False)
    with pytest.raises(MissingPackageError, match=f"not installed: pip install {package.replace('_', '-')}$"):
        importlib.import_module(f"lookalike.integrations.{package}")


def test_importing_the_room_loads_none_of_it() -> None:
    heavy = {"torch", "torchmetrics", "pytorch_metric_learning"}
    code = f"import lookalike.integrations, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(("metrics", "direction"), [(["AP"], True), (["FNMR"], False), (["AP", "FNMR"], None)])
def test_which_direction_is_better(metrics: list[str], direction: bool | None) -> None:
    assert HammingRetrieval(metrics, n_bits=8).higher_is_better is direction
