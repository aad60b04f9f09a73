"""Two real processes, connected by gloo, give the numbers of one, bit for bit, or the same error in both."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lookalike as la
from lookalike.core.errors import InputError
from lookalike.integrations.torchmetrics import EmbeddingRetrieval, HammingRetrieval

N, QUERIES = 400, 50
OF_CODES, OF_EMBEDDINGS = "AP AP@20 nDCG@10 LGAP@2 AUC(average='micro')", "AP nDCG@10 P@3"
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 8, N)
TAGS = (RNG.random((N, 5)) < 0.4).astype(int)
BITS = (RNG.integers(0, 2, (8, 16))[LABELS] ^ (RNG.random((N, 16)) < 0.2)).astype(int)
EMBEDDINGS = np.round(RNG.standard_normal((N, 6)) + LABELS[:, None] % 3, 1)
IDS = np.arange(N)


def of_queries(
    vectors: np.ndarray, rows: slice = slice(0, QUERIES), labels: np.ndarray = LABELS, **more: Any
) -> dict[str, Any]:
    return {"queries": torch.tensor(vectors[rows]), "labels": labels[rows], **more}


def of_items(vectors: np.ndarray, rows: Any, labels: np.ndarray = LABELS, **more: Any) -> dict[str, Any]:
    return {"gallery": torch.tensor(vectors[rows]), "labels": labels[rows], **more}


def scenarios(rank: int) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Metrics, and the batches that a process gives them."""
    part = (slice(QUERIES, 300), slice(300, N))[rank]  # parts of different length
    half = (slice(0, 20), slice(20, QUERIES))[rank]
    padded = np.append(np.arange(QUERIES, N - 1)[rank::2], 60)
    own = np.append(np.arange(N - 1)[rank::2], 0)[:200]  # as a DistributedSampler: the second repeats the first item
    codes = {"n_bits": 16}
    return {
        "codes": (HammingRetrieval(OF_CODES, **codes), [of_queries(BITS), of_items(BITS, part)]),
        "tags": (
            HammingRetrieval("nDCG AP", relevance="tags", **codes),
            [of_queries(BITS, labels=TAGS), of_items(BITS, part, TAGS)],
        ),
        "codes in one process": (
            HammingRetrieval(OF_CODES, **codes),
            [of_queries(BITS), of_items(BITS, slice(QUERIES, N))][: 2 - rank],
        ),
        "codes of parts of queries": (
            HammingRetrieval(OF_CODES, keep_gallery=True, **codes),
            [of_queries(BITS, half), of_items(BITS, part)],
        ),
        "items": (
            HammingRetrieval(OF_CODES, **codes),
            [{"items": torch.tensor(BITS[own]), "labels": LABELS[own], "ids": IDS[own]}],
        ),
        "embeddings": (EmbeddingRetrieval(OF_EMBEDDINGS), [of_queries(EMBEDDINGS, half), of_items(EMBEDDINGS, part)]),
        "embeddings in one process": (
            EmbeddingRetrieval(OF_EMBEDDINGS),
            [of_queries(EMBEDDINGS), of_items(EMBEDDINGS, slice(QUERIES, N))] * (1 - rank),
        ),
        "other queries": (HammingRetrieval("AP", **codes), [of_queries(BITS, half), of_items(BITS, part)]),
        "no queries": (HammingRetrieval("AP", **codes), [of_queries(BITS), of_items(BITS, part)][rank:]),
        "repeated items": (
            HammingRetrieval("AP", **codes),
            [of_queries(BITS, ids=IDS[:QUERIES]), of_items(BITS, padded, ids=IDS[padded])],
        ),
        "other options": (HammingRetrieval(("AP", "LGAP@2")[rank], **codes), [of_queries(BITS), of_items(BITS, part)]),
        "other columns": (EmbeddingRetrieval("AP"), [of_queries(EMBEDDINGS[:, rank:])]),
        "ids in one": (
            EmbeddingRetrieval("AP"),
            [of_queries(EMBEDDINGS, **({"ids": IDS[:QUERIES]} if rank else {})), of_items(EMBEDDINGS, part)],
        ),
        "items in one": (
            EmbeddingRetrieval("AP"),
            [of_queries(EMBEDDINGS) if rank else {"items": torch.tensor(EMBEDDINGS), "labels": LABELS}],
        ),
    }  # fmt: skip


def run(rank: int, folder: str) -> None:
    """What one of two processes does: it writes down every number, or the error."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    out: dict[str, Any] = {}
    for name, (metric, batches) in scenarios(rank).items():
        for batch in batches:
            metric.update(**batch)
        metric._update_count = max(1, metric._update_count)  # torchmetrics would warn where a process was given nothing
        try:
            out[name] = {key: value.item() for key, value in metric.compute().items()}
        except InputError as error:
            out[name] = str(error)
    metric, batches = scenarios(rank)["codes"]
    metric.update(**batches[0])
    first, second = (slice(QUERIES, 100), slice(100, 150)), (slice(150, 300), slice(300, N))
    metric.update(**of_items(BITS, first[rank]))
    metric.compute()
    metric.update(**of_items(BITS, second[rank]))  # what was gathered is not kept
    out["codes after a number"] = {key: value.item() for key, value in metric.compute().items()}
    Path(folder, f"{rank}.json").write_text(json.dumps(out))
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("gloo")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=run, args=(rank, str(folder))) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
    assert [process.exitcode for process in processes] == [0, 0]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def expected(name: str) -> dict[str, float]:
    codes, relevance = la.Codes.pack(BITS), la.same_label(LABELS[:QUERIES], LABELS[QUERIES:])
    if name == "items":
        rows = slice(0, N - 1)
        same = la.same_label(LABELS[rows], LABELS[rows])
        result = la.evaluate(codes[rows], codes[rows], same, OF_CODES, exclude="self")
    elif name.startswith("embeddings"):
        result = la.evaluate(EMBEDDINGS[:QUERIES], EMBEDDINGS[QUERIES:], relevance, OF_EMBEDDINGS)
    elif name == "tags":
        tags = la.shared_tags(TAGS[:QUERIES], TAGS[QUERIES:])
        result = la.evaluate(codes[:QUERIES], codes[QUERIES:], tags, "nDCG AP")
    else:
        result = la.evaluate(codes[:QUERIES], codes[QUERIES:], relevance, OF_CODES)
    out = {}
    for metric, score in result.scores.items():
        out |= {f"{metric}": score.mean, f"{metric}/best": score.best, f"{metric}/worst": score.worst}
    return out


NAMES = ["codes", "tags", "codes in one process", "codes of parts of queries", "items", "codes after a number"]


@pytest.mark.parametrize("name", [*NAMES, "embeddings", "embeddings in one process"])
def test_two_processes_give_the_numbers_of_one(name: str, results: list[dict[str, Any]]) -> None:
    assert [result[name] for result in results] == [expected(name)] * 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other queries", "process 1 has other queries than process 0"),
        ("no queries", "process 1 has no queries"),
        ("repeated items", "items were counted twice, such as the one with id 60"),
        ("other options", "not made in the same way in every process"),
        ("other columns", "have other columns than those of another"),
        ("ids in one", "not every process has ids of the queries"),
        ("items in one", "process 1 was given queries or a gallery, another items"),
    ],
)
def test_both_processes_say_what_is_wrong(name: str, message: str, results: list[dict[str, Any]]) -> None:
    assert results[0][name] == results[1][name]
    assert message in results[0][name]
