"""A study keeps what it is given: with two processes at once, and after a kill.

What a vacuous test would let pass: processes that never meet (these start together, and their votes interleave); a kill
that comes before anything is written or after all is; a lock that nobody holds when it is asked for.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.small_study import GALLERY, SHOP, assert_same_votes, create, line_from, process, vote
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

# Two processes at once

APPEND = """
import random
import time
import numpy as np
from lookalike.discovery.votes import Votes
expert, batches, size = arguments[0], int(arguments[1]), int(arguments[2])
study.queries, study.catalogue
print("ready", flush=True)
sys.stdin.readline()
for batch in range(batches):
    start = time.monotonic()
    seconds = np.arange(batch * size, (batch + 1) * size, dtype=float)
    study.append_votes(Votes(["a"] * size, ["b"] * size, [expert] * size, [1] * size, seconds=seconds))
    print(batch, flush=True)
    time.sleep(2 * random.random() * (time.monotonic() - start))  # or one waits until the other has done all
"""


def test_two_processes_lose_no_vote(closed: Study) -> None:
    writers = [process(APPEND, closed.path, expert, 100, 10) for expert in ("ann", "bob")]
    for writer in writers:
        assert line_from(writer) == "ready"
    seen = 0
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):  # a third one reads all the while
        now = len(closed.votes())
        assert now >= seen
        assert now % 10 == 0
        seen = now
        time.sleep(0.01)
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.communicate()
    votes = closed.votes()
    assert len(votes) == 2000
    for expert in ("ann", "bob"):
        assert votes.seconds[votes.experts == expert].tolist() == list(range(1000))
    turns = int((votes.experts[1:] != votes.experts[:-1]).sum())
    assert turns > 5, "the two never met"
    assert (votes.experts.reshape(-1, 10) == votes.experts.reshape(-1, 10)[:, :1]).all()  # batches stay together


ADD_ONCE = """
from lookalike.discovery.votes import Votes
study.queries, study.catalogue
print("ready", flush=True)
sys.stdin.readline()
times = [[f"2026-01-01T10:{batch // 60:02}:{batch % 60:02}Z", None][batch % 2] for batch in range(200)]
added = [
    len(study.append_votes(Votes(["a"], ["b"], [f"expert {batch}"], [1], [time]), again=False))
    for batch, time in enumerate(times)
]
print(sum(added), flush=True)
"""


@pytest.mark.parametrize("form", [1, 2])
def test_two_processes_that_add_the_same_votes_add_each_once(closed: Study, form: int) -> None:
    if form == 2:
        Store.open(None, closed).close()
    writers = [process(ADD_ONCE, closed.path) for _ in range(2)]
    for writer in writers:
        assert line_from(writer) == "ready"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert sum(int(writer.communicate()[0]) for writer in writers) == 200
    assert sorted(closed.votes().experts.tolist()) == sorted(f"expert {batch}" for batch in range(200))


@pytest.mark.parametrize("form", [1, 2])
def test_a_record_that_holds_votes_twice_gets_no_more_of_them(closed: Study, form: int) -> None:
    twice = vote(2) + vote(2, "bob", times=["2026-01-01T10:00:00Z"] * 2)
    closed.append_votes(twice)
    if form == 2:
        Store.open(None, closed).close()
    assert len(closed.append_votes(twice, again=False)) == 0
    assert len(closed.append_votes(vote(), again=False)) == 0
    assert_same_votes(closed.append_votes(vote(3), again=False), vote(1))
    assert len(closed.append_votes(vote())) == 1
    assert_same_votes(closed.votes(), twice + vote(2))


def test_one_of_two_gets_the_name(closed: Study) -> None:
    code = """
    import numpy as np
    import lookalike as la
    codes = la.Codes.pack(np.full((4, 8), int(arguments[0])))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(30):
        try:
            study.add_model(f"m{number}", gallery=codes)
            print("added", flush=True)
        except ValueError as error:
            assert "already" in str(error), error
            print("refused", flush=True)
    """
    adders = [process(code, closed.path, value) for value in (0, 1)]
    assert [line_from(adder) for adder in adders] == ["ready", "ready"]
    for adder in adders:
        assert adder.stdin is not None
        adder.stdin.write("\n")
        adder.stdin.flush()
    outcomes = [adder.communicate()[0].split() for adder in adders]
    assert [adder.returncode for adder in adders] == [0, 0]
    assert all(sorted(pair) == ["added", "refused"] for pair in zip(*outcomes, strict=True))
    assert len(closed.models()) == 30
    for number, first in enumerate(outcomes[0]):
        assert closed.model(f"m{number}").gallery == la.Codes.pack(np.full((4, 8), 0 if first == "added" else 1))


def test_only_one_of_two_makes_the_study(tmp_path: Path) -> None:
    code = f"""
    import sys
    from pathlib import Path
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.study import Study
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        try:
            Study.create(Path({str(tmp_path)!r}) / str(number), sys.argv[1], Catalogue(["a", "b"]), ["a"])
            print("made", flush=True)
        except ValueError as error:
            assert "not a new or empty folder" in str(error), error
            print("refused", flush=True)
    """
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    assert [line_from(maker) for maker in makers] == ["ready", "ready"]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("\n")
        maker.stdin.flush()
    outcomes = [maker.communicate()[0].split() for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0]
    assert all(sorted(pair) == ["made", "refused"] for pair in zip(*outcomes, strict=True))
    for number, first in enumerate(outcomes[0]):
        assert Study.open(tmp_path / str(number)).name == ("one" if first == "made" else "two")


HOLD = """
with study.changing():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.usefixtures("impatient")
def test_who_waits_too_long_is_told_why(closed: Study) -> None:
    holder = process(HOLD, closed.path)
    assert line_from(holder) == "held"
    for call in (
        lambda: closed.add_model("m", gallery=GALLERY),
        lambda: closed.remove_model("m"),
        lambda: closed.set_gold([("a", "b", 1)]),
        lambda: closed.set_gold(None),
        lambda: closed.write_result("r.json", "{}"),
    ):
        with pytest.raises(TimeoutError, match=r"another process is changing this study, .*closed: try again"):
            call()
    closed.append_votes(vote())  # experts do not wait for organisers
    assert len(closed.votes()) == 1
    holder.communicate("\n")
    closed.add_model("m", gallery=GALLERY)


def test_a_lock_goes_with_its_process(closed: Study) -> None:
    holder = process(HOLD, closed.path)
    assert line_from(holder) == "held"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    closed.add_model("m", gallery=GALLERY)
    assert closed.models() == ["m"]


@pytest.mark.usefixtures("impatient")
def test_a_record_that_stays_locked_is_told(closed: Study) -> None:
    with contextlib.closing(sqlite3.connect(closed.path / "votes.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimeoutError, match=r"another process is changing this study, .*votes.sqlite: try again"):
            closed.append_votes(vote())
        assert len(closed.votes()) == 0  # readers do not wait for writers
        other.execute("ROLLBACK")
    closed.append_votes(vote())


# Killed in the middle


def test_a_writer_of_votes_that_is_killed_leaves_whole_batches(closed: Study) -> None:
    dice = random.Random(0)
    expected = 0
    for round_ in range(3):
        writer = process(APPEND, closed.path, f"e{round_}", 10_000, 50)
        assert line_from(writer) == "ready"
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        line_from(writer)
        time.sleep(dice.uniform(0, 0.2))
        writer.send_signal(signal.SIGKILL)
        said = writer.communicate()[0].split("\n")[:-1]
        assert writer.returncode == -signal.SIGKILL
        votes = closed.votes()
        mine = votes.seconds[votes.experts == f"e{round_}"]
        assert mine.tolist() == list(range(len(mine)))
        assert len(mine) % 50 == 0
        assert len(mine) >= 50 * (1 + len(said)), "a vote that was acknowledged is gone"
        expected += len(mine)
        assert len(votes) == expected
    closed.append_votes(vote())
    assert len(closed.votes()) == expected + 1


def test_a_writer_of_models_that_is_killed_leaves_the_old_or_the_new(closed: Study) -> None:
    code = """
    import numpy as np
    for number in range(10**6):
        gallery = np.full((4, 400_000), float(number + 1), np.float32)
        if number % 3 == 2:
            study.add_model("m", run={"a": {"b": float(number + 1)}}, replace=True)
        else:
            study.add_model("m", gallery=gallery, replace=True)
        print(number, flush=True)
    """
    models = closed.path / "models"
    left = 0
    for n_writes in (1, 2, 3):
        writer = process(code, closed.path)
        assert line_from(writer) == "0"
        seen: set[tuple[str, int]] = set()
        while len(seen) < n_writes:  # files that are being written
            with contextlib.suppress(FileNotFoundError):  # one that has its name since
                seen |= {(file.name, file.stat().st_mtime_ns) for file in models.iterdir() if file.suffix == ".part"}
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        left += len(list(models.glob(".*.part")))
        again = Study.open(closed.path)
        assert again.models() == ["m"]
        stored = again.model("m")
        if stored.run is None:
            assert isinstance(stored.gallery, np.ndarray)
            assert stored.gallery.shape == (4, 400_000)
            assert (stored.gallery == stored.gallery[0, 0]).all()
            assert (stored.queries == stored.gallery[0, 0]).all()
    assert left, "no kill came in the middle of a write"
    closed.add_model("n", gallery=GALLERY)
    assert {file.name for file in models.iterdir()} - {"m.npz", "m.run.gz"} == {"n.npz"}


def test_a_study_whose_maker_was_killed_can_be_made_again(tmp_path: Path) -> None:
    code = f"""
    import time
    from lookalike.study import study
    from lookalike.discovery.catalogue import Catalogue

    def slow(path):
        print("half", flush=True)
        time.sleep(60)

    study.create_record = slow
    study.Study.create({str(tmp_path / "study")!r}, "s", Catalogue(["a"]), ["a"])
    """
    maker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert line_from(maker) == "half"
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    assert any((tmp_path / "study").iterdir())
    with pytest.raises(ValueError, match=r"is not a study, it has no study\.toml"):
        Study.open(tmp_path / "study")
    create(tmp_path / "study")
    assert Study.open(tmp_path / "study").catalogue.digest == SHOP.digest
    assert not list((tmp_path / "study").glob(".*"))
