"""Values that a page sends as JSON; anything that does not fit is refused in one sentence."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lookalike.web.guard import RequestRefusedError

__all__ = ["Given", "SentValue", "parsed"]

Given = TypeVar("Given", bound=BaseModel)


class SentValue(BaseModel):
    """A value of exactly the fields that it names."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def parsed(kind: type[Given], body: bytes) -> Given:
    """The body of a request as this kind of value; RequestRefusedError if it does not fit."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RequestRefusedError(
            422, f"What was sent does not fit{f', {where}' if where else ''}: {first['msg']}."
        ) from error
