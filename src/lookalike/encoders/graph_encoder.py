"""Networks that ONNX Runtime runs, from graphs that are made of their weights: PyTorch is needed only to train them."""

import functools
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from lookalike.core.errors import missing_package
from lookalike.core.threads import n_threads
from lookalike.encoders.torch_encoder import TorchEncoder

__all__ = ["BACKEND", "GraphEncoder", "GraphSession"]

BACKEND = "ONNX Runtime"  # as versions of encoders name it


class GraphSession:
    """A graph that is ready to run, one picture at a time and in as many threads as call it.

    A picture alone is faster than one in a batch, since its maps stay in the processor's cache; and its row cannot
    depend on others, to the last bit.
    """

    def __init__(self, name: str, model: bytes) -> None:
        """name: of the encoder, for errors."""
        try:
            import onnxruntime  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise missing_package(name, error.name, "images") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # pictures are divided among threads, not the layers of one
        options.log_severity_level = 3  # errors, which are raised as well
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input, self._output = self._session.get_inputs()[0].name, self._session.get_outputs()[0].name

    def row(self, prepared: np.ndarray) -> np.ndarray:
        """The row of a picture that was prepared, (height, width, 3) of float32: (n_features,)."""
        planes = np.ascontiguousarray(prepared.transpose(2, 0, 1))
        (rows,) = self._session.run([self._output], {self._input: planes[None]})
        row: np.ndarray = rows[0]
        return row

    def rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        """The rows of pictures, by as many threads as there are cores."""
        if len(prepared) == 1:
            return self.row(prepared[0])[None]
        with ThreadPoolExecutor(min(n_threads(None), len(prepared)), "encoding") as pool:
            return np.array([*pool.map(self.row, prepared)])


class GraphEncoder(TorchEncoder):
    """An encoder whose network ONNX Runtime runs; `network()` is the same network in PyTorch, for training."""

    one_at_a_time = True

    @abstractmethod
    def weights(self) -> dict[str, np.ndarray]:
        """The weights by their names in `network()`."""

    @abstractmethod
    def graph(self, weights: Mapping[str, np.ndarray]) -> bytes:
        """The network with such weights, as a model of ONNX: (n, 3, size, size) to (n, n_features)."""

    @functools.cached_property
    def _session(self) -> GraphSession:
        return GraphSession(self.name, self.graph(self.weights()))

    def _make_ready(self) -> Any:
        return self._session

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        return self._session.rows(prepared)
