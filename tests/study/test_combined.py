"""Words, pictures and both: a real pair of networks finds digits that it has not seen by what they are called."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.commands import numbers, run
from helpers.word_pairs import COLOURS, NUMBERS, make_words_study
from lookalike.core.errors import InputError, StudyError
from lookalike.study.combined import like_parts, read_ingredients
from lookalike.study.encode import encode_folder
from lookalike.study.finder import Finder
from lookalike.study.hashed_models import hash_model
from lookalike.study.item_names import ItemNames
from lookalike.study.study import Study

RED_THREE = "red/three-0003.png"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_words_study(tmp_path_factory.mktemp("words"))


def found(finder: Finder, expression: str, k: int) -> list[str]:
    ingredients = read_ingredients(expression, ItemNames(finder.study.catalogue), lambda text: None)
    return finder.study.catalogue.ids[like_parts(finder, ingredients, k).items].tolist()


def recall(finder: Finder, expression: str, *wanted: str) -> float:
    """Of all items whose ids hold what is wanted, how many are among as many that are found first."""
    right = [name for name in finder.study.catalogue.ids.tolist() if all(part in name for part in wanted)]
    return sum(name in right for name in found(finder, expression, len(right))) / len(right)


def test_words_find_what_they_name(study: Study) -> None:
    finder = Finder(study, "image")
    assert all(recall(finder, colour, f"{colour}/") == 1 for colour in COLOURS)
    by_number = {number: recall(finder, number, f"/{number}-") for number in NUMBERS}
    assert min(by_number.values()) > 0.8
    assert by_number["three"] > 0.9
    assert np.mean([*by_number.values()]) > 0.93
    assert all(name.startswith("blue/seven") for name in found(finder, "blue seven", 5))
    assert found(finder, "THREE", 9) == found(finder, "three", 9)


def test_parts_are_added_and_taken_away(study: Study) -> None:
    finder = Finder(study, "image")
    assert all(name.startswith("blue/three") for name in found(finder, f"{RED_THREE} − red + blue", 5))
    assert all("/three" in name and "red" not in name for name in found(finder, "three - red", 5))
    assert RED_THREE not in found(finder, f"{RED_THREE} + red", 50)  # it is what is searched with
    assert found(finder, "three-0003.png + 5*blue", 3) == found(finder, f'"{RED_THREE}" + 5*blue', 3)
    assert all(name.startswith("blue/") for name in found(finder, f"{RED_THREE} + 9*blue", 20))


def test_the_sum_is_that_of_unit_vectors_searched_as_any_other(study: Study) -> None:
    finder = Finder(study, "image")
    image, text = (next((study.path.parent).glob(f"{side}.onnx")) for side in ("image", "text"))
    encoder = la.encoders.load(f"onnx:{image}", text=text)
    words = encoder.encode_text(["red", "eight"])
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    gallery = study.model("image").gallery
    assert isinstance(gallery, np.ndarray)
    unit = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    item = int(study.catalogue.positions([RED_THREE])[0])
    query = unit[item] - 0.5 * words[0] + words[1]
    order = [at for at in np.argsort(-(unit @ query), kind="stable").tolist() if at != item]
    assert found(finder, f"{RED_THREE} - 0.5*red + eight", 10) == study.catalogue.ids[order[:10]].tolist()


def test_codes_are_made_of_the_sum_by_the_same_hasher(study: Study, tmp_path: Path) -> None:
    copy = Study.open(shutil.copytree(study.path, tmp_path / "study"))
    finder = Finder(copy, hash_model(copy, "image", "itq", 32))
    assert recall(finder, "red", "red/") > 0.9
    assert recall(finder, "three", "/three-") > 0.6
    plain = Finder(copy, "image")
    many = 20 * plain.embeddings.astype(np.float32)  # as long as the rows of some networks
    copy.add_model("long", gallery=many, similarity="cosine")
    long = Finder(copy, hash_model(copy, "long", "itq", 32))
    assert found(long, "red/three-0003.png + blue/three-0045.png", 9) == found(
        finder, "red/three-0003.png + blue/three-0045.png", 9
    )


def names_of(study: Study) -> ItemNames:
    return ItemNames(study.catalogue)


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("three-0003.png + red - 2*blue", ["picture red/three-0003.png", "words red", "without 2 × blue"]),
        ("red - red/three-0003.png", ["words red", "without picture red/three-0003.png"]),
        ('"red" + 0.5*six', ["words red", "0.5 × words six"]),
        ("<b>red</b>", ["words <b>red</b>"]),
    ],
)
def test_each_part_says_what_it_was_taken_for(study: Study, expression: str, labels: list[str]) -> None:
    assert [each.label for each in read_ingredients(expression, names_of(study), lambda text: None)] == labels


def test_an_item_wins_over_a_word_only_where_it_is_one(tmp_path: Path) -> None:
    from lookalike.discovery.catalogue import Catalogue

    names = ItemNames(Catalogue(["red", "a - b.jpg", "x/same", "y/same", "x/1.jpg", "y/1.jpg"]))

    def kinds(expression: str) -> list[str]:
        return [each.label for each in read_ingredients(expression, names, lambda text: None)]

    assert kinds("red + blue") == ["picture red", "words blue"]
    assert kinds('"red" + blue') == ["words red", "words blue"]
    assert kinds("a - b.jpg") == ["picture a - b.jpg"]  # a name as a whole, whatever signs are in it
    assert kinds('"a - b.jpg" + blue') == ["picture a - b.jpg", "words blue"]
    assert kinds("same + blue") == ["words same", "words blue"]
    with pytest.raises(StudyError, match=r"2 items are called 1\.jpg"):
        kinds("1.jpg + blue")
    with pytest.raises(StudyError, match=r"there is no file c.jpg, .*: did you mean"):
        kinds("blue + c.jpg")


def test_what_cannot_be_added_is_refused(study: Study, tmp_path: Path) -> None:
    finder = Finder(study, "image")
    with pytest.raises(InputError, match="added and what is taken away are the same"):
        found(finder, "red - red", 3)
    copy = Study.open(shutil.copytree(study.path, tmp_path / "study"))
    encode_folder(study.path.parent / "digits", copy.path, model="phash", threads=1)
    gallery = finder.embeddings
    copy.add_model("far", gallery=np.asarray(gallery), similarity="euclidean")
    copy.add_model("file", gallery=np.asarray(gallery), similarity="cosine")
    for model, expression, sentence in (
        ("phash", "red", "phash has no text side, so that it cannot be searched by words: lookalike encode --model"),
        ("phash", f"{RED_THREE} + blue/three-0045.png", "has codes without a hasher in the study"),
        ("far", f"{RED_THREE} + blue/three-0045.png", "compares by distance, where parts cannot be added"),
        ("file", "red", "file was added from a file, so that it cannot be searched by words"),
    ):
        with pytest.raises(StudyError, match=sentence):
            found(Finder(copy, model), expression, 3)
    assert len(found(Finder(copy, "file"), f"{RED_THREE} + blue/three-0045.png", 3)) == 3


def test_a_text_side_is_remembered_with_its_fingerprint(study: Study, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(study.path.parent, tmp_path / "all"))
    image, text = folder / "image.onnx", folder / "text.onnx"
    plain = encode_folder(folder / "digits", folder / "plain", model=f"onnx:{image}", threads=1)
    with pytest.raises(StudyError, match=r"image was given no text side, .*--text TEXT.onnx --tokenizer"):
        found(Finder(plain.study, "image"), "red", 1)
    again = encode_folder(folder / "digits", plain.study.path, model=f"onnx:{image}", text={"text": text})
    assert again.encoded == 0  # vectors stay as they are
    assert found(Finder(again.study, "image"), "red", 1)[0].startswith("red/")
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + "\n")
    with pytest.raises(StudyError, match="the text model of 'image', or its tokenizer, has changed since it was given"):
        found(Finder(again.study, "image"), "red", 1)
    assert len(found(Finder(again.study, "image"), RED_THREE, 3)) == 3  # pictures need no words
    text.unlink()
    with pytest.raises(StudyError, match="the text side of 'image' is gone: there is no file"):
        found(Finder(again.study, "image"), "red", 1)
    again.study.text_path("image").write_text("[]")
    with pytest.raises(ValueError, match=r"image\.text\.json is damaged"):
        found(Finder(again.study, "image"), "red", 1)
    again.study.remove_model("image")
    assert not again.study.text_path("image").exists()


def test_words_are_refused_if_the_image_side_is_not_the_one_of_the_vectors(study: Study, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(study.path.parent, tmp_path / "all"))
    image, text = folder / "image.onnx", folder / "text.onnx"
    made = encode_folder(folder / "digits", folder / "new", model=f"onnx:{image}", text={"text": text}, threads=1)
    assert found(Finder(made.study, "image"), "red", 1)[0].startswith("red/")
    content = bytearray(image.read_bytes())
    content[len(content) // 2] ^= 1  # one weight, by one bit
    image.write_bytes(content)
    with pytest.raises(StudyError, match="has changed since 'image' was made"):
        found(Finder(made.study, "image"), "red", 1)


def test_the_command_takes_words(study: Study, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = numbers(capsys, "search", study.path, f"{RED_THREE} - red + blue", "-k", 3)
    assert answer["parts"] == [
        {"kind": "item", "text": RED_THREE, "sign": 1, "weight": 1.0},
        {"kind": "words", "text": "red", "sign": -1, "weight": 1.0},
        {"kind": "words", "text": "blue", "sign": 1, "weight": 1.0},
    ]
    assert all(row["id"].startswith("blue/three") for row in answer["found"])
    outside = shutil.copy(study.path.parent / "digits" / RED_THREE, tmp_path / "mine.png")
    mine = numbers(capsys, "search", study.path, f"{outside} - red + blue", "-k", 3)
    assert [row["id"] for row in mine["found"]] == [row["id"] for row in answer["found"]]
    code, out, _ = run(capsys, "search", study.path, "three", "-k", 2, "--html", "--output", tmp_path / "page.html")
    assert code == 0
    assert "words three" in out
    assert "What looks like three" in (tmp_path / "page.html").read_text()
    for query, sentence in (("red + none.png", "there is no file none.png"), ("−red", "begin with what to find")):
        code, out, err = run(capsys, "search", study.path, query)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err
