"""The tables of Barkan et al. 2023 as `lookalike leaderboard` makes and shows them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.studies import open_judged
from lookalike.cli.terminal import progress, tables, tell
from lookalike.core.errors import StudyError
from lookalike.core.figures import without_nan
from lookalike.core.tables.table import ResultTable

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Leaderboard, Pool
    from lookalike.study.study import Study

__all__ = ["Wanted", "not_judged", "recognise_alone", "show_tables", "with_tables"]


@dataclass(frozen=True)
class Wanted:
    """Which tables are asked for. page: a page is written, which shows identification wherever there is something."""

    identification: bool = False
    paper_tables: bool = False
    page: bool = False


def with_tables(
    board: "Leaderboard",
    models: Mapping[str, Any],
    judgements: "Judgements",
    pool: "Pool | None",
    wanted: Wanted,
    options: Mapping[str, Any],
) -> "Leaderboard":
    """The same leaderboard with the tables that are asked for."""
    from lookalike import discovery
    from lookalike.discovery.recognition import why_no_recognition

    collection = board.contest.collection
    recognised = paper = None
    if wanted.identification or (wanted.page and not why_no_recognition(collection)):
        some = {name: options[name] for name in ("resamples", "seed", "threads") if name in options}
        recognised = discovery.recognition(models, collection, **some)
    if wanted.paper_tables:
        paper = discovery.paper_tables(models, judgements, collection, pool=pool, **options)
    return replace(board, recognised=recognised, paper=paper)


def show_tables(board: "Leaderboard", wanted: Wanted) -> None:
    """Print the tables that were asked for; not those that a page alone shows."""
    for part, asked in ((board.recognised, wanted.identification), (board.paper, wanted.paper_tables)):
        if asked:
            tables().print(f"\n{part}")


def not_judged(folder: Path) -> "Study | None":
    """The study, if nobody has voted in it yet."""
    study = open_judged(folder)
    return None if len(study.votes()) else study


def recognise_alone(study: "Study", output: Path | None, report: Path | None, printed: str, **options: Any) -> None:
    """Compare the models of a study that nobody judged by identification alone, which needs no votes."""
    from lookalike import discovery
    from lookalike.core.files import provenance, write_text

    if report is not None:
        raise StudyError("a page of the leaderboard needs votes, and the study has none yet: leave out --report")
    models = {name: study.model(name).given for name in study.models()}
    if not models:
        raise StudyError(f"the study has no model yet: lookalike study add {study.path} NAME FILE")
    with progress():
        recognised = discovery.recognition(models, study.collection, **options)
    facts = provenance("identification", **recognised.to_dict())
    if output is not None:
        write_text(output, json.dumps(without_nan(facts), indent=1, allow_nan=False) + "\n")
    tell(
        printed,
        lambda: facts,
        lambda: [ResultTable.of_rows(recognised.rows())],
        lambda: tables().print(f"{recognised}\nthe study has no votes yet, so this is all"),
    )
