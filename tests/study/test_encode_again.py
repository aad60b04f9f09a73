"""A folder of images is encoded again: after a kill, after changes, and in odd orders."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lookalike as la
from helpers.photos import command, contents, labelled, picture, states, write
from lookalike.study import encoded_images
from lookalike.study.encode import encode_folder
from lookalike.study.finder import Finder, build_index
from lookalike.study.hashed_models import hash_model
from lookalike.study.study import Study

# Kills


RUN = """
import json, os, signal, sys, time
import faiss, sklearn.decomposition  # loaded once; each command is then a process of its own
from lookalike import cli, encoders, hashers
from lookalike.core import kernels
from lookalike.study import encode, encoded_images, finder, hashed_models
kernels.kernels(), kernels.prepare_hashing()
encoded_images.KEEP_EVERY, encoded_images.BATCH = 0.0, 8

def done(arguments):
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1), os.dup2(silent, 2)
    code = 1
    try:
        cli.main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        os._exit(code)

for line in sys.stdin:
    folder, arguments, kill_after = json.loads(line)
    os.chdir(folder)
    begun = time.monotonic()
    process = os.fork() or done(arguments)
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        if kill_after is not None and time.monotonic() - begun > kill_after:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.001)
    print(json.dumps([os.waitstatus_to_exitcode(ended[1]), time.monotonic() - begun]), flush=True)
"""


@contextlib.contextmanager
def runner() -> Iterator[Callable[..., float | None]]:
    """What runs a command for so many seconds at most: how long it took, or None where it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        sender, receiver = process.stdin, process.stdout
        assert sender is not None
        assert receiver is not None

        def ran(folder: Path, arguments: list[str], kill_after: float | None = None) -> float | None:
            sender.write(json.dumps([str(folder), arguments, kill_after]) + "\n")
            code, seconds = json.loads(receiver.readline())
            assert code in (0, -signal.SIGKILL)
            return float(seconds) if code == 0 else None

        yield ran


def test_a_study_is_the_same_whenever_its_making_was_killed(tmp_path: Path) -> None:
    """encode and index, killed at three random moments each and run again: every file equal to those undisturbed."""
    for number in range(160):
        path = write(tmp_path / "a" / "photos" / f"{number % 4}" / f"{number:03}.png", number)
        Image.fromarray(picture(number, (200, 150))).save(path)
    (tmp_path / "a" / "photos" / "broken.png").write_bytes(b"no image")
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copy2)
    commands = [
        ["encode", "photos", "--model", "colour"],
        ["index", "photos-study", "--hasher", "ITQ", "--bits", "16", "--kind", "ivf"],
    ]
    how = random.Random(1)
    with runner() as ran:
        for arguments in commands:
            seconds, kills = ran(tmp_path / "a", arguments), 0
            assert seconds is not None
            part = (0.1, 0.4) if arguments[0] == "encode" else (0.1, 0.9)  # it goes on where it was
            while kills < 3:
                if ran(tmp_path / "b", arguments, how.uniform(*part) * seconds) is None:
                    kills += 1
                else:
                    seconds *= 0.6  # the machine was busier when it ran undisturbed
            assert ran(tmp_path / "b", arguments) is not None
    undisturbed, disturbed = (contents(tmp_path / each / "photos-study") for each in "ab")
    assert {"models/colour.npz", "models/colour-itq-16.npz", "indexes/colour-itq-16.npz", "images.csv"} <= set(
        undisturbed
    )
    assert disturbed == undisturbed


def test_kept_rows_that_were_altered_are_refused(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_images, "KEEP_EVERY", 0.0)
    monkeypatch.setattr(Study, "create", lambda *given, **options: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        encode_folder(photos, tmp_path / "study", model="colour")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is not yet a study: lookalike encode was ended early, run it again"):
        Study.open(tmp_path / "study")
    kept = next((tmp_path / "study" / "encoding").rglob("*.npz"))
    data = bytearray(kept.read_bytes())
    at = data.index(np.float32(la.encoders.load("colour").encode([picture(0)])[0].max()).tobytes())
    data[at] ^= 1
    kept.write_bytes(data)
    with pytest.raises(ValueError, match=r"npz is (damaged|not a readable npz)"):
        encode_folder(photos, tmp_path / "study", model="colour")
    kept.unlink()
    assert encode_folder(photos, tmp_path / "study", model="colour").encoded == 6


# Odd orders


STOPPED = """
import os, shutil
from pathlib import Path
from lookalike.study import encoded_images
from lookalike.study.encode import encode_folder
encoded_images.KEEP_EVERY = 0.0
shutil.copytree("begun", "loaded")
encode_folder("photos", "loaded", model="phash")
for left in range(30):
    shutil.copytree("begun", f"study-{left}")
    process = os.fork()  # with all that is loaded
    if process:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(code, flush=True)
        if code != 9:
            break
    else:
        take = Path.replace
        def stop(*given):
            global left
            if left == 0:
                os._exit(9)
            left -= 1
            return take(*given)
        Path.replace = stop
        try:
            encode_folder("photos", f"study-{left}", model="phash")
            os._exit(0)
        finally:
            os._exit(1)
"""


def test_an_update_is_the_same_whichever_write_it_was_killed_at(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "study"
    for model in ("colour", "phash"):
        encode_folder(photos, place, model=model)
    hash_model(Study.open(place), "colour", "LSH", 8)
    Study.open(place).set_queries([0, 2, 4])
    shutil.copytree(place, tmp_path / "begun")
    (photos / "cats" / "0.png").unlink()  # the first of the queries
    write(photos / "cats" / "new.png", 50)
    (photos / "text.png").write_text("no image")
    encode_folder(photos, place, model="phash")
    expected = contents(place)
    stopped = subprocess.run([sys.executable, "-c", STOPPED], cwd=tmp_path, capture_output=True, text=True)
    *kills, whole = stopped.stdout.split()
    assert whole == "0", stopped.stderr
    assert contents(tmp_path / f"study-{len(kills)}") == expected
    assert len(kills) >= 8  # rows of two encoders, queries, catalogue, study.toml, four files of models, images.csv
    for n_writes in range(len(kills)):
        again = tmp_path / f"study-{n_writes}"
        encode_folder(photos, again, model="phash")
        assert contents(again) == expected, n_writes
        assert Study.open(again).queries.ids.tolist() == ["cats/2.png", "dogs/4.png"]


def test_other_models_are_not_mixed_of_two_versions(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_folder(photos, tmp_path / "study", model="colour")
    encode_folder(photos, tmp_path / "study", model="phash")
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    write(photos / "cats" / "new.png", 50)
    assert encode_folder(photos, tmp_path / "study", model="phash").encoded == 7 + 1
    recipe = Study.open(tmp_path / "study").recipe("colour")
    assert recipe is not None
    assert recipe.version == "2"


def test_vectors_of_two_backends_are_not_mixed(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A study that PyTorch encoded, as before version 0.1.0: it is refused new pictures, and encoded again as one."""
    from lookalike.encoders.torch_network import batch, folded, run

    lite0 = la.encoders.EfficientNetLite0
    network = folded(lite0().network())
    before = "0.1.0, 32 px, preprocessing 3, weights 579344248a93e230"
    with monkeypatch.context() as patch:
        patch.setattr(lite0, "version", before)
        patch.setattr(lite0, "_rows", lambda self, prepared: run(network, batch(prepared)))
        study = encode_folder(photos, tmp_path / "study", options={"size": 32}, name="net").study
    hashed = hash_model(study, "net", "LSH", 8)
    old = np.array(study.model("net").gallery)
    command = "lookalike encode study --model efficientnet-lite0 --size 32 --name net"
    for model in ("net", hashed):
        with pytest.raises(
            ValueError, match=f"since '{model}' was made: run {command}, which .*it was {before}, it is"
        ):
            Finder(study, model).like_picture(photos / "cats" / "0.png", 1)
    encode_folder(photos, tmp_path / "study", model="phash")  # nothing of the other is missing
    np.testing.assert_array_equal(Study.open(tmp_path / "study").model("net").gallery, old)
    assert "has changed" not in caplog.text
    write(photos / "cats" / "new.png", 50)
    assert encode_folder(photos, tmp_path / "study", model="phash").encoded == 7 + 1
    assert f"efficientnet-lite0 has changed since 'net' was made (it was {before}, it is ONNX Runtime" in caplog.text
    study = Study.open(tmp_path / "study")
    assert [
        study.catalogue.ids[each] for each in Finder(study, "net").like_picture(photos / "cats" / "0.png", 1).items
    ] == ["cats/0.png"]
    files = [photos / name for name in study.catalogue.ids]
    rows = np.concatenate([block for _, block in la.encoders.encode_files(files, lite0(32))])
    np.testing.assert_array_equal(study.model("net").gallery, rows)
    recipe = study.recipe("net")
    assert recipe is not None
    assert str(recipe.version).startswith("ONNX Runtime, 32 px")
    assert not np.array_equal(old, rows[: len(old)])


def test_rows_of_another_encoder_are_not_taken_up(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded_images, "KEEP_EVERY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Study, "create", lambda *given, **options: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode_folder(photos, tmp_path / "study", model="phash", name="bits")
    done = encode_folder(photos, tmp_path / "study", model="dhash", name="bits")
    assert done.encoded == 6
    assert done.study.model("bits").gallery == la.encoders.load("dhash").codes([picture(n) for n in range(6)])


def test_a_pool_holds_labels_and_unreadable_images_too(photos: Path, tmp_path: Path) -> None:
    from lookalike.discovery import Pool

    place = tmp_path / "study"
    (photos / "text.png").write_text("no image")
    Image.fromarray(picture(0, (60, 60))).save(photos / "cats" / "0.png")
    study = encode_folder(photos, place, model="colour").study
    study.write_pool(Pool.build({"colour": study.model("colour").given}, study.collection, k=2))
    with pytest.raises(ValueError, match=r"has a pool, which was made of its items, but cats/0\.png cannot be"):
        encode_folder(photos, place, model="phash", max_pixels=1000)
    with pytest.raises(ValueError, match="has a pool, which was made of its items, but labels have changed"):
        encode_folder(photos, place, model="phash", folders="identity")
    assert len(Study.open(place).pool()) == len(study.pool())
    done = encode_folder(photos, place, model="phash")
    assert [(file.path, file.reason) for file in done.skipped] == [("text.png", states(place)["text.png"][1])]
    assert done.left_out == []
    with pytest.raises(ValueError, match="has a pool, which was made of its items: they stay"):
        study.set_items(study.catalogue, [0], study.folder or {})


def test_a_judged_study_may_move_and_get_other_categories(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("encode", "photos", "--model", "colour", "--study", "s") == 0
    assert command("study", "queries", "s", "--draw", "2") == 0
    assert command("pool", "s", "--k", "2") == 0
    study = Study.open("s")
    ids, queries, pool = study.catalogue.ids, study.queries.ids, study.pool()
    photos.rename(tmp_path / "moved")
    assert command("encode", "moved", "--study", "s", "--model", "colour") == 0
    (tmp_path / "away").mkdir()
    (tmp_path / "moved").rename(tmp_path / "away" / "moved")
    (tmp_path / "s").rename(tmp_path / "away" / "s")
    kinds = {"file": ids.tolist(), "category": [f"kind {number}" for number in range(6)]}
    table = labelled(photos, tmp_path, kinds, ".csv")
    assert command("encode", "away/s", "--model", "colour", "--labels", str(table)) == 0
    after = Study.open("away/s")
    path = after.image_path(0)
    assert path is not None
    assert path.is_file()
    assert after.pool().digest == pool.digest
    assert after.queries.ids.tolist() == queries.tolist()
    assert after.catalogue.column("category").tolist() == kinds["category"]
    with pytest.raises(ValueError, match="has a pool, which was made of its items: they stay"):
        after.set_items(la.discovery.Catalogue(ids, ["shoe"] * 6), queries, after.folder or {})


@pytest.mark.parametrize("pooled", ["colour", "colour-lsh-8"])
def test_a_pooled_model_is_refused_another_version_before_anything_is_encoded(
    pooled: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "study"
    study = encode_folder(photos, place, model="colour").study
    hash_model(study, "colour", "LSH", 8)
    assert command("pool", str(place), "--k", "2", "--models", pooled) == 0
    before = contents(place)
    with pytest.raises(ValueError, match=f"the pool has what the model '{pooled}' proposed"):
        study.add_model("colour", gallery=np.eye(6), recipe=study.recipe("colour"), replace=True)
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    monkeypatch.setattr(la.encoders.Colour, "_rows", lambda self, given: pytest.fail("it was encoded"))
    with pytest.raises(
        ValueError, match=rf"colour has changed since 'colour' was made, but the pool has what '{pooled}'"
    ):
        encode_folder(photos, place, model="colour")
    assert contents(place) == before
    monkeypatch.undo()
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    assert encode_folder(photos, place, model="colour", name="colour-2").encoded == 6


def test_a_pooled_hashed_model_keeps_its_hasher(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    name = hash_model(study, "colour", "LSH", 8)
    assert command("pool", str(study.path), "--k", "2") == 0
    with pytest.raises(ValueError, match="the pool has what the model 'colour-lsh-8' proposed: take another hasher or"):
        hash_model(study, "colour", "LSH", 8, seed=5)
    assert Finder(study, name).like_picture(picture(3), 1).items.tolist() == [3]


def test_only_codes_that_cannot_be_learnt_are_dropped(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    study.add_model("other", gallery=np.random.default_rng(0).normal(size=(6, 500)))
    name = hash_model(study, "other", "LSH", 8)
    path = study.path / "models" / "other.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(ValueError, match=r"other\.npz is not a readable npz file"):
        encode_folder(photos, study.path, model="phash")
    path.write_bytes(whole)
    assert encode_folder(photos, study.path, model="phash").study.models() == ["colour", "other", name, "phash"]


def test_hashed_models_and_their_sources(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    name = hash_model(study, "colour", "LSH", 8)
    with pytest.raises(ValueError, match="'colour-lsh-8' was hashed from 'colour': remove that first"):
        study.remove_model("colour")
    with pytest.raises(ValueError, match="'colour-lsh-8' was hashed from 'colour': remove that first"):
        study.add_model("colour", gallery=np.eye(6), replace=True)
    other = hash_model(study, "colour", "LSH", 8, seed=5)
    assert other == name
    assert Finder(study, name).like_picture(picture(3), 1).items.tolist() == [3]
    la.hashers.LSH(8, random_state=9).fit(study.model("colour").gallery).save(study.hasher_path(name))
    with pytest.raises(ValueError, match="the codes of 'colour-lsh-8' are not of its hasher: run lookalike index"):
        Finder(study, name).like_picture(picture(3), 1)
    study.add_model("colour-itq-4", gallery=np.eye(6))
    with pytest.raises(ValueError, match="the study has another model 'colour-itq-4': remove it first"):
        hash_model(study, "colour", "ITQ", 4)
    with pytest.raises(ValueError, match="is codes of 8 bits, LSH of colour: a hasher learns from embeddings"):
        hash_model(study, name, "ITQ", 4)
    study.remove_model(name)
    assert not study.hasher_path(name).exists()
    assert study.models() == ["colour", "colour-itq-4"]


def test_a_repaired_file_needs_a_row_of_every_model(photos: Path, tmp_path: Path) -> None:
    (photos / "cats" / "large.png").write_bytes(write(tmp_path / "large.png", 9).read_bytes())
    Image.fromarray(picture(9, (60, 60))).save(photos / "cats" / "large.png")
    study = encode_folder(photos, tmp_path / "study", model="phash", max_pixels=1000).study
    study.add_model("other", gallery=np.eye(6))
    with pytest.raises(ValueError, match="'other' was added from a file and cannot follow"):
        encode_folder(photos, tmp_path / "study", model="phash")
    assert Study.open(tmp_path / "study").model("other").kind == "embeddings of 6 numbers, cosine"


def test_queries_that_were_chosen_and_are_gone(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="phash").study
    study.set_queries(["cats/0.png", "cats/1.png"])
    for number in range(2, 6):
        (photos / ("cats" if number < 3 else "dogs") / f"{number}.png").unlink()
    write(photos / "cats" / "new.png", 50)
    assert encode_folder(photos, tmp_path / "study", model="phash").study.queries.ids.tolist() == [
        "cats/0.png",
        "cats/1.png",
    ]
    for number in range(2):
        (photos / "cats" / f"{number}.png").unlink()
    with pytest.raises(ValueError, match="none of the images is left that were chosen as queries: choose others with"):
        encode_folder(photos, tmp_path / "study", model="phash")


def test_an_index_of_another_similarity_is_stale_and_ties_are_counted_by_every_kind(tmp_path: Path) -> None:
    from lookalike.discovery import Catalogue

    rng = np.random.default_rng(0)
    gallery = np.repeat(rng.normal(size=(40, 8)), 10, axis=0)
    study = Study.create(tmp_path / "s", "s", Catalogue([f"i{n}" for n in range(400)]), [0])
    study.add_model("net", gallery=gallery)
    build_index(study, "net", kind="ivf", target=0.7, seed=4)
    looks = Finder(study, "net").like_item(0, 3)
    assert len(set(looks.distances.tolist())) == 1
    assert (len({*looks.items.tolist()} - {*range(1, 10)}), looks.more) == (0, 6)
    study.add_model("net", gallery=gallery, similarity="dot", replace=True)
    index = Finder(study, "net").index
    assert (index.kind, index.similarity) == ("ivf", "dot")
    assert index.measured is not None
    assert (index.measured.target, index.measured.seed) == (0.7, 4)


@pytest.mark.parametrize("wrong", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), np.zeros(4, np.uint8)])
def test_an_array_that_is_no_picture(wrong: np.ndarray, photos: Path, tmp_path: Path) -> None:
    finder = Finder(encode_folder(photos, tmp_path / "study", model="phash").study, "phash")
    with pytest.raises(ValueError, match="image 0 must be"):
        finder.like_picture(wrong, 1)


def test_an_item_that_is_a_link_is_found_by_its_path(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (photos / "linked.png").symlink_to(write(tmp_path / "elsewhere.png", 70))
    encode_folder(photos, tmp_path / "study", model="phash")
    assert command("search", "study", "photos/linked.png", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_item"]
    assert "linked.png" not in [each["id"] for each in found["found"]]
    (tmp_path / "file").touch()
    assert command("encode", "photos", "--model", "phash", "--study", "file") == 2
    assert "file: it is a file" in capsys.readouterr().err


def test_the_model_to_search_by(photos: Path, tmp_path: Path) -> None:
    from lookalike.study.finder import default_model

    place = tmp_path / "study"
    expected = {"dhash": "dhash", "pixels": "pixels", "colour": "colour"}
    for model, first in expected.items():
        study = encode_folder(photos, place, model=model).study
        assert default_model(study) == first
    hash_model(study, "colour", "LSH", 8)
    assert default_model(study) == "colour"
    study.add_model("net", gallery=np.eye(6))
    assert default_model(study) == "net"
