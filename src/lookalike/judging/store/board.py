"""Who judges what next: the board holds all pairs, the seats that experts have at them, and their votes.

The board is kept in memory and follows the database. Every rule of judging is here, and no rule asks a database.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator

from lookalike.judging.store.gates import Gates
from lookalike.judging.store.pairs import EVERYBODY, LONGEST, Queue, ReleasedPair, Seat, SeatRow, Voters
from lookalike.judging.store.types import (
    LAST_MOMENT,
    Answer,
    Expert,
    ExpertError,
    JudgingTask,
    Progress,
    Verdict,
    VoteRow,
)

DAY, MINUTE = 86_400_000, 60_000
CHANGES, ALL_CHANGES = 20, 600  # that an expert can make a minute: of one answer, and of all
GOLD_SHARE = 0.1  # of what an expert gets
NEVER = -(2**62)  # the time of a vote whose time is not known: before any other

__all__ = ["Board"]


class Board:
    """All pairs, seats and votes, and what has changed since the database was last written."""

    def __init__(self, seed: int = 0, experts_per_pair: int = 0) -> None:
        self.seed = seed
        self.experts_per_pair = experts_per_pair
        self.unreleased = 0  # pairs that will be released later
        self.experts: dict[str, Expert] = {}
        self.gates = Gates()  # practice and the crowd
        self.judging: frozenset[str] = frozenset()  # those with a link of their own who may judge
        self.pairs: dict[int, ReleasedPair] = {}
        self.ids: dict[tuple[str, str], int] = {}
        self.voters: dict[tuple[str, str], Voters] = {}  # of all pairs that have votes, also those not released
        self.hands: dict[str, dict[int, Seat]] = {}
        self.judged: dict[str, dict[int, None]] = {}  # by expert, in the order of their votes
        self.put_off: dict[str, dict[int, int]] = {}
        self._of_query: dict[str, list[int]] = {}  # pairs by query
        self._blocks: list[list[int]] = []
        self._block_numbers: list[int] = []
        self._gold: list[int] = []
        self._queues: dict[str, Queue] = {}
        # Counts, so that progress is told at once
        self.released = 0  # pairs that want, or wanted, votes
        self.open = 0  # those that still do
        self.collected = 0  # votes that they wanted and have
        self.wanted = 0
        self._open_judged: dict[str, int] = {}  # open pairs that an expert has judged
        self._for_all: list[ReleasedPair] = []  # pairs that everybody is to judge
        self._for_all_judged: dict[str, int] = {}  # how many of them an expert has judged
        self._gold_judged: dict[str, int] = {}
        self._changes: dict[str, deque[tuple[int, int]]] = {}  # by expert, the last ones: time and pair
        self.clear_changes()

    def clear_changes(self) -> None:
        """Forget the changes, because the database has them now."""
        self.new_votes: list[VoteRow] = []
        self.touched: dict[tuple[int, int], SeatRow | None] = {}  # slots whose seat changed, as it was
        self.put_off_changed: dict[tuple[int, str], int | None] = {}

    @property
    def changed(self) -> bool:
        """Whether anything has changed since the database was last written."""
        return bool(self.new_votes or self.touched or self.put_off_changed)

    # Following the database

    def add_pair(self, number: int, query: str, item: str, block: int, wanted: int | None) -> ReleasedPair:
        """Add a pair that is released. Pairs must come in the order of their blocks."""
        pair = ReleasedPair(number, query, item, block, wanted, self.voters.setdefault((query, item), {}))
        self.pairs[number], self.ids[query, item] = pair, number
        self._of_query.setdefault(query, []).append(number)
        if wanted is None:
            self._gold.append(number)
        elif self._block_numbers and self._block_numbers[-1] == block:
            self._blocks[-1].append(number)
        else:
            self._block_numbers.append(block)
            self._blocks.append([number])
        if wanted is not None:
            self.wanted += 0 if pair.for_all else wanted
            self.released += wanted > 0
            self.open += wanted > 0
        if pair.for_all:
            pair.waits_for = len(self.judging)
            self._for_all.append(pair)
        voters = dict(pair.voters)
        pair.voters.clear()
        for expert, counted in voters.items():
            self._count(pair, expert, counted)
        return pair

    @property
    def last_block(self) -> int:
        """The largest number of a block; -1 if there is none."""
        return self._block_numbers[-1] if self._block_numbers else -1

    def add_vote(self, query: str, item: str, expert: str, answer: int, time: int | None) -> None:
        """Count a vote that is in the database, or will be."""
        counted = (NEVER if time is None else time, answer)
        number = self.ids.get((query, item))
        if number is not None:
            self._count(self.pairs[number], expert, counted)
            return
        voters = self.voters.setdefault((query, item), {})
        if expert not in voters or counted[0] >= voters[expert][0]:
            voters[expert] = counted

    def set_experts(self, experts: Iterable[Expert]) -> None:
        """Take over who is an expert, of one name the last; pairs for everybody wait for those who may judge now.

        Nobody waits for people of the crowd: each judges some pairs only.
        """
        self.experts = {expert.name: expert for expert in experts}
        known = self.experts.keys() - self.gates.crowd.keys()
        judging = frozenset(name for name in known if self.experts[name].revoked is None)
        if judging == self.judging:
            return
        self.judging = judging
        for pair in self._for_all:
            before = pair.complete
            pair.waits_for = len(judging - pair.voters.keys())
            self.open += before - pair.complete

    def put_seat(self, row: SeatRow) -> None:
        """Add a seat that is in the database."""
        number, slot, expert, until, turn, voted = row
        pair = self.pairs.get(number)
        if pair is None:
            return
        seat = pair.seats[expert] = Seat(slot, expert, until, turn, bool(voted))
        queue = self._queues.setdefault(expert, Queue())
        queue.turn = max(queue.turn, turn)
        if not voted:
            self.hands.setdefault(expert, {})[number] = seat

    def drop_held(self) -> None:
        """Remove the seats without a vote, before they are read again."""
        for expert, hand in self.hands.items():
            for number in hand:
                del self.pairs[number].seats[expert]
        self.hands = {}

    def _count(self, pair: ReleasedPair, expert: str, counted: tuple[int, int]) -> None:
        """Let a vote count, its time and answer, unless the expert has a later vote on the pair."""
        if expert in pair.voters:
            if counted[0] >= pair.voters[expert][0]:
                pair.voters[expert] = counted
            self._changes.setdefault(expert, deque(maxlen=ALL_CHANGES)).append((counted[0], pair.id))
            self.judged[expert].pop(pair.id, None)
            self.judged[expert][pair.id] = None
            return
        before, was_complete = len(pair.voters), pair.complete
        pair.voters[expert] = counted
        self.judged.setdefault(expert, {})[pair.id] = None
        if pair.for_all:
            pair.waits_for -= expert in self.judging
            self._for_all_judged[expert] = self._for_all_judged.get(expert, 0) + 1
            self.open += was_complete - pair.complete
        elif pair.wanted is None:
            self._gold_judged[expert] = self._gold_judged.get(expert, 0) + 1
        elif before < pair.wanted:
            self.collected += 1
            if before + 1 < pair.wanted:
                self._open_judged[expert] = self._open_judged.get(expert, 0) + 1
            else:
                self.open -= 1
                for other in pair.voters:
                    if other != expert:
                        self._open_judged[other] -= 1

    # What experts do

    def check_expert(self, name: str, now: int | None = None, link: int | None = None) -> Expert:
        """The expert of this name; an error if there is none, or if the expert may not judge now or by this link."""
        expert = self.experts.get(name)
        if expert is None:
            raise ExpertError(name, "unknown")
        if now is not None:
            expert.check(now, link)
        return expert

    def claim(self, expert: str, n: int, now: int, length: int, sheet: int = 1) -> list[JudgingTask]:
        """The pairs in an expert's hand, filled up to n by sheets: up to so many pairs of one query at once."""
        hand = self.hands.setdefault(expert, {})
        seats = sorted(hand.items(), key=lambda entry: entry[1].turn)[: n if sheet == 1 else None]
        for number, seat in seats:
            if not now + length // 2 <= seat.until <= now + LONGEST:
                self._note(number, seat.slot)
                seat.until = now + length
        numbers = [number for number, _ in seats]
        queue = self._queues.setdefault(expert, Queue())
        coming = self._coming(expert, queue, now)
        while len(hand) < n and (pair := self._next(expert, queue, coming, now)) is not None:
            for one in [pair] if sheet == 1 else self._sheet(expert, pair, sheet, now):
                self._give(one, expert, now + length, now)
                numbers.append(one.id)
        return [self.task(number) for number in numbers]

    def may_answer(self, expert: str, number: int) -> bool:
        """Whether somebody of the crowd has pairs left to judge, or has judged this one; others always may."""
        judged = self.judged.get(expert, {})
        left = self.gates.left(expert, len(judged))
        return left is None or left > 0 or (number in judged and not self.gates.is_screened(expert))

    def task(self, number: int) -> JudgingTask:
        """A pair as it is handed out."""
        pair = self.pairs[number]
        return JudgingTask(pair.id, pair.query, pair.item)

    def vote(self, expert: str, answer: Answer, now: int) -> Verdict:
        """Let an answer count, if it may. The caller has checked that its client's id is new."""
        pair = self.pairs.get(answer.pair)
        if pair is None:
            return "unknown"
        if expert in pair.voters and self._changes_too_often(expert, pair, now):
            return "often"
        seat = pair.seats.get(expert)
        if expert not in pair.voters and seat is None and not pair.has_room(now):
            return "enough"
        if seat is None and expert not in pair.voters:
            self._give(pair, expert, now, now)
        self._mark_voted(pair, expert)
        if self.put_off.get(expert, {}).pop(pair.id, None) is not None:
            self.put_off_changed[pair.id, expert] = None
        when = answer.at if answer.at is not None and now - DAY <= answer.at <= now else now
        if expert in pair.voters:  # what comes last counts, whatever clocks say; by these times changes are counted
            when = min(max(now, pair.voters[expert][0] + 1), LAST_MOMENT)
        self._count(pair, expert, (when, answer.answer))
        seconds = None if answer.seconds is None else float(answer.seconds)
        self.new_votes.append(VoteRow(pair.query, pair.item, expert, answer.answer, when, seconds, answer.client))
        return "kept"

    def _changes_too_often(self, expert: str, pair: ReleasedPair, now: int) -> bool:
        """Whether an expert has changed this answer, or all answers together, as often as is allowed in a minute.

        The changes of all processes count, because they are read from the database.
        """
        lately = [number for when, number in self._changes.get(expert, ()) if when > now - MINUTE]
        return len(lately) >= ALL_CHANGES or lately.count(pair.id) >= CHANGES

    def later(self, expert: str, number: int, now: int) -> bool:
        """Put a pair off and free its seat; False if the pair is unknown or judged."""
        pair = self.pairs.get(number)
        if pair is None or expert in pair.voters:
            return False
        if expert in pair.seats:
            self._drop(pair, expert)
        self.put_off.setdefault(expert, {})[number] = now
        self.put_off_changed[number, expert] = now
        return True

    def let_go(self, expert: str) -> None:
        """Take back the seats that an expert holds without a vote."""
        for number in list(self.hands.get(expert, {})):
            self._drop(self.pairs[number], expert)

    def seat_voters(self, pair: ReleasedPair) -> int:
        """Give each voter a seat, before experts who have not voted; the number of voters without a seat."""
        beyond = 0
        for expert in pair.voters:
            if expert not in pair.seats:
                if pair.wanted is not None and sum(seat.voted for seat in pair.seats.values()) >= pair.wanted:
                    beyond += 1
                    continue
                self._give(pair, expert, 0, 0)
            self._mark_voted(pair, expert)
        return beyond

    def progress(self, expert: str) -> Progress:
        """How far an expert and everybody has come."""
        if self.experts_per_pair == EVERYBODY:
            open_to = len(self._for_all) + self.unreleased - self._for_all_judged.get(expert, 0)
        else:
            open_to = self.open + self.unreleased - self._open_judged.get(expert, 0)
        gold = len(self._gold) - self._gold_judged.get(expert, 0)
        judged = self.judged.get(expert, {})
        left = self.gates.left(expert, len(judged))
        if left is not None:  # of the crowd, who are shown how far they are, and nothing of others
            left = min(left, open_to + gold)
            return Progress(len(judged), left, len(judged), len(judged) + left)
        # gold pairs count too: if the count stood still after some pairs, experts would see which pairs are gold
        done = self.votes_done + sum(self._gold_judged.values())
        wanted = self.votes_wanted + len(self._gold) * len(self.judging)
        wanted += sum(self._gold_judged.get(name, 0) for name in self.gates.crowd)
        sure = len(self.judging) <= self.experts_per_pair and not self.gates.crowd
        return Progress(len(judged), open_to + gold, done, max(done, wanted), sure)

    @property
    def votes_done(self) -> int:
        """Votes that are wanted and there, those of gold pairs not counted."""
        return self.collected + sum(self._for_all_judged.values())

    @property
    def votes_wanted(self) -> int:
        """Votes that are wanted in all, of those who may judge now and of those who did."""
        if self.experts_per_pair != EVERYBODY:
            return self.wanted + self.unreleased * self.experts_per_pair
        judged = sum(self._for_all_judged.get(expert, 0) for expert in self.judging)
        left = (len(self._for_all) + self.unreleased) * len(self.judging) - judged
        return self.votes_done + left

    def gold_judged(self, expert: str) -> int:
        """How many gold pairs an expert has judged."""
        return self._gold_judged.get(expert, 0)

    # What comes next

    def _next(self, expert: str, queue: Queue, coming: Iterator[ReleasedPair], now: int) -> ReleasedPair | None:
        gold = self._next_gold(expert, queue)
        if gold is not None and self._draw(expert, "turn", queue.turn + 1) < self._gold_share(expert, queue):
            return gold
        return next(coming, None) or gold or self._next_put_off(expert, now)

    def _gold_share(self, expert: str, queue: Queue) -> float:
        """The chance that an expert's next pair is a gold pair."""
        in_hand = sum(self.pairs[number].gold for number in self.hands.get(expert, {}))
        chance = self.gates.gold_chance(expert, queue.turn, self.gold_judged(expert) + in_hand)
        return GOLD_SHARE if chance is None else chance

    def _coming(self, expert: str, queue: Queue, now: int) -> Iterator[ReleasedPair]:
        """The pairs with room for the expert: of the blocks begun so far, then of the next ones."""
        put_off = self.put_off.get(expert, {})
        at = 0
        while True:
            while at < len(queue.waiting):
                pair = self.pairs[queue.waiting[at]]
                if pair.complete or expert in pair.voters or pair.id in put_off:
                    del queue.waiting[at]
                    continue
                at += 1  # it stays: in the hand now, or others are at it and may let it go
                if expert not in pair.seats and pair.has_room(now):
                    yield pair
            if queue.entered == len(self._blocks):
                return
            block = [number for number in self._blocks[queue.entered] if not self.pairs[number].complete]
            queue.waiting += self._shuffled(expert, block)
            queue.entered += 1

    def _next_gold(self, expert: str, queue: Queue) -> ReleasedPair | None:
        if queue.gold_seen < len(self._gold):
            queue.gold = self._shuffled(expert, self._gold)
            queue.gold_seen = len(self._gold)
        put_off = self.put_off.get(expert, {})
        queue.gold = [number for number in queue.gold if expert not in self.pairs[number].voters]
        free = (n for n in queue.gold if expert not in self.pairs[n].seats and n not in put_off)
        number = next(free, None)
        return None if number is None else self.pairs[number]

    def _next_put_off(self, expert: str, now: int) -> ReleasedPair | None:
        put_off = self.put_off.get(expert, {})
        for number in sorted(put_off, key=lambda number: (put_off[number], number)):
            pair = self.pairs[number]
            if expert not in pair.seats and expert not in pair.voters and pair.has_room(now):
                return pair
        return None

    def _sheet(self, expert: str, first: ReleasedPair, most: int, now: int) -> list[ReleasedPair]:
        """A pair with others of its query that wait for the expert, whatever their blocks, in a random order.

        Where they are more than a sheet holds, they come on sheets of about the same size. Pairs that were put off come
        with others that were.
        """
        put_off = self.put_off.get(expert, {})
        others = [
            number
            for number in self._of_query[first.query]
            if number != first.id
            and (number in put_off) == (first.id in put_off)
            and expert not in (pair := self.pairs[number]).voters
            and expert not in pair.seats
            and pair.has_room(now)
        ]
        n_sheets = -(-(1 + len(others)) // most)
        size = -(-(1 + len(others)) // n_sheets)
        chosen = [first.id, *self._shuffled(expert, others)[: size - 1]]
        return [self.pairs[number] for number in self._shuffled(expert, chosen)]

    def _shuffled(self, expert: str, numbers: list[int]) -> list[int]:
        return sorted(numbers, key=lambda number: self._draw(expert, "pair", number))

    def _draw(self, expert: str, what: str, number: int) -> float:
        """A number from 0 to 1 that is always the same, and independent of the numbers of other experts."""
        text = f"{self.seed}/{what}/{number}/{expert}".encode(errors="surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64

    # Changes, of which the database is told

    def _give(self, pair: ReleasedPair, expert: str, until: int, now: int) -> None:
        """Give the expert a seat at a pair that has room; one who held it and ran out of time loses it."""
        slot = pair.free_slot(now)
        self._note(pair.id, slot)
        for other, seat in list(pair.seats.items()):
            if seat.slot == slot:
                del pair.seats[other]
                self.hands.get(other, {}).pop(pair.id, None)
        queue = self._queues.setdefault(expert, Queue())
        queue.turn += 1
        seat = pair.seats[expert] = Seat(slot, expert, until, queue.turn, False)
        self.hands.setdefault(expert, {})[pair.id] = seat

    def _mark_voted(self, pair: ReleasedPair, expert: str) -> None:
        seat = pair.seats.get(expert)
        if seat is not None and not seat.voted:
            self._note(pair.id, seat.slot)
            seat.voted = True
            self.hands.get(expert, {}).pop(pair.id, None)

    def _drop(self, pair: ReleasedPair, expert: str) -> None:
        seat = pair.seats[expert]
        self._note(pair.id, seat.slot)
        del pair.seats[expert]
        self.hands.get(expert, {}).pop(pair.id, None)

    def _note(self, number: int, slot: int) -> None:
        """Keep the seat at a slot as it was before it changes."""
        if (number, slot) not in self.touched:
            self.touched[number, slot] = self._row(number, slot)

    def _row(self, number: int, slot: int) -> SeatRow | None:
        for seat in self.pairs[number].seats.values():
            if seat.slot == slot:
                return number, slot, seat.expert, seat.until, seat.turn, int(seat.voted)
        return None

    def changed_seats(self) -> tuple[list[SeatRow], list[SeatRow]]:
        """The rows of changed seats as they are in the database, and as they are now."""
        pairs = [(before, self._row(*at)) for at, before in self.touched.items()]
        differing = [(before, after) for before, after in pairs if before != after]
        old = [before for before, _ in differing if before is not None]
        new = [after for _, after in differing if after is not None]
        return old, new
