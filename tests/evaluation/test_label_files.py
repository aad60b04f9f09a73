"""Labels in files of their own: what each text is taken as, what is said about it, what is refused, with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lookalike.core.errors import FileError
from lookalike.evaluation.item_files import read_items, relevance_between
from lookalike.evaluation.label_files import read_labels

TAGS = [[0, 1, 0], [1, 1, 0], [0, 0, 1]]
IDS = np.array(["c", "a", "b"])

# the text, what it is, and how many notes say what was assumed
READ = {
    "one number a line": ("0\n1\n0\n", ["0", "1", "0"], 0),
    "words with spaces": ("fire engine\ncat\nfire engine\n", ["fire engine", "cat", "fire engine"], 0),
    "words and a number": ("class 3\nclass 4\nclass 3", ["class 3", "class 4", "class 3"], 0),
    "a label with a comma in quotes": ('"tench, fish"\ncat\n"tench, fish"\n', ["tench, fish", "cat", "tench, fish"], 0),
    "a quotation mark in a label": ('5" pipe\ncat\ncat\n', ['5" pipe', "cat", "cat"], 0),
    "empty lines at the end": ("a\nb\nc\n\n \n", ["a", "b", "c"], 0),
    "a byte order mark": ("\ufeffa\nb\nc\n", ["a", "b", "c"], 0),
    "tags with spaces": ("0 1 0\n1 1 0\n0 0 1\n", TAGS, 0),
    "tags with commas": ("0,1,0\n1,1,0\n0,0,1\n", TAGS, 0),
    "tags with tabs": ("0\t1\t0\n1\t1\t0\n0\t0\t1\n", TAGS, 0),
    "tags of a float matrix": ("0.0 1.0 0.0\n1.0 1.0 0.0\n0.0 0.0 1.0\n", TAGS, 0),
    "tags of -1 and +1": ("-1 1 -1\n+1 1 -1\n-1 -1 1\n", TAGS, 0),
    "names above tags": ("cat,dog,car\n0,1,0\n1,1,0\n0,0,1\n", TAGS, 0),
    "ids and tags": ("x.jpg 0 1 0\ny.jpg 1 1 0\nz.jpg 0 0 1\n", TAGS, 1),
    "ids and labels": ("x.jpg,3\ny.jpg,4\nz.jpg,3\n", ["3", "4", "3"], 1),
    "ids and labels with a space": ("x.jpg 3\ny.jpg 4\nz.jpg 3\n", ["3", "4", "3"], 1),
    "numbers as ids": ("17 3\n18 4\n19 3\n", ["3", "4", "3"], 1),
    "a header": ("id,label\nx,cat\ny,dog\nz,cat\n", ["cat", "dog", "cat"], 1),
    "a header without ids": ("label,colour\ncat,red\ndog,red\ncat,blue\n", ["cat", "dog", "cat"], 1),
    "a header above one column": ("label\ncat\ndog\ncat\n", ["cat", "dog", "cat"], 1),
}

REFUSED = {
    "tags of different lengths": ("0 1 0\n1 1\n0 0 1\n", 2, "2 values, but 3 in line 3"),
    "tags and words": ("0 1 0\nfire engine red\n0 0 1\n", 2, "some lines are several numbers"),
    "numbers that are no tags": ("0 1 2\n1 1 3\n0 2 2\n", 1, "a line has one label, tags that are 0 or 1"),
    "-1, 0 and 1": ("0 1 1\n-1 1 1\n0 0 1\n", 2, "got both -1 and 0"),
    "some labels with commas": ("tench, fish\ncat\ncat\n", 1, 'in "double quotes"'),
    "all labels with commas": ("Paris, France\nParis, France\nRome, Italy\n", 1, "cannot be told which is the id"),
    "labels that all differ": ("x,3\ny,4\nz,5\n", 1, "cannot be told which is the id"),
    "a table without names": ("x,cat,red\ny,dog,red\nz,cat,blue\n", 1, "name the columns in the first line"),
    "an empty line": ("a\n\nb\n", 2, "it is empty"),
    "an id twice": ("id,label\nx,cat\ny,dog\nx,cat\n", 4, "the id 'x' is there twice, first in line 2"),
    "two columns of labels": ("label,class\nx,cat\ny,dog\nx,cat\n", 1, "several columns could be ids or labels"),
    "nothing below names": ("id,label\n", 1, "no row follows"),
}


@pytest.mark.parametrize("name", READ)
def test_a_text_is_taken_as_what_it_is(name: str, tmp_path: Path) -> None:
    text, values, n_notes = READ[name]
    path = tmp_path / "labels.txt"
    path.write_text(text, encoding="utf-8")
    found, notes = read_labels(path, 3)
    assert found["labels"].tolist() == values
    assert len(notes) == n_notes
    assert all(note.startswith(f"{path}: ") for note in notes)


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    text, line, words = REFUSED[name]
    path = tmp_path / "labels.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=words) as refused:
        read_labels(path, 3)
    assert (refused.value.path, refused.value.line) == (str(path), line)
    assert f"{path}, line {line}: " in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "a,cat\nb,dog\nc,cow\n",
        "a cat\nb dog\nc cow\n",
        "id,label\na,cat\nb,dog\nc,cow\nd,owl\n",
        "label,file\ncat,a\ndog,b\ncow,c\n",
    ],
)
def test_labels_are_joined_by_id(text: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    found, notes = read_labels(path, 3, IDS)
    assert (found["labels"].tolist(), notes) == (["cow", "cat", "dog"], [])


def test_an_item_without_a_label_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\na,cat\nb,dog\nd,cow\n")
    with pytest.raises(FileError, match="no label of 1 of 3 items, such as 'c'; one of its ids is 'a'"):
        read_labels(path, 3, IDS)


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_of_one_column_are_labels_and_signs_are_tags(ending: str, tmp_path: Path) -> None:
    tags = np.array(TAGS)
    wanted = {"column": ([[3], [4], [3]], [3, 4, 3]), "signs": (2 * tags - 1, TAGS), "tags": (tags, TAGS)}
    for name, (array, values) in wanted.items():
        items, labels = tmp_path / f"{name}.npz", None
        if ending == "npz":
            np.savez(items, codes=np.eye(3), labels=array)
        else:
            labels = tmp_path / f"{name}.npy"
            np.savez(items, codes=np.eye(3))
            np.save(labels, array)
        read = read_items(items, labels)
        assert read.labels is not None
        assert read.labels.tolist() == values, name
    np.savez(tmp_path / "mixed.npz", codes=np.eye(3), labels=tags - np.eye(3, dtype=int)[[1, 1, 1]])
    with pytest.raises(FileError, match=r"mixed.npz: tags must be .*, got 0 as well as -1 in row 0"):
        read_items(tmp_path / "mixed.npz")


def items_of(path: Path, **arrays: object) -> Path:
    np.savez(path, codes=np.eye(3, dtype=int), **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("text", ["3\n4\n3\n", "3.0\n4.0\n3.0\n"])
def test_numbers_as_text_are_equal_to_numbers(text: str, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text(text)
    queries = read_items(items_of(tmp_path / "queries.npz"), tmp_path / "labels.txt")
    for labels in (np.array([3, 4, 5]), np.array(["3", "4", "5"])):
        gallery = read_items(items_of(tmp_path / "gallery.npz", labels=labels))
        relevance = relevance_between(queries, gallery)
        assert relevance.block(slice(0, 3), slice(0, 3)).tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_words_and_numbers_are_still_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\n4\n3\n")
    queries = read_items(items_of(tmp_path / "queries.npz"), tmp_path / "labels.txt")
    with pytest.raises(ValueError, match="nothing can be equal"):
        relevance_between(queries, read_items(items_of(tmp_path / "gallery.npz", labels=np.array([3, 4, 5]))))


def test_labels_beside_a_file_that_has_some_are_said_to_win(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    items = read_items(items_of(tmp_path / "items.npz", labels=np.arange(3)), tmp_path / "labels.txt")
    assert items.labels is not None
    assert items.labels.tolist() == ["a", "b", "c"]
    assert items.notes == (f"labels are those of {tmp_path / 'labels.txt'}, not those that {items.path} has",)
    assert list(items.notes) == caplog.messages


def test_rows_and_columns_exchanged_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "items.npz", codes=np.zeros((8, 20), int), labels=np.arange(20))
    with pytest.raises(FileError, match="has 8 items, but 20 labels: are its rows and columns exchanged"):
        read_items(tmp_path / "items.npz")


def test_spaces_around_a_label_are_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat \n  dog\ncat\nsea lion  \n")
    assert read_labels(tmp_path / "labels.txt", 4)[0]["labels"].tolist() == ["cat", "dog", "cat", "sea lion"]
