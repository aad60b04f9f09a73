"""The command line: every kind of file, the numbers of the Python interface, one line and exit code 2 for bad input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookalike as la
from helpers.commands import assert_refused, numbers, run
from lookalike import cli
from lookalike.evaluation.relevance import Relevance

RNG = np.random.default_rng(0)
N_QUERIES, N_ITEMS = 5, 30
BITS = {"queries": RNG.integers(0, 2, (N_QUERIES, 12)), "gallery": RNG.integers(0, 2, (N_ITEMS, 12))}
LABELS = {"queries": RNG.integers(0, 3, N_QUERIES), "gallery": RNG.integers(0, 3, N_ITEMS)}
VECTORS = {name: RNG.standard_normal((len(bits), 4)) for name, bits in BITS.items()}
TAGS = {name: RNG.integers(0, 2, (len(bits), 5)) for name, bits in BITS.items()}
ATTRIBUTES = {name: RNG.integers(0, 3, (len(bits), 2)) for name, bits in BITS.items()}
IDS = {"queries": np.array(["i3", "i0", "i7", "x", "y"]), "gallery": np.array([f"i{i}" for i in range(N_ITEMS)])}
METRICS = ["AP", "AP@7", "nDCG@5", "P@3", "R@9"]
QRELS = "q1 0 a 1\nq1 0 b 0\nq1 0 c 2\nq2 0 a 1\n"
RUN = "q1 Q0 a 1 3.5 r\nq1 Q0 b 2 3.5 r\nq1 Q0 z 3 1 r\nq2 Q0 a 1 0.5 r\n"


def assert_printed(printed: dict[str, Any], result: la.Evaluation) -> None:
    """The JSON of the command is the result of Python, to the last digit, whatever it says about its inputs."""
    wanted = json.loads(result.to_json())
    assert [row["name"] for row in printed["scores"]] == [str(metric) for metric in result]
    assert printed["scores"] == wanted["scores"]
    assert printed["query_ids"] == wanted["query_ids"]
    assert any(row["mean"] > 0 for row in printed["scores"])


def save(folder: Path, **arrays: dict[str, Any]) -> tuple[Path, Path]:
    """The files of the queries and of the gallery with these arrays."""
    for name in ("queries", "gallery"):
        np.savez(folder / f"{name}.npz", **{key: array[name] for key, array in arrays.items()})
    return folder / "queries.npz", folder / "gallery.npz"


def codes() -> tuple[la.Codes, la.Codes]:
    return la.Codes.pack(BITS["queries"]), la.Codes.pack(BITS["gallery"])


def by_label() -> Relevance:
    return la.same_label(LABELS["queries"], LABELS["gallery"])


ASK = ("--metrics", " ".join(METRICS))


# Every kind of file


def test_codes_with_labels(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    printed = numbers(capsys, "evaluate", *save(tmp_path, codes=BITS, labels=LABELS), *ASK)
    assert_printed(printed, la.evaluate(*codes(), by_label(), METRICS))
    assert printed["lookalike"] == "evaluation"


def test_packed_codes_and_a_table_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    packed = {name: np.packbits(bits, axis=1, bitorder="little") for name, bits in BITS.items()}
    paths = save(tmp_path, packed=packed, labels=LABELS, n_bits={"queries": 12, "gallery": 12})
    code, out, err = run(capsys, "evaluate", *paths, "--metrics", "AP, nDCG(gain='linear', discount='log2')@5")
    assert (code, err) == (0, "")
    result = la.evaluate(*codes(), by_label(), ["AP", "nDCG(gain='linear')@5"])
    head, first, second, last = out.splitlines()
    ap = result["AP"]
    shown = {"expected": ap.mean, "best": ap.best, "worst": ap.worst}
    cells = dict(zip(head.split(), first.split(), strict=True))
    assert cells == {"metric": "AP", "undefined": "0", **{name: f"{value:.4f}" for name, value in shown.items()}}
    assert second.startswith("nDCG(gain='linear')@5 ")
    assert last == "5 queries, 30 items: codes of 12 bits, relevant by labels"


@pytest.mark.parametrize("ending", ["npy", "txt"])
def test_matrices_with_files_of_labels(ending: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("queries", "gallery"):
        np.save(tmp_path / f"{name}.npy", 2 * BITS[name] - 1)
        if ending == "npy":
            np.save(tmp_path / f"{name}-labels.npy", LABELS[name])
        else:
            (tmp_path / f"{name}-labels.txt").write_text("".join(f"class {label}\n" for label in LABELS[name]))
    of_queries, of_gallery = (tmp_path / f"{name}-labels.{ending}" for name in ("queries", "gallery"))
    labels = ["--query-labels", of_queries, "--gallery-labels", of_gallery]
    printed = numbers(capsys, "evaluate", tmp_path / "queries.npy", tmp_path / "gallery.npy", *labels, *ASK)
    assert_printed(printed, la.evaluate(*codes(), by_label(), METRICS))


def test_parquet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    packed = {name: np.packbits(bits, axis=1, bitorder="little") for name, bits in BITS.items()}
    for name in ("queries", "gallery"):
        column = pa.array([row.tobytes() for row in packed[name]], pa.binary(2))
        words = pa.array([f"class {label}" for label in LABELS[name]])
        pq.write_table(pa.table({"codes": column, "labels": words, "ids": IDS[name]}), tmp_path / f"{name}.parquet")
    printed = numbers(capsys, "evaluate", tmp_path / "queries.parquet", tmp_path / "gallery.parquet", *ASK)
    whole_bytes = (la.Codes.from_bytes(packed[name], n_bits=16) for name in ("queries", "gallery"))
    assert_printed(printed, la.evaluate(*whole_bytes, by_label(), METRICS, query_ids=IDS["queries"]))


def test_embeddings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = save(tmp_path, embeddings=VECTORS, labels=LABELS)
    for similarity in ("cosine", "dot", "euclidean"):
        printed = numbers(capsys, "evaluate", *paths, "--similarity", similarity, "--threads", 1, *ASK)
        wanted = la.evaluate(VECTORS["queries"], VECTORS["gallery"], by_label(), METRICS, similarity=similarity)
        assert_printed(printed, wanted)


def test_tags_and_attributes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tags = la.evaluate(*codes(), la.shared_tags(*TAGS.values()), METRICS)
    assert_printed(numbers(capsys, "evaluate", *save(tmp_path, codes=BITS, labels=TAGS), *ASK), tags)
    attributes = la.evaluate(*codes(), la.matching_attributes(*ATTRIBUTES.values()), METRICS)
    paths = save(tmp_path, codes=BITS, attributes=ATTRIBUTES)
    assert_printed(numbers(capsys, "evaluate", *paths, *ASK), attributes)
    paths = save(tmp_path, codes=BITS, attributes=ATTRIBUTES, labels=LABELS)
    assert_printed(numbers(capsys, "evaluate", *paths, "--relevance", "attributes", *ASK), attributes)
    assert_printed(numbers(capsys, "evaluate", *paths, *ASK), la.evaluate(*codes(), by_label(), METRICS))


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("unjudged", ["irrelevant", "condensed"])
def test_runs(zipped: bool, unjudged: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ending = ".gz" if zipped else ""
    run_path, qrels_path = tmp_path / f"search.run{ending}", tmp_path / f"judged.qrels{ending}"
    for path, content in ((run_path, RUN), (qrels_path, QRELS)):
        path.write_bytes(gzip.compress(content.encode()) if zipped else content.encode())
    printed = numbers(capsys, "evaluate", "--run", run_path, "--qrels", qrels_path, "--unjudged", unjudged, *ASK)
    judged = la.judged({"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"a": 1}})
    ranked = {"q1": {"a": 3.5, "b": 3.5, "z": 1.0}, "q2": {"a": 0.5}}
    assert_printed(printed, la.evaluate_run(ranked, judged, METRICS, unjudged=unjudged))


# Options


def test_the_query_itself_is_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = save(tmp_path, codes=BITS, labels=LABELS, ids=IDS)
    printed = numbers(capsys, "evaluate", *paths, "--exclude-self", *ASK)
    ids = {"query_ids": IDS["queries"], "gallery_ids": IDS["gallery"]}
    wanted = la.evaluate(*codes(), by_label(), METRICS, exclude="self", **ids)
    assert_printed(printed, wanted)
    assert wanted["AP"].mean != la.evaluate(*codes(), by_label(), METRICS)["AP"].mean


def test_output_is_the_whole_result(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    printed = numbers(capsys, "evaluate", *save(tmp_path, codes=BITS, labels=LABELS), *ASK, "--output", output)
    assert json.loads(output.read_text()) == printed
    assert_printed(printed, la.Evaluation.from_json(output))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gallery.npz", "queries.npz", "result.json"]


def test_intervals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = save(tmp_path, codes=BITS, labels=LABELS)
    low, high = la.evaluate(*codes(), by_label(), ["AP"])["AP"].interval(0.9)
    printed = numbers(capsys, "evaluate", *paths, "--metrics", "AP", "--interval", 0.9)
    assert printed["scores"][0]["interval"] == {"level": 0.9, "low": low, "high": high}
    _, out, _ = run(capsys, "evaluate", *paths, "--metrics", "AP", "--interval", 0.9)
    assert "90% interval" in out
    assert f"{low:.4f} – {high:.4f}" in out


def test_undefined(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing in the gallery has the label of the first query."""
    labels = {"queries": np.array([9, *LABELS["queries"][1:]]), "gallery": LABELS["gallery"]}
    paths = save(tmp_path, codes=BITS, labels=labels)
    (skipped,) = numbers(capsys, "evaluate", *paths, "--metrics", "AP", "--undefined", "skip")["scores"]
    assert skipped["per_query"][0] is None
    (zero,) = numbers(capsys, "evaluate", *paths, "--metrics", "AP")["scores"]
    assert (zero["per_query"][0], zero["undefined"], skipped["undefined"]) == (0.0, 1, 1)
    code, out, err = run(capsys, "evaluate", *paths, "--metrics", "AP", "--undefined", "error")
    assert (code, out) == (2, "")
    assert "AP is undefined for 1 queries, first for 0" in err


# Bad input


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with good and bad files."""
    save(tmp_path, codes=BITS, labels=LABELS)
    np.savez(tmp_path / "short.npz", codes=BITS["gallery"][:, :7], labels=LABELS["gallery"])
    np.savez(tmp_path / "unlabelled.npz", codes=BITS["gallery"])
    np.savez(tmp_path / "object.npz", codes=BITS["gallery"], labels=np.array([1, "a"] * 15, object))
    np.savez(tmp_path / "vectors.npz", embeddings=VECTORS["gallery"], labels=LABELS["gallery"])
    np.savez(tmp_path / "flat.npz", packed=np.zeros(5, np.uint8), labels=LABELS["queries"])
    np.savez(tmp_path / "about.npz", codes=BITS["queries"], about=np.array("[1]"))
    np.save(tmp_path / "flat.npy", BITS["queries"][0])
    whole = (tmp_path / "gallery.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "bad.qrels").write_text("q1 0 a 1\nq1 0 b good\n")
    (tmp_path / "huge.qrels").write_text("q1 0 a 400000000000\n")
    (tmp_path / "folder.json").mkdir()
    return tmp_path


PAIR = "evaluate queries.npz gallery.npz"
BAD = {
    "evaluate": "pass the files of the QUERIES and the GALLERY",
    "evaluate --query-labels nowhere.txt": "pass the files of the QUERIES and the GALLERY",
    "evaluate folder.json": "pass the file of the QUERIES too",
    "evaluate queries.npz nowhere.npz": "there is no file .*nowhere.npz",
    "evaluate queries.npz short.npz": "gallery codes have 7 bits, queries have 12",
    "evaluate queries.npz unlabelled.npz": "unlabelled.npz has no labels",
    "evaluate queries.npz object.npz": "object.npz is not a readable npz file of plain arrays",
    "evaluate queries.npz vectors.npz": "both be Codes or both embeddings",
    "evaluate queries.npz cut.npz": "cut.npz is not a readable npz file",
    "evaluate queries.npz folder.json": "there is no manifest.json in .*folder.json",
    "evaluate flat.npz gallery.npz": "packed",
    "evaluate about.npz gallery.npz": "about.npz",
    "evaluate flat.npy gallery.npz": "must hold a matrix",
    f"{PAIR} --metrics nDGC@5": "no metric 'nDGC', did you mean 'nDCG'",
    f"{PAIR} --metrics AP@0": "cutoff of AP must be a whole number from 1",
    f"{PAIR} --metrics P(radius=-1)": "must be a number from 0, got -1",
    f"{PAIR} --metrix AP": "--metrix.* Did you mean --metrics",
    f"{PAIR} third.npz": "third.npz",
    f"{PAIR} --metrics": "--metrics",
    f"{PAIR} --threads 0": "threads must be a whole number from 1, got 0",
    f"{PAIR} --threads two": "--threads",
    f"{PAIR} --interval 95": "between 0 and 1, got 95",
    f"{PAIR} --similarity cos": "--similarity",
    f"{PAIR} --relevance attributes": "has no attributes",
    f"{PAIR} --relevance lables": "--relevance must be one of .* did you mean 'labels'",
    f"{PAIR} --relevance AP:lables": "--relevance must be one of .* did you mean 'labels'",
    f"{PAIR} --metrics AP@5 --relevance AP@6:labels": "names 'AP@6', which is not evaluated, did you mean 'AP@5'",
    f"{PAIR} --relevance nDGC:labels": "--relevance names 'nDGC', which is not evaluated, did you mean 'nDCG'",
    f"{PAIR} --relevance AP:attributes": "has no attributes",
    f"{PAIR} --relevance tags": "tags must be a 0/1 matrix",
    f"{PAIR} --exclude-self": "--exclude-self needs ",
    f"{PAIR} --query-labels nowhere.txt": "there is no file .*nowhere.txt",
    f"{PAIR} --output no/result.json": "folder no does not exist",
    f"{PAIR} --output folder.json": "folder.json",
    f"{PAIR} --run run --qrels qrels": "either QUERIES and GALLERY, or --run and --qrels",
    "evaluate --run run": "--run and --qrels belong together",
    "evaluate --run run --qrels bad.qrels": "bad.qrels, line 2: a grade must be a whole number .*, got 'good'",
    "evaluate --run run --qrels huge.qrels": "huge.qrels, line 1",
    "evaluate --run run --qrels run": "run, line 1: expected 'query iteration item grade'",
    "evaluate --run run --qrels qrels": "nobody judged 1 of the items ranked for query 'q1'",
    "evaluate --run qrels --qrels qrels": "qrels, line 1: expected 'query Q0 item rank score name'",
    "demo --fast": "--fast",
    "evalute": 'Did you mean "evaluate"',
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_exit_code_two(
    command: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert_refused(capsys, files, command, BAD[command])


# Help


COMMANDS = [name for name in cli.app if not name.startswith("-")]
COMMANDS += [f"study {name}" for name in cli.app["study"] if not name.startswith("-")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *command.split(), "--help")
    assert (code, err) == (0, "")
    assert f"Example: lookalike {command}" in out
    if command != "study":  # a group of commands
        assert "--json" in out
    group, _, name = command.rpartition(" ")
    assert name in run(capsys, *group.split(), "--help")[1]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[1].strip() == la.__version__


# As other programs start it


def test_the_command_is_installed(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("lookalike")
    arguments = [*save(tmp_path, codes=BITS, labels=LABELS), *ASK, "--json"]
    done = subprocess.run([command, "evaluate", *arguments], capture_output=True, text=True, check=True)
    assert_printed(json.loads(done.stdout), la.evaluate(*codes(), by_label(), METRICS))


def test_a_failure_seen_from_outside() -> None:
    code = "from lookalike.cli import main; main(['evaluate', 'no.npz', 'no.npz'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "lookalike: there is no file no.npz\n")
