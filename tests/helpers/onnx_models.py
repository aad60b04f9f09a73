"""Small models in ONNX, and files of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx


def graph_of(
    nodes: list[onnx.NodeProto],
    outputs: dict[str, list[Any]],
    shape: tuple[Any, ...] = ("n", 3, "h", "w"),
    kind: int = onnx.TensorProto.FLOAT,
) -> onnx.ModelProto:
    made = [onnx.helper.make_tensor_value_info(name, kind, dims) for name, dims in outputs.items()]
    graph = onnx.helper.make_graph(
        nodes, "graph", [onnx.helper.make_tensor_value_info("images", kind, list(shape))], made
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def mean_model(**options: Any) -> onnx.ModelProto:
    """The mean of each channel."""
    node = onnx.helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0)
    return graph_of([node], {"means": ["n", 3]}, **options)


SETTINGS: dict[str, Any] = {"size": 16, "mean": 0, "std": 1}


def written(path: Path, model: onnx.ModelProto, **settings: Any) -> str:
    path.write_bytes(model.SerializeToString())
    path.with_name(f"{path.name}.json").write_text(json.dumps({**SETTINGS, **settings}))
    return f"onnx:{path}"
