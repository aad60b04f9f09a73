"""Tags of a study: given, taken away, kept by id, and whole with two processes at once and after a kill.

What a vacuous test would let pass: writers that never meet, a kill after all is written, names that never look odd.
"""

from __future__ import annotations

import random
import signal
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.small_study import SHOP, catalogue_of, create, line_from, process
from lookalike.core.errors import FileError, InputError, StudyError
from lookalike.study.study import Study
from lookalike.study.tags import LONGEST, StudyTags, add_tag, clean_tag, read_tags, remove_tag, tags_path

ODD = ["<b>bold</b>", "=1+1", "'=1", "@a", 'a,"b', "été", "標籤", "- x", "a | b"]


def test_tags_are_given_and_taken_away(closed: Study) -> None:
    assert read_tags(closed) == StudyTags()
    assert not tags_path(closed).exists()
    assert add_tag(closed, "sale", ["b", "a", "b"]) == 2
    assert add_tag(closed, " sale ", ["a", "c"]) == 1
    assert add_tag(closed, "red", ["a"]) == 1
    tags = read_tags(closed)
    assert tags.items == {"sale": ("b", "a", "c"), "red": ("a",)}
    assert (tags.names(), tags.of("a"), tags.of("d")) == (["red", "sale"], ["red", "sale"], [])
    assert tags.by_item() == {"a": ["red", "sale"], "b": ["sale"], "c": ["sale"]}
    assert tags.mask("sale", SHOP).tolist() == [True, True, True, False]
    assert remove_tag(closed, "sale", ["a", "d"]) == 1
    assert remove_tag(closed, "sale", ["a"]) == 0
    assert read_tags(closed).ids("sale") == ("b", "c")
    assert remove_tag(closed, "sale") == 2
    assert read_tags(closed).names() == ["red"]


def test_wrong_tags_and_items_are_refused(closed: Study) -> None:
    for wrong, words in [("", "from 1 to 50"), (" ", "from 1 to 50"), ("x" * 51, "got 51"), ("a\nb", "on one line")]:
        with pytest.raises(InputError, match=words):
            add_tag(closed, wrong, ["a"])
    hidden: Any = 3
    for wrong in ("a\u202eb", "a\0b"):
        with pytest.raises(InputError, match="hidden"):
            add_tag(closed, wrong, ["a"])
    with pytest.raises(InputError, match="is a text"):
        clean_tag(hidden)
    with pytest.raises(InputError, match="'nobody'"):
        add_tag(closed, "sale", ["a", "nobody"])
    assert read_tags(closed) == StudyTags()  # all or none
    add_tag(closed, "sale", ["a"])
    with pytest.raises(StudyError, match="did you mean 'sale'"):
        read_tags(closed).ids("sael")
    with pytest.raises(StudyError, match="no item of the study has the tag 'x'"):
        remove_tag(closed, "x")


def test_the_same_letters_are_the_same_tag() -> None:
    assert clean_tag("e\u0301te\u0301") == clean_tag("été") == "été"
    assert clean_tag("x" * LONGEST) == "x" * LONGEST


def test_tags_stay_when_items_go(closed: Study) -> None:
    add_tag(closed, "sale", ["a", "d"])
    fewer = catalogue_of(["a", "b"])
    assert read_tags(closed).counts(SHOP) == {"sale": (2, 0)}
    assert read_tags(closed).counts(fewer) == {"sale": (1, 1)}
    assert read_tags(closed).mask("sale", fewer).tolist() == [True, False]


def test_a_damaged_file_is_named_with_its_line(closed: Study) -> None:
    tags_path(closed).write_text("item,tag\na,sale\nb," + "x" * 60 + "\n")
    with pytest.raises(FileError, match=r"tags\.csv, line 3: a tag has from 1 to 50"):
        read_tags(closed)
    tags_path(closed).write_text("thing\nb\n")
    with pytest.raises(FileError, match="'item'"):
        read_tags(closed)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(ODD), st.lists(st.sampled_from("abcd"), min_size=1))))
def test_a_file_of_tags_is_a_set_of_pairs(tmp_path_factory: Any, steps: list[Any]) -> None:
    study = create(tmp_path_factory.mktemp("tags") / "study")
    pairs: set[tuple[str, str]] = set()
    for gives, tag, ids in steps:
        wanted = {(tag, item) for item in ids}
        if gives:
            assert add_tag(study, tag, ids) == len(wanted - pairs)
            pairs |= wanted
        elif any(name == tag for name, _ in pairs):
            assert remove_tag(study, tag, ids) == len(wanted & pairs)
            pairs -= wanted
        assert {(name, item) for name, items in read_tags(study).items.items() for item in items} == pairs


MANY = """
import time
from lookalike.study.tags import add_tag
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(arguments[1])):
    add_tag(study, f"{arguments[0]} {number}", ["a", "b"])
    print(number, flush=True)
    time.sleep(float(arguments[2]))  # or one has done all before the other asks for the lock again
"""


def test_two_processes_lose_no_tag(closed: Study) -> None:
    writers = [process(MANY, closed.path, name, 25, 0.03) for name in ("ann", "bob")]
    for writer in writers:
        assert line_from(writer) == "ready"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    tags = read_tags(closed)
    assert sorted(tags.items) == sorted(f"{name} {number}" for name in ("ann", "bob") for number in range(25))
    owners = [name.split()[0] for name in tags.items]
    assert sum(first != second for first, second in pairwise(owners)) > 1, "the two never met"


def test_a_kill_leaves_whole_tags(closed: Study) -> None:
    writer = process(MANY, closed.path, "ann", 100_000, 0)
    assert writer.stdin is not None
    assert line_from(writer) == "ready"
    writer.stdin.write("\n")
    writer.stdin.flush()
    for _ in range(5):
        line_from(writer)
    time.sleep(random.random() * 0.05)
    writer.send_signal(signal.SIGKILL)
    said = writer.communicate()[0].split()
    told = max([4, *map(int, said)])
    n = len(read_tags(closed).items)
    assert told + 1 <= n <= told + 2  # what it was told of is there, and perhaps the one after
    assert set(read_tags(closed).items.values()) == {("a", "b")}
    assert add_tag(closed, "after", ["c"]) == 1
    assert not list(closed.path.glob(".tags*"))


def test_masks_of_ids_of_any_length() -> None:
    catalogue = catalogue_of(["a", "abc" * 50])
    assert np.array_equal(StudyTags({"x": ("abc" * 50, "gone")}).mask("x", catalogue), [False, True])
