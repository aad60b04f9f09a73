"""What an expert does, within a transaction: claim pairs, vote, and look at earlier answers."""

from dataclasses import dataclass, replace

from lookalike.judging.store.board import Board
from lookalike.judging.store.release import AT_ONCE, StudyReleases
from lookalike.judging.store.types import Answer, JudgingTask, Verdict
from lookalike.judging.store.work import StoreWork

__all__ = ["Claim", "claim_pairs", "recent_answers", "take_answer"]


@dataclass(frozen=True)
class Claim:
    """A wish of an expert for n pairs in hand. now: milliseconds since 1970; length: for how many they are held.

    sheet: how many pairs of one query come at once, at most.
    """

    expert: str
    n: int
    now: int
    length: int
    sheet: int = 1


def claim_pairs(work: StoreWork, releases: StudyReleases, claim: Claim) -> list[JudgingTask]:
    """The pairs in an expert's hand, filled up to n or, by the last sheet, beyond.

    The adaptive order releases more pairs when few are open, or none to this expert.
    """
    board = work.board
    left = board.gates.left(claim.expert, len(board.judged.get(claim.expert, {})))
    if left == 0 or board.gates.needs_practice(claim.expert):
        return []
    if left is not None:
        claim = replace(claim, n=min(claim.n, left), sheet=min(claim.sheet, left))
    if work.follower.settings.order != "adaptive":
        return board.claim(claim.expert, claim.n, claim.now, claim.length, claim.sheet)
    judging = len(board.judging) + sum(bool(board.hands.get(name)) for name in board.gates.crowd)
    if (short := 2 * claim.n * judging - board.open) > 0:
        _release_more(work, releases, short)
    tasks = board.claim(claim.expert, claim.n, claim.now, claim.length, claim.sheet)
    while len(tasks) < claim.n and _release_more(work, releases, claim.n - len(tasks)):
        tasks = board.claim(claim.expert, claim.n, claim.now, claim.length, claim.sheet)
    return tasks


def _release_more(work: StoreWork, releases: StudyReleases, n: int) -> bool:
    """Release at least n more pairs, if there are any; whether there were."""
    board = work.board
    if not board.unreleased:
        return False
    pairs = releases.at(work.follower.meta["release"]).adaptively(
        board, min(max(n, AT_ONCE), board.unreleased), work.follower.scale.top
    )
    work.follower.release(work.connection, pairs, work.follower.settings.wanted)
    return bool(pairs)


def take_answer(work: StoreWork, expert: str, answer: Answer, now: int) -> Verdict:
    """Let an answer count, unless the record has it already or the board refuses it."""
    earlier = work.by_client.get(answer.client)
    if earlier is not None:
        pair = work.board.pairs.get(answer.pair)
        same = pair is not None and earlier[:4] == (pair.query, pair.item, expert, answer.answer)
        return "known" if same else "changed"
    if not work.board.may_answer(expert, answer.pair):
        return "unknown"
    scale = work.follower.scale
    if answer.answer > scale.top or answer.scale not in (None, scale.mark):
        return "scale"
    verdict = work.board.vote(expert, answer, now)
    if verdict == "kept":
        work.by_client[answer.client] = work.board.new_votes[-1]
    return verdict


def recent_answers(board: Board, expert: str, n: int) -> list[tuple[JudgingTask, int]]:
    """The n pairs that an expert judged last, newest first, each with the answer that counts."""
    judged = list(board.judged.get(expert, {}))[: -n - 1 : -1]
    return [(board.task(number), board.pairs[number].voters[expert][1]) for number in judged]
