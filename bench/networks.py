"""What is each network in a package worth? Licence, digest, the cat, speed, and neighbours of the same class.

The cat is scikit-image's Chelsea; its class is that of the classifier which the encoder cuts off. Images a second are
of one thread, on photographs as large as those that the network was trained on. Neighbours: of images drawn at random,
equally many of each class, the 5 nearest by cosine vote, and the number is the share of images whose class wins.

    OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 python bench/networks.py --data cifar10 --images 1000
"""

import argparse
import base64
import hashlib
import os
import time

import numpy as np
import skimage.data
import torch

from lookalike import datasets
from lookalike.datasets import Dataset
from lookalike.encoders import PACKAGED, EfficientNetLite0, Encoder, PackagedNetwork, load

CATS = range(281, 286)  # among ImageNet's classes: tabby, tiger, Persian, Siamese and Egyptian cat
K = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=["cifar10"], help="data sets by name, or folders")
    parser.add_argument("--images", type=int, default=1000, help="of each data set")
    parser.add_argument("--networks", nargs="*", default=["efficientnet-lite0", *(cls.name for cls in PACKAGED)])
    parser.add_argument("--size", type=int, help="pixels that networks see, in place of what they were trained on")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = [sample(datasets.load(name, size=224), options.images) for name in options.data]
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}"
    print(f"{machine}, {options.images} images of each data set")
    for name in options.networks:
        size = options.size or (224 if name == EfficientNetLite0.name else None)
        encoder = load(name) if size is None else load(name, size=size)
        print(f"\n{name}, {encoder.size} px, {encoder.n_features} numbers: {speed(encoder):.1f} images/s", flush=True)
        if isinstance(encoder, PackagedNetwork):
            about = encoder.package
            digest = hashlib.sha256(about.path.read_bytes())
            print(f"  {about.source}, {about.licence}, {about.training}; sha256 {digest.hexdigest()}")
            print(f"  SHA-256 as pip and npm write it: {base64.b64encode(digest.digest()).decode()}")
            print(f"  the cat is {cat(encoder)}")
        for dataset in samples:
            print(f"  {dataset.name}: {K}-NN accuracy {accuracy(encoder, dataset):.3f}", flush=True)


def sample(dataset: Dataset, count: int) -> Dataset:
    rng = np.random.default_rng(0)
    classes = len(dataset.classes)
    each = [
        rng.permutation(np.flatnonzero(dataset.labels == label))[: -(-count // classes)] for label in range(classes)
    ]
    rows = np.sort(np.concatenate(each))
    return Dataset(dataset.name, dataset.images[rows], dataset.labels[rows], dataset.classes)


def speed(encoder: Encoder) -> float:
    picture = np.resize(skimage.data.chelsea(), (encoder.size, encoder.size, 3))
    encoder.encode([picture])
    start = time.perf_counter()
    encoder.encode([picture] * 32)
    return 32 / (time.perf_counter() - start)


def cat(encoder: PackagedNetwork) -> str:
    layer = encoder.classifier()
    if layer is None:
        return "not asked, since the package has no classifier"
    with torch.inference_mode():
        best = int(layer(torch.from_numpy(encoder.encode([skimage.data.chelsea()]))).argmax())
    return f"class {best} of ImageNet: {'a cat' if best in CATS else 'NO CAT'}"


def accuracy(encoder: Encoder, dataset: Dataset) -> float:
    rows = encoder.encode(dataset.images)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :K]
    votes = np.eye(len(dataset.classes))[dataset.labels[nearest]].sum(1)
    votes[np.arange(len(rows)), dataset.labels[nearest[:, 0]]] += 0.5  # the nearest decides among equals
    return float((votes.argmax(1) == dataset.labels).mean())


if __name__ == "__main__":
    main()
