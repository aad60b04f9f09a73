"""Studies and their votes, as several commands use them."""

from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.cli.terminal import remark

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Votes
    from lookalike.study.study import Study

__all__ = [
    "judgements_of",
    "keep_gold",
    "known_ids",
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

    opened = Study.open(folder)
    if remembered_database(opened) is not None:
        from lookalike.judging.store.store import Store, StoreAwayError, StoreFullError

        try:
            with Store.open(None, opened, patience=3.0) as store:
                store.copy_votes(opened)
        except (StoreAwayError, StoreFullError) as error:
            remark(f"{error}; this goes on with the votes that were copied before")
    return opened


def write_result(opened: "Study", name: str, text: str) -> None:
    """Keep a result in a study; where that may only be read, say so and go on."""
    if opened.can_change:
        opened.write_result(name, text)
    else:
        remark(f"{opened.path} can only be read: this result is not kept as results/{name}")


def release_again(opened: "Study") -> None:
    """Let experts who judge have what a changed pool proposes; nothing, where nobody does."""
    if not (opened.path / "judging").is_dir():
        return
    from lookalike.judging.store.store import Store, StoreAwayError, StoreFullError

    try:
        with Store.open(None, opened, patience=3.0) as store:
            store.release_again()
    except (StoreAwayError, StoreFullError) as error:
        remark(f"{error}; experts get the new pairs when lookalike judge is started again")


def judgements_of(opened: "Study", rule: str) -> "Judgements":
    """What a rule makes of the votes of a study."""
    from lookalike.discovery.dawid_skene import RULES

    record = opened.votes()
    if not len(record):
        name = opened.path.name
        raise ValueError(
            f"the study {opened.name!r} has no votes yet: lookalike judge {name} --expert NAME lets people judge in "
            f"the browser, lookalike study votes {name} FILE adds what they said elsewhere"
        )
    return RULES[rule](record)


def read_votes(opened: "Study", file: Path, expert: str | None) -> "Votes":
    """Votes of a file, or its judgements as votes of one expert, on queries and items of the study."""
    from lookalike.discovery import Judgements, Votes
    from lookalike.discovery.formats import read_judgements

    known = known_ids(opened)
    if expert is None:
        record = Votes.read(file)
        _check_known(file, record, known)
    else:
        given = Judgements.of(read_judgements(file, **known))
        record = Votes(given.queries, given.items, [expert] * len(given), (given.grades > 0).astype(int))
    opened.check_pairs(record.queries, record.items, "voted")
    return record


def keep_gold(opened: "Study", file: Path) -> int:
    """Keep the judgements of a file as gold pairs; how many."""
    from lookalike.discovery.formats import read_judgements

    pairs = read_judgements(file, **known_ids(opened))
    opened.set_gold(pairs)
    return len(pairs)


def write_export(opened: "Study", what: str, file: Path, rule: str, *, raw: bool) -> int:
    """Write votes, or the judgements that a rule makes of them, to a file; how many."""
    from lookalike.discovery.formats import write_judgements

    if what == "votes":
        votes = opened.votes()
        votes.write(file, raw=raw)
        return len(votes)
    found = judgements_of(opened, rule)
    write_judgements(file, found.queries, found.items, found.grades, raw=raw)
    return len(found)


def known_ids(opened: "Study") -> dict[str, set[str]]:
    """The ids of the queries and of the items of a study."""
    return {"queries": set(opened.queries.ids.tolist()), "items": set(opened.catalogue.ids.tolist())}


def _check_known(file: Path, record: "Votes", known: dict[str, set[str]]) -> None:
    """Raise for a vote on a query or an item that the study does not have, with its line."""
    from lookalike.core.csv_files import read_csv

    for kind, ids, there in (("query", record.queries, known["queries"]), ("item", record.items, known["items"])):
        for row, name in enumerate(ids.tolist()):
            if name not in there:
                where = f"line {read_csv(file, []).lines[row]}" if file.suffix == ".csv" else f"row {row}"
                raise ValueError(f"{file}, {where}: there is no {kind} {name!r} in the study")
