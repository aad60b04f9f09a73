"""Everything that reads files: functions of the package by the files they take, commands by lines that name files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import lookalike as la
from fuzzing import visits
from fuzzing.changing import changed
from fuzzing.running import Target
from fuzzing.seeds import FUZZED, train
from lookalike.shards.dask import _address_in

NOWHERE = (
    "--host 192.0.2.1 --port 0"  # an address for documentation, of no machine: a server reads all, then cannot begin
)
CANNOT_BEGIN = "cannot be used"


def copied(seeds: Path, folder: Path, groups: set[str]) -> None:
    """Valid files of these groups in the folder of a case, which is made the current one."""
    for group in groups:
        shutil.copytree(seeds / group, folder / group)
    (folder / "out").mkdir()
    os.environ["LOOKALIKE_CACHE"] = str(folder / "cache")
    os.chdir(folder)


def spoil(path: Path, rng: Random) -> None:
    """Change a file, or rarely take it away or put something else in its place."""
    way = rng.random()
    if way < 0.03:
        path.unlink()
        if way < 0.01:
            path.mkdir()
        return
    other = rng.choice(sorted(file for file in path.parent.iterdir() if file.is_file())) if way < 0.06 else path
    path.write_bytes(changed(path.read_bytes(), path.name, rng) if other == path else other.read_bytes())
    if rng.random() < 0.8:
        with contextlib.suppress(Exception):  # what is too damaged to be sealed stays so
            seal(path)


def seal(path: Path) -> None:
    """Put the fingerprint of what a file now holds where it is compared: else nothing behind that would be reached."""
    from lookalike.core.files import digest
    from lookalike.datasets import cache
    from lookalike.hashers import base as hasher
    from lookalike.search import index as search

    if path.suffix == ".parquet" and (manifest := path.with_name("manifest.json")).is_file():
        about, content = json.loads(manifest.read_bytes()), path.read_bytes()
        now = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        about["shards"] = [shard | now if shard["file"] == path.name else shard for shard in about["shards"]]
        manifest.write_text(json.dumps(about))
    elif path.suffix == ".json":
        about = json.loads(path.read_bytes())
        del about["seal"]  # files without one are read
        path.write_text(json.dumps(about))
    elif path.suffix == ".npz":
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        about.pop("seal", None)
        if about["lookalike"] == "hasher":
            about["digest"] = hasher._fingerprint(arrays)
        elif about["lookalike"] == "index":
            about["content"] = search._content(arrays)
            items = la.Codes.from_arrays(arrays, about, path) if "packed" in arrays else arrays["embeddings"]
            about["digest"] = search._fingerprint(items)
        elif about["lookalike"] in ("features", "dataset"):
            about["digest"] = digest(arrays["rows"]) if "rows" in arrays else cache._fingerprint(arrays)
        np.savez(path, about=np.array(json.dumps(about)), **arrays)


def reader(name: str, files: str, read: Callable[[Path], Any], share: float = 1.0) -> Target:
    """A function that takes a path, and the valid files for it: a glob below the folder of seeds."""
    group = files.partition("/")[0]

    def case(rng: Random, seeds: Path, folder: Path) -> None:
        copied(seeds, folder, {group})
        path = rng.choice(sorted(folder.glob(files)))
        spoil(path, rng)
        read(path)

    def valid(seeds: Path, folder: Path) -> None:
        copied(seeds, folder, {group})
        for path in sorted(folder.glob(files)):
            read(path)

    return Target(name, case, valid, share)


def command(name: str, share: float, lines: list[str]) -> Target:
    """Commands of the command line, one of which is run with one of its files changed."""

    def case(rng: Random, seeds: Path, folder: Path) -> None:
        line = rng.choice(lines)
        copied(seeds, folder, groups(line))
        named = folder / rng.choice(re.findall(r"{(.*?)}", line))
        inside = [named] if named.is_file() else sorted(path for path in named.rglob("*") if path.is_file())
        (folder / "line.txt").write_text(f"{line}\n")
        spoil(rng.choice(inside), rng)
        run(line, folder)

    def valid(seeds: Path, folder: Path) -> None:
        for number, line in enumerate(lines):
            copied(seeds, folder / str(number), groups(line))
            run(line, folder / str(number))

    return Target(name, case, valid, share)


def run(line: str, folder: Path) -> None:
    """Run a command on the files in a folder, up to where it would serve."""
    from lookalike.cli import app

    try:
        app(tokens(line, folder), exit_on_error=False, print_error=False)
    except SystemExit as end:
        if end.code:
            raise
    except ValueError as error:
        if not ("192.0.2.1" in line and "cannot be used" in str(error)):
            raise


def commands() -> dict[str, tuple[float, list[str]]]:
    """Names, shares and lines of the file of commands."""
    found: dict[str, tuple[float, list[str]]] = {}
    for line in Path(__file__).with_name("commands.txt").read_text().splitlines():
        if line.startswith(" "):
            next(reversed(found.values()))[1].append(line.strip())
        elif line and not line.startswith("#"):
            found[line.split()[0]] = (float(line.split()[1]), [])
    return found


COMMANDS = commands()


def groups(line: str) -> set[str]:
    return set(re.findall(r"{([\w-]+)", line))


def tokens(line: str, folder: Path) -> list[str]:
    """The arguments of a line, for the files in a folder."""
    return [re.sub(r"{(.*?)}", lambda found: str(folder / found[1]), word) for word in shlex.split(line)]


# What is done with what was read: enough to see whether it can be used


def use_items(path: Path) -> None:
    from lookalike.evaluation.item_files import read_items, relevance_between

    found = read_items(path)
    numbers = np.arange(len(found.vectors))
    relevance = la.same_label(numbers, numbers) if found.labels is None else relevance_between(found, found)
    la.evaluate(found.vectors, found.vectors, relevance, ["AP", "nDCG@3"], threads=1)


def use_labels(path: Path) -> None:
    from lookalike.evaluation.item_files import read_items, relevance_between

    found = read_items(path.with_name("query-embeddings.npz"), path)
    relevance_between(found, found)


def use_tally(path: Path) -> None:
    la.evaluate_tally(la.Tally.load(path), ["AP", "nDCG@3", "P@2", "AUC"])


def use_evaluation(path: Path) -> None:
    found = la.Evaluation.from_json(path)
    str(found), found.rows(), found.to_json()
    la.compare({"a": found, "b": la.Evaluation.from_json(path)})


def use_run(path: Path) -> None:
    from lookalike.evaluation.trec import read_qrels, read_run

    run = read_run(path if ".run" in path.name else path.with_name("all.run"))
    la.evaluate_run(
        run, read_qrels(path if ".qrels" in path.name else path.with_name("all.qrels")), unjudged="irrelevant"
    )


def use_hasher(path: Path) -> None:
    from lookalike.hashers import load

    found = load(path)
    n = found.n_features_in_ if 0 < found.n_features_in_ < 1e5 else 6
    str(found), type(found).load(path).transform(np.ones((2, n), np.float32))


def use_index(path: Path) -> None:
    found = la.search.Index.load(path)
    str(found), found.search(found.items[:2], 3)


def use_catalogue(path: Path) -> None:
    from lookalike.cli.study import read_catalogue

    found = read_catalogue(path)
    str(found), found.draw(2, stratify="category" if found.categories is not None else None)


def use_votes(path: Path) -> None:
    from lookalike.discovery import Votes, agreement

    found = Votes.read(path, FUZZED if path.suffix == ".csv" and "scale" in path.name else None)
    str(found), str(agreement(found))
    found.write(path.with_name("again.csv"))


def use_replication(path: Path) -> None:
    from lookalike.experiments.replicate import read_result

    read_result(path).to_dict()


def use_judgements(path: Path) -> None:
    from lookalike.discovery import Judgements, formats

    str(Judgements.of(formats.read_judgements(path)))
    if path.suffix == ".json":
        formats.read_annotations(path)


def use_lists(path: Path) -> None:
    from lookalike.discovery import formats

    if path.stem == "metadata":
        use_catalogue(path)
    {"seeds": formats.read_seeds, "manifest": formats.read_manifest, "metadata": formats.read_metadata}[path.stem](path)


def use_study(path: Path) -> None:
    from lookalike.discovery.vote_log import read_votes
    from lookalike.study.image_files import read_files
    from lookalike.study.map import read_map
    from lookalike.study.study import Study
    from lookalike.study.tags import read_tags

    study = Study.open(next(parent for parent in path.parents if parent.name == "shop"))
    (
        str(study),
        study.recipes(),
        study.pool(),
        study.votes(),
        study.counted_votes(),
        study.gold(),
        read_votes(study.path / "votes.sqlite"),
    )
    read_files(study.path / "images.csv")
    read_tags(study).counts(study.catalogue), read_map(study, "phash", study.model("phash"))
    for name in study.models():
        str(study.model(name)), study.pooled(name)


def use_finder(path: Path) -> None:
    from lookalike.study.finder import Finder
    from lookalike.study.study import Study

    study = Study.open(path.parents[1])
    for model in ("colour", "phash", "colour-itq-8"):
        finder = Finder(study, model)
        finder.like_item(0, 3), finder.like_picture(path.parents[2] / "photos" / "bag" / "00.png", 3)


def use_store(path: Path) -> None:
    from lookalike.judging.pages.links import Keys
    from lookalike.judging.store.store import Store
    from lookalike.judging.store.types import StoreAwayError
    from lookalike.study.study import Study

    study = Study.open(path.parent if path.name == "votes.sqlite" else path.parents[1])
    Keys.of(study.path)
    try:
        with Store.open(None, study, patience=0.5) as store:
            ann = store.expert("ann")
            store.status(), store.votes(), store.experts(), store.briefing(), store.check(), store.served()
            store.hand_out("ann", 0 if ann is None else ann.link_number, 2).result(10)
    except StoreAwayError as error:  # a sentence, which commands and pages print
        raise ConnectionError(f"{study.path}: {error}") from error


def use_decoder(path: Path) -> None:
    from lookalike.core.decode import decode, default_limit, fitted, square
    from lookalike.web.thumbnails import Thumbnails

    Thumbnails(path.parent / "kept").of(path)  # a damaged picture is drawn as such
    with default_limit(), contextlib.suppress(Exception):  # as the readers of folders do, which list the file
        square(path, 8), fitted(path, 8)
    decode(path), decode(path, enough=4)


def use_onnx(path: Path) -> None:
    from lookalike.encoders import load

    encoder = load(f"onnx:{path.parent / 'model.onnx'}", threads=1, text=path.parent / "text.onnx")
    encoder.version, encoder.n_features, encoder.encode(np.zeros((2, 20, 20, 3), np.uint8))
    encoder.text.version, encoder.encode_text(["a red dress"])  # type: ignore[attr-defined]


def use_finetuned(path: Path) -> None:
    from helpers.tiny_encoder import Tiny
    from lookalike.encoders import ENCODERS, load

    ENCODERS["tiny"] = Tiny
    try:
        encoder = load(str(path))
        encoder.version, encoder.n_features, encoder.encode(np.zeros((2, 20, 20, 3), np.uint8))
    finally:
        del ENCODERS["tiny"]


def use_kept(path: Path) -> None:
    from lookalike.datasets import cache
    from lookalike.encoders.cached_features import _recall

    cache.recall(path) if path.stem == "kept" else _recall(path, 12)


def use_database(path: Path) -> None:
    with contextlib.suppress(ConnectionError):  # nobody is at the address
        use_store(path)


TARGETS = [
    reader("items", "items/query-[!l]*", use_items, 4),
    reader("labels", "items/query-labels*", use_labels, 2),
    reader("codes", "items/*-saved.npz", la.Codes.load),
    reader("tallies", "evaluations/*.npz", use_tally, 2),
    reader("evaluations", "evaluations/evaluation.json", use_evaluation, 2),
    reader("replications", "evaluations/*-quick.json", use_replication, 0.5),
    reader("runs", "evaluations/*run*", use_run, 2),
    reader("qrels", "evaluations/*qrels*", use_run),
    reader("schedulers", "evaluations/scheduler.json", _address_in, 0.5),
    reader("hashers", "hashers/*.npz", use_hasher, 2),
    reader("indexes", "indexes/*.npz", use_index, 2),
    reader("checkpoints", "checkpoints/run.pt", train),
    reader("catalogues", "discovery/catalogue.*", use_catalogue),
    reader("lists", "discovery/[sm]*.json", use_lists, 2),
    reader("votes", "discovery/votes.*", use_votes, 2),
    reader("judgements", "discovery/judgements.*", use_judgements, 2),
    reader("studies", "study/shop/**/*.[tpsrcng]*", use_study, 3),
    reader("finders", "study/shop/*/*.npz", use_finder, 2),
    reader("stores", "study/shop/votes.sqlite", use_store, 2),
    reader("keys", "study/shop/judging/key", use_store, 0.2),
    reader("databases", "databases/shop/judging/database", use_database, 0.5),
    reader("pictures", "images/*", use_decoder, 3),
    reader("onnx", "onnx/*", use_onnx, 2),
    reader("fine-tuned encoders", "finetuned/*.lookalike", use_finetuned),
    reader("kept", "datasets/[kf]*.npz", use_kept, 2),
    Target("pages of judge", visits.judge, visits.judge_plainly, 2),
    Target("pages of look", visits.look, visits.look_plainly, 2),
    *(command(name, share, lines) for name, (share, lines) in COMMANDS.items()),
]
