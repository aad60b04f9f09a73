"""Where commands may write: never over what they read, never into a study or a gallery that is not theirs."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclopts import App
from PIL import Image

import lookalike as la
from helpers.commands import run
from lookalike.cli import app
from lookalike.cli.outputs import outputs_of
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.votes import Votes
from lookalike.shards.convert import shard_file
from lookalike.study.study import Study

ITEMS = [f"i{n}" for n in range(12)]
READ = {"catalogue", "codes", "features", "file", "fit", "folder", "gallery", "gold", "guide", "items", "labels"}
READ |= {"gallery_labels", "images", "manifest", "qrels", "queries", "query_labels", "run", "source", "study", "table"}
READ |= {"from_file", "practice", "text", "tokenizer", "undo"}

# A call of each command that writes, and a name that it can write. {output} stands for the parameter that is tried,
# {other} for another output; all else is valid.
CALLS = {
    "demo --output": ("demo --output {output}", "new.html"),
    "report --output": ("report study --output {output}", "new.html"),
    "evaluate --output": ("evaluate q.npz g.npz --metrics P@1 --output {output}", "new.json"),
    "compare --output": ("compare one.json two.json --output {output}", "new.json"),
    "evaluate --curve": ("evaluate q.npz g.npz --metrics P@1 --curve {output}", "new.csv"),
    "evaluate --partials": ("evaluate c.npz codes --metrics P@1 --partials {output}", "new"),
    "audit --picture": ("audit c.npz codes.npz --k 2 --shuffles 1 --picture {output}", "new.svg"),
    "hash OUTPUT": ("hash g.npz {output} --hasher LSH --bits 4", "new.npz"),
    "hash --save": ("hash g.npz {other}.npz --hasher LSH --bits 4 --save {output}", "new.npz"),
    "hash --partials": ("hash gallery {other} --hasher itq.npz --partials {output}", "new"),
    "train --output": ("train --data g.npz --epochs 1 --validation 0 --bits 4 --output {output}", "new.npz"),
    "train --checkpoint": (
        "train --data g.npz --epochs 1 --validation 0 --bits 4 --output {other}.npz --checkpoint {output}",
        "new.pt",
    ),
    "finetune --output": ("finetune photos --output {output}", "new.lookalike"),
    "finetune --onnx": ("finetune photos --output {other}.lookalike --onnx {output}", "new.onnx"),
    "finetune --checkpoint": ("finetune photos --output {other}.lookalike --checkpoint {output}", "new.pt"),
    "encode --study": ("encode photos --model pixels --study {output}", "new"),
    "search --output": ("search study i1 --html --output {output}", "new.html"),
    "duplicates --move": ("duplicates study --exact --move {output} --apply", "new"),
    "pool --output": ("pool study --next 2 --output {output}", "new.csv"),
    "leaderboard --output": ("leaderboard study --metrics P@1 --output {output}", "new.json"),
    "leaderboard --report": ("leaderboard study --metrics P@1 --report {output}", "new.html"),
    "replicate --results": ("replicate ten-on-one-code --results {output}", "new"),
    "replicate --report": ("replicate ten-on-one-code --results {other} --report {output}", "new.html"),
    "shard OUTPUT": ("shard g.npz {output}", "new"),
    "rank OUTPUT": ("rank q.npz gallery {output} --k 2", "new.run"),
    "data --output": ("data digits --output {output}", "new"),
    "data --images": ("data digits --images {output} --first 10", "new"),
    "study new FOLDER": ("study new {output} --catalogue items.csv --draw 2", "new"),
    "study export FILE": ("study export study catalogue {output}", "new.csv"),
    "judge export FILE": ("judge export study {output}", "new.csv"),
    "judge experts FILE": ("judge experts study {output}", "new.csv"),
}
SLOW = {"demo --output", "report --output", "leaderboard --report"}
SLOW |= {
    "duplicates --move",
    "finetune --output",
    "finetune --onnx",
    "finetune --checkpoint",
}  # their own tests see them write


def commands(group: App = app, path: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every command with its name."""
    for name in group:
        if name.startswith("-"):
            continue
        command = group[name]
        if command.default_command is not None:
            yield f"{path}{name}", command.default_command
        if any(not inner.startswith("-") for inner in command):
            yield from commands(command, f"{path}{name} ")


def shown(parameter: inspect.Parameter) -> str:
    option = parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
    return f"--{parameter.name}" if option else parameter.name.upper()


def test_every_output_is_marked_and_tried() -> None:
    """A parameter that takes a path is known to be read, or has the mark of an output and a call above."""
    marked, unknown = set(), set()
    for name, command in commands():
        found = outputs_of(command)
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name in found:
                marked.add(f"{name} {shown(parameter)}")
            elif (
                re.search(r"\bPath\b", str(parameter.annotation)) and parameter.name not in READ
            ) or parameter.name in ("output", "partials"):
                unknown.add(f"{name} {shown(parameter)}")
    assert unknown == set()
    assert marked == set(CALLS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, a study with everything in it, and two galleries."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(len(ITEMS), 8)), np.arange(len(ITEMS)) % 3
    for name, rows in (("g", slice(None)), ("q", slice(0, 4))):
        facts = {"labels": labels[rows], "ids": np.array(ITEMS[rows])}
        np.savez(folder / f"{name}.npz", embeddings=vectors[rows], **facts)
        np.savez(folder / f"{'codes' if name == 'g' else 'c'}.npz", codes=(vectors[rows] > 0).astype(int), **facts)
    for name in ("one", "two"):
        la.evaluate(vectors[:4], vectors, la.same_label(labels[:4], labels), "P@1").to_json(folder / f"{name}.json")
    la.hashers.ITQ(4, random_state=0).fit(vectors).save(folder / "itq.npz")
    (folder / "items.csv").write_text("id\n" + "\n".join(ITEMS) + "\n")
    (folder / "photos" / "a").mkdir(parents=True)
    Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(folder / "photos" / "a" / "x.png")
    shard_file(folder / "g.npz", folder / "gallery", rows=5)
    shard_file(folder / "codes.npz", folder / "codes", rows=5)
    study = Study.create(folder / "study", "shop", Catalogue(ITEMS), queries=ITEMS[:4])
    study.add_model("one", gallery=vectors)
    study.add_model("two", gallery=vectors[:, ::-1].copy() * [1, 2, 3, 4, 5, 6, 7, 8])
    study.write_pool(la.discovery.Pool.build({"one": study.model("one").given}, study.collection, k=3))
    pairs = study.pool().pairs
    study.append_votes(Votes(*zip(*pairs, strict=True), ["ann"] * len(pairs), [1, 0] * (len(pairs) // 2)))
    study.set_gold([("i0", "i5", 1)])
    study.write_result("leaderboard.json", "{}\n")
    return folder


def state(folder: Path) -> dict[str, str]:
    """Every file with the hash of its content; of SQLite, not what a reader may leave beside it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.parametrize("output", CALLS)
def test_nothing_of_a_study_or_a_gallery_is_overwritten(
    output: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each output of each command is tried on each file of a study and a gallery, on new names in them, on both."""
    monkeypatch.chdir(world)
    before = state(world)
    inside = [path for name in ("study", "gallery") for path in (world / name).rglob("*") if path.is_file()]
    targets = [str(path.relative_to(world)) for path in inside]
    targets += ["study/new.npz", "study/models/new.npz", "study/models", "gallery/new.npz", "study/../study/x.html"]
    if output not in ("study new FOLDER", "encode --study"):  # which say more of a study that is there
        targets.append("study")
    if output not in ("shard OUTPUT", "hash OUTPUT"):  # likewise of a gallery
        targets.append("gallery")
    assert len(targets) > 15
    for target in targets:
        call = CALLS[output][0].format(output=target, other=tmp_path / "other")
        code, out, err = run(capsys, *call.split())
        assert (code, out) == (2, ""), (target, out, err)
        assert re.search(r"inside the (study|gallery)|it is read by the same command", err), (target, err)
        assert err.count("\n") == 1
    assert state(world) == before


@pytest.mark.parametrize("output", sorted(set(CALLS) - SLOW))
def test_new_names_elsewhere_are_written(
    output: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls above are refused for where they write, and for nothing else."""
    monkeypatch.chdir(world)
    call, name = CALLS[output]
    code, _, err = run(capsys, *call.format(output=tmp_path / name, other=tmp_path / "other").split())
    assert code == 0, err
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    "call",
    [
        "evaluate q.npz g.npz --output g.npz",
        "evaluate q.npz g.npz --output ./photos/../q.npz",
        "evaluate q.npz g.npz --output link.npz",
        "evaluate --run a.run --qrels a.qrels --output a.run",
        "leaderboard --qrels a.qrels --run one=a.run --output a.run",
        "report q.npz g.npz --codes mine=c.npz,codes.npz --output codes.npz",
        "report digits --hashers itq.npz --output itq.npz",
        "hash g.npz new.npz --hasher itq.npz --save itq.npz",
        "hash g.npz g.npz",
        "demo --data photos --output photos/a/x.png",
        "leaderboard study --output new.json --report new.json",
        "hash g.npz new.npz --save new.npz",
        "evaluate q.npz s3://bucket/gallery --partials s3://bucket/gallery/partials",
        "evaluate c.npz codes --partials file://localhost{world}/codes/partials",
        "shard g.npz file://{world}/study",
        "shard g.npz local://{world}/study/results",
        "report digits --features onnx:net.onnx --hashers LSH --output net.onnx",
        "search study i1 --html --output photos/a/x.png",
    ],
)
def test_what_is_read_is_not_written(
    call: str, world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    (world / "a.run").write_text("i0 Q0 i1 1 1.0 r\n")
    (world / "a.qrels").write_text("i0 0 i1 1\n")
    (world / "link.npz").unlink(missing_ok=True)
    (world / "link.npz").symlink_to("g.npz")
    before = state(world)
    code, out, err = run(capsys, *call.format(world=world).split())
    assert (code, out) == (2, "")
    assert "cannot write" in err
    assert state(world) == before


def test_names_with_blanks_are_seen(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    for name in ("q", "g"):
        (world / f"my {name}.html").write_bytes((world / f"{name}.npz").read_bytes())
    before = state(world)
    codes = ["--codes", "mine=my q.html,my g.html", "--output", "my g.html"]
    code, out, err = run(capsys, "report", "q.npz", "g.npz", *codes)
    assert (code, out) == (2, "")
    assert "my g.html: it is read by the same command" in err
    assert state(world) == before
