"""What the expert's page sends, read from JSON; anything else is refused in one sentence."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lookalike.web.guard import RequestRefusedError

__all__ = ["Given", "SentBody", "SentClaim", "SentMissing", "SentPair", "SentVote", "SentVotes", "parsed"]

MOST_VOTES, MOST_AHEAD = 200, 24

Given = TypeVar("Given", bound=BaseModel)


class SentBody(BaseModel):
    """What a page sends, of these fields and no others."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


Number = Annotated[int, Field(ge=0, lt=2**53)]
Disguised = Annotated[int, Field(ge=0, lt=2**48)]


class SentClaim(SentBody):
    """How many pairs to have in hand; recent: whether the last judged ones are wanted too."""

    n: Annotated[int, Field(ge=1, le=MOST_AHEAD)]
    recent: bool = False


class SentVote(SentBody):
    """One answer. The pair has the disguised number by which this expert's page knows it."""

    client: Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    pair: Disguised
    answer: Annotated[int, Field(ge=-1, le=1)]
    seconds: Annotated[float, Field(ge=0, le=86_400)] | None = None
    at: Number | None = None


class SentVotes(SentBody):
    """The answers of one request."""

    votes: Annotated[list[SentVote], Field(min_length=1, max_length=MOST_VOTES)]


class SentPair(SentBody):
    """A pair to put off."""

    pair: Disguised


class SentMissing(SentBody):
    """An image that did not load."""

    pair: Disguised
    side: Literal["query", "item"]


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
