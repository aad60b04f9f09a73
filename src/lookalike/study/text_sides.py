"""The text side of a model that was encoded with ONNX: which files it is in, remembered with their fingerprints."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.core.errors import FileError, StudyError
from lookalike.core.files import read_json, write_text
from lookalike.study.model import Recipe
from lookalike.study.study import Study

if TYPE_CHECKING:
    from lookalike.encoders.onnx_text import OnnxText

__all__ = ["RememberedText", "how_to_give_text", "opened_text", "remember_text", "remembered_text"]


@dataclass(frozen=True)
class RememberedText:
    """The files of a text side, their fingerprint, and that of the image side which it belongs to."""

    text: str
    tokenizer: str
    version: str
    image_version: str


def remember_text(study: Study, model: str, encoder: Any) -> None:
    """Store the text side of a model's encoder in the study."""
    recipe, side = study.recipe(model), encoder.text
    if recipe is None or recipe.version != encoder.version:
        raise StudyError(f"the model {model!r} was not made by {encoder.name} as it is now: encode it again")
    text, tokenizer = (str(path.resolve()) for path in (side.path, side.tokenizer_path))
    remembered = RememberedText(text, tokenizer, side.version, encoder.version)
    if remembered != remembered_text(study, model):
        with study.changing():
            write_text(study.text_path(model), json.dumps(asdict(remembered), indent=1) + "\n")


def remembered_text(study: Study, model: str) -> RememberedText | None:
    """The text side of a model, if one was given."""
    path = study.text_path(model)
    if not path.is_file():
        return None
    values = read_json(path.read_bytes(), path)
    names = [*RememberedText.__dataclass_fields__]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        raise FileError(f"{path} is damaged: it must hold {', '.join(names)}: give --text again", path=path)
    if not all(isinstance(value, str) and value and "\0" not in value for value in values.values()):
        raise FileError(f"{path} is damaged: its values must be text: give --text again", path=path)
    return RememberedText(**values)


def opened_text(study: Study, model: str, recipe: Recipe) -> "OnnxText | None":
    """The text side of a model, if one was given; raises if its files, or those of the image side, have changed."""
    from lookalike.encoders.onnx_text import OnnxText

    name = recipe.source or model
    remembered = remembered_text(study, name)
    if remembered is None:
        return None
    again = f"run {how_to_give_text(study, name, recipe)} again"
    if remembered.image_version != recipe.version:
        raise StudyError(f"the text side of {name!r} is of the encoder as it was before its images changed: {again}")
    try:
        side = OnnxText(Path(remembered.text), Path(remembered.tokenizer))
    except OSError as error:
        raise StudyError(f"the text side of {name!r} is gone: {error} ({again})") from error
    if side.version != remembered.version:
        raise StudyError(f"the text model of {name!r}, or its tokenizer, has changed since it was given: {again}")
    return side


def how_to_give_text(study: Study, name: str, recipe: Recipe) -> str:
    """The command that gives a model of ONNX its text side."""
    return (
        f"lookalike encode {study.path.name} --model {recipe.encoder} --name {name} --text TEXT.onnx "
        "--tokenizer tokenizer.json"
    )
