"""`lookalike evaluate --engine`: the search of a database, measured."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from lookalike.cli.terminal import each_note_once, print_json, progress, table, tables
from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from lookalike.cli.evaluate import _Asked
    from lookalike.evaluation.item_files import Items
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
    options: EngineOptions, asked: "_Asked", output: Path | None, *, unfit: bool, threads: int | None, as_json: bool
) -> None:
    """Evaluate what a database answers, and show it. unfit: whether options are given that do not go with it."""
    if options.engine is None:
        raise InputError("--engine-k and --engine-option are for --engine: pass the address of a database")
    if unfit:
        raise InputError(
            "--engine goes without GALLERY, --run, --qrels, --curve, --interval, --dask, --partials, --unlisted and "
            "--ties: the gallery is the table of the database"
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
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result)


def _measured(options: EngineOptions, asked: "_Asked", threads: int | None) -> "EngineEvaluation":
    """Read the queries and the table, and ask the database for every query."""
    from lookalike.evaluation.item_files import relevance_between
    from lookalike.integrations.databases import open_database
    from lookalike.integrations.databases.collect import collect, share_words
    from lookalike.integrations.databases.measure import measure_engine

    source = open_database(options.engine or "")
    if source is None:
        raise InputError("--engine must be the address of a database: pgvector://…, lancedb:… or qdrant:…")
    queries, query_words = _queries(asked)
    source.check_query(queries.vectors)
    gallery = collect(source, asked.labels[1]).at_level(asked.level)
    words = None if asked.labels[1] else source.about.get("tags")
    queries, gallery = share_words(queries, query_words, gallery, words)
    relevance = relevance_between(
        queries, gallery, next(iter(asked.by_kind)), ", or name the column of labels, such as &label=class"
    )
    with source.searching(asked.similarity, options.settings) as search:
        return measure_engine(
            search, queries, gallery, relevance, options.engine_k, metrics=asked.metrics, exclude=asked.exclude,
            threads=threads,
            **asked.policies,
        )  # fmt: skip


def _queries(asked: "_Asked") -> "tuple[Items, tuple[str, ...] | None]":
    """The queries, of a file or of a table, and the words of their tags where they are words."""
    from lookalike.evaluation.item_files import read_items
    from lookalike.integrations.databases import open_database
    from lookalike.integrations.databases.collect import collect

    source = open_database(str(asked.queries))
    if source is None:
        return read_items(asked.queries, asked.labels[0], zero=asked.zero).at_level(asked.level), None
    return collect(source, asked.labels[0]).at_level(asked.level), None if asked.labels[0] else source.about.get("tags")


def _show(result: "EngineEvaluation") -> None:
    """Print a table with a row for each metric, and the recall and the speed."""
    from lookalike.evaluation.results import shown

    rows = table(("engine", "bold"), ("exact", ""), ("best", ""), ("worst", ""), ("undefined", ""), first="metric")
    for metric, score in result.exact.scores.items():
        engine = shown(result.scores[metric].mean) if metric in result.scores else "–"
        rows.add_row(metric.label, engine, *map(shown, (score.mean, score.best, score.worst)), str(score.undefined))
    k, (p50, p99) = result.answers.k, result.latency
    console = tables()
    console.print(rows)
    console.print(result.exact.basis)
    console.print(
        f"engine: {result.engine}, in the order of its first {k} answers; exact: all items, over all orders of ties"
    )
    if len(result.scores) < len(result.exact.scores):
        console.print(
            f"–: {k} answers do not tell; such a metric needs a cutoff of at most {k}, or a larger --engine-k"
        )
    console.print(
        f"recall@{k}: {result.recall.mean:.4f}, where an item counts that is as near as the exact {k}-th; "
        f"{result.recall.naive:.4f} by ids, which blames the engine for its order of ties"
    )
    console.print(f"time of a query: p50 {p50:.2f} ms, p99 {p99:.2f} ms, one after the other")
