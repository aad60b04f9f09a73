"""What the record of votes of a study holds, as every part of the package reads it."""

from pathlib import Path

import numpy as np

from lookalike.discovery.notes import Notes, read_notes
from lookalike.discovery.scale import Scale
from lookalike.discovery.verdicts import Verdicts, read_verdicts
from lookalike.discovery.vote_log import JudgingTerms, read_machines, read_screened, read_terms, read_votes
from lookalike.discovery.votes import Votes

__all__ = ["StudyRecord"]


class StudyRecord:
    """The record of votes of a study, in its folder."""

    path: Path

    def votes(self, *, machines: bool = False) -> Votes:
        """All votes of people, in the order in which they came. machines: those of machines too."""
        return read_votes(self._record_path, machines=machines)

    @property
    def _record_path(self) -> Path:
        return self.path / "votes.sqlite"

    def machines(self) -> frozenset[str]:
        """The names under which machines judge, not people."""
        return read_machines(self._record_path)

    def notes(self) -> Notes:
        """What experts wrote of pairs, and the pairs that they flag as broken."""
        return read_notes(self._record_path)

    def verdicts(self) -> Verdicts:
        """What the organiser says of pairs on which experts disagree."""
        return read_verdicts(self._record_path)

    def terms(self) -> JudgingTerms:
        """How the study is judged: its scale, how many experts judge each pair, and who they are."""
        return read_terms(self._record_path)

    @property
    def scale(self) -> Scale:
        """The scale of the answers: similar and not similar, unless `lookalike judge` was given another."""
        return self.terms().scale

    def screened(self) -> list[str]:
        """People of a crowd whom gold pairs screened out: their votes are kept, and do not count."""
        return read_screened(self._record_path)

    def counted_votes(self) -> Votes:
        """The votes that count: those of people, but not of those who were screened out."""
        votes, screened = self.votes(), self.screened()
        return votes[~np.isin(votes.experts, screened)] if screened else votes
