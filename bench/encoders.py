"""How fast is the default network, against the same in PyTorch, and does reading image files keep it waiting?

The bare network is given pictures that are decoded and prepared already, in memory; `encode_files` is given the files.
PyTorch's network has its batch norms folded and batches of 16, as Lookalike ran it before ONNX Runtime; "plain" is the
network as it is trained, in batches of 64. Photographs are random parts of scikit-learn's two, written as JPEG of
quality 90 in the size that is named; those of 32 and 28 pixels as PNG, in colour and in grey, as people write out
CIFAR-10 and Fashion-MNIST. CPU seconds of an image are of all threads; other work on the machine disturbs them least.

    OMP_WAIT_POLICY=PASSIVE python bench/encoders.py --images 256 --rounds 3
"""

import argparse
import importlib.metadata
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from lookalike.encoders import EfficientNetLite0, Encoder, decode, encode_files
from lookalike.encoders.torch_network import batch, folded, run

CASES = [  # the network's size; width, height, mode and suffix of files
    (112, 32, 32, "RGB", "png"),
    (112, 28, 28, "L", "png"),
    (112, 300, 225, "RGB", "jpg"),
    (112, 640, 480, "RGB", "jpg"),
    (112, 1600, 1200, "RGB", "jpg"),
    (224, 32, 32, "RGB", "png"),
    (224, 300, 225, "RGB", "jpg"),
    (224, 640, 480, "RGB", "jpg"),
    (224, 1600, 1200, "RGB", "jpg"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sizes", type=int, nargs="*", default=[112, 224], help="of what the network sees, in pixels")
    options = parser.parse_args()
    names = ("onnxruntime", "torch", "pillow", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}")
    print(f"{options.images} images, {options.threads} threads, best of {options.rounds} rounds side by side\n")
    for size in options.sizes:
        compare_with_pytorch(size, options.images, options.rounds)
    print("\nnetwork       files              bare/s   files/s   files : bare   CPU ms: bare   files   reading alone")
    for size, width, height, mode, suffix in CASES:
        if size not in options.sizes:
            continue
        with tempfile.TemporaryDirectory() as folder:
            paths = write_photos(Path(folder), options.images, (width, height), mode, suffix)
            times = measured(EfficientNetLite0(size), paths, options.rounds, options.batch, options.threads)
        (bare, cpu_bare), (files, cpu_files), (_, cpu_alone) = times
        n = options.images
        print(
            f"Lite0, {size:3} px {width:5} × {height:4} {suffix} {n / bare:9.0f} {n / files:9.0f} {bare / files:14.2f}"
            f" {1000 * cpu_bare / n:14.2f} {1000 * cpu_files / n:7.2f} {1000 * cpu_alone / n:15.2f}",
            flush=True,
        )


def compare_with_pytorch(size: int, n: int, rounds: int) -> None:
    """The bare network against PyTorch's, on pictures that are prepared."""
    encoder = EfficientNetLite0(size)
    network = encoder.network().requires_grad_(False)
    fast, rng = folded(network), np.random.default_rng(0)
    pictures = [rng.normal(size=(size, size, 3)).astype(np.float32) for _ in range(n)]
    images = batch(pictures)
    ways = {
        "PyTorch, folded": lambda: run(fast, images),
        "PyTorch, plain": lambda: plain(network, images),
        "ONNX Runtime": lambda: encoder._rows(pictures),
    }
    rows = {name: way() for name, way in ways.items()}
    times = dict.fromkeys(ways, (math.inf, math.inf))
    for _ in range(rounds):
        for name, way in ways.items():
            times[name] = tuple(map(min, times[name], timed(way)))
    seconds, cpu = times["ONNX Runtime"]
    print(f"Lite0, {size} px: ONNX Runtime {n / seconds:.0f} images/s, {1000 * cpu / n:.2f} CPU ms each")
    for name in ways:
        if name != "ONNX Runtime":
            most = abs(rows[name] - rows["ONNX Runtime"]).max()
            print(
                f"  {name} {n / times[name][0]:.0f} images/s: ONNX Runtime is {times[name][0] / seconds:.1f} times as "
                f"fast, {times[name][1] / cpu:.1f} by CPU seconds; largest difference {most:.1e}",
                flush=True,
            )


def plain(network: torch.nn.Module, images: torch.Tensor) -> np.ndarray:
    with torch.inference_mode():
        return torch.cat([network(few) for few in torch.split(images, 64)]).numpy()


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds of all threads."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu


def write_photos(folder: Path, n: int, size: tuple[int, int], mode: str, suffix: str) -> list[Path]:
    rng = np.random.default_rng(0)
    photos = [Image.fromarray(photo).convert(mode) for photo in load_sample_images().images]
    paths = []
    for number in range(n):
        photo = photos[number % len(photos)]
        side = rng.uniform(0.5, 1)
        left, top = (rng.uniform(0, length * (1 - side)) for length in photo.size)
        box = (left, top, left + side * photo.width, top + side * photo.height)
        paths.append(folder / f"{number}.{suffix}")
        photo.resize(size, Image.Resampling.BICUBIC, box=box).save(paths[-1], quality=90)
    return paths


def measured(encoder: Encoder, paths: list[Path], rounds: int, batch: int, threads: int) -> list[tuple[float, float]]:
    """Seconds and CPU seconds: of the bare network, of files, and of reading them without a network."""
    prepared = [encoder._prepare(decode(path, enough=encoder.enough)) for path in paths]
    found: dict[str, np.ndarray] = {}

    def bare() -> None:
        found["bare"] = encoder._rows(prepared)

    def files() -> None:
        found["files"] = np.concatenate(
            [rows for _, rows in encode_files(paths, encoder, batch=batch, threads=threads)]
        )

    def reading() -> None:
        for _ in encode_files(paths, Nothing(encoder), batch=batch, threads=threads):
            pass

    times = [(math.inf, math.inf)] * 3
    for number in range(rounds + 1):  # the first warms up
        now = [timed(work) for work in (bare, files, reading)]
        np.testing.assert_array_equal(found["files"], found["bare"])
        if number:
            times = [(min(a, c), min(b, d)) for (a, b), (c, d) in zip(times, now, strict=True)]
    return times


class Nothing(Encoder):
    """An encoder that prepares pictures as another one, and makes nothing of them."""

    name, version, n_features = "nothing", "1", 1

    def __init__(self, other: Encoder) -> None:
        self.enough, self._prepare = other.enough, other._prepare  # type: ignore[method-assign]

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        return np.zeros((len(prepared), 1), np.float32)


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count() or 1)
    main()
