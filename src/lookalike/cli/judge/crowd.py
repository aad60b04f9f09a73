"""Practice and the open link of `lookalike judge`; `lookalike judge admit` and `experts`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookalike.cli.judge.links import NAMES, check_expert
from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import FLAT, JSON, RAW, STUDY
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, remark, tables
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.discovery import Scale
    from lookalike.judging.store.participants import Participants
    from lookalike.judging.store.practice import Practice
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study

PRACTICE = Annotated[
    Path | None,
    Parameter(help="pairs to practise on first, .csv with the columns query, item, answer, why; 'none' ends that"),
]
PASS = Annotated[
    float | None, Parameter(name="--pass", help="the share of the practice that must be right: as before, or 0.8")
]

__all__ = [
    "CROWD",
    "NOTHING_SAID",
    "PASS",
    "PRACTICE",
    "CrowdOptions",
    "admit",
    "experts",
    "say_participants",
    "set_crowd",
    "set_practice_of",
]


@dataclass(frozen=True)
class CrowdOptions:
    """What anybody is offered who has the open link."""

    open_link: Annotated[
        str | None, Parameter(help="anybody with the link may judge, and sees this code at the end; 'none' closes it")
    ] = None
    pairs_each: Annotated[int | None, Parameter(help="pairs of each person with the open link: as before, or 30")] = (
        None
    )
    most_experts: Annotated[int | None, Parameter(help="people by the open link, at most: as before, or 100")] = None
    screen: Annotated[
        float | None,
        Parameter(help="share of a person's first gold pairs that must be right; 0 ends that: as before, or none"),
    ] = None
    screen_after: Annotated[int | None, Parameter(help="gold pairs to screen by: as before, or 5")] = None
    screened_code: Annotated[
        str | None, Parameter(help="the code for who was screened out; 'none': no code, as it is at first")
    ] = None


CROWD = Annotated[CrowdOptions, FLAT]
NOTHING_SAID = CrowdOptions()


def set_practice_of(store: "Store", study: "Study", file: Path | None, share: float | None) -> None:
    """Ask experts for practice, as the options say; what they do not say stays."""
    from lookalike.judging.store.practice import Practice, practice_of, set_practice

    before = practice_of(store)
    if file is None and share is None:
        return
    if file is not None and str(file) == "none":
        set_practice(store, None)
        return
    if file is None and before is None:
        raise InputError("--pass belongs to --practice FILE, and the study has no practice yet")
    pairs = before.pairs if file is None and before is not None else _read_practice(study, file or Path())
    practice = Practice(pairs, share if share is not None else before.share if before is not None else 0.8)
    _check_pairs(study, practice, str(file or "the practice"))
    set_practice(store, practice)


def _read_practice(study: "Study", file: Path) -> Any:
    """The pairs of a file, with their answers and reasons."""
    from lookalike.core.csv_files import read_csv
    from lookalike.judging.store.practice import WHY, PracticePair

    table, scale = read_csv(file, ("query", "item", "answer", "why")), study.scale
    pairs, lines = [], dict[tuple[str, str], int]()
    columns = (table.columns[name] for name in ("query", "item", "answer", "why"))
    for line, query, item, answer, why in zip(table.lines, *columns, strict=True):
        where = f"{file}, line {line}"
        for kind, name, ids in (("query", query, study.queries), ("item", item, study.catalogue)):
            if name not in ids:
                raise FileError(f"{where}: there is no {kind} {name!r} in the study", path=file, line=line)
        if (query, item) in lines:
            raise FileError(f"{where}: the pair of line {lines[query, item]} again", path=file, line=line)
        if query == item:
            raise FileError(f"{where}: a pair of a query with itself, {query!r}", path=file, line=line)
        if not 0 < len(why.strip()) <= WHY:
            raise FileError(f"{where}: 'why' is a sentence of 1 to {WHY} letters", path=file, line=line)
        lines[query, item] = line
        pairs.append(PracticePair(query, item, _grade(answer, scale, where, file, line), why.strip()))
    return tuple(pairs)


def _grade(text: str, scale: "Scale", where: str, file: Path, line: int) -> int:
    """An answer in words or as a grade."""
    from lookalike.discovery.scale import plain_words

    word = plain_words(text)
    for grade, words in enumerate(scale.words):
        if word in (plain_words(words), str(grade)):
            return grade
    listed = ", ".join(f"{words} ({grade})" for grade, words in enumerate(scale.words))
    raise FileError(
        f"{where}: the answer of a practice pair is one of {listed}, got {text!r:.80}", path=file, line=line
    )


def _check_pairs(study: "Study", practice: "Practice", where: str) -> None:
    """Refuse gold pairs, and say it where experts are told the answer to pairs that they judge later."""
    gold = study.gold()
    pairs = [(pair.query, pair.item) for pair in practice.pairs]
    both = [pair for pair in pairs if gold is not None and pair in gold.by_pair]
    if both:
        raise InputError(
            f"{where}: query {both[0][0]!r} and item {both[0][1]!r} are a gold pair, and experts would be told its "
            "answer: practise on other pairs"
        )
    pool = set(study.pool().pairs)
    if n := sum(pair in pool for pair in pairs):
        remark(f"{n} of {len(pairs)} practice pairs are in the pool: experts know their answers when they judge them")


def set_crowd(store: "Store", options: CrowdOptions) -> None:
    """Open the link, close it, or change what it offers, as the options say; what they do not say stays."""
    from lookalike.judging.store.crowd import close_crowd, crowd_link, crowd_terms, open_crowd
    from lookalike.judging.store.gates import CrowdTerms

    given = {name: value for name, value in asdict(options).items() if value is not None}
    if not given:
        return
    if given.get("open_link") == "none":
        close_crowd(store)
        return
    before: CrowdTerms | None = crowd_terms(store)
    code = given.pop("open_link", None)
    if code is None and (before is None or crowd_link(store) is None):
        raise InputError(
            f"--{min(given).replace('_', '-')} belongs to --open-link CODE, which says that anybody may judge"
        )
    terms = {} if before is None else asdict(before)
    terms |= given | ({"code": code} if code is not None else {})
    if terms.get("screen") == 0:
        terms["screen"] = None
    if terms.get("screened_code") == "none":
        terms["screened_code"] = None
    open_crowd(store, CrowdTerms(**terms))


def say_participants(people: "Participants") -> None:
    """Print what there is to know of practice and of the crowd; nothing where there is neither."""
    say = tables().print
    if people.practice is not None:
        passed = sum(one.how == "passed" for one in people.practisers.values())
        n, waiting = len(people.practice.pairs), people.waiting
        say(f"practice of {n} pairs: {passed:,} passed, {len(waiting):,} below the score")
        for one in waiting[:20]:
            say(f"{one.expert} waits: {one.right} of {one.asked} right in round {one.rounds} of the practice")
    if people.terms is not None:
        is_open = "open" if people.link is not None else "closed"
        say(
            f"open link ({is_open}): {len(people.members):,} of at most {people.terms.most_experts:,} people, "
            f"{people.terms.pairs_each:,} pairs each, {people.completed:,} completed"
        )
    if people.screened:
        names = ", ".join(people.screened[:5]) + (", …" if len(people.screened) > 5 else "")
        say(f"screened out, so that their votes do not count: {len(people.screened):,} ({names})")


def admit(folder: STUDY, names: NAMES, /, *, as_json: JSON = False) -> None:
    """Let experts begin who have not passed the practice, or count the votes of who was screened out.

    Example: lookalike judge admit shop bob
    """
    from lookalike.study.study import Study

    study = Study.open(folder)
    needs_packages()
    from lookalike.judging.store.crowd import admit as admit_expert

    with open_store(study) as store:
        for name in names:
            check_expert(store, name)
        done = [admit_expert(store, name) for name in names]
    if as_json:
        print_json({"admitted": list(names)})
    else:
        tables().print("\n".join(done))


def experts(
    folder: STUDY,
    file: Annotated[Path, Parameter(help="a .csv file"), Output(ending=".csv")],
    /,
    *,
    raw: RAW = False,
    as_json: JSON = False,
) -> None:
    """Write a row for each expert: participant of a platform, pairs judged, gold pairs, practice, how it ended.

    Example: lookalike judge experts shop experts.csv
    """
    from lookalike.core.csv_files import write_csv
    from lookalike.study.study import Study

    study = Study.open(folder)
    needs_packages()
    from lookalike.judging.store.participants import EXPERT_COLUMNS, expert_rows

    with open_store(study) as store:
        rows = expert_rows(store, study)
    write_csv(file, {name: [row[name] for row in rows] for name in EXPERT_COLUMNS}, raw=raw)
    if as_json:
        print_json({"file": str(file), "experts": len(rows)})
    else:
        tables().print(f"wrote {len(rows):,} experts to {file}")
