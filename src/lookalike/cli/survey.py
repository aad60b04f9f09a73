"""`lookalike report` of a study."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.studies import judgements_of, open_judged, write_result
from lookalike.cli.terminal import print_json, progress, prose, remark, say_how_to_open, table, tables
from lookalike.evaluation.results import shown, without_nan

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

    opened = open_judged(folder)
    if not opened.models():
        raise ValueError(
            f"the study has no model yet: lookalike study add {folder} NAME FILE, or make one of a folder of images "
            "with lookalike encode"
        )
    with progress():
        found = survey(opened, near=near, hashers=chosen, seed=seed)
        judged = _judged(opened, seed) if len(opened.votes()) else None
    everything: dict[str, Any] = {"survey": found.to_dict()}
    if judged is not None:
        everything["leaderboard"] = judged.board.to_dict()
        if judged.loo is not None:
            everything["leaderboard"]["leave_one_out"] = judged.loo.rows()
    for name, part in everything.items():
        write_result(opened, f"{name}.json", json.dumps(without_nan(part), indent=1, allow_nan=False) + "\n")
    write_collection(output, found, opened, judged)
    if as_json:
        print_json(everything | {"report": str(output)})
        return
    _show_survey(found)
    if judged is not None:
        tables().print(f"\n{judged.board.text(warnings=False)}")
        for warning in judged.board.warnings:
            remark(warning)
    say_how_to_open(output)


def _judged(opened: "Study", seed: int) -> "JudgedStudy":
    from lookalike import discovery
    from lookalike.report.collection import JudgedStudy

    judgements = judgements_of(opened, "majority")
    pool = opened.pool() if opened.pool_path.exists() else None
    models = {name: opened.model(name).given for name in opened.models()}
    board = discovery.leaderboard(models, judgements, opened.collection, pool=pool, seed=seed)
    several = pool is not None and len(pool.models) > 1
    loo = discovery.leave_one_out(board.contest, pool) if several and pool is not None else None
    return JudgedStudy(board, pool, loo, opened.votes(), judgements)


def limits(near: str | None) -> dict[str, float]:
    """Up to which two items are near-duplicates, by model."""
    found = {}
    for part in re.split(r"[,\s]+", (near or "").strip()):
        if part:
            model, _, value = part.rpartition("=")
            try:
                found[model] = float(value)
            except ValueError:
                raise ValueError(f'--near must be like "phash=6 dino=0.97", got {near!r}') from None
            if not model:
                raise ValueError(f'--near must be like "phash=6 dino=0.97", got {near!r}')
    return found


def _show_survey(found: "Survey") -> None:
    say = prose().print
    say(f"{found.title}: {len(found.ids):,} items, {len(found.models)} models\n")
    if found.skipped:
        say(f"{len(found.skipped):,} files of the folder were left out\n")
    near = table(
        ("near-duplicates", ""), ("groups", ""), ("from", ""), ("nearest of different label", ""), first="model"
    )
    for name, alike in found.alike.items():
        first = alike.near.pairs[0].distance if alike.near.pairs else None
        near.add_row(
            name,
            f"{alike.near.grouped:,}",
            f"{len(alike.near.groups):,}",
            f"{alike.near.limit:.4g} ({alike.unit})",
            "–" if first is None else f"{first:.4g}",
        )
    if found.alike:
        tables().print(near)
    for retrieval in found.retrieval:
        metrics = retrieval.metrics
        rows = table(*((metric.label, "") for metric in metrics), first=f"\nsame {retrieval.label}")
        for model in retrieval.ranking():
            rows.add_row(model, *(shown(retrieval.evaluations[model][metric].mean) for metric in metrics))
        tables().print(rows)
    _show_tradeoff(found)
    for part, why in found.missing.items():
        say(f"\nnot measured: {part}: {why}")


def _show_tradeoff(found: "Survey") -> None:
    if found.tradeoff is None:
        return
    k = found.tradeoff.k
    columns = ("bits", "bytes", f"of the {k} nearest", *(["AP"] if found.tradeoff.label else []), "queries/s")
    rows = table(*((name, "") for name in columns), first=f"\n{found.tradeoff.model} as")
    for option in found.tradeoff.options:
        rows.add_row(
            option.name,
            "–" if option.n_bits is None else str(option.n_bits),
            f"{option.bytes:,}",
            shown(option.agreement),
            *([shown(option.quality)] if found.tradeoff.label else []),
            f"{option.per_second:,.0f}",
        )
    tables().print(rows)
    for name, why in found.tradeoff.left_out:
        prose().print(f"\nleft out: {name}: {why}")
