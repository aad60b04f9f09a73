"""DeepFashion from small trees of exactly the official form: lists, boxes, splits, and trees that are not whole."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.catalogues import IN_SHOP, consumer_folder, in_shop_folder
from lookalike import datasets


def box_of(path: Path, box: tuple[int, int, int, int], size: int) -> np.ndarray:
    """The middle square of a box of a photograph of 60 × 80, made size × size."""
    left, top, right, bottom = box[0], box[1], min(box[2], 60), min(box[3], 80)
    side = min(right - left, bottom - top)
    x, y = (left + (right - left - side) // 2, top + (bottom - top - side) // 2)
    with Image.open(path) as image:
        return np.asarray(
            image.convert("RGB").crop((x, y, x + side, y + side)).resize((size, size), Image.Resampling.BOX)
        )


@pytest.mark.parametrize("images", ["Img", "", "Img/flat"])
def test_in_shop_is_cut_to_boxes_and_keeps_its_split(tmp_path: Path, images: str) -> None:
    root = in_shop_folder(tmp_path / "inshop", "Img" if images == "Img/flat" else images)
    if images == "Img/flat":  # unpacked so that img is not there
        shutil.copytree(root / "Img" / "img", root / "Img", dirs_exist_ok=True)
        shutil.rmtree(root / "Img" / "img")
    dataset = datasets.load("deepfashion-inshop", source=root, size=16)
    assert repr(dataset) == "Dataset(deepfashion-inshop: 7 images of 16 × 16 in 2 classes)"
    assert dataset.classes == ("MEN/Denim", "WOMEN/Dresses")
    assert dataset.labels.tolist() == [1, 1, 0, 0, 1, 1, 1]
    assert dataset.ids is not None
    assert dataset.identities is not None
    for row, (name, item, status, _, _, box) in enumerate(IN_SHOP):
        found = dataset.ids[row], dataset.identities[row], dataset.columns["phase"][row]
        assert found == (name, item, status)
        difference = dataset.images[row].astype(int) - box_of(dataset.paths[row], box, 16)
        assert np.abs(difference).max() <= 1  # cutting rounds otherwise than resizing a part does
    assert dataset.columns["pose"].tolist() == ["front", "side", "front", "stand-alone", "front", "back", "back"]
    assert dataset.columns["clothes"][:3].tolist() == ["full-body", "full-body", "lower-body"]
    assert dataset.columns["color"].tolist() == ["", "", "Indigo", "Indigo", "", "", ""]
    assert dataset.columns["description"][2] == "Worn-in jeans.  100% cotton"
    split = dataset.split(2)
    assert (split.queries.tolist(), split.training.tolist(), split.gallery.tolist()) == ([2, 4], [0, 1], [3, 5, 6])
    assert dataset.picture(0).shape == (40, 40, 3)  # the box of 40 × 40
    assert dataset.coarse is None


def test_consumer_to_shop_has_pairs_sources_and_categories(tmp_path: Path) -> None:
    dataset = datasets.load("DeepFashion_Consumer2Shop", source=consumer_folder(tmp_path / "c2s"), size=8)
    assert dataset.ids is not None
    assert dataset.identities is not None
    known = {
        name.removeprefix("img/"): (str(item), str(phase), str(source))
        for name, item, phase, source in zip(
            dataset.ids.tolist(),
            dataset.identities,
            dataset.columns["phase"],
            dataset.columns["source"],
            strict=True,
        )
    }
    assert known == {
        "DRESSES/Lace_Dress/id_00000001/comsumer_01.jpg": ("id_00000001", "train", "consumer"),
        "DRESSES/Lace_Dress/id_00000001/shop_01.jpg": ("id_00000001", "train", "shop"),
        "DRESSES/Lace_Dress/id_00000002/comsumer_01.jpg": ("id_00000002", "query", "consumer"),
        "DRESSES/Lace_Dress/id_00000002/shop_01.jpg": ("id_00000002", "gallery", "shop"),
        "DRESSES/Lace_Dress/id_00000002/comsumer_02.jpg": ("id_00000002", "query", "consumer"),
        "TOPS/Blouse/id_00000003/comsumer_01.jpg": ("id_00000003", "val", "consumer"),
        "TOPS/Blouse/id_00000003/shop_01.jpg": ("id_00000003", "gallery", "shop"),
        "TOPS/Blouse/id_00000004/comsumer_01.jpg": ("id_00000004", "query", "consumer"),
        "TOPS/Blouse/id_00000004/shop_02.jpg": ("id_00000004", "gallery", "shop"),
    }
    assert dataset.classes == ("DRESSES/Lace_Dress", "TOPS/Blouse")
    assert dataset.coarse_classes == ("DRESSES", "TOPS")
    split = dataset.split(2)
    assert [len(rows) for rows in (split.queries, split.training, split.gallery)] == [3, 2, 3]


def test_images_are_written_cut_to_their_boxes_under_their_own_paths(tmp_path: Path) -> None:
    dataset = datasets.load("deepfashion-inshop", source=in_shop_folder(tmp_path / "inshop"))
    datasets.write_images(dataset, tmp_path / "crops")
    sizes = {}
    for name, *_ in IN_SHOP:
        with Image.open(tmp_path / "crops" / name) as image:
            assert image.format == "JPEG"
            sizes[name] = image.size
    assert [*sizes.values()] == [(40, 40), (40, 40), (30, 60), (40, 40), (55, 75), (50, 70), (50, 70)]
    with Image.open(dataset.paths[2]) as whole, Image.open(tmp_path / "crops" / IN_SHOP[2][0]) as written:
        difference = np.asarray(whole.crop((0, 0, 30, 60)), int) - np.asarray(written, int)
        assert np.abs(difference).mean() < 3
    items, queries = ((tmp_path / "crops" / name).read_text().splitlines() for name in ("items.csv", "queries.csv"))
    assert items[0] == queries[0] == "id,identity,category,path,phase,clothes,pose,color,description"
    name = IN_SHOP[2][0]
    assert items[3] == f"{name},id_00000080,MEN/Denim,{name},query,lower-body,front,Indigo,Worn-in jeans.  100% cotton"
    assert queries[1:] == [items[3], items[5]]


def test_images_that_are_missing_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = in_shop_folder(tmp_path / "inshop")
    (root / "Img" / IN_SHOP[1][0]).unlink()
    (root / "Img" / IN_SHOP[3][0]).write_bytes(b"no photograph")
    with caplog.at_level(logging.WARNING, "lookalike"):
        dataset = datasets.load("deepfashion-inshop", source=root)
    assert len(dataset) == 5
    assert dataset.columns["phase"].tolist() == ["train", "query", "query", "gallery", "gallery"]
    assert [path.name for path, _ in dataset.unreadable] == ["02_2_side.jpg", "01_7_additional.jpg"]
    assert "2 of 7 images" in caplog.text


def replaced(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new, 1))

    return change


def without(file: str) -> Callable[[Path], None]:
    return lambda root: shutil.rmtree(root / file) if (root / file).is_dir() else (root / file).unlink()


PARTITION, BOXES = "Eval/list_eval_partition.txt", "Anno/list_bbox_inshop.txt"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without(PARTITION), "has no list_eval_partition.txt, neither in Eval, Anno nor itself"),
        (without(BOXES), "has no list_bbox_inshop.txt"),
        (without("Anno/list_item_inshop.txt"), "has no list_item_inshop.txt"),
        (without("Img"), "does not have the images of its lists, such as img/WOMEN.*: unpack img.zip"),
        (replaced(PARTITION, "7\n", "9\n"), "list_eval_partition.txt says that it has 9 rows, but has 7"),
        (replaced(PARTITION, "7\n", "seven\n"), "line 1: the first line must say how many rows"),
        (replaced(PARTITION, "query", "test"), "line 5: the status must be train, query or gallery, got 'test'"),
        (replaced(PARTITION, "id_00000080    query", "query"), "line 5: expected 3 values, got 2"),
        (
            replaced(PARTITION, "01_7_additional", "01_1_front"),
            "line 6: .*01_1_front.jpg was listed before with another",
        ),
        (replaced(BOXES, "02_2_side", "02_9_side"), "has no box of 1 images of list_eval_partition.txt, the first is"),
        (replaced(BOXES, "010 020 050 060", "010 020 050 6.5"), "line 3: a box is four whole numbers"),
        (replaced(BOXES, "  3  1  ", "  4  1  "), "line 3: there is no clothes type 4 with the pose 1"),
        (replaced("Anno/list_item_inshop.txt", "id_00000090", "id_00000099"), "does not list id_00000090, the item of"),
        (replaced("Anno/list_description_inshop.json", "[{", '{"a": [{'), "list_description_inshop.json"),
    ],
)
def test_a_tree_that_is_not_whole_is_told_in_a_sentence(
    tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    root = in_shop_folder(tmp_path / "inshop")
    change(root)
    with pytest.raises(ValueError, match=message):
        datasets.load("deepfashion-inshop", source=root)


def test_contradicting_pairs_and_other_sources_are_refused(tmp_path: Path) -> None:
    root = consumer_folder(tmp_path / "c2s")
    replaced(PARTITION, "id_00000002 test", "id_00000002 val")(root)  # of one of the two pairs with this shop image
    assert len(datasets.load("deepfashion-consumer2shop", source=root)) == 9  # a gallery image of val and test
    replaced(PARTITION, "id_00000002/comsumer_02", "id_00000002/comsumer_01")(root)
    with pytest.raises(ValueError, match=r"line 5: .*comsumer_01.jpg was listed before with another item, status or"):
        datasets.load("deepfashion-consumer2shop", source=root)
    with pytest.raises(ValueError, match="line 3: expected 3 values, got 4"):
        datasets.load("deepfashion-inshop", source=root)
    with pytest.raises(ValueError, match=r"cannot be fetched.*source='?FOLDER"):
        datasets.load("deepfashion-inshop")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        datasets.load("deepfashion-inshop", source=tmp_path / "missing")


def test_names_that_lead_out_of_the_folder_are_not_written(tmp_path: Path) -> None:
    root = in_shop_folder(tmp_path / "inshop")
    name, odd = IN_SHOP[0][0], "img/../../../stolen/a/b.jpg"
    (tmp_path / "stolen" / "a").mkdir(parents=True)
    shutil.copy(root / "Img" / name, tmp_path / "stolen" / "a" / "b.jpg")
    for file in (PARTITION, BOXES):
        replaced(file, name, odd)(root)
    dataset = datasets.load("deepfashion-inshop", source=root)
    with pytest.raises(ValueError, match="the path of an image must stay below the folder"):
        datasets.write_images(dataset, tmp_path / "crops")
    assert not (tmp_path / "crops").exists()


def test_a_description_of_lines_and_of_text(tmp_path: Path) -> None:
    root = in_shop_folder(tmp_path / "inshop")
    described = [{"item": "id_00000090", "description": "One line"}, {"item": "id_00000002", "color": None}]
    (root / "Anno/list_description_inshop.json").write_text(json.dumps(described))
    columns = datasets.load("deepfashion-inshop", source=root).columns
    assert columns["description"].tolist() == ["", "", "", "", "One line", "One line", ""]
    (root / "Anno/list_description_inshop.json").unlink()
    assert "color" not in datasets.load("deepfashion-inshop", source=root).columns
