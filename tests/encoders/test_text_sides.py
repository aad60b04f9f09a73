"""Text sides of encoders: real models in ONNX; small modules stand in for OpenCLIP and transformers, as elsewhere."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core.errors import FileError, InputError, InputTypeError
from lookalike.encoders import load
from lookalike.encoders.onnx_text import OnnxText

INT64, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def text_model(path: Path, *, length: int | str = "tokens", mask: bool = True, more: tuple[str, ...] = ()) -> Path:
    """A model whose row is how many tokens there are, their sum, and how many of them count."""
    helper = onnx.helper
    names = ["input_ids", *(["attention_mask"] if mask else []), *more]
    inputs = [helper.make_tensor_value_info(name, INT64, ["n", length]) for name in names]
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["ids"], to=FLOAT),
        helper.make_node("Cast", [names[1] if mask else "input_ids"], ["counts"], to=FLOAT),
        helper.make_node("ReduceSum", ["ids", "one"], ["sum"], keepdims=1),
        helper.make_node("ReduceSum", ["counts", "one"], ["count"], keepdims=1),
        helper.make_node("Concat", ["sum", "count"], ["text_embeds"], axis=1),
    ]
    output = helper.make_tensor_value_info("text_embeds", FLOAT, ["n", 2])
    one = helper.make_tensor("one", INT64, [1], [1])
    graph = helper.make_graph(nodes, "graph", inputs, [output], [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def tokenizer(path: Path, **padding: Any) -> Path:
    made = Tokenizer(models.WordLevel({"[unk]": 0, "a": 1, "red": 2, "dress": 3, "[pad]": 9}, "[unk]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if padding:
        made.enable_padding(**padding)
    made.save(str(path))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer(tmp_path / "tokenizer.json")
    text_model(tmp_path / "text.onnx")
    return tmp_path


def test_tokens_and_their_mask_are_given_to_the_model(folder: Path) -> None:
    side = OnnxText(folder / "text.onnx")
    assert side.encode_text(["a red dress", "red"]).tolist() == [[6, 3], [2, 1]]
    assert side.encode_text([]).shape == (0, 0)
    tokenizer(folder / "tokenizer.json", pad_id=9, pad_token="[pad]", length=5)
    assert OnnxText(folder / "text.onnx").encode_text(["a red dress"]).tolist() == [[6 + 18, 3]]  # two that fill it up
    (folder / "text.onnx.json").write_text('{"pad": 1, "length": 4}')
    assert OnnxText(folder / "text.onnx").encode_text(["a red dress"]).tolist() == [[7, 3]]


def test_a_model_of_one_length_must_say_what_fills_up_a_text(folder: Path) -> None:
    text_model(folder / "text.onnx", length=4)
    with pytest.raises(FileError, match=r'takes 4 tokens, and tokenizer.json does not say .* write \{"pad": 0\}'):
        OnnxText(folder / "text.onnx").encode_text(["red"])
    assert OnnxText(folder / "text.onnx").encode_text(["a a red dress"]).tolist() == [[7, 4]]
    with pytest.raises(InputError, match=r"the words make 5 tokens, text.onnx reads 4: write fewer"):
        OnnxText(folder / "text.onnx").encode_text(["a a a red dress"])


def test_every_file_is_a_part_of_the_version(folder: Path) -> None:
    versions = {OnnxText(folder / "text.onnx").version}
    for change in (
        lambda: (folder / "text.onnx.json").write_text('{"pad": 1}'),
        lambda: tokenizer(folder / "tokenizer.json", pad_id=9, pad_token="[pad]"),
        lambda: text_model(folder / "text.onnx", length=4),
    ):
        change()
        versions.add(OnnxText(folder / "text.onnx").version)
    assert len(versions) == 4


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("[]", "must hold one object"),
        ('{"padd": 1}', "there is no setting 'padd': did you mean pad"),
        ('{"pad": -1}', "pad must be a whole number from 0"),
        ('{"pad": true}', "pad must be a whole number from 0"),
        ('{"length": 0}', "length must be a whole number from 1"),
        ('{"input": 3}', "input must be a name"),
        ('{"output": "x"}', "the model has no output 'x'"),
        ('{"input": "x"}', "the model has no input 'x'"),
        ("{", "is not a JSON file"),
    ],
)
def test_settings_that_are_wrong_are_said(folder: Path, settings: str, sentence: str) -> None:
    (folder / "text.onnx.json").write_text(settings)
    with pytest.raises(FileError, match=sentence):
        OnnxText(folder / "text.onnx").encode_text(["red"])


def test_files_that_are_not_a_text_side_are_refused(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.json, the tokenizer of text.onnx"):
        OnnxText(folder / "text.onnx", folder / "none.json")
    (folder / "other.json").write_text('{"version": "1.0"}')
    with pytest.raises(FileError, match=r"other.json is not a tokenizer"):
        OnnxText(folder / "text.onnx", folder / "other.json").encode_text(["red"])
    with pytest.raises(FileError, match="not a model exported to ONNX"):
        OnnxText(folder / "other.json")
    text_model(folder / "both.onnx", more=("pixel_values",))
    with pytest.raises(FileError, match="takes pixel_values beside the tokens: export the text side"):
        OnnxText(folder / "both.onnx").encode_text(["red"])
    for texts, error in (([""], InputError), (["\ud800"], InputError), ("red", InputTypeError), ([3], InputTypeError)):
        with pytest.raises(error):
            OnnxText(folder / "text.onnx").encode_text(texts)  # type: ignore[arg-type]


def test_encoders_without_a_text_side_say_what_has_one() -> None:
    with pytest.raises(InputError, match=r"pixels has no text side, .* open_clip:NAME/TAG, hf:NAME .* --text FILE"):
        load("pixels").encode_text(["red"])
    with pytest.raises(InputError, match="pixels has no option 'text'"):
        load("pixels", text="text.onnx")


class Clip(torch.nn.Module):
    """A network whose rows of tokens are how many differ from 0, and their sum."""

    config = types.SimpleNamespace(model_type="clip", text_config=types.SimpleNamespace(max_position_embeddings=4))

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor([2.0]))
        self.visual = types.SimpleNamespace(preprocess_cfg={"size": 8, "mean": (0.0,) * 3, "std": (1.0,) * 3})

    def encode_image(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3))[:, :2] * self.factor

    def encode_text(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.stack([(tokens > 0).sum(1), tokens.sum(1)], 1) * self.factor


def tokens_of(text: str | list[str], length: int = 4, **options: Any) -> torch.Tensor:
    (text,) = [text] if isinstance(text, str) else text
    numbers = [len(word) for word in text.split()][:length]
    return torch.tensor([numbers + [0] * (length - len(numbers))])


def test_the_text_side_of_open_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    module = types.ModuleType("open_clip")
    vars(module).update(
        list_models=lambda: ["ViT"], list_pretrained_tags_by_model=lambda model: ["tag"],
        create_model=lambda *given, **options: Clip(), get_tokenizer=lambda name: asked.append(name) or tokens_of,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "open_clip", module)
    encoder = load("open_clip:ViT/tag")
    rows = encoder.encode_text(["a red dress", "red"])
    assert (rows.dtype, rows.tolist(), asked) == (np.float32, [[6, 18], [2, 6]], ["ViT"])
    assert encoder.encode_text([]).shape == (0, 2)
    with pytest.raises(InputError, match="the words are more than open_clip:ViT/tag reads"):
        encoder.encode_text(["a red dress and a hat"])
    assert len(encoder.encode_text(["a red dress and"])) == 1  # just as many as it reads


def test_the_text_side_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    from lookalike.encoders import pretrained

    class Network(Clip):
        def get_text_features(self, input_ids: torch.Tensor, attention_mask: Any = None) -> Any:
            features = self.encode_text(input_ids)
            if attention_mask is None:
                return types.SimpleNamespace(pooler_output=features)  # as newer versions do
            return features

    network, given = Network(), []

    def tokenise(text: str, **options: Any) -> dict[str, Any]:
        given.append(options)
        return {"input_ids": tokens_of(text), "attention_mask": torch.ones(1, 4), "token_type_ids": 0}

    tokenise.model_max_length = 77  # type: ignore[attr-defined]
    auto = types.SimpleNamespace(from_pretrained=lambda name: tokenise)
    for kind, padding in (("clip", "do_not_pad"), ("siglip", "max_length")):
        monkeypatch.setattr(Clip.config, "model_type", kind)
        tokens = pretrained._tokenizer(types.SimpleNamespace(AutoTokenizer=auto), "a/b", network.config)("a red dress")
        assert (given[-1]["max_length"], given[-1]["padding"], given[-1]["truncation"]) == (4, padding, True)
        assert pretrained._features_of_text(network, tokens).tolist() == [[6, 18]]
