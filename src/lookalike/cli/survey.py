"""`lookalike report` of a study."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.counted import HowToJudge
from lookalike.cli.paper_tables import Wanted, with_tables
from lookalike.cli.studies import judgements_of, open_judged, write_result
from lookalike.cli.terminal import progress, prose, remark, rich_table, say_how_to_open, tables, tell
from lookalike.core.errors import InputError, StudyError
from lookalike.core.figures import without_nan
from lookalike.core.tables.table import ResultTable, TableCell, TableHead

if TYPE_CHECKING:
    from lookalike.hashers import Hasher
    from lookalike.report.collection import JudgedStudy
    from lookalike.study.study import Study
    from lookalike.study.survey import Survey
    from lookalike.study.survey.retrieval import Retrieval
    from lookalike.study.survey.tradeoff import Tradeoff

STUDY_LENGTHS = "32 64 128"

__all__ = ["STUDY_LENGTHS", "limits", "report_study"]


def report_study(
    folder: Path,
    output: Path,
    chosen: list[tuple[str, "Hasher"]] | None,
    near: dict[str, float],
    seed: int,
    printed: str,
    how: HowToJudge,
) -> None:
    """Survey a study, and where experts voted, compare its models on what they said."""
    from lookalike.report.collection import write_collection
    from lookalike.study.survey import survey

    study = open_judged(folder)
    if not study.models():
        raise StudyError(
            f"the study has no model yet: lookalike study add {folder} NAME FILE, or make one of a folder of images "
            "with lookalike encode"
        )
    with progress():
        surveyed = survey(study, near=near, hashers=chosen, seed=seed)
        judged = _judged(study, seed, how) if len(study.counted_votes()) else None
    everything: dict[str, Any] = {"survey": surveyed.to_dict()}
    if judged is not None:
        everything["leaderboard"] = judged.board.to_dict()
        if judged.loo is not None:
            everything["leaderboard"]["leave_one_out"] = judged.loo.rows()
    for name, part in everything.items():
        write_result(study, f"{name}.json", json.dumps(without_nan(part), indent=1, allow_nan=False) + "\n")
    write_collection(output, surveyed, study, judged)

    def show() -> None:
        _show_survey(surveyed)
        if judged is not None:
            tables().print(f"\n{judged.board.text(warnings=False)}")
            for warning in judged.board.warnings:
                remark(warning)
        say_how_to_open(output)

    def in_tables() -> list[ResultTable]:
        of_survey = _survey_tables(surveyed)
        return of_survey if judged is None else [*of_survey, judged.board.to_table()]

    tell(printed, lambda: everything | {"report": str(output)}, in_tables, show)


def _judged(study: "Study", seed: int, how: HowToJudge) -> "JudgedStudy":
    """The leaderboard of a study, and what it is made of."""
    from lookalike import discovery
    from lookalike.report.collection import JudgedStudy

    judgements = judgements_of(study, how)
    pool = study.pool() if study.pool_path.exists() else None
    models = {name: study.model(name).given for name in study.models()}
    board = discovery.leaderboard(models, judgements, study.collection, pool=pool, seed=seed)
    board = with_tables(board, models, judgements, pool, Wanted(page=True), {"seed": seed})
    several = pool is not None and len(pool.models) > 1
    loo = discovery.leave_one_out(board.contest, pool) if several and pool is not None else None
    return JudgedStudy(board, pool, loo, study.counted_votes(), judgements)


def limits(near: str | None) -> dict[str, float]:
    """Up to which distance, or from which score on, two items are near-duplicates: by model."""
    by_model = {}
    for part in re.split(r"[,\s]+", (near or "").strip()):
        if part:
            model, _, value = part.rpartition("=")
            limit = _number(value)
            if limit is None or not model:
                raise InputError(f'--near must be like "phash=6 dino=0.97", got {near!r}')
            by_model[model] = limit
    return by_model


def _number(text: str) -> float | None:
    """A number; None if the text is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _survey_tables(surveyed: "Survey") -> list[ResultTable]:
    """Near-duplicates, models compared by each label, and what shorter codes cost, as far as they were measured."""
    found = [_near_table(surveyed)] if surveyed.alike or not surveyed.retrieval else []
    found += [_retrieval_table(retrieval) for retrieval in surveyed.retrieval]
    return found if surveyed.tradeoff is None else [*found, _tradeoff_table(surveyed.tradeoff)]


def _near_table(surveyed: "Survey") -> ResultTable:
    """A row for each model: how many near-duplicates it finds."""
    rows = []
    for name, alike in surveyed.alike.items():
        first = alike.near.pairs[0].distance if alike.near.pairs else None
        counts = (TableCell(n, f"{n:,}") for n in (alike.near.grouped, len(alike.near.groups)))
        limit = TableCell(alike.near.limit, f"{alike.near.limit:.4g} ({alike.unit})")
        rows.append([name, *counts, limit, TableCell(first, "–" if first is None else f"{first:.4g}")])
    heads = ("near-duplicates", "groups", "from", "nearest of different label")
    return ResultTable.of(["model", *map(TableHead, heads)], rows)


def _retrieval_table(retrieval: "Retrieval") -> ResultTable:
    """A row for each model, the best first: how well it finds items of the same label."""
    from lookalike.evaluation.result_tables import direction

    heads = [TableHead(metric.label, higher_is_better=direction(metric)) for metric in retrieval.metrics]
    rows = [
        [model, *(retrieval.evaluations[model][metric].mean for metric in retrieval.metrics)]
        for model in retrieval.ranking()
    ]
    return ResultTable.of([f"same {retrieval.label}", *heads], rows)


def _tradeoff_table(tradeoff: "Tradeoff") -> ResultTable:
    """A row for each way to keep a model: bits, bytes, and how well it searches."""
    rows = []
    for option in tradeoff.options:
        quality = [option.quality] if tradeoff.label else []
        bits = TableCell(option.n_bits, "–" if option.n_bits is None else None)
        size = TableCell(option.bytes, f"{option.bytes:,}")
        speed = TableCell(option.per_second, f"{option.per_second:,.0f}")
        rows.append([option.name, bits, size, option.agreement, *quality, speed])
    names = ("bits", "bytes", f"of the {tradeoff.k} nearest", *(["AP"] if tradeoff.label else []), "queries/s")
    return ResultTable.of([f"{tradeoff.model} as", *map(TableHead, names)], rows)


def _show_survey(surveyed: "Survey") -> None:
    """Print near-duplicates, retrieval and what shorter codes cost, as tables."""
    say = prose().print
    say(f"{surveyed.title}: {len(surveyed.ids):,} items, {len(surveyed.models)} models\n")
    if surveyed.skipped:
        say(f"{len(surveyed.skipped):,} files of the folder were left out\n")
    if surveyed.alike:
        tables().print(rich_table(_near_table(surveyed)))
    for retrieval in surveyed.retrieval:
        tables().print(rich_table(_retrieval_table(retrieval), title=f"\nsame {retrieval.label}"))
    if surveyed.tradeoff is not None:
        tables().print(rich_table(_tradeoff_table(surveyed.tradeoff), title=f"\n{surveyed.tradeoff.model} as"))
        for name, why in surveyed.tradeoff.left_out:
            prose().print(f"\nleft out: {name}: {why}")
    for part, why in surveyed.missing.items():
        say(f"\nnot measured: {part}: {why}")
