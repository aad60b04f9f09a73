"""`lookalike judge export` and `import`: votes out and in."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import JSON, RANDOM_TOO, RAW, REL, RULE, SMOOTHING, STUDY, check_raw, check_smoothing
from lookalike.cli.outputs import Output
from lookalike.cli.studies import HowToJudge, open_judged, read_votes, write_export
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
    raw: RAW = False,
    as_json: JSON = False,
) -> None:
    """Write every vote with its expert, or the judgements that a rule makes of them.

    Example: lookalike judge export shop votes.csv

    Example: lookalike judge export shop judged.qrels --rule unanimous
    """
    what = "votes" if file.suffix in TABLES else "judgements"
    if file.suffix not in (*TABLES, *OF_JUDGEMENTS):
        raise InputError(
            f"cannot write {file}: votes go to {either(TABLES)}, judgements to {either(OF_JUDGEMENTS)} "
            "(lookalike study export writes judgements to other files too)"
        )
    for option, value in (("--rule", rule), ("--rel", rel)):
        if what == "votes" and value is not None:
            raise InputError(f"{option} is for judgements, {either(OF_JUDGEMENTS)}: votes are written as they are")
    check_raw(raw, file)
    check_smoothing(smoothing, rule)
    how = HowToJudge(rule, smoothing, rel)
    exported = write_export(open_judged(folder), what, file, how, with_random=with_random, raw=raw)
    if as_json:
        print_json({"file": str(file), "what": what, **exported._asdict()})
    else:
        tables().print(f"wrote {exported.rows:,} {what} to {file}")


def import_votes(
    folder: STUDY,
    file: Annotated[Path, Parameter(help=f"votes, {either(TABLES)}; or with --expert judgements, {JUDGEMENT_FILES}")],
    /,
    *,
    expert: Annotated[str | None, Parameter(help="whose judgements these are, where the file does not say")] = None,
    add_experts: Annotated[bool, Parameter(help="let experts judge here whom the study does not know yet")] = False,
    as_json: JSON = False,
) -> None:
    """Add votes that were made elsewhere, all or none; those that are there already are not added again.

    Example: lookalike judge import shop votes.csv --add-experts
    """
    from lookalike.study.study import Study

    study = Study.open(folder)
    needs_packages()
    votes = read_votes(study, file, expert)
    with open_store(study) as store:
        imported = store.import_votes(votes, add_experts=add_experts)
    if as_json:
        print_json(asdict(imported))
        return
    beyond = f"; {imported.beyond:,} are on pairs that had enough experts, and count too" if imported.beyond else ""
    tables().print(f"{imported.added:,} votes were added, {imported.known:,} were there already{beyond}")
