"""Which votes count, and how they become judgements.

No machines count, and nobody who was screened out, but flagged pairs do, unless options say otherwise.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.terminal import remark
from lookalike.core.errors import InputError, StudyError

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Votes
    from lookalike.discovery.complete import CompleteVotes
    from lookalike.discovery.machines import MachineAgreement
    from lookalike.discovery.verdicts import Verdicts
    from lookalike.study.study import Study

__all__ = ["CountOptions", "CountedVotes", "HowToJudge", "counted_votes", "flags_in_words"]

Smoothing = float | Literal["crowd"] | None


@dataclass(frozen=True)
class HowToJudge:
    """How votes become judgements: by which rule (None: the usual one), with which smoothing of dawid-skene.

    rel: the lowest grade of a scale that is positive, None for the highest.
    """

    rule: str | None = None
    smoothing: Smoothing = None
    rel: int | None = None


@dataclass(frozen=True)
class CountOptions:
    """Which votes count."""

    with_machines: Annotated[
        bool, Parameter(negative=(), help="count the votes of machines like those of people; else they never count")
    ] = False
    without_flagged: Annotated[
        bool, Parameter(negative=(), help="leave out the pairs that an expert flags as broken; else they count")
    ] = False
    complete: Annotated[
        bool, Parameter(negative=(), help="count only pairs that have all their votes, and say how many wait for more")
    ] = False

    def check_study(self, folder: object) -> None:
        """Raise where the options are given, and there is no study."""
        if folder is None and self != CountOptions():
            raise InputError("--with-machines, --without-flagged and --complete are for the votes of a study: pass one")


@dataclass(frozen=True)
class CountedVotes:
    """The votes of a study that count, and what goes with them.

    machines: the votes of machines that do not count. flagged: judged pairs that somebody flags as broken; left_out:
    whether these do not count. screened: how many votes are of people whom gold pairs screened out. complete: how many
    pairs have all their votes, and how many wait, where only such pairs count.
    """

    votes: "Votes"
    verdicts: "Verdicts"
    machines: "Votes"
    flagged: int
    left_out: bool
    screened: int = 0
    complete: "CompleteVotes | None" = None

    def judgements(self, study: "Study", how: HowToJudge) -> "Judgements":
        """What a rule makes of the votes."""
        from lookalike.discovery.rules import judge_by, usual_rule

        if self.screened:
            remark(
                f"{self.screened:,} votes of people whom gold pairs screened out do not count: lookalike judge status "
                f"{study.path.name} names them"
            )
        if not len(self.votes):
            raise _no_votes(study, self)
        if how.rule == "verdict" and not len(self.verdicts):
            usual = usual_rule(self.votes.scale)
            remark(f"there are no verdicts yet, so the rule verdict says what the {usual} says")
        return judge_by(
            how.rule, self.votes, "crowd" if how.smoothing is None else how.smoothing, how.rel, self.verdicts
        )

    def machine_agreement(self, gold: Any, rel: int | None = None) -> "MachineAgreement | None":
        """How far machines whose votes do not count agree with people; None if there are none."""
        from lookalike.discovery.machines import machine_agreement

        return machine_agreement(self.votes, self.machines, gold, rel) if len(self.machines) else None

    def facts(self) -> dict[str, int]:
        """How many judged pairs are flagged, and how many wait for votes, for other programs; nothing if none is."""
        flagged = {"flagged_left_out" if self.left_out else "flagged": self.flagged} if self.flagged else {}
        return flagged | (
            {} if self.complete is None else {"complete": self.complete.complete, "waiting": self.complete.waiting}
        )

    def say_flagged(self) -> None:
        """Say how many judged pairs are flagged, if any."""
        if self.flagged:
            remark(flags_in_words(self.flagged, left_out=self.left_out))


def flags_in_words(n: int, *, left_out: bool = False) -> str:
    """How many judged pairs are flagged, and whether they count."""
    pairs = "1 judged pair is" if n == 1 else f"{n:,} judged pairs are"
    if left_out:
        return f"{pairs} flagged as broken by an expert, and left out"
    counts = "counts" if n == 1 else "count"
    return f"{pairs} flagged as broken by an expert, and {counts} all the same: --without-flagged leaves such pairs out"


def counted_votes(
    study: "Study",
    options: CountOptions = CountOptions(),  # noqa: B008  # it never changes
    *,
    all_people: bool = False,
) -> CountedVotes:
    """The votes of a study that count by these options; says how many pairs wait, where only complete ones count.

    all_people: also of those who were screened out.
    """
    import numpy as np

    from lookalike.discovery.complete import complete_votes

    recorded, names, verdicts = study.votes(machines=True), study.machines(), study.verdicts()
    everything = recorded if all_people else recorded[~np.isin(recorded.experts, study.screened())]
    of_machines = np.isin(everything.experts, sorted(names)) if names else np.zeros(len(everything), bool)
    counts = np.ones(len(everything), bool) if options.with_machines else ~of_machines
    flagged = study.notes().flagged
    on_flagged = np.fromiter((pair in flagged for pair in everything.pairs), bool, len(everything))
    judged = {pair for pair, flag in zip(everything[counts].pairs, on_flagged[counts], strict=True) if flag}
    if options.without_flagged:
        counts, of_machines, verdicts = counts & ~on_flagged, of_machines & ~on_flagged, verdicts.without(flagged)
    some = None
    if options.complete:
        some = complete_votes(everything[~of_machines & counts], study.terms())
        done = frozenset(some.votes.pairs)
        is_done = np.fromiter((pair in done for pair in everything.pairs), bool, len(everything))
        counts, of_machines = counts & is_done, of_machines & is_done
        verdicts = verdicts.without(frozenset(verdicts.by_pair) - done)
        judged &= done
        if some.complete:
            remark(str(some))
    apart = everything[of_machines & ~counts]
    n_screened = len(recorded) - len(everything)
    return CountedVotes(everything[counts], verdicts, apart, len(judged), options.without_flagged, n_screened, some)


def _no_votes(study: "Study", counted: CountedVotes) -> StudyError:
    name = study.path.name
    if counted.complete is not None and counted.complete.waiting:
        waiting = counted.complete.waiting
        return StudyError(f"no pair has all its votes yet, {waiting:,} wait for more: leave out --complete")
    if counted.left_out and counted.flagged:
        return StudyError("every pair that somebody judged is flagged as broken: leave --without-flagged out")
    if len(counted.machines):
        return StudyError(
            f"only machines have voted in the study {study.name!r}, and they do not count unless you pass "
            f"--with-machines: lookalike judge {name} --expert NAME lets people judge"
        )
    return StudyError(
        f"the study {study.name!r} has no votes yet: lookalike judge {name} --expert NAME lets people judge in "
        f"the browser, lookalike study votes {name} FILE adds what they said elsewhere"
    )
