"""`lookalike judge status`."""

import math
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lookalike.cli.counted import flags_in_words
from lookalike.cli.judge.crowd import say_participants
from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import FORMAT, JSON, STUDY, chosen_format
from lookalike.cli.terminal import remark, rich_table, tables, tell
from lookalike.core.tables.table import ResultTable, TableCell, TableHead

if TYPE_CHECKING:
    from lookalike.discovery import Agreement, Coverage, Votes
    from lookalike.discovery.machines import MachineAgreement
    from lookalike.discovery.notes import Notes
    from lookalike.discovery.verdicts import Verdicts
    from lookalike.judging.store.participants import Participants
    from lookalike.judging.store.types import Status
    from lookalike.study.study import Study

__all__ = ["progress_of", "status", "warn_of_too_few_experts"]


def status(folder: STUDY, /, *, as_json: JSON = False, form: FORMAT = None) -> None:
    """How far the judging of a study is: coverage, agreement, experts, images that did not load.

    Example: lookalike judge status shop
    """
    from lookalike.discovery import agreement, coverage
    from lookalike.study.study import Study

    printed = chosen_format(form, as_json)
    study = Study.open(folder)
    needs_packages()
    state, votes, wrong, beside, people = _state(study)
    covered = coverage(votes, study.pool()) if study.pool_path.exists() else None
    agreed = agreement(votes, study.gold()) if len(votes) else None
    facts = {
        "coverage": None if covered is None else covered.to_dict(),
        "agreement": None if agreed is None else agreed.to_dict(),
        "wrong": wrong,
        **beside.facts(votes, study.gold()),
    }
    tell(
        printed,
        lambda: ({} if state is None else asdict(state)) | facts | _facts_of(people),
        lambda: [
            _expert_table(state),
            *([] if agreed is None else [ResultTable.of_rows(agreed.rows(), title="agreement")]),
        ],
        lambda: _show(study, (state, people), covered, agreed, wrong, lambda: beside.show(votes, study.gold())),
    )


def _show(
    study: "Study",
    now: "tuple[Status | None, Participants | None]",
    covered: "Coverage | None",
    agreed: "Agreement | None",
    wrong: list[str],
    show_beside: Callable[[], None],
) -> None:
    """Print how far the judging is, and what is wrong."""
    from lookalike.discovery.scale import BINARY

    say = tables().print
    state, people = now
    if state is None:
        remark(f"{study.path} can only be read: what experts have in hand, and their links, are not shown")
    else:
        say(f"{study.name}: {progress_of(state)}; votes are kept in {state.database}")
        if state.scale != str(BINARY):
            say(f"answers: {state.scale}")
        if state.settings["experts_per_pair"] == "all":
            say(_of_all(state, {} if people is None else people.members))
    say(f"no pool yet: lookalike pool {study.path}" if covered is None else str(covered))
    if state is not None:
        say(rich_table(_expert_table(state)))
    if people is not None:
        say_participants(people)
    if agreed is not None:
        say(f"\n{agreed}")
    show_beside()
    if state is not None and (people is None or people.link is None):
        warn_of_too_few_experts(state)
    for image in state.missing if state is not None else []:
        say(f"{image['expert']} could not see the {image['side']} of {image['query']} and {image['item']}")
    for sentence in wrong:
        remark(f"the database is not whole: {sentence}")


def _state(study: "Study") -> tuple["Status | None", "Votes", list[str], "_Beside", "Participants | None"]:
    """How far the judging is, the votes that count, what is wrong, what is beside the votes, and who takes part.

    The store is opened for writing. Where a study may only be read, its record is all that is known.
    """
    from lookalike.judging.store.location import remembered_database

    if not study.can_change and remembered_database(study) is None:
        beside = _Beside(study.notes(), study.verdicts(), study.machines(), study.votes(machines=True))
        return None, study.counted_votes(), [], beside, None
    from lookalike.judging.store.crowd import counted_votes
    from lookalike.judging.store.participants import participants_of
    from lookalike.judging.store.remarks import all_notes, all_verdicts, machines
    from lookalike.judging.store.sheets import count_votes_on_sheets

    with open_store(study) as store:
        beside = _Beside(
            all_notes(store),
            all_verdicts(store),
            machines(store),
            store.votes(machines=True),
            count_votes_on_sheets(store),
        )
        votes = counted_votes(store, store.votes())
        return store.status(), votes, store.check(), beside, participants_of(store)


@dataclass(frozen=True)
class _Beside:
    """What stands beside the votes of people. everything: all votes, those of machines too."""

    notes: "Notes"
    verdicts: "Verdicts"
    machines: frozenset[str]
    everything: "Votes"
    n_on_sheets: int | None = None  # None where a study may only be read

    def facts(self, people: "Votes", gold: Any) -> dict[str, Any]:
        """Everything, for other programs; nothing of what there is not."""
        found = {
            "votes_on_sheets": self.n_on_sheets,
            "notes": self._written,
            "flagged": self._flagged(people),
            "verdicts": len(self.verdicts),
        }
        return {name: n for name, n in found.items() if n} | (
            {"machines": self._agreement(people, gold).to_list()} if self.machines else {}
        )

    def show(self, people: "Votes", gold: Any) -> None:
        """Print how far machines agree with people, and how many notes, flags and verdicts there are."""
        say = tables().print
        if self.machines:
            say(f"\n{self._agreement(people, gold)}\nvotes of machines count nowhere above")
        counts = {"note": self._written, "verdict": len(self.verdicts)}
        found = [f"{n:,} {name}{'s' * (n != 1)}" for name, n in counts.items() if n]
        if self.n_on_sheets:
            say(f"\n{self.n_on_sheets:,} votes were given on sheets: their seconds are equal shares of a sheet's time")
        if found:
            say(f"there are {' and '.join(found)}: lookalike judge export STUDY FILE --notes or --verdicts")
        if n := self._flagged(people):
            remark(flags_in_words(n))

    def _agreement(self, people: "Votes", gold: Any) -> "MachineAgreement":
        import numpy as np

        from lookalike.discovery.machines import machine_agreement

        return machine_agreement(people, self.everything[np.isin(self.everything.experts, sorted(self.machines))], gold)

    @property
    def _written(self) -> int:
        return self.notes.without(self.machines).written

    def _flagged(self, people: "Votes") -> int:
        """Pairs that are flagged, of those that people judged."""
        return len(self.notes.flagged.intersection(people.pairs))


def _facts_of(people: "Participants | None") -> dict[str, Any]:
    """Practice and the crowd for other programs; nothing where there is neither."""
    facts: dict[str, Any] = {}
    if people is not None and people.practice is not None:
        facts["practice"] = [asdict(one) for one in people.practisers.values()]
    if people is not None and people.terms is not None:
        terms = asdict(people.terms) | {"open": people.link is not None}
        facts["crowd"] = {"terms": terms, "people": [asdict(member) for member in people.members.values()]}
    return facts


def _expert_table(state: "Status | None") -> ResultTable:
    """A row for each expert: what is judged, what is in hand, and whether the link is open."""
    now = time.time() * 1000
    heads = ["expert", *map(TableHead, ("judged", "in hand", "later", "last vote", "link"))]
    rows = []
    for row in state.experts if state is not None else []:
        if row["revoked"] is not None:
            link = "taken back"
        else:
            link = "open" if row["expires"] is None or int(row["expires"]) > now else "expired"
        last = "–" if row["last"] is None else _ago((now - int(row["last"])) / 1000)
        counts = (TableCell(row[name], f"{row[name]:,}") for name in ("done", "held", "later"))
        rows.append([str(row["name"]), *counts, last, link])
    return ResultTable.of(heads, rows)


def progress_of(state: "Status") -> str:
    """How many answers there are, of how many."""
    share = state.everybody_done / state.everybody_total if state.everybody_total else math.nan
    percent = "" if math.isnan(share) else f" ({share:.1%})"
    pool = f" of the {state.in_pool:,} of the pool" if state.to_judge < state.in_pool else ""
    gold = f" and {state.gold:,} gold pair{'s' * (state.gold != 1)}" if state.gold else ""
    done = f"{state.everybody_done:,} of {state.everybody_total:,} answers{percent}"
    return f"{done} to {state.to_judge:,} pairs{pool}{gold}"


def _of_all(state: "Status", crowd: Collection[str]) -> str:
    """Whose votes a pair waits for where all experts judge it."""
    judging = sum(row["revoked"] is None and row["name"] not in crowd for row in state.experts)
    waiting = state.to_judge - state.complete
    experts = "the 1 expert who may judge" if judging == 1 else f"all {judging:,} experts who may judge"
    return (
        f"each pair waits for {experts}: {state.complete:,} pairs are complete, {waiting:,} wait; a new expert opens "
        "them again, and nobody waits for one whose link was taken back"
    )


def warn_of_too_few_experts(state: "Status") -> None:
    """Say so where a pair needs more answers than there are experts; silent where nobody judges yet."""
    each = state.settings["experts_per_pair"]
    wanted = each if isinstance(each, int) else 0  # all who may judge are as many as there are
    judging = sum(row["revoked"] is None or bool(row["done"]) for row in state.experts)
    if 0 < judging < wanted and state.everybody_done < state.everybody_total:
        experts = "1 expert judges" if judging == 1 else f"{judging} experts judge"
        remark(
            f"{experts}, but each pair needs the answers of {wanted}, so no pair can be finished: add experts with "
            f"--expert NAME, or ask for fewer with --experts-per-pair {judging}"
        )


def _ago(seconds: float) -> str:
    """How long ago, roughly.

    >>> _ago(30), _ago(150), _ago(9000), _ago(400_000)
    ('just now', '2 min ago', '2 h ago', '4 days ago')
    """
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    return f"{seconds // 3600:.0f} h ago" if seconds < 2 * 86_400 else f"{seconds // 86_400:.0f} days ago"
