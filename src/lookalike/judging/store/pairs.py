"""A pair that experts judge: its seats, who has them, and the votes that count; and what waits for an expert."""

from dataclasses import dataclass, field

LONGEST = 3_600_000  # milliseconds that a seat may be held without a vote
EVERYBODY = 2**31 - 1  # how many experts a pair wants that all are to judge

__all__ = ["EVERYBODY", "LONGEST", "Queue", "ReleasedPair", "Seat", "SeatRow", "Voters"]

Voters = dict[str, tuple[int, int]]  # by expert, the time and the answer of the vote that counts
SeatRow = tuple[int, int, str, int, int, int]  # pair, slot, expert, until, turn, voted


@dataclass(slots=True)
class Seat:
    """The right of an expert to judge a pair.

    slot: the number of the seat at the pair. until: when somebody else may take it, in milliseconds since 1970; nobody
    may once there is a vote. turn: the expert's seats are numbered in the order in which they were given.
    """

    slot: int
    expert: str
    until: int
    turn: int
    voted: bool

    def live(self, now: int) -> bool:
        """Whether nobody may take it. If it ends later than any seat can, the clock was wrong that made it."""
        return self.voted or now < self.until <= now + LONGEST


@dataclass(slots=True)
class Queue:
    """The pairs that wait for one expert.

    entered: how many blocks of pairs the expert has begun. waiting: pairs of these blocks that are still to be judged.
    gold: gold pairs still to be judged, of the first gold_seen. turn: how many seats the expert has had.
    """

    entered: int = 0
    waiting: list[int] = field(default_factory=list)
    gold: list[int] = field(default_factory=list)
    gold_seen: int = 0
    turn: int = 0


@dataclass(slots=True)
class ReleasedPair:
    """A pair that is released to experts.

    wanted: how many are to judge it; EVERYBODY: all who may judge; None: a gold pair, which all judge too, but which is
    never complete. waits_for: of a pair for everybody, how many who may judge have not.
    """

    id: int
    query: str
    item: str
    block: int
    wanted: int | None
    voters: Voters
    seats: dict[str, Seat] = field(default_factory=dict)  # by expert
    waits_for: int = 0

    @property
    def gold(self) -> bool:
        """Whether everybody judges it."""
        return self.wanted is None

    @property
    def for_all(self) -> bool:
        """Whether all who may judge are to judge it, and it is no gold pair."""
        return self.wanted == EVERYBODY

    @property
    def complete(self) -> bool:
        """Whether it has all its votes."""
        if self.wanted == EVERYBODY:
            return not self.waits_for and bool(self.voters)
        return self.wanted is not None and len(self.voters) >= self.wanted

    def has_room(self, now: int) -> bool:
        """Whether an expert without a seat and without a vote can get a seat."""
        if self.wanted is None or self.wanted == EVERYBODY:
            return True
        held = sum([not seat.voted and seat.live(now) for seat in self.seats.values()])
        return len(self.voters) + held < self.wanted

    def free_slot(self, now: int) -> int:
        """A slot that nobody holds, or else the one that ran out first. The pair must have room."""
        by_slot = {seat.slot: seat for seat in self.seats.values()}
        if self.wanted is None or self.wanted == EVERYBODY:
            return max(by_slot, default=-1) + 1
        return min(range(self.wanted), key=lambda slot: _rank(by_slot.get(slot), now))


def _rank(seat: Seat | None, now: int) -> tuple[int, int]:
    """The order in which slots are given away: empty ones, then those that ran out, then held ones, voted ones last."""
    if seat is None:
        return 0, 0
    if not seat.live(now):
        return 1, seat.until
    return (3 if seat.voted else 2), seat.until
