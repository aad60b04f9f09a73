"""People who come by the open link: who they are, what they may judge, screening by gold pairs, and how they end."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import sqlalchemy as sa

from lookalike.discovery.votes import Votes
from lookalike.judging.store.actions import take_answer
from lookalike.judging.store.clock import milliseconds
from lookalike.judging.store.gates import CrowdMember, CrowdTerms
from lookalike.judging.store.pairs import EVERYBODY
from lookalike.judging.store.schema import CROWD, PAIRS, PRACTISED, read_meta
from lookalike.judging.store.types import Answer, Expert, JudgingTask, Verdict, VoteRefusedError
from lookalike.judging.store.work import StoreWork, set_expert

if TYPE_CHECKING:
    from lookalike.judging.store.stored_settings import StoredSettings
    from lookalike.study.study import Study

__all__ = [
    "CrowdFullError",
    "admit",
    "close_crowd",
    "closed_to",
    "counted_votes",
    "crowd_link",
    "crowd_members",
    "crowd_terms",
    "join_crowd",
    "member_of",
    "open_crowd",
    "take_answers",
]

NAME = "crowd-{:04}"

Closed = Literal["practice", "end"]

_MEMBERS = sa.select(*(CROWD.c[name] for name in CrowdMember.__dataclass_fields__)).order_by(CROWD.c.expert)


class CrowdFullError(VoteRefusedError):
    """The open link takes nobody else. reason: closed, which is said of an older link too, or full."""

    def __init__(self, reason: Literal["closed", "full"]) -> None:
        self.reason = reason
        sentence = {
            "closed": "this link is closed, or another one took its place",
            "full": "enough people take part already: thank you for coming",
        }[reason]
        super().__init__(sentence)


# Terms


def crowd_terms(store: "StoredSettings") -> CrowdTerms | None:
    """What the open link offers, or offered; None where there never was one."""
    return CrowdTerms.of(store.meta())


def crowd_link(store: "StoredSettings") -> int | None:
    """The number of the open link, by which it is signed; None where it is closed."""
    meta = store.meta()
    return int(meta.get("crowd_link", 1)) if "crowd_open" in meta else None


def open_crowd(store: "StoredSettings", terms: CrowdTerms) -> None:
    """Open the link by which anybody can judge, or change what it offers."""

    def run(work: StoreWork) -> None:
        meta = read_meta(work.connection)
        gold = sum(pair.gold for pair in work.board.pairs.values())
        if terms.screen is not None and gold < terms.screen_after:
            sentence = f"screening is by {terms.screen_after} gold pairs, and the study has {gold}"
            raise VoteRefusedError(f"{sentence}: add some, or screen by fewer")
        if CrowdTerms.of(meta) != terms or "crowd_open" not in meta:
            work.follower.write(work.connection)
            work.follower.begin_epoch(work.connection, **terms.to_meta(), crowd_open=1)

    store.do(run)


def close_crowd(store: "StoredSettings") -> None:
    """Take the open link back. Those who have begun go on; a link that is opened later is another one."""
    number = crowd_link(store)
    if number is not None:
        store.set_meta(crowd_open=None, crowd_link=number + 1)


# People


def crowd_members(store: "StoredSettings") -> list[CrowdMember]:
    """Everybody who came by the open link, by name."""
    with store.reading() as connection:
        return [CrowdMember(*row) for row in connection.execute(_MEMBERS)]


def member_of(store: "StoredSettings", expert: str) -> CrowdMember | None:
    """The person of this name; None for experts with links of their own."""
    with store.reading() as connection:
        row = connection.execute(_MEMBERS.where(CROWD.c.expert == expert)).one_or_none()
    return None if row is None else CrowdMember(*row)


def join_crowd(store: "StoredSettings", link: int, participant: str | None, now: int | None = None) -> Expert:
    """A new expert of the crowd, or the one whom this participant of a platform is already.

    link: the number of the link. The cap on people is exact, for all processes together.
    """
    moment = milliseconds(now)

    def run(work: StoreWork) -> Expert:
        meta = read_meta(work.connection)
        terms = CrowdTerms.of(meta)
        if terms is None or "crowd_open" not in meta or link != int(meta.get("crowd_link", 1)):
            raise CrowdFullError("closed")
        crowd = work.board.gates.crowd
        for member in crowd.values() if participant is not None else ():
            if member.participant == participant:
                return work.board.check_expert(member.expert, moment)
        if len(crowd) >= terms.most_experts:
            raise CrowdFullError("full")
        number = len(crowd) + 1
        while (name := NAME.format(number)) in work.board.experts:
            number += 1
        member = CrowdMember(name, participant, moment, changed=moment)
        crowd[name] = member
        work.connection.execute(sa.insert(CROWD), asdict(member))
        return set_expert(work, Expert(name))

    return store.do(run)


def admit(store: "StoredSettings", expert: str, now: int | None = None) -> str:
    """Let an expert begin without having passed the practice, or count again who was screened out.

    Returns what was done, in words.
    """
    moment = milliseconds(now)

    def run(work: StoreWork) -> str:
        gates = work.board.gates
        work.board.check_expert(expert)
        if gates.is_screened(expert):
            _change(work, replace(gates.crowd[expert], screened=None), moment)
            return f"the votes of {expert} count again"
        if gates.needs_practice(expert):
            work.connection.execute(sa.insert(PRACTISED), {"expert": expert, "how": "admitted", "at": moment})
            gates.practised.add(expert)
            work.wrote = True
            return f"{expert} may begin"
        return f"{expert} may judge already"

    return store.do(run)


def _change(work: StoreWork, member: CrowdMember, now: int) -> None:
    """Replace what is known of somebody."""
    member = replace(member, changed=max(now, work.board.gates.crowd[member.expert].changed + 1))
    work.connection.execute(sa.delete(CROWD).where(CROWD.c.expert == member.expert))
    work.connection.execute(sa.insert(CROWD), asdict(member))
    work.board.gates.crowd[member.expert] = member
    work.wrote = True


def counted_votes(store: "StoredSettings", votes: Votes) -> Votes:
    """The votes that count: all but those of people who were screened out."""
    screened = [member.expert for member in crowd_members(store) if member.screened is not None]
    return votes[~np.isin(votes.experts, screened)] if screened else votes


# What they do, within a transaction


def take_answers(work: StoreWork, study: "Study", expert: str, answers: list[Answer], now: int) -> list[Verdict]:
    """Keep answers, as far as they may be kept; whoever has answered the gold pairs that decide is screened."""
    verdicts = []
    for answer in answers:
        verdicts.append(take_answer(work, expert, answer, now))
        if verdicts[-1] == "kept":
            _screen(work, study, expert, now)
    return verdicts


def _screen(work: StoreWork, study: "Study", expert: str, now: int) -> None:
    """Decide, once, whether somebody judges well enough, when the last gold pair that is needed has its answer."""
    board, terms = work.board, work.board.gates.terms
    member = board.gates.crowd.get(expert)
    if member is None or terms is None or terms.screen is None or member.asked is not None:
        return
    judged = [board.pairs[number] for number in board.judged[expert] if board.pairs[number].gold]
    gold = study.gold() if len(judged) >= terms.screen_after else None
    if gold is None:
        return
    answers = [(gold.by_pair.get((pair.query, pair.item)), pair.voters[expert][1]) for pair in judged]
    correct = sum(answer == known for known, answer in answers)
    passed = correct >= terms.screen * len(judged) - 1e-9
    _change(work, replace(member, screened=None if passed else now, correct=correct, asked=len(judged)), now)
    if not passed:
        _replace_seats(work, expert)


def _replace_seats(work: StoreWork, expert: str) -> None:
    """Give each pair that somebody judged a further seat, since that vote does not count; free what is in hand."""
    board = work.board
    board.let_go(expert)
    numbers = [number for number in board.judged[expert] if 0 < (board.pairs[number].wanted or 0) < EVERYBODY]
    work.follower.write(work.connection, people=True)
    if numbers:
        statement = sa.update(PAIRS).where(PAIRS.c.id == sa.bindparam("of")).values(wanted=PAIRS.c.wanted + 1)
        work.connection.execute(statement, [{"of": number} for number in numbers])
    work.follower.begin_epoch(work.connection)


def closed_to(work: StoreWork, expert: str, tasks: list[JudgingTask], now: int) -> Closed | None:
    """Where an expert who gets no pairs goes on: to the practice, or to the end; None for who has pairs, or waits.

    People of the crowd do not wait for what others hold: whoever has judged something has completed.
    """
    board = work.board
    if board.gates.needs_practice(expert):
        return "practice"
    member = board.gates.crowd.get(expert)
    if member is None or tasks:
        return None
    if member.screened is None and member.completed is None and board.judged.get(expert):
        _change(work, replace(member, completed=now), now)
    return "end"
