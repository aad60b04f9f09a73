"""Valid files of every kind, small, and the same each time that they are made, but for the time that some note."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.discovery.scale import Scale
from lookalike.experiments.replicate import choose, replicate

FUZZED = Scale(("no", "perhaps", "yes"))

N_QUERIES, N_ITEMS = 4, 12
KEY = bytes(range(32))  # of links and sessions


def make_seeds(folder: Path) -> None:
    """Fill a folder: below it, one for each group of readers."""
    for make in (items, evaluations, discovery, shards, learned, images, studies, datasets, catalogues):
        make(folder)


def _below(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    return folder / name


def _vectors(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits, embeddings and labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    embeddings = (rng.normal(size=(n, 6)) + np.eye(3)[labels].repeat(2, 1) * 2).astype(np.float32)
    return (embeddings > 0).astype(np.uint8).repeat(2, 1), embeddings, labels


def items(folder: Path) -> None:
    import faiss

    import lookalike as la
    from lookalike.core.files import write_arrays

    place = _below(folder, "items")
    for side, n in (("query", N_QUERIES), ("item", N_ITEMS)):
        bits, embeddings, labels = _vectors(n, n)
        ids = np.array([f"{side[0]}{number}" for number in range(n)])
        more = {"labels": labels, "ids": ids}
        np.savez(place / f"{side}-bits.npz", codes=bits, **more)
        np.savez(place / f"{side}-packed.npz", packed=la.Codes.pack(bits).to_bytes(), n_bits=bits.shape[1], **more)
        np.savez(place / f"{side}-embeddings.npz", embeddings=embeddings, attributes=np.c_[labels, labels], **more)
        la.Codes.pack(bits).save(place / f"{side}-saved.npz")
        write_arrays(
            place / f"{side}-codes.parquet",
            {"codes": la.Codes.pack(bits).to_bytes(), **more},
            {"lookalike": "codes", "n_bits": 12},
        )
        write_arrays(place / f"{side}-embeddings.parquet", {"embeddings": embeddings, **more}, {})
        np.save(place / f"{side}-bits.npy", bits)
        np.save(place / f"{side}-embeddings.npy", embeddings)
        np.save(place / f"{side}-labels.npy", labels)
        (place / f"{side}-labels.txt").write_text("".join(f"{label}\n" for label in labels))
        rows = [f"{name},kind {label}\n" for name, label in zip(ids, labels, strict=True)]
        (place / f"{side}-labels.csv").write_text("".join(["id,label\n", *rows]))
        tags = ["".join(f"{int(label == tag)} " for tag in range(3)) + "\n" for label in labels]
        (place / f"{side}-labels-tags.txt").write_text("".join(tags))
    _items_of_all_kinds(place)
    (place / "table.csv").write_text("colour,price\n" + "".join(f"red,{n}.5\n" for n in range(N_ITEMS)))
    flat, binary = faiss.IndexFlatIP(6), faiss.IndexBinaryFlat(16)
    flat.add(_vectors(N_ITEMS)[1])
    binary.add(np.arange(2 * N_ITEMS, dtype=np.uint8).reshape(-1, 2))
    faiss.write_index(flat, str(place / "flat.faiss"))
    faiss.write_index_binary(binary, str(place / "binary.index"))


def _items_of_all_kinds(place: Path) -> None:
    """Queries, and labels of them, as other programs write them."""
    from helpers.item_kinds import UNLABELLED, WRITERS, Sample, feather, hdf5, label_file, torch_alone

    bits, embeddings, labels = _vectors(N_QUERIES, N_QUERIES)
    items = Sample(embeddings, bits.repeat(2, 1)[:, :8], labels, np.array([f"q{n}" for n in range(N_QUERIES)]))
    every = [*WRITERS.values(), *UNLABELLED.values(), ("index", UNLABELLED["faiss"][1])]
    every += [("ipc", feather), ("hdf5", hdf5), ("tsv", WRITERS["CSV, lists"][1]), ("pth", torch_alone)]
    for number, (ending, write) in enumerate(every):
        for what in ("embeddings", "codes"):
            if ending and ending != "data":
                write(place / f"query-{what}-{number}.{ending}", items, what)
    for ending in ("parquet", "h5", "pt"):
        label_file(place / f"query-labels-of.{ending}", items)


def evaluations(folder: Path) -> None:
    import lookalike as la
    from lookalike.evaluation.trec import write_qrels, write_run

    place = _below(folder, "evaluations")
    (bits, queries, wanted), (codes, gallery, labels) = _vectors(N_QUERIES, 4), _vectors(N_ITEMS, 12)
    relevance = la.same_label(wanted, labels)
    packed = la.Codes.pack(bits), la.Codes.pack(codes)
    la.count(*packed, relevance, radius=2).save(place / "codes.npz")
    la.count(queries, gallery, relevance).save(place / "scores.npz")
    la.evaluate(*packed, relevance, ["AP", "nDCG@5", "P(radius=2)"]).to_json(place / "evaluation.json")
    replicate(choose(["ten-on-one-code"]), "quick", place)
    run = {f"q{q}": {f"i{n}": float(gallery[n] @ queries[q]) for n in range(N_ITEMS)} for q in range(N_QUERIES)}
    rows = [(f"q{q}", f"i{n}", int(wanted[q] == labels[n])) for q in range(N_QUERIES) for n in range(N_ITEMS)]
    for ending in ("", ".gz"):
        write_run(place / f"all.run{ending}", run, "model")
        write_qrels(place / f"all.qrels{ending}", rows)
    (place / "scheduler.json").write_text(
        json.dumps({"type": "Scheduler", "address": "tcp://127.0.0.1:1", "workers": {}})
    )


def discovery(folder: Path) -> None:
    from lookalike.discovery import Catalogue, Votes, formats

    place = _below(folder, "discovery")
    ids = [f"i{n}" for n in range(N_ITEMS)]
    catalogue = Catalogue(
        ids, identities=[f"p{n // 2}" for n in range(N_ITEMS)], categories=["bag", "hat", "shoe"] * 4,
        paths=[f"photos/{name}" for name in ids], attributes={"colour": ["red", "blue"] * 6},
    )  # fmt: skip
    (place / "photos").mkdir()
    for name in ids:
        (place / "photos" / name).touch()
    queries, others, grades = ["i0", "i0", "i4", "i8"], ["i1", "i5", "i6", "i2"], [1, 0, 1, 0]
    votes = Votes(
        queries * 2, others * 2, ["ann"] * 4 + ["bob"] * 4, [1, 0, 1, -1, 1, 1, 0, 0],
        times=np.datetime64("2024-05-01T10:00:00", "ms") + np.arange(8), seconds=np.arange(8) + 0.5,
    )  # fmt: skip
    for ending in ("csv", "parquet"):
        catalogue.write(place / f"catalogue.{ending}")
        votes.write(place / f"votes.{ending}")
        Votes(votes.queries, votes.items, votes.experts, [2, 1, 0, -1] * 2, scale=FUZZED).write(
            place / f"votes.scale.{ending}"
        )
    for ending in ("csv", "parquet", "json", "qrels", "qrels.gz"):
        formats.write_judgements(place / f"judgements.{ending}", queries, others, grades)
    formats.write_metadata(
        place / "metadata.json",
        Catalogue(ids, paths=ids, attributes={"phase": ["test"] * N_ITEMS, "color": ["red"] * N_ITEMS}),
    )
    formats.write_seeds(place / "seeds.json", ["i0", "i4", "i8"])
    formats.write_manifest(place / "manifest.json", ids)
    (place / "ids.txt").write_text("i0\ni4\ni8\n")
    (place / "guide.txt").write_text("Look at the shape,\nnot the colour.\n\n- cups\n- mugs\n")


def shards(folder: Path) -> None:
    import lookalike as la
    from lookalike.shards.convert import shard_file
    from lookalike.shards.gallery import Shards

    place = _below(folder, "shards")
    for kind in ("packed", "embeddings"):
        shutil.copy(folder / "items" / f"query-{kind}.npz", place)
        shard_file(folder / "items" / f"item-{kind}.npz", place / kind, rows=5)
        gallery = Shards.open(place / kind)
        read = (
            la.Codes.load(place / "query-packed.npz")
            if kind == "packed"
            else np.load(place / "query-embeddings.npz")["embeddings"]
        )
        relevance = la.same_label(_vectors(N_QUERIES)[2], gallery["labels"])
        la.evaluate(read, gallery, relevance, ["AP", "nDCG@5"], partials=place / f"{kind}-partials")


def train(checkpoint: Path) -> Any:
    """A learned hasher, from a checkpoint if there is one."""
    from lookalike import hashers

    _, rows, labels = _vectors(40)
    kind: Any = hashers.kind("LearnedHasher")
    hasher = kind(n_bits=4, network="linear", epochs=2, batch_size=20, validation=0.2, random_state=0)
    return hasher.fit(rows, labels, checkpoint=checkpoint)


def learned(folder: Path) -> None:
    from lookalike import hashers
    from lookalike.core.codes import Codes
    from lookalike.search import index as search

    place = _below(folder, "hashers")
    _, rows, labels = _vectors(40)
    for name in hashers.HASHERS:
        hasher = hashers.kind(name)(n_bits=4)
        hasher.set_params(**({"random_state": 0} if "random_state" in hasher.get_params() else {}))
        hasher.fit(rows, labels).save(place / f"{name}.npz")
    checkpoint = _below(folder, "checkpoints") / "run.pt"
    train(checkpoint).save(place / "learned.npz")
    np.savez(checkpoint.parent / "training.npz", embeddings=rows)
    (checkpoint.parent / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    from helpers.tiny_encoder import Tiny
    from lookalike.encoders import ENCODERS
    from lookalike.encoders.finetuned import write_finetuned

    ENCODERS["tiny"] = Tiny
    try:
        write_finetuned(_below(folder, "finetuned") / "own.lookalike", Tiny(), Tiny().network(), training={"seed": 0})
    finally:
        del ENCODERS["tiny"]
    place = _below(folder, "indexes")
    codes = Codes.pack(np.random.default_rng(0).integers(0, 2, (200, 16)))
    vectors = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    for kind in ("exact", "ivf", "hnsw"):
        search.Index.build(codes, kind=kind, ids=np.arange(200), seed=0).save(place / f"codes-{kind}.npz")
        search.Index.build(vectors, kind=kind, seed=0).save(place / f"vectors-{kind}.npz")


def picture(number: int, side: int = 16) -> Any:
    from PIL import Image

    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 255, (4, 4, 3)).astype(np.uint8)).resize((side, side))


def images(folder: Path) -> None:
    import onnx
    from PIL import Image

    place, shown = _below(folder, "images"), picture(0)
    for ending in ("png", "jpg", "gif", "bmp", "tif", "webp", "jp2", "ppm", "avif", "mpo"):
        shown.save(
            place / f"a.{ending}",
            **({"save_all": True, "append_images": [picture(1)]} if ending in ("gif", "mpo") else {}),
        )
    shown.convert("P").save(place / "palette.png", transparency=0)
    shown.convert("RGBA").save(place / "clear.png")
    shown.convert("I;16").save(place / "deep.png")
    shown.convert("F").save(place / "floats.tif")
    exif = Image.Exif()
    exif[274] = 6
    shown.save(place / "turned.jpg", exif=exif)
    place = _below(folder, "onnx")
    shape = onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["n", 3, "h", "w"])
    means = onnx.helper.make_tensor_value_info("means", onnx.TensorProto.FLOAT, ["n", 3])
    node = onnx.helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0)
    graph = onnx.helper.make_graph([node], "graph", [shape], [means])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (place / "model.onnx").write_bytes(model.SerializeToString())
    (place / "model.onnx.json").write_text(
        json.dumps({"size": 16, "mean": [0.5] * 3, "std": 1, "layout": "NCHW", "normalise": True})
    )
    text_side(place)


def text_side(place: Path) -> None:
    """A text model, whose row is three times the mean of the tokens, with its tokenizer and settings."""
    import onnx
    from tokenizers import Tokenizer, models, pre_tokenizers

    helper, numbers = onnx.helper, onnx.TensorProto.INT64
    tokens = helper.make_tensor_value_info("input_ids", numbers, ["n", 6])
    rows = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["n", 3])
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["floats"], to=onnx.TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Concat", ["mean"] * 3, ["rows"], axis=1),
    ]
    graph = helper.make_graph(nodes, "graph", [tokens], [rows])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (place / "text.onnx").write_bytes(model.SerializeToString())
    (place / "text.onnx.json").write_text(json.dumps({"pad": 0, "length": 6}))
    tokenizer = Tokenizer(models.WordLevel({"[unk]": 0, "a": 1, "red": 2, "dress": 3}, "[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(place / "tokenizer.json"))


def photos(folder: Path) -> Path:
    """A folder of images in folders, and a table of labels beside it."""
    rows = ["file,label,identity"]
    for number in range(N_ITEMS):
        kind = ("bag", "hat", "shoe")[number % 3]
        (folder / "photos" / kind).mkdir(parents=True, exist_ok=True)
        picture(number).save(folder / "photos" / kind / f"{number:02}.png")
        os.utime(folder / "photos" / kind / f"{number:02}.png", (10**9, 10**9))
        rows.append(f"{kind}/{number:02}.png,{kind},p{number // 2}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder / "photos"


def studies(folder: Path) -> None:
    """A study of images with everything in it: models, hashed codes, indexes, a run, a pool, votes, gold, judging."""
    from lookalike.discovery import Pool, Votes
    from lookalike.discovery.formats import write_judgements
    from lookalike.judging.store.remarks import Remark, add_note, give_verdict
    from lookalike.judging.store.store import Store
    from lookalike.search.index import Index
    from lookalike.study.duplicates import remember_apart
    from lookalike.study.encode import encode_folder
    from lookalike.study.file_moves import FileMove, UndoFile
    from lookalike.study.hashed_models import hash_model
    from lookalike.study.map import make_map
    from lookalike.study.study import Study
    from lookalike.study.tags import add_tag

    place = _below(folder, "study")
    for model in ("colour", "phash"):
        encode_folder(photos(place), place / "shop", model=model, labels=place / "labels.csv")
    study = Study.open(place / "shop")
    ids = study.catalogue.ids.tolist()
    study = study.set_queries(ids[:N_QUERIES])
    hash_model(study, "colour", "ITQ", 8)
    study.add_model(
        "ranked",
        run={query: {item: float(n) for n, item in enumerate(ids) if item != query} for query in ids[:N_QUERIES]},
    )
    (study.path / "indexes").mkdir()
    for model in ("colour", "phash"):
        Index.build(study.model(model).gallery, kind="exact").save(study.index_path(model))
    names = ("colour", "ranked")
    study.write_pool(Pool.build({name: study.model(name).given for name in names}, study.collection, k=2, random=3))
    pairs = study.pool().pairs
    for expert in ("ann", "bob"):
        shown, times = pairs[:6], np.datetime64("2024-05-01T10:00:00", "ms") + np.arange(6)
        study.append_votes(
            Votes(
                [q for q, _ in shown], [i for _, i in shown], [expert] * 6, [1, 0, 1, 0, 1, -1], times, np.arange(6.0)
            )
        )
    study.set_gold([(*pairs[-1], 1), (*pairs[-2], 0)])
    (study.path / "judging").mkdir(exist_ok=True)
    (study.path / "judging" / "key").write_bytes(KEY)
    (study.path / "judging" / "key").chmod(0o600)
    with Store.open(None, study) as store:
        store.configure(experts_per_pair=2)
        for expert in sorted({"ann", "bob", "eve"} - {each.name for each in store.experts()}):
            store.add_expert(expert)
        note = Remark("n1", store.claim("eve", 1)[0].pair, "flag", "=cut off")
        add_note(store, "eve", note)
        give_verdict(store, pairs[0], 1, "v1")
    rows = [f"{query},{item},{n % 2},because" for n, (query, item) in enumerate(pairs[:6])]
    (place / "answers.csv").write_text("\n".join(["query,item,answer,why", *rows]) + "\n")
    Votes(*zip(*pairs[6:8], strict=True), ["ann", "dan"], [1, 0], times[:2], np.ones(2)).write(place / "votes.csv")
    practised = [
        f"{query},{item},{answer},so" for (query, item), answer in zip(pairs[8:10], (1, "not similar"), strict=True)
    ]
    (place / "practice.csv").write_text("\n".join(["query,item,answer,why", *practised, ""]))
    write_judgements(place / "gold.qrels", *zip(*pairs[:2], strict=True), [1, 0])
    shutil.copytree(study.path, folder / "databases" / "shop")
    (folder / "databases" / "shop" / "judging" / "database").write_text("postgresql://me:secret@127.0.0.1:1/votes\n")
    Study.create(place / "unpooled", "unpooled", study.catalogue, ids[:2])
    (place / "ids.txt").write_text("\n".join(ids[:3]) + "\n")
    moved = [FileMove(str(place / "photos" / ids[0]), str(place / "moved.png"), 1, "0" * 32)]
    UndoFile.begin(place / "undo", moved)
    remember_apart(study, [(ids[0], ids[1])])
    add_tag(study, "nice", ids[:2])
    make_map(study, "phash")


def _write_tar(path: Path, members: dict[str, bytes]) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(f"binary/{name}")
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    path.write_bytes(gzip.compress(file.getvalue(), mtime=0))


def datasets(folder: Path) -> None:
    from lookalike.core.files import digest, provenance, write_arrays
    from lookalike.datasets import cache, load
    from lookalike.datasets.cifar import PARTS
    from lookalike.datasets.fashion_mnist import DIGESTS

    place = _below(folder, "datasets")
    photos(place)
    rng = np.random.default_rng(0)
    parts = {name: rng.integers(0, 255, (4, 3073)).astype(np.uint8) for name in PARTS}
    for records in parts.values():
        records[:, 0] %= 10
    _write_tar(place / "cifar-10-binary.tar.gz", {f"{name}.bin": records.tobytes() for name, records in parts.items()})
    records = np.zeros((6, 3074), np.uint8)
    records[:, 0], records[:, 1] = np.arange(6) % 2, np.arange(6) % 3
    names = {"fine_label_names.txt": b"a\nb\nc\n", "coarse_label_names.txt": b"x\ny\n"}
    _write_tar(
        place / "cifar-100-binary.tar.gz", {"train.bin": records.tobytes(), "test.bin": records.tobytes(), **names}
    )
    clothes = place / "fashion"
    clothes.mkdir()
    for name in DIGESTS:
        n, sides = (20, (28, 28)) if "train" in name else (10, (28, 28))
        shape = (n, *sides) if "images" in name else (n,)
        head = bytes([0, 0, 8, len(shape)]) + b"".join(length.to_bytes(4) for length in shape)
        (clothes / name).write_bytes(
            gzip.compress(head + (rng.integers(0, 10, shape).astype(np.uint8)).tobytes(), mtime=0)
        )
    cache.keep(load(place / "photos", size=8), place / "kept.npz")
    rows = rng.normal(size=(N_ITEMS, 5)).astype(np.float32)
    write_arrays(
        place / "features.npz",
        {"rows": rows},
        provenance("features", dataset="a", encoder="b", encoder_version="c", digest=digest(rows)),
    )


def catalogues(folder: Path) -> None:
    from helpers.catalogues import consumer_folder, emoji_folder, groceries_wheel, in_shop_folder

    place = _below(folder, "catalogues")
    emoji_folder(place / "emoji")
    groceries_wheel(place / "groceries.whl")
    in_shop_folder(place / "inshop")
    consumer_folder(place / "consumer2shop")
