"""What the expert's page sends, read from JSON; anything else is refused in one sentence."""

from typing import Annotated, Literal

from pydantic import Field

from lookalike.web.sent import Given, parsed
from lookalike.web.sent import SentValue as _Sent

__all__ = ["Given", "SentClaim", "SentMissing", "SentPair", "SentVote", "SentVotes", "parsed"]

MOST_VOTES, MOST_AHEAD = 200, 24

Number = Annotated[int, Field(ge=0, lt=2**53)]
Disguised = Annotated[int, Field(ge=0, lt=2**48)]


class SentClaim(_Sent):
    """How many pairs to have in hand; recent: whether the last judged ones are wanted too."""

    n: Annotated[int, Field(ge=1, le=MOST_AHEAD)]
    recent: bool = False


class SentVote(_Sent):
    """One answer. The pair has the disguised number by which this expert's page knows it."""

    client: Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    pair: Disguised
    answer: Annotated[int, Field(ge=-1, le=1)]
    seconds: Annotated[float, Field(ge=0, le=86_400)] | None = None
    at: Number | None = None


class SentVotes(_Sent):
    """The answers of one request."""

    votes: Annotated[list[SentVote], Field(min_length=1, max_length=MOST_VOTES)]


class SentPair(_Sent):
    """A pair to put off."""

    pair: Disguised


class SentMissing(_Sent):
    """An image that did not load."""

    pair: Disguised
    side: Literal["query", "item"]
