"""Encoders that were fine-tuned here: a file NAME.lookalike holds the weights and says whose network they are for."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.endings import FINETUNED
from lookalike.core.errors import FileError
from lookalike.core.files import check_format, is_whole, provenance, said_by, seal, writing
from lookalike.core.npy import read_npz
from lookalike.encoders.graph_encoder import GraphEncoder, GraphSession
from lookalike.encoders.torch_encoder import TorchEncoder

if TYPE_CHECKING:
    import torch

__all__ = ["FineTuned", "write_finetuned"]

KIND = "encoder"
WEIGHTS = "weights."


class FineTuned(TorchEncoder):
    """An encoder whose network was trained on, from its file; it prepares pictures as the one it was made from.

    about: what the file says of itself: the encoder it was made from, how it was trained, on what.
    """

    def __init__(self, path: str | Path) -> None:
        from lookalike.encoders import load

        self.path, self.name = Path(path), str(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no file {self.path}")
        self.about = _about(self.path)
        base = load(self.about["base"], **self.about["options"])
        if not isinstance(base, TorchEncoder):
            raise FileError(
                f"{self.path} is damaged: {base.name}, of which it names itself made, has no network", path=path
            )
        self.base: TorchEncoder = base
        self.size, self.enough, self.one_at_a_time = base.size, base.enough, base.one_at_a_time

    @property
    def version(self) -> str:
        return f"fine-tuned, weights {self.about['seal']}, of {self.base.version}"

    @property
    def n_features(self) -> int | None:
        return self.base.n_features

    def network(self) -> "torch.nn.Module":
        """The network with the weights of the file, prepared images to rows."""
        network = self.base.network()
        import torch

        state = self._weights({name: tuple(values.shape) for name, values in network.state_dict().items()})
        network.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
        return network.eval()

    def _weights(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        """The weights in the file, by their names in the network, which must have these names and shapes."""
        arrays = read_npz(self.path)
        about = said_by(arrays.pop("about", "{}"))
        if not is_whole(arrays, about):
            raise FileError(f"{self.path} is damaged: it does not hold what was written to it", path=self.path)
        state = {name.removeprefix(WEIGHTS): array for name, array in arrays.items()}
        odd = sorted({*shapes} ^ {*state}) or [name for name in shapes if shapes[name] != state[name].shape]
        if odd:
            raise FileError(
                f"{self.path} holds weights of another architecture than {self.base.name}, "
                f"{', '.join(odd[:3])}{', …' if len(odd) > 3 else ''} among them",
                path=self.path,
            )
        return state

    @functools.cached_property
    def _session(self) -> GraphSession:
        """The network of a base that ONNX Runtime runs."""
        assert isinstance(self.base, GraphEncoder)
        shapes = {name: values.shape for name, values in self.base.weights().items()}
        return GraphSession(self.name, self.base.graph(self._weights(shapes)))

    @functools.cached_property
    def _network(self) -> "torch.nn.Module":
        """The network of any other base."""
        return self.network().requires_grad_(False)

    def _make_ready(self) -> Any:
        return self._session if isinstance(self.base, GraphEncoder) else self._network

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self.base._prepare(picture)

    def _prepare_file(self, picture: np.ndarray) -> np.ndarray:
        return self.base._prepare_file(picture)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        if isinstance(self.base, GraphEncoder):
            return self._session.rows(prepared)
        from lookalike.encoders.torch_network import batch, run

        return run(self._network, batch(prepared))


def write_finetuned(path: str | Path, base: TorchEncoder, network: "torch.nn.Module", **facts: Any) -> FineTuned:
    """Write the trained network of an encoder, whole or not at all, and open it.

    base: the encoder whose network it is; of one that was fine-tuned before, that which it was made from is named.
    facts: what else the file says about itself.
    """
    if Path(path).suffix != FINETUNED:
        raise FileError(
            f"cannot write {path}: the name of a fine-tuned encoder's file must end in {FINETUNED}", path=path
        )
    origin = base.base if isinstance(base, FineTuned) else base
    weights = {f"{WEIGHTS}{name}": values.detach().cpu().numpy() for name, values in network.state_dict().items()}
    options = {"size": origin.size} if _takes_size(origin) else {}
    about = provenance(KIND, base=origin.name, base_version=origin.version, options=options, **facts)
    about = json.loads(json.dumps(about))  # as it will be read, so that its seal is the same
    about["seal"] = seal(weights, about)
    with writing(path) as file:
        np.savez(file, allow_pickle=False, about=np.array(json.dumps(about)), **weights)
    return FineTuned(path)


def _takes_size(encoder: TorchEncoder) -> bool:
    import inspect

    return "size" in inspect.signature(type(encoder)).parameters


def _about(path: Path) -> dict[str, Any]:
    """What a file says of itself; raises where it is no encoder's."""
    about = said_by(read_npz(path, {"about"}).get("about", "{}"))
    check_format(about, path)
    texts = all(isinstance(about.get(name), str) for name in ("base", "seal"))
    if about.get("lookalike") != KIND or not texts or not isinstance(about.get("options"), dict):
        raise FileError(f"{path} is not an encoder that lookalike finetune wrote, or is damaged", path=path)
    if about["base"].endswith(FINETUNED):  # else a file could name itself
        raise FileError(f"{path} is damaged: it names another file as its encoder", path=path)
    return about
