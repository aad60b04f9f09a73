"""Files of an earlier version, and what they give: `python tests/helpers/old_files.py FOLDER` writes them.

Only commands and public names are used, so that it runs with every version. tests/data/old was written by the last
commit before the modules moved into rooms.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import lookalike as la
from lookalike import cli

HASHERS = ("LSH", "PCAH", "PCARR", "ITQ", "SH", "SKLSH", "SpH", "DensityDSH")
N_ITEMS, N_FEATURES = 60, 6

SINCE = ("standing", "random_left_out", "random_counted")  # parts of a leaderboard that old versions do not write
SINCE_IN_ROWS = ("equal_terms", "equal_terms_low", "equal_terms_high")


def run(*arguments: object) -> Any:
    """What a command prints with --json, as Python values."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            cli.main([*map(str, arguments), "--json"])
        except SystemExit as end:
            if end.code:
                raise
    return json.loads(printed.getvalue() or "null")


def write(folder: Path) -> None:
    """Write a file of each kind."""
    rng = np.random.default_rng(0)
    labels = np.arange(N_ITEMS) % 5
    embeddings = (rng.normal(size=(5, N_FEATURES))[labels] + rng.normal(size=(N_ITEMS, N_FEATURES)) / 2).astype(
        np.float32
    )
    ids = np.array([f"item-{number:02}" for number in range(N_ITEMS)])
    items = folder / "items.npz"
    np.savez(items, embeddings=embeddings, labels=labels, ids=ids)
    for name in HASHERS:
        run(
            "hash", items, folder / f"{name}-codes.npz", "--hasher", name, "--bits", 6, "--save", folder / f"{name}.npz"
        )
    run("train", "--data", items, "--bits", 8, "--epochs", 2, "--network", "linear", "--output", folder / "learned.npz",
        "--checkpoint", folder / "run.pt")  # fmt: skip
    run("shard", items, folder / "embeddings", "--rows", 40)
    run("shard", folder / "ITQ-codes.npz", folder / "codes", "--rows", 40)
    codes = la.Codes.load(folder / "ITQ-codes.npz")
    relevance = la.same_label(labels, labels)
    la.evaluate(codes, codes, relevance, ["AP", "P@5"], exclude="self").to_json(folder / "evaluation.json")
    la.count(codes[:8], codes, la.same_label(labels[:8], labels), radius=2).save(folder / "tally-codes.npz")
    la.count(embeddings[:8], embeddings, la.same_label(labels[:8], labels)).save(folder / "tally-scores.npz")
    la.search.Index.build(codes).save(folder / "index-codes.npz")
    la.search.Index.build(embeddings, kind="ivf").save(folder / "index-embeddings.npz")
    write_study(folder, ids, labels, rng)


def write_study(folder: Path, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
    """Write a study with models of every kind, a pool, votes and gold pairs."""
    rows = [f"{name},product-{number // 2},kind-{labels[number]}" for number, name in enumerate(ids)]
    (folder / "items.csv").write_text("\n".join(["id,identity,category", *rows]) + "\n")
    study = folder / "study"
    run("study", "new", study, "--catalogue", folder / "items.csv", "--draw", 8)
    run("study", "add", study, "vectors", folder / "items.npz")
    run("study", "add", study, "hashed", folder / "LSH-codes.npz")
    queries = la.Study.open(study).queries.ids
    lines = [f"{query} Q0 {ids[(7 * n + 3 * rank) % N_ITEMS]} {rank} {9 - rank} ran" for n, query in enumerate(queries)
             for rank in range(4) if ids[(7 * n + 3 * rank) % N_ITEMS] != query]  # fmt: skip
    (folder / "ran.run").write_text("\n".join(lines) + "\n")
    run("study", "add", study, "ran", folder / "ran.run")
    run("pool", study, "--k", 3, "--random", 10)
    run("study", "export", study, "pool", folder / "pool.csv")
    pairs = sorted({tuple(line.split(",")[:2]) for line in (folder / "pool.csv").read_text().splitlines()[1:]})
    votes = ["query,item,expert,answer"]
    for query, item in pairs:
        same = labels[ids == query][0] == labels[ids == item][0]
        for expert in ("ann", "ben", "eve"):
            answer = "similar" if same != (rng.random() < 0.15) else "not similar"
            votes.append(f"{query},{item},{expert},{answer}")
    (folder / "votes.csv").write_text("\n".join(votes) + "\n")
    run("study", "votes", study, folder / "votes.csv")


def answers(folder: Path) -> dict[str, Any]:
    """What the files give: numbers and codes."""
    with np.load(folder / "items.npz") as file:
        embeddings, labels = file["embeddings"], file["labels"]
    result: dict[str, Any] = {}
    for name in (*HASHERS, "learned"):
        result[name] = la.hashers.load(folder / f"{name}.npz").transform(embeddings).to_bytes().tobytes().hex()
    for name in HASHERS:
        result[f"{name}-codes"] = la.Codes.load(folder / f"{name}-codes.npz").to_bytes().tobytes().hex()
    for name in ("codes", "embeddings"):
        shards = la.Shards.open(folder / name)
        queries = la.Codes.load(folder / "ITQ-codes.npz") if name == "codes" else embeddings
        relevance = la.same_label(labels, shards["labels"])
        scores = la.evaluate(queries, shards, relevance, ["AP", "P@5", "nDCG@10"], exclude="self")
        result[f"shards of {name}"] = {str(metric): scores[metric].mean for metric in ("AP", "P@5", "nDCG@10")}
        index = la.search.Index.load(folder / f"index-{name}.npz")
        result[f"index of {name}"] = index.search(queries[:4], 5).items.tolist()
    saved = la.Evaluation.from_json(folder / "evaluation.json")
    result["evaluation"] = {name: saved[name].mean for name in ("AP", "P@5")}
    for name in ("codes", "scores"):
        scores = la.evaluate_tally(la.Tally.load(folder / f"tally-{name}.npz"), ["AP", "P@5"])
        result[f"tally of {name}"] = {metric: scores[metric].mean for metric in ("AP", "P@5")}
    result["study"] = run("study", "show", folder / "study")
    board = run("leaderboard", folder / "study", "--resamples", 20, "--negatives", 5, "--with-random")  # as it was
    result["leaderboard"] = {name: part for name, part in board.items() if name not in SINCE}
    rows = [{name: part for name, part in row.items() if name not in SINCE_IN_ROWS} for row in board["rows"]]
    result["leaderboard"]["rows"] = rows
    return result


def trained_on(folder: Path, copy: Path) -> str:
    """The hasher of one more epoch, that goes on from the checkpoint, as codes."""
    shutil.copy(folder / "run.pt", copy / "run.pt")
    run("train", "--data", folder / "items.npz", "--bits", 8, "--epochs", 2, "--network", "linear", "--output",
        copy / "learned.npz", "--checkpoint", copy / "run.pt")  # fmt: skip
    with np.load(folder / "items.npz") as file:
        return la.hashers.load(copy / "learned.npz").transform(file["embeddings"]).to_bytes().tobytes().hex()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    write(target)
    (target / "answers.json").write_text(json.dumps(answers(target), indent=1) + "\n")
