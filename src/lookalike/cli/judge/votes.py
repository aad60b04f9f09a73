"""`lookalike judge export` and `import`: votes out and in."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import JSON, RAW, SMOOTHING, STUDY, check_raw, check_smoothing
from lookalike.cli.outputs import Output
from lookalike.cli.studies import open_judged, read_votes, write_export
from lookalike.cli.terminal import print_json, tables
from lookalike.core.errors import InputError

__all__ = ["export", "import_votes"]


def export(
    folder: STUDY,
    file: Annotated[Path, Parameter(help="every vote: .csv or .parquet; or judgements: .qrels or .json"), Output()],
    /,
    *,
    rule: Annotated[
        Literal["majority", "unanimous", "dawid-skene"] | None,
        Parameter(help="how votes become judgements: majority by default"),
    ] = None,
    smoothing: SMOOTHING = None,
    raw: RAW = False,
    as_json: JSON = False,
) -> None:
    """Write every vote with its expert, or the judgements that a rule makes of them.

    Example: lookalike judge export shop votes.csv

    Example: lookalike judge export shop judged.qrels --rule unanimous
    """
    what = {".csv": "votes", ".parquet": "votes", ".qrels": "judgements", ".json": "judgements"}.get(file.suffix)
    if what is None:
        raise InputError(f"cannot write {file}: votes go to .csv or .parquet, judgements to .qrels or .json")
    if what == "votes" and rule is not None:
        raise InputError("--rule is for judgements, .qrels or .json: votes are written as they are")
    check_raw(raw, file)
    check_smoothing(smoothing, rule)
    n = write_export(open_judged(folder), what, file, rule or "majority", raw=raw, smoothing=smoothing)
    if as_json:
        print_json({"file": str(file), "what": what, "rows": n})
    else:
        tables().print(f"wrote {n:,} {what} to {file}")


def import_votes(
    folder: STUDY,
    file: Annotated[
        Path, Parameter(help="votes, .csv or .parquet; or judgements: .qrels, .csv or .json, with --expert")
    ],
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
