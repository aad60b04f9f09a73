"""Studies and their votes, as several commands use them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lookalike.cli.terminal import remark
from lookalike.core.errors import FileError, InputError, StudyError

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Scale, Votes
    from lookalike.discovery.exports import Exported
    from lookalike.study.study import Study

__all__ = [
    "HowToJudge",
    "judged_votes",
    "judgements_of",
    "keep_gold",
    "open_judged",
    "read_gold",
    "read_votes",
    "release_again",
    "write_export",
    "write_result",
]


def open_judged(folder: Path) -> "Study":
    """A study with all of its votes: those that are kept in a database elsewhere are brought over first."""
    from lookalike.judging.store.location import remembered_database
    from lookalike.study.study import Study

    study = Study.open(folder)
    if remembered_database(study) is not None:
        from lookalike.judging.store.store import Store
        from lookalike.judging.store.types import StoreAwayError, StoreFullError

        try:
            with Store.open(None, study, patience=3.0) as store:
                store.copy_votes(study)
        except (StoreAwayError, StoreFullError) as error:
            remark(f"{error}; this goes on with the votes that were copied before")
    return study


def write_result(study: "Study", name: str, text: str) -> None:
    """Keep a result in a study; where that may only be read, say so and go on."""
    if study.can_change:
        study.write_result(name, text)
    else:
        remark(f"{study.path} can only be read: this result is not kept as results/{name}")


def release_again(study: "Study") -> None:
    """Let experts who judge have what a changed pool proposes; nothing, where nobody does."""
    if not (study.path / "judging").is_dir():
        return
    from lookalike.judging.store.store import Store
    from lookalike.judging.store.types import StoreAwayError, StoreFullError

    try:
        with Store.open(None, study, patience=3.0) as store:
            store.release_again()
    except (StoreAwayError, StoreFullError) as error:
        remark(f"{error}; experts get the new pairs when lookalike judge is started again")


@dataclass(frozen=True)
class HowToJudge:
    """How votes become judgements: by which rule (None: the usual one), with which smoothing of dawid-skene.

    rel: the lowest grade of a scale that is positive, None for the highest. complete: whether only pairs count that
    have all their votes.
    """

    rule: str | None = None
    smoothing: "float | Literal['crowd'] | None" = None
    rel: int | None = None
    complete: bool = False


def judged_votes(study: "Study", how: HowToJudge) -> "Votes":
    """The votes of a study that count; says how many pairs wait, where only complete ones do."""
    from lookalike.discovery.complete import complete_votes

    votes = study.votes()
    if not how.complete:
        return votes
    some = complete_votes(votes, study.terms())
    if not some.complete and len(votes):
        raise StudyError(f"no pair has all its votes yet, {some.waiting:,} wait for more: leave out --complete")
    remark(str(some))
    return some.votes


def judgements_of(study: "Study", how: HowToJudge, votes: "Votes | None" = None) -> "Judgements":
    """What a rule makes of the votes of a study. votes: those that count, if they are known already."""
    from lookalike.discovery.rules import judge_by

    if votes is None:
        votes = judged_votes(study, how)
    if not len(votes):
        name = study.path.name
        raise StudyError(
            f"the study {study.name!r} has no votes yet: lookalike judge {name} --expert NAME lets people judge in "
            f"the browser, lookalike study votes {name} FILE adds what they said elsewhere"
        )
    return judge_by(how.rule, votes, "crowd" if how.smoothing is None else how.smoothing, how.rel)


def read_votes(study: "Study", file: Path, expert: str | None) -> "Votes":
    """Votes of a file, or its judgements as votes of one expert, on queries and items of the study."""
    from lookalike.discovery import Judgements, Votes
    from lookalike.discovery.formats import read_judgements

    ids = _ids(study)
    scale = study.scale
    if expert is None:
        votes = Votes.read(file, scale)
        _check_ids(file, votes, ids)
    else:
        answers = Judgements.of(read_judgements(file, **ids))
        grades = answers.grades if scale.graded else (answers.grades > 0).astype(int)
        votes = Votes(answers.queries, answers.items, [expert] * len(answers), grades, scale=scale)
    study.check_pairs(votes.queries, votes.items, "voted")
    return votes


def read_gold(study: "Study", file: Path, scale: "Scale") -> "Judgements":
    """The judgements of a file as gold pairs, whose grades must be those of a scale."""
    from lookalike.discovery import Judgements
    from lookalike.discovery.formats import read_judgements

    gold = Judgements.of(read_judgements(file, **_ids(study)))
    study.check_gold(gold, scale)
    return gold


def keep_gold(study: "Study", file: Path) -> int:
    """Keep the judgements of a file as gold pairs; how many."""
    gold = read_gold(study, file, study.scale)
    study.set_gold(gold)
    return len(gold)


def write_export(
    study: "Study",
    what: str,
    file: Path,
    how: HowToJudge,
    *,
    with_random: bool = False,
    raw: bool = False,
) -> "Exported":
    """Write votes, or the judgements of them, to a file, and say what was left out."""
    from lookalike.discovery.exports import export_judgements, export_votes

    pool = study.pool() if study.pool_path.exists() else None
    if what == "votes":
        if with_random:
            raise InputError("--with-random is for judgements: all votes are written, with a column that says source")
        return export_votes(file, study.votes(), pool, raw=raw)
    exported = export_judgements(file, judgements_of(study, how), pool, with_random=with_random, raw=raw)
    if exported.random_left_out:
        pairs = f"{exported.random_left_out:,} judged pairs that chance alone drew are"
        remark(f"{pairs} left out of {file.name}, since no metric counts them: --with-random writes them too")
    return exported


def _ids(study: "Study") -> dict[str, set[str]]:
    """The ids of the queries and of the items of a study."""
    return {"queries": set(study.queries.ids.tolist()), "items": set(study.catalogue.ids.tolist())}


def _check_ids(file: Path, votes: "Votes", ids: dict[str, set[str]]) -> None:
    """Raise for a vote on a query or an item that the study does not have, with its line."""
    from lookalike.core.csv_files import read_csv

    for kind, voted, in_study in (("query", votes.queries, ids["queries"]), ("item", votes.items, ids["items"])):
        for row, name in enumerate(voted.tolist()):
            if name not in in_study:
                line = read_csv(file, []).lines[row] if file.suffix == ".csv" else None
                where = f"row {row}" if line is None else f"line {line}"
                raise FileError(f"{file}, {where}: there is no {kind} {name!r} in the study", path=file, line=line)
