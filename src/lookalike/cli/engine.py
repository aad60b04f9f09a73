"""`lookalike evaluate --engine`: the search of a database, measured."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from lookalike.cli.terminal import each_note_once, progress, rich_table, tables, tell
from lookalike.core.errors import InputError
from lookalike.core.tables.table import ResultTable, TableCell, TableHead

if TYPE_CHECKING:
    from lookalike.cli.evaluate import _Asked
    from lookalike.integrations.databases.measure import EngineEvaluation

logger = logging.getLogger("lookalike")

__all__ = ["EngineOptions", "evaluate_engine"]


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """What is asked of a database's own search."""

    engine: Annotated[
        str | None,
        Parameter(
            help="ask this database for the nearest items, in place of GALLERY: "
            "pgvector://USER:PASSWORD@HOST/DATABASE?table=TABLE, lancedb:FOLDER/TABLE, qdrant://HOST:6333/COLLECTION; "
            "columns are named as &vector=emb&id=sku&label=class (docs/guide/databases.md)"
        ),
    ] = None
    engine_k: Annotated[
        int, Parameter(help="--engine: how many items to ask for", validator=validators.Number(gte=1))
    ] = 10
    engine_option: Annotated[
        tuple[str, ...],
        Parameter(
            help="--engine: a setting of its search, such as hnsw.ef_search=40; may be given again",
            negative=(),
            show_default=False,
        ),
    ] = ()

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the search, by their names."""
        settings = {}
        for text in self.engine_option:
            name, equals, value = text.partition("=")
            if not (name and equals and value):
                raise InputError(f"--engine-option must be like hnsw.ef_search=40, got {text!r}")
            settings[name] = value
        return settings


def evaluate_engine(
    options: EngineOptions, asked: "_Asked", output: Path | None, unfit: bool, threads: int | None, form: str
) -> None:
    """Evaluate what a database answers, and show it. unfit: whether options are given that do not go with it."""
    if options.engine is None:
        raise InputError("--engine-k and --engine-option are for --engine: pass the address of a database")
    if unfit:
        raise InputError(
            "--engine goes without GALLERY, --run, --qrels, --curve, --interval, --dask, --partials, --group, "
            "--unlisted and --ties: the gallery is the table of the database"
        )
    if asked.queries is None:
        raise InputError("pass the file of the QUERIES that the database is asked for")
    if len(asked.by_kind) > 1:
        raise InputError("--engine takes one kind of relevance: pass one --relevance for all metrics")
    with each_note_once(), progress():
        result = _measured(options, asked, threads)
        for note in result.notes:
            logger.warning("%s", note)
    if output is not None:
        from lookalike.core.figures import without_nan
        from lookalike.core.files import write_text

        write_text(output, json.dumps(without_nan(result.to_dict()), indent=1, allow_nan=False) + "\n")
    rows = _table(result)
    tell(form, result.to_dict, lambda: [rows], lambda: _show(rows))


def _measured(options: EngineOptions, asked: "_Asked", threads: int | None) -> "EngineEvaluation":
    """Read the queries and the table, and ask the database for every query."""
    from lookalike.evaluation.item_files import items_of, relevance_between
    from lookalike.integrations.databases import open_database
    from lookalike.integrations.databases.measure import measure_engine

    source = open_database(options.engine or "", asked.columns)
    if source is None:
        raise InputError("--engine must be the address of a database: pgvector://…, lancedb:… or qdrant:…")
    queries = asked.read(0)
    source.check_query(queries.vectors)
    gallery = items_of(source, asked.columns, asked.labels[1]).at_level(asked.level)
    relevance = relevance_between(
        queries, gallery, next(iter(asked.by_kind)), ", or name the column of labels, such as &label=class"
    )
    with source.searching(asked.similarity, options.settings) as search:
        return measure_engine(
            search,
            queries,
            gallery,
            relevance,
            options.engine_k,
            metrics=asked.metrics,
            exclude="self" if asked.exclude_self else None,
            by=queries.by,
            threads=threads,
            **asked.policies,
        )


def _table(result: "EngineEvaluation") -> ResultTable:
    """A row for each metric: of the engine's answers, and exact."""
    heads = [TableHead("engine", main=True), *map(TableHead, ("exact", "best", "worst", "undefined"))]
    rows = [
        [
            metric.label,
            TableCell(result.scores[metric].mean) if metric in result.scores else TableCell(None, "–"),
            *(score.mean, score.best, score.worst, score.undefined),
        ]
        for metric, score in result.exact.scores.items()
    ]
    k, (p50, p99) = result.answers.k, result.latency
    notes = [
        result.exact.basis,
        f"engine: {result.engine}, in the order of its first {k} answers; exact: all items, over all orders of ties",
    ]
    if len(result.scores) < len(result.exact.scores):
        notes.append(f"–: {k} answers do not tell; such a metric needs a cutoff of at most {k}, or a larger --engine-k")
    notes.append(
        f"recall@{k}: {result.recall.mean:.4f}, where an item counts that is as near as the exact {k}-th; "
        f"{result.recall.naive:.4f} by ids, which blames the engine for its order of ties"
    )
    notes.append(f"time of a query: p50 {p50:.2f} ms, p99 {p99:.2f} ms, one after the other")
    return ResultTable.of(["metric", *heads], rows, notes=tuple(notes))


def _show(rows: ResultTable) -> None:
    """Print a table with a row for each metric, and the recall and the speed."""
    console = tables()
    console.print(rich_table(rows))
    for note in rows.notes:
        console.print(note)
