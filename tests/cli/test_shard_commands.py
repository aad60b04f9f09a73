"""`lookalike shard`, and what takes its folders: the same numbers as of one file, from every kind of file.

What a vacuous test would let pass: shards that are all in one file (several are asserted), a table whose rows are
shifted (numbers are compared with those in memory), and a guide whose commands nobody has run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.commands import run
from lookalike.core.files import write_arrays
from lookalike.evaluation.item_files import read_items
from lookalike.shards.convert import PIECE, shard_file
from lookalike.shards.gallery import Shards

DOCS = Path(__file__).parents[2] / "docs" / "guide"
METRICS = "AP AP@20 nDCG@10 R@50"


def lookalike(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints."""
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line of a command that ends with exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with codes and embeddings of the same items, in one file each, and queries."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    n = 1000
    labels, ids = generator.integers(0, 5, n), np.array([f"item-{number}" for number in range(n)])
    tags = generator.integers(0, 2, (n, 4))
    embeddings = (generator.normal(size=(n, 8)) + labels[:, None]).astype(np.float32).round(1)
    bits = (embeddings > 2).astype(np.uint8)
    facts = {"labels": labels, "ids": ids}
    np.savez("embeddings.npz", embeddings=embeddings, **facts)
    np.savez_compressed("bits.npz", codes=bits, **facts)
    la.Codes.pack(bits).save("codes.parquet")
    np.savez("tags.npz", codes=bits, labels=tags)
    np.savez("tag-queries.npz", codes=bits[:9], labels=tags[:9])
    np.savez("queries.npz", codes=bits[:30], labels=labels[:30], ids=ids[:30])
    np.savez("asked.npz", embeddings=embeddings[:30] + np.float32(0.1), labels=labels[:30], ids=ids[:30])
    np.save("bits.npy", bits.astype(np.int8) * 2 - 1)
    np.save("floats.npy", embeddings)
    rows = zip(ids.tolist(), labels.tolist(), strict=True)
    Path("items.csv").write_text("id,label,colour\n" + "".join(f"{i},{v},c{v % 2}\n" for i, v in rows))
    return tmp_path


def numbers(told: str) -> list[Any]:
    return [
        [row["name"], row["per_query"], row["best_per_query"], row["worst_per_query"]]
        for row in json.loads(told)["scores"]
    ]


@pytest.mark.parametrize(
    ("source", "options", "queries", "memory"),
    [
        ("embeddings.npz", [], "asked.npz", "embeddings.npz"),
        ("bits.npz", [], "queries.npz", "bits.npz"),
        ("codes.parquet", ["--table", "items.csv"], "queries.npz", "bits.npz"),
        ("bits.npy", ["--table", "items.csv"], "queries.npz", "bits.npz"),
        ("floats.npy", ["--table", "items.csv"], "asked.npz", "embeddings.npz"),
        ("tags.npz", [], "tag-queries.npz", "tags.npz"),
    ],
)
def test_the_same_numbers_from_every_kind_of_file(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    options: list[str],
    queries: str,
    memory: str,
) -> None:
    told = json.loads(lookalike(capsys, "shard", source, "shards", "--rows", 333, "--json", *options))
    assert [shard["rows"] for shard in told["shards"]] == [333, 333, 333, 1]
    expected = lookalike(capsys, "evaluate", queries, memory, "--metrics", METRICS, "--json")
    found = lookalike(capsys, "evaluate", queries, "shards", "--metrics", METRICS, "--json")
    assert numbers(found) == numbers(expected)
    assert json.loads(found)["items"] == 1000


def test_a_table_adds_its_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "codes, ids, labels, colour" in lookalike(capsys, "shard", "bits.npy", "shards", "--table", "items.csv")
    part = Shards.open("shards").read(0, ["ids", "labels", "colour"])
    assert part.values["ids"][:2].tolist() == ["item-0", "item-1"]
    assert set(part.values["colour"]) == {"c0", "c1"}


def test_indexes_of_faiss(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import faiss

    bits, embeddings = read_items("bits.npz").vectors, read_items("embeddings.npz").vectors
    assert isinstance(bits, la.Codes)
    assert isinstance(embeddings, np.ndarray)
    binary = faiss.IndexBinaryFlat(8)
    binary.add(bits.to_bytes())
    faiss.write_index_binary(binary, "binary.faiss")
    flat = faiss.IndexFlatL2(8)
    flat.add(embeddings)
    faiss.write_index(flat, "flat.index")
    lookalike(capsys, "shard", "binary.faiss", "codes")
    lookalike(capsys, "shard", "flat.index", "embeddings")
    assert Shards.open("codes").read(0).vectors == bits
    assert np.array_equal(Shards.open("embeddings").read(0).vectors, embeddings)
    Path("no.faiss").write_bytes(b"nothing")
    assert "no.faiss is not a readable index" in refused(capsys, "shard", "no.faiss", "none")


def test_packed_bytes_are_told_their_bits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = la.Codes.pack(np.random.default_rng(1).integers(0, 2, (50, 12)))
    np.save("packed.npy", codes.to_bytes())
    assert "bits must be 0/1 or -1/+1" in refused(capsys, "shard", "packed.npy", "shards")
    lookalike(capsys, "shard", "packed.npy", "shards", "--bits", 12)
    assert Shards.open("shards").read(0).vectors == codes


SHARDED = """
import sys
from pathlib import Path
from lookalike.shards import convert
from lookalike.shards import writer

def memory():  # without what is mapped, which counts as long as the system has no other use for its pages
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

def noted(*given):
    grown.append(memory() - before)
    put(*given)

small, large, output = sys.argv[1:]
convert.PIECE = 1024
convert.shard_file(small, output + "-small", rows=2048)  # what is loaded once does not count
put, writer.ShardWriter.put = writer.ShardWriter.put, noted
grown, before = [], memory()
print(len(convert.shard_file(large, output, rows=2048)), max(grown))
"""


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet"])
def test_files_are_read_a_little_at_a_time(tmp_path: Path, kind: str) -> None:
    """Of a file of 50 MB, a process never has as much as half in its memory when it writes a shard."""
    n, width = 100_000, 128
    rows = np.random.default_rng(0).random((n, width), np.float32)  # constants would be packed to nothing
    rows[:, 0] = np.arange(n) + 0.5
    source, small = tmp_path / f"large.{kind}", tmp_path / f"small.{kind}"
    for path, some in ((source, rows), (small, rows[:5000])):
        np.save(path, some) if kind == "npy" else write_arrays(path, {"embeddings": some}, {})
    command = [sys.executable, "-c", SHARDED, str(small), str(source), str(tmp_path / "shards")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    items, grown = map(int, done.stdout.split())
    assert items == n
    assert grown < rows.nbytes / 2
    part = Shards.open(tmp_path / "shards").read(1)
    assert part.vectors[0, 0] == part.start + 0.5
    for path in tmp_path.rglob("*.*"):  # pytest would keep it for a while
        path.unlink()


def test_pieces_that_are_read_and_shards_need_not_agree(tmp_path: Path) -> None:
    n = PIECE + 7
    np.save(tmp_path / "bits.npy", np.random.default_rng(0).integers(0, 2, (n, 9)))
    shards = shard_file(tmp_path / "bits.npy", tmp_path / "shards", rows=PIECE // 3)
    found = np.concatenate([shards.read(number).vectors.words for number in range(len(shards.shards))])
    assert np.array_equal(found, la.Codes.pack(np.load(tmp_path / "bits.npy")).words)


def test_shards_are_replaced_only_when_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lookalike(capsys, "shard", "bits.npz", "shards", "--rows", 100)
    assert "already" in refused(capsys, "shard", "bits.npz", "shards")
    lookalike(capsys, "shard", "bits.npz", "shards", "--rows", 600, "--replace")
    assert sorted(path.name for path in (folder / "shards").iterdir()) == [
        "manifest.json",
        "part-00000-2.parquet",
        "part-00001-2.parquet",
    ]


def test_hashing_shards_is_hashing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lookalike(capsys, "shard", "embeddings.npz", "shards", "--rows", 300)
    lookalike(capsys, "hash", "embeddings.npz", "hashed.npz", "--bits", 6, "--save", "itq.npz")
    told = lookalike(capsys, "hash", "shards", "codes", "--hasher", "itq.npz", "--partials", "partials")
    assert "1,000 items → 6 bits by ITQ" in told
    codes = Shards.open("codes")
    assert [shard.rows for shard in codes.shards] == [300, 300, 300, 100]
    assert set(codes.columns) == {"codes", "labels", "ids"}
    expected = read_items("hashed.npz")
    assert isinstance(expected.vectors, la.Codes)
    found = np.concatenate([codes.read(number).vectors.words for number in range(4)])
    assert np.array_equal(found, expected.vectors.words)
    assert "already" in refused(capsys, "hash", "shards", "codes", "--hasher", "itq.npz")
    assert "holds codes already" in refused(capsys, "hash", "codes", "more", "--hasher", "itq.npz")
    assert "--fit SAMPLE" in refused(capsys, "hash", "shards", "more")
    lookalike(capsys, "hash", "shards", "fitted", "--fit", "embeddings.npz", "--bits", 6)
    assert Shards.open("fitted").read(1).vectors == codes.read(1).vectors


@pytest.mark.parametrize(("source", "queries"), [("embeddings.npz", "asked.npz"), ("bits.npz", "queries.npz")])
def test_a_run_has_the_nearest_with_all_ties(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    queries: str,
) -> None:
    lookalike(capsys, "shard", source, "shards", "--rows", 128)
    lookalike(capsys, "rank", queries, "shards", "near.run.gz", "--k", 7)
    run = la.read_run("near.run.gz")
    asked, gallery = read_items(queries), read_items(source)
    whole = la.search.Index.build(gallery.vectors, kind="exact").search(asked.vectors, k=1000)
    assert gallery.ids is not None
    for query, items, distances in zip(asked.ids.tolist(), whole.items, whole.distances, strict=True):
        scores = -distances if isinstance(asked.vectors, la.Codes) else distances
        reached = scores >= scores[6]
        expected = dict(zip(gallery.ids[items[reached]].tolist(), scores[reached].tolist(), strict=True))
        assert run[query] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shard", "nothing.npz", "out"], "no file nothing.npz"),
        (["shard", "items.csv", "out"], "items.csv holds no codes: expected a column"),
        (["shard", "bits.npz", "items.csv"], "it is a file"),
        (["shard", "bits.npz", "out", "--rows", "0"], "from 1"),
        (["shard", "bits.npy", "out", "--table", "short.csv"], "fewer rows"),
        (["shard", "bits.npy", "out", "--table", "long.csv"], "more rows"),
        (["shard", "bits.npz", "out", "--table", "items.csv"], "both items.csv and bits.npz have ids"),
        (["shard", "cut.npz", "out"], "not a readable npz"),
        (["shard", "ragged.npz", "out"], "as many of everything"),
        (["shard", "words.npz", "out"], "no codes"),
        (["evaluate", "queries.npz", "nowhere"], "no file nowhere"),
        (["evaluate", "queries.npz", "."], "there is no manifest.json in"),
        (["evaluate", "queries.npz", "shards", "--gallery-labels", "items.csv"], "their own labels"),
        (["evaluate", "queries.npz", "bits.npz", "--partials", "p"], "for a gallery in shards"),
        (["evaluate", "asked.npz", "shards"], "both be Codes or both embeddings"),
        (["evaluate", "tag-queries.npz", "bare"], "has no labels"),
        (["evaluate", "queries.npz", "shards", "--dask", "scheduler.json"], "no file scheduler.json"),
        (["evaluate", "queries.npz", "shards", "--metrics", "AP(norm=all)"], "'norm'"),
        (["rank", "queries.npz", "shards", "near.run", "--k", "0"], "--k must be"),
        (["rank", "queries.npz", "shards", "near.run", "--similarity", "dot"], "Hamming"),
        (["hash", "bits.npz", "out.npz", "--dask", "tcp://x:1"], "for embeddings in shards"),
    ],
)
def test_bad_input_is_told_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    lines = Path("items.csv").read_text().splitlines(keepends=True)
    Path("short.csv").write_text("".join(lines[:-3]))
    Path("long.csv").write_text("".join([*lines, lines[-1]]))
    Path("cut.npz").write_bytes(Path("bits.npz").read_bytes()[:900])
    np.savez("ragged.npz", codes=np.ones((3, 2)), labels=np.ones(2))
    np.savez("words.npz", labels=np.ones(3))
    lookalike(capsys, "shard", "bits.npz", "shards")
    lookalike(capsys, "shard", "bits.npy", "bare")
    assert words in refused(capsys, *arguments)
    assert not (folder / "out" / "manifest.json").exists()


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_the_commands_of_the_guide_run_as_they_stand(tmp_path: Path) -> None:
    """Those for several machines, on this one; only the port is another, so that tests may run side by side."""
    guide = (DOCS / "scale.md").read_text(encoding="utf-8")
    found = re.search(r"run by the tests, as they stand -->\n```sh\n(.*?)```", guide, re.S)
    assert found
    port = free_port()
    begun = f"until (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.1; done\n"  # for which people wait, too
    lines = found[1].replace("8786", str(port)).splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if "--dask" in line)
    commands = "".join([*lines[:first], begun, *lines[first:]])
    surroundings = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    log = tmp_path / "told.txt"
    with log.open("w") as told:
        running = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=tmp_path,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert running.wait(240) == 0, log.read_text()
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(60)
    said = log.read_text()
    assert "→ 32 bits by ITQ" in said
    assert "nDCG@100" in said
    run = la.read_run(tmp_path / "nearest.run")
    queries, gallery = read_items(tmp_path / "queries.npz"), Shards.open(tmp_path / "codes")
    assert len(gallery.shards) == 9
    assert len(run) == len(queries.vectors)
    assert len(list((tmp_path / "partials").iterdir())) == 9
