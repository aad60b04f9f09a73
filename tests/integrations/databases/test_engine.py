"""Engines measured: their own answers, beside the exact ones of the same items."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.commands import done, numbers, refused, run
from helpers.judges import Server
from helpers.vector_tables import PASSWORD, Shop, address_of, database, to_lance, to_postgres, to_qdrant
from lookalike.core.codes import Codes
from lookalike.evaluation.item_files import Items
from lookalike.integrations.databases.measure import measure_engine

METRICS = "P@10 AP@10 AP(norm='total')@10 nDCG@5 R@10 Hit@1 RR@10"


@pytest.fixture
def queries(digits: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> Path:
    """Digits that are not in the shop, with labels."""
    rows = slice(1000, 1040)
    np.savez(tmp_path / "q.npz", embeddings=digits[0][rows], labels=digits[1][rows])
    return tmp_path / "q.npz"


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What `evaluate --json` printed; what was assumed is told on standard error, and is not a matter here."""
    code, out, err = run(capsys, "evaluate", *arguments, "--json")
    assert code == 0, err
    parsed: dict[str, Any] = json.loads(out)
    return parsed


# What is reported


def test_an_engine_that_is_exact_answers_within_the_bounds(
    write: Callable[[Shop], str], shop: Shop, queries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = told(capsys, queries, "--engine", write(shop), "--similarity", "euclidean", "--metrics", f"{METRICS} AP")
    assert saved["recall"]["tie_aware"] == 1
    assert saved["recall"]["by_id"] <= 1  # the shop has duplicates; LanceDB orders them as they are stored
    assert saved["latency_ms"]["p99"] >= saved["latency_ms"]["p50"] > 0
    exact = {row["name"]: row for row in saved["exact"]["scores"]}
    assert set(exact) - {row["name"] for row in saved["engine_scores"]} == {"AP"}
    for row in saved["engine_scores"]:
        low, high = (np.array(exact[row["name"]][f"{end}_per_query"]) for end in ("worst", "best"))
        assert (low - 1e-12 <= np.array(row["per_query"])).all()
        assert (np.array(row["per_query"]) <= high + 1e-12).all()


def test_the_exact_numbers_are_those_of_a_file(
    write: Callable[[Shop], str], shop: Shop, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"ids": np.arange(len(shop.vectors)), "labels": np.array(shop.columns["label"])}
    np.savez(tmp_path / "gallery.npz", embeddings=shop.vectors, **columns)
    options = ("--similarity", "euclidean", "--metrics", f"{METRICS} AP AUC")
    of_file = numbers(capsys, "evaluate", queries, tmp_path / "gallery.npz", *options)
    assert told(capsys, queries, "--engine", write(shop), *options)["exact"] == of_file


def test_codes_are_asked_for_bit_by_bit(
    vectors_url: str, bits: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "q.npz", codes=bits.vectors[:30], labels=np.array(bits.columns["label"])[:30])
    results = [
        told(capsys, tmp_path / "q.npz", "--engine", address, "--metrics", METRICS)
        for address in (
            to_postgres(vectors_url, bits),
            to_lance(tmp_path / "l", bits, "little"),
            to_lance(tmp_path / "b", bits, "big") + "?bitorder=big",
        )
    ]
    for result in results:
        assert result["recall"]["tie_aware"] == 1
        assert result["exact"]["scores"] == results[0]["exact"]["scores"]
    wrong = to_lance(tmp_path / "w", bits, "big")  # read as if the first bit were the lowest
    assert told(capsys, tmp_path / "q.npz", "--engine", wrong)["exact"]["scores"] != results[0]["exact"]["scores"]


def test_a_table_is_shown(shop: Shop, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = done(
        capsys, "evaluate", queries, "--engine", to_lance(tmp_path, shop), "--metrics", "P@10 AP@20", "--engine-k", 10
    )
    lines = out.splitlines()
    assert lines[0].split() == ["metric", "engine", "exact", "best", "worst", "undefined"]
    assert lines[2].split()[1] == "–"  # 10 answers do not tell AP@20
    assert any(line.startswith("recall@10: 1.0000, ") for line in lines)
    assert any(line.startswith("time of a query: p50 ") for line in lines)


def test_a_result_is_saved_as_it_is_printed(
    shop: Shop, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = told(capsys, queries, "--engine", to_lance(tmp_path, shop), "--output", tmp_path / "saved.json")
    assert json.loads((tmp_path / "saved.json").read_text()) == printed


# An index


@pytest.mark.parametrize("kind", ["pgvector", "lancedb"])
def test_an_index_is_used_with_its_own_similarity_and_settings(
    kind: str, vectors_url: str, server: Server, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With duplicates, ids blame an index for what it did not do; with little effort it does miss items."""
    generator = np.random.default_rng(0)
    spread = generator.normal(size=(2000, 32)).astype(np.float32)
    shop = Shop(np.concatenate([spread, *[spread[:40]] * 15]), {"label": (np.arange(2600) % 7).tolist()})
    np.savez(tmp_path / "q.npz", embeddings=spread[20:60] + np.float32(0.01), labels=np.arange(40) % 7)
    if kind == "pgvector":
        address = to_postgres(vectors_url, shop)
        server.run(f"CREATE INDEX nearest ON {address.rpartition('=')[2]} USING hnsw (emb vector_ip_ops) "
                   "WITH (m = 8, ef_construction = 64)", vectors_url)  # fmt: skip
        little, much, name = ["hnsw.ef_search=10"], ["hnsw.ef_search=1000"], "nearest"
        for settings in (little, much):
            settings.append("enable_seqscan=off")  # a table this small is read as fast
    else:
        import lancedb
        from lancedb.index import IvfFlat

        address = to_lance(tmp_path / "l", shop, table="items")
        table = lancedb.connect(tmp_path / "l").open_table("items")
        table.create_index("emb", config=IvfFlat(distance_type="dot", num_partitions=40))
        little, much, name = ["nprobes=1"], ["nprobes=40"], "emb_idx"
    recalls = []
    for settings in (little, much):
        options = [word for setting in settings for word in ("--engine-option", setting)]
        saved = told(capsys, tmp_path / "q.npz", "--engine", address, *options, "--metrics", "P@10")
        assert saved["similarity"] == "dot"
        assert any(note.endswith(f"uses the index {name}") for note in saved["notes"])
        recalls.append(saved["recall"]["tie_aware"])
        assert saved["recall"]["by_id"] <= recalls[-1]
    assert recalls[0] <= recalls[1]  # pgvector draws the levels of its graph by chance
    assert recalls[1] > 0.9
    if kind == "pgvector":  # LanceDB orders duplicates as they are stored
        assert saved["recall"]["by_id"] < recalls[1]
    other = told(capsys, tmp_path / "q.npz", "--engine", address, "--similarity", "cosine", "--metrics", "P@10")
    assert any("uses no index: it reads the whole table" in note for note in other["notes"])
    assert other["recall"]["tie_aware"] == 1


def test_an_engine_that_answers_too_few(
    vectors_url: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index of pgvector gives hnsw.ef_search items at most: the places that it leaves empty count nothing."""
    vectors = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    address = to_postgres(vectors_url, Shop(vectors, {"label": [1] * 300}))
    table = address.rpartition("=")[2]
    server.run(f"CREATE INDEX ON {table} USING hnsw (emb vector_cosine_ops)", vectors_url)
    np.savez(tmp_path / "q.npz", embeddings=vectors[:5], labels=np.ones(5, int))
    options = (
        "--engine-option",
        "hnsw.ef_search=4",
        "--engine-option",
        "enable_seqscan=off",
        "--metrics",
        "P@10 Hit@10",
    )
    saved = told(capsys, tmp_path / "q.npz", "--engine", address, *options)
    assert [row["mean"] for row in saved["engine_scores"]] == [0.4, 1]
    assert saved["recall"]["tie_aware"] == pytest.approx(0.4)


def test_an_extension_in_a_schema_of_its_own(server: Server) -> None:
    from lookalike.integrations.databases import open_database

    url = database(server, "apart", extension=False)
    server.run("CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions", url)
    server.run("CREATE TABLE items (id int PRIMARY KEY, v extensions.vector(2), h extensions.halfvec(2))", url)
    server.run("INSERT INTO items VALUES (1, '[1,0]', '[1,0]'), (2, '[0,1]', '[0,1]')", url)
    for column in ("v", "h"):
        source = open_database(address_of(url, "items", vector=column))
        assert source is not None
        (page,) = source.pages(10)
        assert page["embeddings"].tolist() == [[1, 0], [0, 1]]
        with source.searching("cosine", {"hnsw.ef_search": "20"}) as search:
            assert search.ask(search.prepare(np.array([0.1, 1.0])), 2) == [2, 1]


# Numbers against definitions


class Given:
    """A search that answers what it is given, to hold the metrics of answers against those of a run."""

    notes = ()

    def __init__(self, answers: list[list[int]], similarity: str | None) -> None:
        self.answers, self.similarity = [answers[0], *answers], similarity  # the first query is asked twice

    def prepare(self, query: Any) -> Any:
        return query

    def ask(self, query: Any, k: int) -> list[int]:
        return self.answers.pop(0)[:k]


def test_metrics_of_answers_are_those_of_the_run() -> None:
    generator = np.random.default_rng(3)
    n_queries, n_items, k = 25, 40, 8
    tags = [generator.integers(0, 2, (n, 3)) for n in (n_queries, n_items)]
    gallery = Items(Path("g"), generator.normal(size=(n_items, 3)), ids=np.arange(n_items))
    queries = Items(Path("q"), generator.normal(size=(n_queries, 3)))
    relevance = la.shared_tags(*tags)
    answers = [generator.permutation(n_items)[: generator.integers(1, k + 1)].tolist() for _ in range(n_queries)]
    metrics = ["P@8", "AP@8", "AP(norm='min')@5", "nDCG@8", "DCG@3", "R@8", "RR@8", "Hit@2", "P(rel=2)@8", "RBP@8"]
    result = measure_engine(Given(answers, "cosine"), queries, gallery, relevance, k, metrics=metrics)
    grades = relevance.block(slice(0, n_queries), slice(0, n_items))
    judged = la.judged([(q, item, int(grades[q, item])) for q in range(n_queries) for item in range(n_items)])
    ranked = {q: {item: -float(rank) for rank, item in enumerate(items)} for q, items in enumerate(answers)}
    run_of_it = la.evaluate_run(ranked, judged, metrics)
    assert len(result.scores) == len(metrics)
    for metric, score in result.scores.items():
        assert np.allclose(score.per_query, run_of_it[metric].per_query, atol=1e-12), metric
        assert np.array_equal(score.best_per_query, score.worst_per_query), metric  # its order is given


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", None])
def test_recall_against_its_definition(similarity: str | None) -> None:
    """An item counts if fewer than k others are nearer: whole numbers, so that distances are exact."""
    generator = np.random.default_rng(1)
    n_queries, n_items, k = 30, 25, 6
    if similarity is None:
        sides: Any = [Codes.pack(generator.integers(0, 2, (n, 5))) for n in (n_queries, n_items)]
        score = -(sides[0].unpack()[:, None] != sides[1].unpack()).sum(2)
    else:
        sides = [generator.integers(1, 4, (n, 2)).astype(np.float32) for n in (n_queries, n_items)]
        left, right = (side.astype(np.float64) for side in sides)
        score = left @ right.T
        if similarity == "cosine":  # ties of exact cosines: directions are few
            score = np.round(score / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1), 9)
        elif similarity == "euclidean":
            score = -((left[:, None] - right) ** 2).sum(2)
    answers = np.array([generator.permutation(n_items)[:k] for _ in range(n_queries)])
    answers[0, 3:] = -1  # it answered three
    own = np.where(np.arange(n_queries) % 3 == 0, np.arange(n_queries) % n_items, -1)
    expected, by_id = [], []
    for query in range(n_queries):
        others = [item for item in range(n_items) if item != own[query]]
        wanted = [item for item in answers[query] if item >= 0 and item != own[query]]
        nearer = {item: sum(score[query, other] > score[query, item] for other in others) for item in others}
        expected.append(sum(nearer[item] < k for item in wanted) / k)
        first = sorted(others, key=lambda item: (-score[query, item], item))[:k]
        by_id.append(len(set(first) & set(wanted)) / k)
    measured = la.recall_of(answers, *sides, k, similarity=similarity, own=own)
    assert np.allclose(measured.per_query, expected)
    if similarity != "cosine":  # its ties are settled by the last bit of a quotient
        assert np.allclose(measured.naive_per_query, by_id)


def test_a_query_does_not_answer_itself(
    write: Callable[[Shop], str], shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [3, 5, 150, 0]
    labels = np.array(shop.columns["label"])[rows]
    ids = np.array([3, 5, 150, 10**6])  # the last is in no table
    np.savez(tmp_path / "q.npz", embeddings=shop.vectors[rows], labels=labels, ids=ids)
    options = ("--engine-k", 199, "--exclude-self", "--metrics", "P@199 R@199", "--similarity", "euclidean")
    saved = told(capsys, tmp_path / "q.npz", "--engine", write(shop), *options)
    assert saved["recall"]["tie_aware"] == 1
    exact, engine = saved["exact"]["scores"], saved["engine_scores"]
    for place in (0, 1):  # all items but the query's own, in whatever order
        assert engine[place]["per_query"][:3] == pytest.approx(exact[place]["per_query"][:3])
    assert engine[1]["per_query"][:3] == [1, 1, 1]


# Bad input


def test_what_does_not_go_with_an_engine(
    shop: Shop, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = to_lance(tmp_path, shop)
    asked = ("evaluate", queries, "--engine", address)
    refused(capsys, "--engine goes without GALLERY, --run", *asked[:2], queries, *asked[2:])
    refused(capsys, "--engine goes without GALLERY, --run", *asked, "--interval", 0.9)
    refused(capsys, "--engine goes without GALLERY, --run", *asked, "--ties", "trec_eval")
    refused(capsys, "are for --engine: pass the address", "evaluate", queries, "--engine-k", 3)
    refused(capsys, "--engine must be the address of a database", "evaluate", queries, "--engine", "items.npz")
    refused(capsys, "pass the file of the QUERIES", "evaluate", "--engine", address)
    refused(capsys, "must be like hnsw.ef_search=40, got 'nprobes'", *asked, "--engine-option", "nprobes")
    refused(capsys, "LanceDB has no setting 'probes'; it has nprobes, ef", *asked, "--engine-option", "probes=1")
    refused(capsys, "nprobes must be a whole number from 1, got '0'", *asked, "--engine-option", "nprobes=0")
    np.savez(tmp_path / "short.npz", embeddings=np.ones((2, 5)), labels=[1, 2])
    refused(
        capsys, "gallery embeddings have 64 columns, queries have 5", "evaluate", tmp_path / "short.npz", *asked[2:]
    )
    np.savez(tmp_path / "codes.npz", codes=np.ones((2, 64), int), labels=[1, 2])
    refused(capsys, "the queries are codes, but", "evaluate", tmp_path / "codes.npz", *asked[2:])
    np.savez(tmp_path / "bare.npz", embeddings=shop.vectors[:3])
    refused(capsys, "has no labels: add an array 'labels'", "evaluate", tmp_path / "bare.npz", *asked[2:])
    refused(capsys, "by which a query's own item is known", *asked, "--exclude-self")


def test_tags_of_a_table_are_not_taken_for_columns_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words have an order of their own: a matrix with as many columns would be compared with others."""
    words = [["red"], ["blue", "red"], ["blue"]]
    address = to_lance(tmp_path, Shop(np.eye(3, dtype=np.float32), {"tags": words}), table="items")
    np.savez(tmp_path / "q.npz", embeddings=np.eye(3, dtype=np.float32), labels=np.array([[1, 0], [1, 1], [0, 1]]))
    refused(capsys, "are words, and", "evaluate", tmp_path / "q.npz", "--engine", address)
    np.save(tmp_path / "tags.npy", np.array([[1, 0], [1, 1], [0, 1]]))
    both = ("--query-labels", tmp_path / "tags.npy")
    refused(capsys, "are words, and", "evaluate", address, *both, "--engine", address)
    given = ("--engine", address, "--engine-k", 3, "--metrics", "DCG(gain='linear')@1")
    expected = [1, 2, 1]  # an item is nearest to itself, and shares all its tags
    for arguments in ((address, *given), (tmp_path / "q.npz", *given, "--gallery-labels", tmp_path / "tags.npy")):
        saved = told(capsys, *arguments)
        assert saved["engine_scores"][0]["per_query"] == expected


def test_settings_that_postgresql_does_not_have(
    vectors_url: str, shop: Shop, queries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("evaluate", queries, "--engine", to_postgres(vectors_url, shop), "--engine-option")
    code, _, err = run(capsys, *asked, "hnsw.ef_serch=40")
    assert code == 2
    assert "has no setting 'hnsw.ef_serch'; pgvector's are hnsw.ef_search, " in err
    assert 'invalid value for parameter "hnsw.ef_search"' in run(capsys, *asked, "hnsw.ef_search=many")[2]
    assert "0 is outside the valid range" in run(capsys, *asked, "hnsw.ef_search=0")[2]


def test_qdrant_compares_as_its_collection_says(
    shop: Shop, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("evaluate", queries, "--engine", to_qdrant(tmp_path, shop, "dot"))
    assert "compares by dot, not by cosine" in run(capsys, *asked, "--similarity", "cosine")[2]
    assert "Qdrant has no setting 'ef'" in run(capsys, *asked, "--engine-option", "ef=3")[2]
    assert "exact must be true or false, got '1'" in run(capsys, *asked, "--engine-option", "exact=1")[2]
    saved = told(capsys, *asked[1:], "--metrics", "P@10")
    assert saved["similarity"] == "dot"
    assert any("local mode has no index" in note for note in saved["notes"])


def test_a_table_without_ids_cannot_be_asked(
    vectors_url: str, server: Server, queries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run("CREATE TABLE nameless (v vector(64), label int)", vectors_url)
    server.run(
        "INSERT INTO nameless SELECT array_fill(n, ARRAY[64])::vector, 1 FROM generate_series(1, 3) n", vectors_url
    )
    told_so = run(capsys, "evaluate", queries, "--engine", address_of(vectors_url, "nameless"))
    assert told_so[0] == 2
    assert "has no column of ids, by which answers are told apart" in told_so[2]


def test_no_output_holds_a_password(
    vectors_url: str, shop: Shop, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = to_postgres(vectors_url, shop).replace("postgres@", f"postgres:{PASSWORD}@")
    asked = ("evaluate", queries, "--metrics", "P@10")
    outputs = [
        run(capsys, *asked, "--engine", address, "--output", tmp_path / "saved.json"),
        run(capsys, *asked, "--engine", address, "--json"),
        run(capsys, *asked, "--engine", address, "--engine-option", "no=1"),
        run(capsys, *asked, "--engine", f"pgvector://ann:{PASSWORD}@127.0.0.1:1/shop?table=items"),
        run(capsys, *asked, "--engine", f"mysql://ann:{PASSWORD}@127.0.0.1:1/shop?table=items"),
        run(capsys, *asked, "--engine-k", address),  # options that the address was given to by mistake
        run(capsys, "evaluate", address, address),
        run(capsys, *asked, "a", "b", address),
    ]
    told_form = run(capsys, *asked, "--engine", f"pgvector://ann:{PASSWORD}@host/shop")[2]
    assert "like pgvector://USER:PASSWORD@HOST:PORT/DATABASE?table=TABLE: add ?table=" in told_form
    assert [code for code, _, _ in outputs] == [0, 0, 2, 2, 2, 2, 0, 2]
    assert PASSWORD not in str(outputs)
    assert PASSWORD not in (tmp_path / "saved.json").read_text()
