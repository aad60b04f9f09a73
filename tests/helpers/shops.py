"""Studies for tests of pages: a shop of small pictures, and a catalogue whose every text is hostile."""

import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from helpers.pages import HOSTILE
from lookalike import Codes
from lookalike.core.files import read_arrays, write_arrays
from lookalike.discovery.catalogue import Catalogue
from lookalike.study.encode import encode_folder
from lookalike.study.hashed_models import hash_model
from lookalike.study.study import Study

KINDS = ("bag", "hat", "shoe")
N_PRODUCTS, N_VIEWS = 12, 6
MISSING, DAMAGED = "hat/p04-3.png", "shoe/p05-1.png"


def picture(product: int, view: int) -> np.ndarray:
    """A product before a background: views of one differ less than products do."""
    own, seen = np.random.default_rng(product), np.random.default_rng(1000 * product + view)
    pixels = np.full((40, 40, 3), own.integers(150, 255, 3), np.uint8)
    top, left = own.integers(4, 12, 2)
    pixels[top : top + 22, left : left + 22] = own.integers(0, 140, 3)
    pixels[10:30:4, 16:24] = own.integers(0, 255, 3)
    return np.clip(pixels + seen.integers(-9, 10, pixels.shape), 0, 255).astype(np.uint8)


def make_shop(folder: Path) -> Study:
    """A study made of a folder: 72 pictures of 12 products, one file lost since and one spoilt."""
    photos = folder / "photos"
    rows = ["file,identity,colour"]
    for product in range(N_PRODUCTS):
        for view in range(N_VIEWS):
            name = f"{KINDS[product % 3]}/p{product:02}-{view}.png"
            (photos / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture(product, view)).save(photos / name)
            rows.append(f"{name},p{product:02},{'red' if product % 2 else 'blue'}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    for model in ("pixels", "phash"):
        encode_folder(photos, folder / "shop", model=model, labels=folder / "labels.csv")
    study = Study.open(folder / "shop")
    hash_model(study, "pixels", "ITQ", 16)
    bits = np.random.default_rng(0).integers(0, 2, (len(study.catalogue), 4))
    study.add_model("coarse", gallery=Codes.pack(bits))
    study.add_model("ranked", run={str(study.catalogue.ids[0]): {str(study.catalogue.ids[1]): 1.0}})
    (photos / MISSING).unlink()
    (photos / DAMAGED).write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    return Study.open(folder / "shop")


DAMAGES = {  # and what is said of them
    "cut short": "npz",
    "of vast arrays": "npz",
    "of another recipe": "does not say how the model was made",
    "of a recipe without options": "does not say how the model was made",
    "of fewer rows": "of 72 items it has 71 rows",
    "of no number of bits": "does not say how many bits",
    "of codes of another width": "packed codes of 64 bits must be",
}


def damage_model(study: Study, name: str, damage: str) -> None:
    """Spoil the file of a model of codes of 64 bits."""
    path = study.path / "models" / f"{name}.npz"
    arrays, about = read_arrays(path)
    if damage == "cut short":
        path.write_bytes(path.read_bytes()[:-100])
        return
    if damage == "of another recipe":
        about["recipe"] = {"made": "by hand"}
    if damage == "of a recipe without options":
        about["recipe"]["options"] = None
    if damage == "of fewer rows":
        arrays["gallery_codes"] = arrays["gallery_codes"][1:]
    if damage == "of no number of bits":
        arrays["n_bits"] = np.array([64, 64])
    if damage == "of codes of another width":
        arrays["gallery_codes"] = arrays["gallery_codes"][:, 1:]
    write_arrays(path, arrays, about)
    if damage == "of vast arrays":  # of more bytes than any machine has
        said = f"({len(study.catalogue)}, 8), }}".encode()
        vast = b"(999999999999999, 8), }"
        with zipfile.ZipFile(path) as file:
            members = {member: file.read(member) for member in file.namelist()}
        assert sum(content.count(said) for content in members.values()) == 1
        with zipfile.ZipFile(path, "w") as file:
            for member, content in members.items():
                file.writestr(member, content.replace(said.ljust(len(vast)), vast))


def make_hostile(folder: Path) -> Study:
    """A study without pictures, in which everything that has a name is named to break a page."""
    ids = [
        HOSTILE,
        "../../etc/passwd",
        "/etc/passwd",
        "a\nb",
        "é/ü ¿",
        "{{ 7 * 7 }}",
        "'\"><script>alert(1)</script>",
        "x&y=z#w",
    ]
    shop = Catalogue(
        ids,
        identities=[f"{HOSTILE} {n % 3}" for n in range(len(ids))],
        categories=[f"<b>{n % 2}</b>" for n in range(len(ids))],
        attributes={f"<i>{HOSTILE}</i>": [f"<u>{n % 2}</u>{HOSTILE}" for n in range(len(ids))]},
    )
    study = Study.create(folder / "hostile", f"<script>alert('{HOSTILE}')</script>", shop, queries=[0])
    study.add_model("rows", gallery=np.random.default_rng(0).normal(size=(len(ids), 3)))
    return study
