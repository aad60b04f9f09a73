"""Networks that were exported to ONNX, their settings, and what is wrong with them.

A vacuous test would let pass: an exported network with other preprocessing.
"""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import lookalike as la
from helpers.encoder_images import PHOTOS, lite0, noise, photo, photo_files, rows_of, saved  # noqa: F401  # fixtures
from helpers.onnx_models import SETTINGS, graph_of, mean_model, written
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import EfficientNetLite0, Onnx, Preprocessing, load

ROUNDING = 1e-4


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, lite0: EfficientNetLite0) -> str:
    """EfficientNet-Lite0 as PyTorch exports it."""
    path = tmp_path_factory.mktemp("onnx") / "lite0.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is an old one, and twenty times as fast as the new
        torch.onnx.export(
            lite0.network(),
            (torch.zeros(1, 3, 112, 112),),
            str(path),
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
            dynamo=False,
        )
    path.with_name("lite0.onnx.json").write_text(json.dumps({"size": 112, "mean": 127 / 255, "std": 128 / 255}))
    return f"onnx:{path}"


def test_an_exported_network_gives_the_same_rows(
    exported: str, lite0: EfficientNetLite0, photo_files: list[Path]
) -> None:
    encoder = load(exported)
    pictures = [*map(photo, PHOTOS), noise(9, 12, 3), noise(5, 7)]
    rows = lite0.encode(pictures)
    np.testing.assert_allclose(encoder.encode(pictures), rows, atol=ROUNDING)
    assert (encoder.n_features, encoder.size, encoder.enough, encoder.name) == (1280, 112, 224, exported)
    for threads in (1, 2):
        few = load(exported, threads=threads)
        np.testing.assert_allclose(few.encode(pictures, batch_size=5), rows, atol=ROUNDING)
    np.testing.assert_allclose(rows_of(photo_files, encoder, batch=3), rows_of(photo_files, lite0), atol=ROUNDING)


def test_features_of_an_exported_network_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    encoder = load(written(tmp_path / "m.onnx", mean_model()))
    images = noise(5, 8, 8, 3)
    data = la.datasets.Dataset("tiny", images, np.zeros(5, np.int64), ("all",))
    rows = la.encoders.features(data, encoder)
    np.testing.assert_allclose(rows, images.mean((1, 2)) / 255, atol=0.01)
    (kept,) = (tmp_path / "cache" / "features").iterdir()
    assert re.fullmatch(r"tiny-onnx-[\w.-]+-[0-9a-f]{16}\.npz", kept.name)
    monkeypatch.setattr(Onnx, "_rows", None)
    np.testing.assert_array_equal(la.encoders.features(data, load(encoder.name)), rows)


def test_settings_are_those_of_preprocessing(tmp_path: Path) -> None:
    name = written(
        tmp_path / "m.onnx",
        mean_model(),
        size=[12, 20],
        mean=[0.1, 0.2, 0.3],
        std=[0.4, 0.5, 0.6],
        resize="pad",
        fill=9,
        order="BGR",
        interpolation="lanczos",
    )
    picture = photo("chelsea")
    wants = Preprocessing(
        (12, 20), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "pad", fill=9, order="BGR", interpolation="lanczos"
    )
    encoder = load(name)
    assert isinstance(encoder, Onnx)
    assert encoder.settings.preprocessing == wants
    np.testing.assert_allclose(encoder.encode([picture])[0], wants(picture).mean((0, 1)), atol=1e-5)
    cropped = load(written(tmp_path / "c.onnx", mean_model(), size=224, crop=0.875))
    assert (cropped.size, cropped.enough) == (256, 512)


def test_rows_may_be_made_of_length_one(tmp_path: Path) -> None:
    pictures = [noise(16, 16, 3), np.zeros((16, 16, 3), np.uint8)]
    plain = load(written(tmp_path / "a.onnx", mean_model())).encode(pictures)
    rows = load(written(tmp_path / "b.onnx", mean_model(), normalise=True)).encode(pictures)
    np.testing.assert_allclose(rows[0], plain[0] / np.linalg.norm(plain[0]), rtol=1e-6)
    assert (rows[1] == 0).all()


@pytest.mark.parametrize("fixed", [1, 4])
def test_models_that_take_a_fixed_number_of_images(fixed: int, tmp_path: Path) -> None:
    pictures = noise(7, 16, 16, 3)
    free = load(written(tmp_path / "a.onnx", mean_model())).encode(pictures)
    encoder = load(written(tmp_path / "b.onnx", mean_model(shape=(fixed, 3, 16, 16))))
    np.testing.assert_allclose(encoder.encode(pictures, batch_size=5), free, atol=1e-6)


def test_models_of_other_layouts_and_kinds(tmp_path: Path) -> None:
    pictures = noise(3, 16, 16, 3)
    plain = load(written(tmp_path / "a.onnx", mean_model())).encode(pictures)
    node = onnx.helper.make_node("ReduceMean", ["images"], ["means"], axes=[1, 2], keepdims=0)
    last = graph_of([node], {"means": ["n", 3]}, shape=("n", 16, 16, 3))
    np.testing.assert_allclose(
        load(written(tmp_path / "b.onnx", last, layout="NHWC")).encode(pictures), plain, atol=1e-6
    )
    half = load(written(tmp_path / "c.onnx", mean_model(kind=onnx.TensorProto.FLOAT16))).encode(pictures)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, plain, atol=1e-3)


def places_model() -> onnx.ModelProto:
    """Three outputs: the pictures themselves, their pixels as places, and places without a known number of features."""
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [3], [0, 3, -1])
    nodes = [
        onnx.helper.make_node("Constant", [], ["shape"], value=shape),
        onnx.helper.make_node("Reshape", ["images", "shape"], ["flat"]),
        onnx.helper.make_node("Transpose", ["flat"], ["places"], perm=[0, 2, 1]),
        onnx.helper.make_node("Identity", ["images"], ["map"]),
    ]
    return graph_of(nodes, {"map": ["n", 3, "h", "w"], "places": ["n", "p", 3], "flat": ["n", 3, "p"]})


def test_outputs_and_how_they_are_pooled(tmp_path: Path) -> None:
    picture = noise(16, 16, 3)
    means, first = picture.mean((0, 1)) / 255, picture[0, 0] / 255

    def rows(**settings: Any) -> np.ndarray:
        return load(written(tmp_path / "m.onnx", places_model(), **settings)).encode([picture])[0]

    np.testing.assert_allclose(rows(output="map", pool="mean"), means, atol=1e-5)
    np.testing.assert_allclose(rows(output="places", pool="mean"), means, atol=1e-5)
    np.testing.assert_allclose(rows(output="places", pool="first"), first, atol=1e-5)
    assert rows(output="flat", pool="first").shape == (256,)
    with pytest.raises(ValueError, match=r"has the outputs map, places, flat: set output in .*m.onnx.json"):
        rows()
    with pytest.raises(ValueError, match=r"no output 'pooled', it has map, places, flat"):
        rows(output="pooled")
    with pytest.raises(ValueError, match=r"no input 'pixels', it has images"):
        rows(output="map", pool="mean", input="pixels")
    with pytest.raises(ValueError, match=r"output 'places' of .* is \('n', 256, 3\), with pool None"):
        rows(output="places")
    with pytest.raises(ValueError, match=r"output 'map' of .* of which no row can be made"):
        rows(output="map", pool="first")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[1]", "must hold one object"),
        ("{size: 3}", "is not a JSON file in UTF-8: "),
        ("\xff", "is not a JSON file|must hold"),
        ('{"size": 224}', "mean and std must be set, as the model was trained with"),
        ({"sise": 224}, r"there is no setting 'sise': did you mean size\? Known are size, mean, std, .*, normalise"),
        ({"normalize": True}, r"did you mean normalise\?"),
        ({"preprocessing": 1}, r"there is no setting 'preprocessing'"),
        ({"size": "224"}, "size must be a height and a width"),
        ({"size": [1, 2, 3]}, "size must be a height and a width"),
        ({"mean": "0.5"}, "mean and std must be three numbers"),
        ({"std": [1, 1]}, "mean and std must be three numbers"),
        ({"resize": "stretch"}, "resize must be one of 'crop', 'squash', 'pad'"),
        ({"layout": "CHW"}, "layout must be one of 'NCHW', 'NHWC', got 'CHW', did you mean 'NCHW'"),
        ({"pool": "max"}, "pool must be one of 'first', 'mean', got 'max'"),
        ({"normalise": "yes"}, "normalise must be true or false, got 'yes'"),
        ({"output": 3}, "output must be the name of an output of the model, got 3"),
    ],
)
def test_settings_that_cannot_be(settings: Any, message: str, tmp_path: Path) -> None:
    name = written(tmp_path / "m.onnx", mean_model())
    text = settings if isinstance(settings, str) else json.dumps({**SETTINGS, **settings})
    (tmp_path / "m.onnx.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=f"m.onnx.json.*({message})"):
        load(name)


def test_models_that_are_none(tmp_path: Path) -> None:
    model = mean_model().SerializeToString()
    path = tmp_path / "m.onnx"
    written(path, mean_model())
    photograph = saved(photo("chelsea"), "PNG")
    for data in (b"", b"words", photograph, bytes(300), b"\x08", model[:-1], model[:40], model + b"\xff", b"\x08\x08"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"m\.onnx is not an encoder: it is damaged, or not a model exported"):
            load(f"onnx:{path}")
    broken = mean_model()
    broken.graph.node[0].op_type = "NoSuchThing"
    path.write_bytes(broken.SerializeToString())
    with pytest.raises(ValueError, match=r"m\.onnx is not an encoder that ONNX Runtime can run: .*NoSuchThing"):
        load(f"onnx:{path}").encode([noise(8, 8, 3)])


def test_models_that_take_other_things(tmp_path: Path) -> None:
    flat = graph_of([onnx.helper.make_node("Identity", ["images"], ["rows"])], {"rows": ["n", 3]}, shape=("n", 3))
    for model, message in (
        (
            mean_model(shape=("n", 3, 32, 32)),
            r"takes \['n', 3, 32, 32\], but m.onnx.json says \['n', 3, 16, 16\]: correct",
        ),
        (flat, r"takes \['n', 3\], but"),
        (mean_model(kind=onnx.TensorProto.INT64), r"takes tensor\(int64\): export it to take one of tensor\(float\)"),
    ):
        encoder = load(written(tmp_path / "m.onnx", model))
        with pytest.raises(ValueError, match=message):
            encoder.encode([noise(8, 8, 3)])


def test_files_of_models_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*m\.onnx"):
        load(f"onnx:{tmp_path / 'm.onnx'}")
    (tmp_path / "m.onnx").write_bytes(mean_model().SerializeToString())
    with pytest.raises(FileNotFoundError, match=r'no file .*m.onnx.json, which says how m.onnx is used: .*"size": 224'):
        load(f"onnx:{tmp_path / 'm.onnx'}")


@pytest.mark.parametrize("threads", [0, 1.5, True])
def test_threads_of_onnx_runtime(threads: Any, tmp_path: Path) -> None:
    name = written(tmp_path / "m.onnx", mean_model())
    with pytest.raises(ValueError, match="threads must be a whole number from 1"):
        load(name, threads=threads)
    encoder = load(name, threads=3)
    assert isinstance(encoder, Onnx)
    assert encoder._session.get_session_options().intra_op_num_threads == 3


def test_a_version_is_that_of_model_and_settings(tmp_path: Path) -> None:
    def version(model: onnx.ModelProto, folder: str = "", **settings: Any) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        return load(written(tmp_path / folder / "m.onnx", model, **settings)).version

    first = version(mean_model())
    other = mean_model()
    other.graph.doc_string = "other"
    assert len({first, version(other), version(mean_model(), size=17), version(mean_model(), normalise=True)}) == 4
    assert version(mean_model(), "elsewhere") == first
    assert re.fullmatch(r"preprocessing 1, model and settings [0-9a-f]{16}", first)


def test_weights_beside_a_model_are_part_of_its_version(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.full((1, 3, 1, 1), 2, np.float32), "weights")
    nodes = [
        onnx.helper.make_node("Mul", ["images", "weights"], ["products"]),
        onnx.helper.make_node("ReduceMean", ["products"], ["means"], axes=[2, 3], keepdims=0),
    ]
    model = graph_of(nodes, {"means": ["n", 3]})
    model.graph.initializer.append(weights)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    (tmp_path / "m.onnx.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "unrelated.bin").write_bytes(b"1")
    encoder = load(f"onnx:{tmp_path / 'm.onnx'}")
    white = np.full((1, 8, 8, 3), 255, np.uint8)
    np.testing.assert_allclose(encoder.encode(white), 2)
    first = encoder.version
    (tmp_path / "unrelated.bin").write_bytes(b"2")
    assert load(encoder.name).version == first
    data = (tmp_path / "m.onnx.data").read_bytes()
    (tmp_path / "m.onnx.data").write_bytes(data.replace(np.float32(2).tobytes(), np.float32(3).tobytes()))
    again = load(encoder.name)
    np.testing.assert_allclose(again.encode(white), 3)
    assert again.version != first


def test_onnx_runtime_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load(written(tmp_path / "m.onnx", mean_model()))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs onnxruntime, .*: pip install 'lookalike\[images\]'"):
        encoder.encode([noise(8, 8, 3)])


@pytest.mark.parametrize("kind", ["batch of one", "scalar", "one row"])
def test_an_exported_network_that_fails_is_an_error_of_its_file(kind: str, tmp_path: Path) -> None:
    helper, tensor = onnx.helper, onnx.TensorProto.FLOAT
    shape = {"batch of one": [1, 48], "scalar": [], "one row": [1, 48]}[kind]
    nodes = {
        "batch of one": [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "scalar": [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        "one row": [
            helper.make_node("ReduceMean", ["x", "axes"], ["m"], keepdims=1),
            helper.make_node("Reshape", ["m", "shape"], ["y"]),
        ],
    }[kind]
    constants = [
        helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [1, 48]),
        helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [0]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", tensor, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", tensor, shape or None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "m.onnx.json").write_text('{"size": 4, "mean": 0, "std": 1}')
    encoder = load(f"onnx:{tmp_path / 'm.onnx'}")
    with pytest.raises(OSError, match=r"m\.onnx (fails on 3 images at once|is \(.*\) for 3 images: expected a row)"):
        encoder.encode(np.zeros((3, 4, 4, 3), np.uint8))
