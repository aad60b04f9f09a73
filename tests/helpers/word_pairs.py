"""A real pair of networks with one space, trained in seconds: coloured digits, and what they are called."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import lookalike as la
from lookalike.study.encode import encode_folder
from lookalike.study.study import Study

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {"red": (255, 60, 60), "green": (70, 230, 90), "blue": (80, 110, 255)}
CAPTIONS = (NUMBERS, tuple(COLOURS), tuple(f"{colour} {number}" for colour in COLOURS for number in NUMBERS))
LENGTH = 8  # tokens of a text
MEAN, STD = 0.2, 0.3


class Pictures(nn.Module):
    """The image side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 32))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class Captions(nn.Module):
    """The text side: the mean of what its tokens are, without those that fill it up."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.tokens, self.last = nn.Embedding(n_tokens, 64), nn.Linear(64, 32)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask[..., None].float()
        return self.last((self.tokens(input_ids) * mask).sum(1) / mask.sum(1).clamp(min=1))


def coloured_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures (n, 8, 8, 3) of uint8, their numbers, and their colours, each digit in one colour."""
    digits = la.datasets.load("digits")
    grey = np.asarray(digits.images, float).reshape(len(digits.labels), 8, 8, -1)[..., :1]
    colours = np.random.default_rng(0).integers(0, len(COLOURS), len(grey))
    tint = np.array([*COLOURS.values()])[colours][:, None, None]
    pictures = np.rint(grey / grey.max() * tint).astype(np.uint8)
    return pictures, np.asarray(digits.labels, int), colours


def make_tokenizer(path: Path) -> int:
    """Write the tokenizer of the captions; returns how many tokens it has."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = {"[unk]": 0, "[pad]": 1} | {word: at + 2 for at, word in enumerate((*NUMBERS, *COLOURS))}
    tokenizer = Tokenizer(models.WordLevel(words, "[unk]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.enable_padding(pad_id=1, pad_token="[pad]", length=LENGTH)
    tokenizer.save(str(path))
    return len(words)


def make_pair(folder: Path, seed: int = 0) -> tuple[Path, Path, Path]:
    """Train both sides on two thirds of the digits; returns the files of the image model, text model and tokenizer."""
    from tokenizers import Tokenizer

    torch.manual_seed(seed)
    tokenizer_path = folder / "tokenizer.json"
    pictures, captions = Pictures(), Captions(make_tokenizer(tokenizer_path))
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    encoded = [tokenizer.encode_batch([*texts]) for texts in CAPTIONS]
    tokens = [torch.tensor([[text.ids, text.attention_mask] for text in texts]) for texts in encoded]
    images, numbers, colours = coloured_digits()
    train = np.arange(len(images)) % 3 != 0
    inputs = torch.tensor((images[train].transpose(0, 3, 1, 2) / 255 - MEAN) / STD, dtype=torch.float32)
    known = [numbers[train], colours[train], colours[train] * len(NUMBERS) + numbers[train]]
    answers = [torch.tensor(np.asarray(each)) for each in known]
    optimiser = torch.optim.Adam([*pictures.parameters(), *captions.parameters()], lr=3e-3)
    for _ in range(20):
        for few in torch.randperm(len(inputs)).split(128):
            rows = nn.functional.normalize(pictures(inputs[few]), dim=1)
            loss = torch.tensor(0.0)
            for texts, answer in zip(tokens, answers, strict=True):
                words = nn.functional.normalize(captions(texts[:, 0], texts[:, 1]), dim=1)
                loss = loss + nn.functional.cross_entropy(10 * rows @ words.T, answer[few])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return _exported(folder, pictures.eval(), captions.eval(), tokens[0])


def _exported(folder: Path, pictures: nn.Module, captions: nn.Module, texts: Tensor) -> tuple[Path, Path, Path]:
    image, text = folder / "image.onnx", folder / "text.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no other package says that there is a newer one
        torch.onnx.export(
            pictures, (torch.zeros(1, 3, 8, 8),), str(image), dynamo=False, input_names=["images"],
            output_names=["image_embeds"], dynamic_axes={"images": {0: "n"}, "image_embeds": {0: "n"}},
        )  # fmt: skip
        names = ["input_ids", "attention_mask"]
        torch.onnx.export(
            captions, (texts[:1, 0], texts[:1, 1]), str(text), dynamo=False, input_names=names,
            output_names=["text_embeds"], dynamic_axes={name: {0: "n", 1: "tokens"} for name in names},
        )  # fmt: skip
    image.with_name("image.onnx.json").write_text(json.dumps({"size": 8, "mean": MEAN, "std": STD}))
    return image, text, folder / "tokenizer.json"


def save_digits(folder: Path, n: int = 300) -> None:
    """Some of the digits that were not learnt from, as files such as red/three-0012.png."""
    images, numbers, colours = coloured_digits()
    for at in range(0, min(3 * n, len(images)), 3):
        place = folder / [*COLOURS][colours[at]]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[at]).save(place / f"{NUMBERS[numbers[at]]}-{at:04d}.png")


def make_words_study(folder: Path, n: int = 300) -> Study:
    """A study of digits that were not learnt from, with the model `image`, which has a text side."""
    image, text, tokenizer = make_pair(folder)
    save_digits(folder / "digits", n)
    sides = {"text": text, "tokenizer": tokenizer}
    return encode_folder(folder / "digits", folder / "study", model=f"onnx:{image}", text=sides, threads=1).study
