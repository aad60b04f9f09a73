"""Studies and their votes, as several commands use them."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lookalike.cli.terminal import remark
from lookalike.core.errors import FileError, InputError, StudyError

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Votes
    from lookalike.discovery.exports import Exported
    from lookalike.study.study import Study

__all__ = [
    "judgements_of",
    "keep_gold",
    "open_judged",
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


def judgements_of(study: "Study", rule: str, smoothing: "float | Literal['crowd'] | None" = None) -> "Judgements":
    """What a rule makes of the votes of a study; `smoothing` is that of dawid-skene."""
    from lookalike.discovery.dawid_skene import judge_by

    votes = study.counted_votes()
    if left_out := len(study.votes()) - len(votes):
        remark(
            f"{left_out:,} votes of people whom gold pairs screened out do not count: lookalike judge status "
            f"{study.path.name} names them"
        )
    if not len(votes):
        name = study.path.name
        raise StudyError(
            f"the study {study.name!r} has no votes yet: lookalike judge {name} --expert NAME lets people judge in "
            f"the browser, lookalike study votes {name} FILE adds what they said elsewhere"
        )
    return judge_by(rule, votes, "crowd" if smoothing is None else smoothing)


def read_votes(study: "Study", file: Path, expert: str | None) -> "Votes":
    """Votes of a file, or its judgements as votes of one expert, on queries and items of the study."""
    from lookalike.discovery import Judgements, Votes
    from lookalike.discovery.formats import read_judgements

    ids = _ids(study)
    if expert is None:
        votes = Votes.read(file)
        _check_ids(file, votes, ids)
    else:
        answers = Judgements.of(read_judgements(file, **ids))
        votes = Votes(answers.queries, answers.items, [expert] * len(answers), (answers.grades > 0).astype(int))
    study.check_pairs(votes.queries, votes.items, "voted")
    return votes


def keep_gold(study: "Study", file: Path) -> int:
    """Keep the judgements of a file as gold pairs; how many."""
    from lookalike.discovery.formats import read_judgements

    pairs = read_judgements(file, **_ids(study))
    study.set_gold(pairs)
    return len(pairs)


def write_export(
    study: "Study",
    what: str,
    file: Path,
    rule: "tuple[str, float | Literal['crowd'] | None]",
    *,
    with_random: bool = False,
    raw: bool = False,
) -> "Exported":
    """Write votes, or the judgements of them, to a file, and say what was left out. rule: its name, its smoothing."""
    from lookalike.discovery.exports import export_judgements, export_votes

    pool = study.pool() if study.pool_path.exists() else None
    if what == "votes":
        if with_random:
            raise InputError("--with-random is for judgements: all votes are written, with a column that says source")
        return export_votes(file, study.votes(), pool, raw=raw)
    exported = export_judgements(file, judgements_of(study, *rule), pool, with_random=with_random, raw=raw)
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
