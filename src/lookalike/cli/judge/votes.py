"""`lookalike judge export` and `import`: votes out and in."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lookalike.cli.counted import CountOptions, HowToJudge
from lookalike.cli.judge.machines import read_with_machines
from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import FLAT, JSON, RANDOM_TOO, RAW, REL, RULE, SMOOTHING, STUDY, check_raw, check_smoothing
from lookalike.cli.outputs import Output
from lookalike.cli.studies import open_judged, write_export
from lookalike.cli.terminal import print_json, tables
from lookalike.core.endings import JUDGEMENT_FILES, TABLES, either
from lookalike.core.errors import InputError

OF_JUDGEMENTS = (".qrels", ".json")  # in tables this command writes votes

__all__ = ["export", "import_votes"]


def export(
    folder: STUDY,
    file: Annotated[
        Path, Parameter(help=f"every vote: {either(TABLES)}; or judgements: {either(OF_JUDGEMENTS)}"), Output()
    ],
    /,
    *,
    rule: RULE = None,
    smoothing: SMOOTHING = None,
    rel: REL = None,
    with_random: RANDOM_TOO = False,
    counting: Annotated[CountOptions, FLAT] = CountOptions(),  # noqa: B008  # it never changes
    notes: Annotated[bool, Parameter(negative=(), help="write the notes and flags of experts instead")] = False,
    verdicts: Annotated[bool, Parameter(negative=(), help="write the organiser's verdicts instead")] = False,
    raw: RAW = False,
    as_json: JSON = False,
) -> None:
    """Write every vote with its expert, or the judgements that a rule makes of them; or notes, or verdicts.

    Example: lookalike judge export shop votes.csv

    Example: lookalike judge export shop judged.qrels --rule unanimous

    Example: lookalike judge export shop notes.csv --notes
    """
    what = "votes" if file.suffix in TABLES else "judgements"
    if notes or verdicts:
        what = _of_beside(file, notes, verdicts, counting)
    if file.suffix not in (*TABLES, *OF_JUDGEMENTS):
        raise InputError(
            f"cannot write {file}: votes go to {either(TABLES)}, judgements to {either(OF_JUDGEMENTS)} "
            "(lookalike study export writes judgements to other files too)"
        )
    for option, value in (("--rule", rule), ("--rel", rel)):
        if what != "judgements" and value is not None:
            raise InputError(f"{option} is for judgements, {either(OF_JUDGEMENTS)}: {what} are written as they are")
    check_raw(raw, file)
    check_smoothing(smoothing, rule)
    how, study = HowToJudge(rule, smoothing, rel), open_judged(folder)
    exported = write_export(study, what, file, how, with_random=with_random, raw=raw, counting=counting)
    if as_json:
        print_json({"file": str(file), "what": what, **exported._asdict()})
    else:
        tables().print(f"wrote {exported.rows:,} {what} to {file}")


def _of_beside(file: Path, notes: bool, verdicts: bool, counting: CountOptions) -> str:
    """What is written that stands beside the votes; raises where the options do not go together."""
    if notes and verdicts:
        raise InputError("--notes and --verdicts go to files of their own: pass one of them")
    what = "notes" if notes else "verdicts"
    if file.suffix not in TABLES:
        raise InputError(f"cannot write {file}: {what} go to {either(TABLES)}")
    if counting.without_flagged:
        raise InputError(f"--without-flagged is for votes and judgements: all {what} are written")
    return what


def import_votes(
    folder: STUDY,
    file: Annotated[Path, Parameter(help=f"votes, {either(TABLES)}; or with --expert judgements, {JUDGEMENT_FILES}")],
    /,
    *,
    expert: Annotated[str | None, Parameter(help="whose judgements these are, where the file does not say")] = None,
    add_experts: Annotated[bool, Parameter(help="let experts judge here whom the study does not know yet")] = False,
    as_machine: Annotated[
        str | None,
        Parameter(help="the name of a machine whose answers these are: columns query, item, answer, and why"),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Add votes that were made elsewhere, all or none; those that are there already are not added again.

    Votes of a machine take no seat, and count nowhere unless asked: only its agreement with people is shown.

    Example: lookalike judge import shop votes.csv --add-experts

    Example: lookalike judge import shop answers.csv --as-machine some-model
    """
    from lookalike.study.study import Study

    if as_machine is not None and (expert is not None or add_experts):
        raise InputError("--as-machine names whose votes these are: leave --expert and --add-experts out")
    study = Study.open(folder)
    needs_packages()
    from lookalike.judging.store.machine_votes import import_with_machines

    people, machines = read_with_machines(study, file, expert, as_machine)
    with open_store(study) as store:
        imported = import_with_machines(store, study, people, machines, add_experts=add_experts)
    if as_json:
        print_json(asdict(imported))
        return
    beyond = f"; {imported.beyond:,} are on pairs that had enough experts, and count too" if imported.beyond else ""
    tables().print(f"{imported.added:,} votes were added, {imported.known:,} were there already{beyond}")
