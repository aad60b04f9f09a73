"""`lookalike report` of a study."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.paper_tables import Wanted, with_tables
from lookalike.cli.studies import judgements_of, open_judged, write_result
from lookalike.cli.terminal import print_json, progress, prose, remark, say_how_to_open, table, tables
from lookalike.core.errors import InputError, StudyError
from lookalike.core.figures import shown, without_nan

if TYPE_CHECKING:
    from lookalike.hashers import Hasher
    from lookalike.report.collection import JudgedStudy
    from lookalike.study.study import Study
    from lookalike.study.survey import Survey

STUDY_LENGTHS = "32 64 128"

__all__ = ["STUDY_LENGTHS", "limits", "report_study"]


def report_study(
    folder: Path,
    output: Path,
    chosen: list[tuple[str, "Hasher"]] | None,
    near: dict[str, float],
    seed: int,
    as_json: bool,
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
        judged = _judged(study, seed) if len(study.votes()) else None
    everything: dict[str, Any] = {"survey": surveyed.to_dict()}
    if judged is not None:
        everything["leaderboard"] = judged.board.to_dict()
        if judged.loo is not None:
            everything["leaderboard"]["leave_one_out"] = judged.loo.rows()
    for name, part in everything.items():
        write_result(study, f"{name}.json", json.dumps(without_nan(part), indent=1, allow_nan=False) + "\n")
    write_collection(output, surveyed, study, judged)
    if as_json:
        print_json(everything | {"report": str(output)})
        return
    _show_survey(surveyed)
    if judged is not None:
        tables().print(f"\n{judged.board.text(warnings=False)}")
        for warning in judged.board.warnings:
            remark(warning)
    say_how_to_open(output)


def _judged(study: "Study", seed: int) -> "JudgedStudy":
    """The leaderboard of a study, and what it is made of."""
    from lookalike import discovery
    from lookalike.report.collection import JudgedStudy

    judgements = judgements_of(study, "majority")
    pool = study.pool() if study.pool_path.exists() else None
    models = {name: study.model(name).given for name in study.models()}
    board = discovery.leaderboard(models, judgements, study.collection, pool=pool, seed=seed)
    board = with_tables(board, models, judgements, pool, Wanted(page=True), {"seed": seed})
    several = pool is not None and len(pool.models) > 1
    loo = discovery.leave_one_out(board.contest, pool) if several and pool is not None else None
    return JudgedStudy(board, pool, loo, study.votes(), judgements)


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


def _show_survey(surveyed: "Survey") -> None:
    """Print near-duplicates, retrieval and what shorter codes cost, as tables."""
    say = prose().print
    say(f"{surveyed.title}: {len(surveyed.ids):,} items, {len(surveyed.models)} models\n")
    if surveyed.skipped:
        say(f"{len(surveyed.skipped):,} files of the folder were left out\n")
    near = table(
        ("near-duplicates", ""), ("groups", ""), ("from", ""), ("nearest of different label", ""), first="model"
    )
    for name, alike in surveyed.alike.items():
        first = alike.near.pairs[0].distance if alike.near.pairs else None
        near.add_row(
            name,
            f"{alike.near.grouped:,}",
            f"{len(alike.near.groups):,}",
            f"{alike.near.limit:.4g} ({alike.unit})",
            "–" if first is None else f"{first:.4g}",
        )
    if surveyed.alike:
        tables().print(near)
    for retrieval in surveyed.retrieval:
        metrics = retrieval.metrics
        rows = table(*((metric.label, "") for metric in metrics), first=f"\nsame {retrieval.label}")
        for model in retrieval.ranking():
            rows.add_row(model, *(shown(retrieval.evaluations[model][metric].mean) for metric in metrics))
        tables().print(rows)
    _show_tradeoff(surveyed)
    for part, why in surveyed.missing.items():
        say(f"\nnot measured: {part}: {why}")


def _show_tradeoff(surveyed: "Survey") -> None:
    """Print what shorter codes cost, as a table."""
    if surveyed.tradeoff is None:
        return
    k = surveyed.tradeoff.k
    columns = ("bits", "bytes", f"of the {k} nearest", *(["AP"] if surveyed.tradeoff.label else []), "queries/s")
    rows = table(*((name, "") for name in columns), first=f"\n{surveyed.tradeoff.model} as")
    for option in surveyed.tradeoff.options:
        rows.add_row(
            option.name,
            "–" if option.n_bits is None else str(option.n_bits),
            f"{option.bytes:,}",
            shown(option.agreement),
            *([shown(option.quality)] if surveyed.tradeoff.label else []),
            f"{option.per_second:,.0f}",
        )
    tables().print(rows)
    for name, why in surveyed.tradeoff.left_out:
        prose().print(f"\nleft out: {name}: {why}")
