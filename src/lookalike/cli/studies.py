"""Studies and their votes, as several commands use them."""

from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.cli.counted import CountOptions, HowToJudge, counted_votes
from lookalike.cli.terminal import remark
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Scale, Votes
    from lookalike.discovery.exports import Exported
    from lookalike.study.study import Study

__all__ = [
    "check_vote_ids",
    "ids_of",
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


def judgements_of(study: "Study", how: HowToJudge) -> "Judgements":
    """What a rule makes of the votes of people in a study."""
    return counted_votes(study).judgements(study, how)


def read_votes(study: "Study", file: Path, expert: str | None) -> "Votes":
    """Votes of a file, or its judgements as votes of one expert, on queries and items of the study."""
    from lookalike.discovery import Judgements, Votes
    from lookalike.discovery.formats import read_judgements
    from lookalike.discovery.vote_files import read_vote_columns

    ids, scale = ids_of(study), study.scale
    if expert is None:
        marked = read_vote_columns(file, scale)[0].get("machine")
        if marked is not None and marked.any():
            raise FileError(
                f"{file} has {int(marked.sum()):,} votes of machines, which count nowhere unless asked: lookalike "
                "judge import keeps them apart",
                path=file,
            )
        votes = Votes.read(file, scale)
        check_vote_ids(file, votes, ids)
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

    gold = Judgements.of(read_judgements(file, **ids_of(study)))
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
    counting: CountOptions = CountOptions(),  # noqa: B008  # it never changes
) -> "Exported":
    """Write votes, the judgements of them, notes or verdicts to a file, and say what was left out.

    counting: which votes judgements are made of; all votes are written with their
    experts, those of machines too.
    """
    from lookalike.discovery.exports import Exported, export_judgements, export_votes

    if what != "judgements" and with_random:
        raise InputError("--with-random is for judgements: all votes are written, with a column that says source")
    if what != "judgements" and counting.with_machines:
        raise InputError(f"--with-machines is for judgements: {what} are written with those of machines")
    if what != "judgements" and counting.complete:
        raise InputError(f"--complete is for judgements: all {what} are written")
    if what in ("notes", "verdicts"):
        notes, verdicts = study.notes(), study.verdicts()
        if what == "notes":
            notes.write(file, raw=raw)
        else:
            verdicts.write(file, raw=raw, scale=study.scale)
        return Exported(len((notes if what == "notes" else verdicts).rows))
    pool = study.pool() if study.pool_path.exists() else None
    if what == "votes":
        votes = counted_votes(study, CountOptions(True, counting.without_flagged), all_people=True).votes
        return export_votes(file, votes, pool, raw=raw, machines=study.machines())
    counted = counted_votes(study, counting)
    exported = export_judgements(file, counted.judgements(study, how), pool, with_random=with_random, raw=raw)
    counted.say_flagged()
    if exported.random_left_out:
        pairs = f"{exported.random_left_out:,} judged pairs that chance alone drew are"
        remark(f"{pairs} left out of {file.name}, since no metric counts them: --with-random writes them too")
    return exported


def ids_of(study: "Study") -> dict[str, set[str]]:
    """The ids of the queries and of the items of a study."""
    return {"queries": set(study.queries.ids.tolist()), "items": set(study.catalogue.ids.tolist())}


def check_vote_ids(file: Path, votes: "Votes", ids: dict[str, set[str]]) -> None:
    """Raise for a vote on a query or an item that the study does not have, with its line."""
    from lookalike.core.csv_files import read_csv

    for kind, voted, in_study in (("query", votes.queries, ids["queries"]), ("item", votes.items, ids["items"])):
        for row, name in enumerate(voted.tolist()):
            if name not in in_study:
                line = read_csv(file, []).lines[row] if file.suffix == ".csv" else None
                where = f"row {row}" if line is None else f"line {line}"
                raise FileError(f"{file}, {where}: there is no {kind} {name!r} in the study", path=file, line=line)
