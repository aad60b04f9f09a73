"""Does reading image files keep the network waiting? Files against the bare network, side by side in one run.

The bare network is given batches that are decoded and prepared already, in memory; `encode_files` is given the files.
Photographs are random parts of scikit-learn's two, written as JPEG of quality 90 in the size that is named; those of
32 and 28 pixels as PNG, in colour and in grey, as people write out CIFAR-10 and Fashion-MNIST.

    OMP_WAIT_POLICY=PASSIVE python bench/encoders.py --images 512 --rounds 5
"""

import argparse
import importlib.metadata
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from lookalike.encoders import EfficientNetLite0, Encoder, decode, encode_files

WANTED = 0.85  # of the bare network's throughput
CASES = [  # the network's size; width, height, mode and suffix of files
    (112, 32, 32, "RGB", "png"),
    (112, 28, 28, "L", "png"),
    (112, 300, 225, "RGB", "jpg"),
    (112, 640, 480, "RGB", "jpg"),
    (224, 640, 480, "RGB", "jpg"),
    (224, 1600, 1200, "RGB", "jpg"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "pillow", "numpy"))
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}")
    print(
        f"{options.images} files, batches of {options.batch}, {options.threads} threads, median of {options.rounds}\n"
    )
    print("network       files              bare/s   files/s   decoding alone/s   files : bare")
    for size, width, height, mode, suffix in CASES:
        with tempfile.TemporaryDirectory() as folder:
            paths = write_photos(Path(folder), options.images, (width, height), mode, suffix)
            encoder = EfficientNetLite0(size)
            bare, files, alone = measured(encoder, paths, options.rounds, options.batch, options.threads)
        ratio = statistics.median(b / f for b, f in zip(bare, files, strict=True))
        n = options.images
        print(
            f"Lite0, {size:3} px {width:5} × {height:4} {suffix} {n / statistics.median(bare):9.0f} "
            f"{n / statistics.median(files):9.0f} {n / statistics.median(alone):18.0f} {ratio:14.2f}"
            f"{'' if ratio >= WANTED else f'  below {WANTED}'}"
        )


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


def measured(
    encoder: Encoder, paths: list[Path], rounds: int, batch: int, threads: int
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each round: of the bare network, of files, and of reading them without a network."""
    prepared = [encoder._prepare(decode(path, enough=encoder.enough)) for path in paths]
    bare, files, alone = [], [], []
    for number in range(rounds + 1):  # the first warms up
        start = time.perf_counter()
        expected = [encoder._rows(prepared[at : at + batch]) for at in range(0, len(paths), batch)]
        middle = time.perf_counter()
        got = [rows for _, rows in encode_files(paths, encoder, batch=batch, threads=threads)]
        end = time.perf_counter()
        for _ in encode_files(paths, Nothing(encoder), batch=batch, threads=threads):
            pass
        np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), atol=1e-4)
        if number:
            bare.append(middle - start)
            files.append(end - middle)
            alone.append(time.perf_counter() - end)
    return bare, files, alone


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
