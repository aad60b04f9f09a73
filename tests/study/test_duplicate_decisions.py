"""Decisions about duplicates: kept on disk as they are made, shared by processes, and acted on.

What a vacuous test would let pass: a list that loses a decision when its process is killed, or one that drops both
files of a pair.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from helpers.photos import command, contents, picture, write
from lookalike.core.errors import FileError
from lookalike.study.duplicate_decisions import APART, DROP, Decision, DecisionLog, new_id
from lookalike.study.duplicates import decided_duplicates, find_duplicates
from lookalike.study.image_files import fingerprint
from lookalike.study.study import Study


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of five images: b is a, byte for byte; c is a, smaller; d and e are alone."""
    monkeypatch.chdir(tmp_path)
    photos = tmp_path / "photos"
    for name, seed in (("a.png", 0), ("sub/d.png", 3), ("e.png", 4)):
        write(photos / name, seed)
    shutil.copy(photos / "a.png", photos / "b.png")
    Image.fromarray(picture(0)).resize((18, 15)).save(photos / "c.png")
    assert command("encode", "photos", "--model", "colour") == 0
    return tmp_path / "photos-study"


def drop(shop: Path, kept: str, dropped: str) -> Decision:
    photos = shop.parent / "photos"
    both = (fingerprint(photos / kept), fingerprint(photos / dropped))
    return Decision(new_id(), DROP, kept, dropped, both)


def decided(shop: Path) -> dict[str, list[tuple[str, bool]]]:
    study = Study.open(shop)
    found, ids = decided_duplicates(study), study.catalogue.ids
    return {str(ids[g.kept]): [(str(ids[c.position]), c.same_bytes) for c in g.copies] for g in found.groups}


def test_what_was_decided_is_there_for_all_processes(shop: Path) -> None:
    one, other = DecisionLog(shop), DecisionLog(shop)
    first = drop(shop, "a.png", "b.png")
    assert one.add([first]) == [None]
    assert one.add([first]) == [None]  # sent again, since the answer was lost
    assert [*other.read().live] == [first.id]
    assert other.add([drop(shop, "c.png", "a.png")]) == [None]
    assert one.read().kept_for("b.png") == "c.png"
    assert decided(shop) == {"c.png": [("b.png", False), ("a.png", False)]}
    assert [each.id for each in other.undo([first.id, first.id, "none"])] == [first.id]
    assert decided(shop) == {"c.png": [("a.png", False)]}
    assert one.add([first]) == [None]  # an old message does not bring back what was taken back
    assert decided(shop) == {"c.png": [("a.png", False)]}


def test_one_of_two_always_stays(shop: Path) -> None:
    log = DecisionLog(shop)
    batch = [drop(shop, "a.png", "b.png"), drop(shop, "b.png", "a.png"), drop(shop, "c.png", "b.png")]
    said = log.add([*batch, drop(shop, "a.png", "a.png")])
    assert [problem is None for problem in said] == [True, False, False, False]
    assert said[1] == "b.png is dropped already: it cannot be the one that is kept"
    assert said[2] == "b.png is dropped already"
    assert decided(shop) == {"a.png": [("b.png", True)]}
    lines = log.path.read_text() + json.dumps({"kind": DROP, "id": "x", "first": "b.png", "second": "a.png",
                                               "contents": ["", ""]}) + "\n"  # fmt: skip
    log.path.write_text(lines)  # by hand, in a circle
    assert decided(shop) == {}
    assert any("circle" in note for note in decided_duplicates(Study.open(shop)).notes)


def test_not_a_duplicate_is_never_listed_again(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.open(shop)
    log = DecisionLog(shop)
    log.add([Decision(new_id(), APART, "c.png", "a.png")])
    found = find_duplicates(study, model="colour", near=0.9, keep="first")
    assert [(group.kept, [copy.position for copy in group.copies]) for group in found.groups] == [(0, [1])]
    assert found.n_apart == 1
    log.add([drop(shop, "a.png", "b.png")])  # b stands for a: c is no copy of it either
    assert log.read().apart("b.png", "c.png")
    assert command("duplicates", str(shop), "--near", "0.9") == 0
    assert "1 pair set aside: somebody said that they are no duplicates" in capsys.readouterr().out
    assert command("duplicates", str(shop), "--near", "0.9", "--json") == 0
    assert json.loads(capsys.readouterr().out)["set_aside"] == 1


def test_the_choice_of_people_goes_before_the_rule(shop: Path) -> None:
    DecisionLog(shop).add([drop(shop, "c.png", "a.png")])
    found = find_duplicates(Study.open(shop), model="colour", near=0.9, keep="largest")
    assert [group.kept for group in found.groups] == [1]  # a is as large as b, and would be kept


def test_the_command_does_what_was_decided(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = shop.parent / "photos"
    before = contents(photos)
    DecisionLog(shop).add([drop(shop, "c.png", "a.png"), drop(shop, "b.png", "c.png")])
    assert command("duplicates", str(shop), "--decided") == 0
    said = capsys.readouterr().out
    assert "copy  a.png  (same bytes)" in said
    assert "copy  c.png  (decided)" in said
    assert command("duplicates", str(shop), "--decided", "--move", "copies", "--apply", "--json") == 0
    undo_file = json.loads(capsys.readouterr().out)["undo"]
    assert sorted(contents(shop.parent / "copies")) == ["a.png", "c.png"]
    assert decided(shop) == {}  # nothing is left to do
    assert command("duplicates", str(shop), "--undo", undo_file) == 0
    assert contents(photos) == before
    assert command("duplicates", str(shop), "--decided", "--link", "--apply") == 0
    assert (photos / "a.png").samefile(photos / "b.png")
    assert command("duplicates", str(shop), "--decided", "--exact") == 2


@pytest.mark.parametrize(("harmed", "words"), [("b.png", "it has changed since"), ("a.png", "which stays, is gone")])
def test_what_has_changed_since_is_left_out(shop: Path, harmed: str, words: str) -> None:
    DecisionLog(shop).add([drop(shop, "a.png", "b.png")])
    write(shop.parent / "photos" / harmed, 77)
    found = decided_duplicates(Study.open(shop))
    assert found.groups == []
    assert [words in note for note in found.notes] == [True]


def test_a_link_to_the_dropped_file_does_not_count_as_the_kept_one(shop: Path) -> None:
    photos = shop.parent / "photos"
    made = drop(shop, "a.png", "b.png")
    DecisionLog(shop).add([made])
    (photos / "a.png").unlink()
    (photos / "a.png").symlink_to("b.png")
    assert decided(shop) == {}


WRITER = """
import sys
from pathlib import Path
from lookalike.study.duplicate_decisions import APART, Decision, DecisionLog
log = DecisionLog(Path(sys.argv[1]))
for number in range(100_000):
    name = f"{sys.argv[2]}-{number}"
    assert log.add([Decision(name, APART, name, "other" * 200)]) == [None]
    print(name, flush=True)
"""


def test_a_kill_loses_nothing_that_was_acknowledged(shop: Path) -> None:
    acknowledged: set[str] = set()
    for round_ in range(4):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(shop), f"{round_}-{n}"], stdout=subprocess.PIPE, text=True
            )
            for n in range(2)
        ]
        for n, process in enumerate(writers):
            assert process.stdout is not None
            for _ in range(20 + 7 * round_ + n):
                acknowledged.add(process.stdout.readline().strip())
            process.send_signal(signal.SIGKILL)
        for process in writers:
            assert process.stdout is not None
            acknowledged |= {line.strip() for line in process.stdout if line.endswith("\n")}
            process.stdout.close()
            process.wait()
        with DecisionLog(shop).path.open("ab") as file:
            file.write(b'{"kind": "apart", "id": "half')  # as a kill in the middle of a line leaves it
    log = DecisionLog(shop)
    assert acknowledged <= log.read().seen
    assert log.add([Decision("last", APART, "a.png", "b.png")]) == [None]
    assert acknowledged | {"last"} <= DecisionLog(shop).read().seen
    assert "half" not in log.path.read_text()


def test_a_damaged_list_is_refused(shop: Path) -> None:
    about = '{"id": "x", "kind": "drop", "second": "b", '
    ends = ('"first": "", "contents": ["", ""]}', '"first": "a", "contents": [1]}', '"first": "a"}')
    for line in ("[]", "{", '{"id": "x"}', *(about + end for end in ends)):
        DecisionLog(shop).path.write_text(f"{line}\n")
        with pytest.raises(FileError):
            DecisionLog(shop).read()
