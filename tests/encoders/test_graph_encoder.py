"""Networks that ONNX Runtime runs: files of weights read without torch, graphs, and rows that are PyTorch's.

A vacuous test would let pass: weights that are read in another order, a padding of another size, a batch norm that is
left out, a pickle that is obeyed, a fine-tuned file whose own weights are not used, rows that depend on their batch.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.packaged import randomised, saved
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core.errors import FileError
from lookalike.core.readers.torch_files import read_state
from lookalike.encoders import EfficientNetLite0, encode_files, load
from lookalike.encoders.efficientnet_graph import lite_graph
from lookalike.encoders.efficientnet_torch import Lite
from lookalike.encoders.finetuned import write_finetuned
from lookalike.encoders.graph_encoder import GraphSession

RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (9, 41, 53, 3)).astype(np.uint8)
CLOSE = 1e-4  # of PyTorch, on numbers from 0 to 6


def of_torch(encoder: Any, network: torch.nn.Module) -> np.ndarray:
    with torch.inference_mode():
        return network(encoder.preprocess(PICTURES)).numpy()


# Files of weights


def old_format(state: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


@pytest.mark.parametrize("write", [saved, old_format])
@settings(max_examples=60, deadline=None)
@given(shapes=st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=5), seed=st.integers(0, 2**16))
def test_files_are_read_as_torch_reads_them(write: Any, shapes: list[list[int]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    kinds = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]
    state: dict[str, torch.Tensor] = {}
    for number, shape in enumerate(shapes):
        whole = (torch.rand([each + 1 for each in shape], generator=generator) * 200).to(kinds[seed % len(kinds)])
        part = whole[tuple(slice(1, None) for _ in shape)]  # with gaps in its storage, and from its middle
        state[f"layer.{number}"] = part.permute([*reversed(range(part.ndim))]) if seed % 2 else part
    content = write(state)
    expected = torch.load(io.BytesIO(content), weights_only=True)
    got = read_state(content)
    assert list(got) == list(expected)
    for name, values in expected.items():
        assert got[name].dtype == values.numpy().dtype
        np.testing.assert_array_equal(got[name], values.numpy())


def test_the_weights_are_those_that_torch_reads() -> None:
    from lookalike.encoders import efficientnet

    expected = torch.load(efficientnet._weights(), weights_only=True)
    got = read_state(efficientnet._weights().read_bytes())
    assert list(got) == list(expected)
    assert all(np.array_equal(got[name], expected[name].numpy()) for name in expected)


class Command:
    """What a pickle can run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("write", [saved, old_format])
def test_nothing_in_a_file_is_run(write: Any, tmp_path: Path) -> None:
    there = tmp_path / "was-run"
    with pytest.raises(FileError, match=r"w\.pth is damaged, or not a file of weights .*: it asks for posix system"):
        read_state(write({"a": torch.zeros(2), "b": Command(there)}), "w.pth")
    assert not there.exists()
    torch.load(io.BytesIO(write({"b": Command(there)})), weights_only=False)  # it would have been
    assert there.exists()


def test_damaged_files_are_refused() -> None:
    for write in (saved, old_format):
        whole = write({"a": torch.arange(5.0), "b": torch.zeros(3, 2)})
        for length in (0, 1, 20, len(whole) // 3, len(whole) // 2, len(whole) - 20):
            with pytest.raises(FileError, match="the file is damaged, or not a file of weights"):
                read_state(whole[:length])
    for other in (b"no weights at all", pickle.dumps([1, 2, 3]), pickle.dumps({"a": 1}, protocol=2)):
        with pytest.raises(FileError, match="the file is damaged, or not a file of weights"):
            read_state(other)


# Graphs


@pytest.mark.parametrize("size", [32, 33, 75, 112, 127, 224])
def test_rows_are_those_of_pytorch(size: int) -> None:
    encoder = EfficientNetLite0(size)
    np.testing.assert_allclose(encoder.encode(PICTURES), of_torch(encoder, encoder.network()), atol=CLOSE)


@pytest.mark.parametrize(
    ("name", "depth", "trained_size"), [("efficientnet-lite1", 1.1, 240), ("efficientnet-lite2", 1.2, 260)]
)
def test_larger_networks_of_the_family(name: str, depth: float, trained_size: int) -> None:
    network = randomised(Lite(name, trained_size))
    weights = {key.removeprefix("body."): values.numpy() for key, values in network.state_dict().items()}
    session = GraphSession(name, lite_graph(weights, 64, trained_size=trained_size, depth=depth))
    images = RNG.normal(size=(3, 64, 64, 3)).astype(np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    assert expected.std() > 0.05
    np.testing.assert_allclose(session.rows([*images]), expected, rtol=1e-4, atol=CLOSE)


def test_the_graph_is_valid_onnx() -> None:
    encoder = EfficientNetLite0(64)
    model = onnx.load_from_string(encoder.graph(encoder.weights()))
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} == {"Conv", "Clip", "Add", "GlobalAveragePool", "Flatten"}
    shape = [axis.dim_param or axis.dim_value for axis in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["n", 3, 64, 64]


def test_a_row_depends_on_its_image_alone_to_the_last_bit(tmp_path: Path) -> None:
    from PIL import Image

    encoder = EfficientNetLite0()
    rows = encoder.encode(PICTURES)
    for batch_size in (1, 2, 8, 9, 64):
        np.testing.assert_array_equal(encoder.encode(PICTURES, batch_size=batch_size), rows)
    paths = []
    for number, picture in enumerate(PICTURES):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(picture).save(paths[-1])
    for threads in (1, 2, 5):
        for batch in (1, 4, 64):
            got = [*encode_files(paths, encoder, batch=batch, threads=threads)]
            np.testing.assert_array_equal(np.concatenate([block for _, block in got]), rows)
    np.testing.assert_array_equal(encoder.row(PICTURES[3]), rows[3:4])


def test_files_without_rows_are_left_out_and_whoever_stops_early_stops_the_rest(tmp_path: Path) -> None:
    from PIL import Image

    encoder = EfficientNetLite0(32)
    paths = [tmp_path / f"{number}.png" for number in range(80)]
    for number, path in enumerate(paths):
        Image.fromarray(PICTURES[number % 9, number:]).save(path) if number < 40 else path.write_bytes(b"no image")
    paths = [*paths[20:60], *paths[:20], *paths[60:]]
    files = encode_files(paths, encoder, batch=7, threads=2)
    positions = np.concatenate([rows for rows, _ in files])
    assert positions.tolist() == [*range(20), *range(40, 60)]
    assert set(files.reasons) == {*range(20, 40), *range(60, 80)}
    rows = np.concatenate([rows for _, rows in files])
    alone = [*encode_files([paths[at] for at in positions], encoder, batch=1, threads=1)]
    np.testing.assert_array_equal(rows, np.concatenate([row for _, row in alone]))
    read: list[Path] = []
    files._prepared, prepared = lambda path: (read.append(path), prepared(path))[1], files._prepared  # type: ignore[method-assign]
    for _ in files:
        break
    assert 7 <= len(read) < 60


# Fine-tuned


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A file of Lite0 with weights of its own."""
    encoder, path = EfficientNetLite0(48), tmp_path / "mine.lookalike"
    write_finetuned(path, encoder, randomised(encoder.network()))
    return path


def test_a_fine_tuned_network_runs_as_its_own(tuned: Path) -> None:
    encoder: Any = load(str(tuned))
    expected = of_torch(encoder, encoder.network())
    assert abs(expected - EfficientNetLite0(48).encode(PICTURES)).max() > 0.1
    np.testing.assert_allclose(encoder.encode(PICTURES), expected, rtol=1e-4, atol=CLOSE)
    assert "of ONNX Runtime, 48 px" in encoder.version


def test_a_fine_tuned_network_runs_without_torch(tuned: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, lookalike.encoders as e\n"
        f"print(e.load({str(tuned)!r}).encode(np.zeros((2, 9, 9, 3), np.uint8)).shape)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("(2, 1280)\n", "")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.lookalike"
    write_finetuned(path, EfficientNetLite0(48), Lite("efficientnet-lite2", 260))
    with pytest.raises(FileError, match=r"weights of another architecture than efficientnet-lite0, body\._blocks"):
        load(str(path)).encode(PICTURES)
