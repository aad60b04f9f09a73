"""What the expert's page sends, read from JSON; anything else is refused in one sentence."""

from typing import Annotated, Literal

from pydantic import Field

from lookalike.discovery.notes import LONGEST
from lookalike.discovery.scale import MOST as MOST_STEPS
from lookalike.judging.store.sheets import LARGEST, SMALLEST
from lookalike.web.sent import Given, parsed
from lookalike.web.sent import SentValue as _Sent

__all__ = ["Given", "SentClaim", "SentMissing", "SentNote", "SentPair", "SentVote", "SentVotes", "parsed"]

MOST_VOTES, MOST_AHEAD = 200, LARGEST + 1  # so that another sheet is there

Number = Annotated[int, Field(ge=0, lt=2**53)]
Disguised = Annotated[int, Field(ge=0, lt=2**48)]
Client = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class SentClaim(_Sent):
    """How many pairs to have in hand; recent: whether the last judged ones are wanted too.

    sheet: up to how many candidates of one query come together; then the last of them may come beyond n.
    """

    n: Annotated[int, Field(ge=1, le=MOST_AHEAD)]
    sheet: Annotated[int, Field(ge=SMALLEST, le=LARGEST)] | None = None
    recent: bool = False


class SentVote(_Sent):
    """One answer. The pair has the disguised number by which this expert's page knows it."""

    client: Client
    pair: Disguised
    answer: Annotated[int, Field(ge=-1, lt=MOST_STEPS)]
    seconds: Annotated[float, Field(ge=0, le=86_400)] | None = None
    at: Number | None = None
    scale: Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")] = ""  # the mark of the scale on the page


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


class SentNote(_Sent):
    """A note on a pair, or a flag."""

    client: Client
    pair: Disguised
    kind: Literal["note", "flag", "unflag"]
    text: Annotated[str, Field(max_length=2 * LONGEST)] = ""  # the store counts its characters without space around it
