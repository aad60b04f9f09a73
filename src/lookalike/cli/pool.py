"""`lookalike pool`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.options import JSON, RAW, SEED, STUDY, check_raw
from lookalike.cli.outputs import Output
from lookalike.cli.studies import open_judged, release_again
from lookalike.cli.terminal import print_json, progress, remark, table, tables

if TYPE_CHECKING:
    from lookalike.discovery import Pool
    from lookalike.study.study import Study

K = 6  # items that each model proposes for a query
MANY = 200  # queries, from which on it is said how to have fewer
SECONDS = 15.0  # that judging a pair takes (Barkan et al. 2023)

__all__ = ["pool"]


def pool(
    folder: STUDY,
    /,
    *,
    k: Annotated[int | None, Parameter(help=f"how many items each model proposes for a query ({K})")] = None,
    random: Annotated[int, Parameter(help="pairs to draw by chance, for estimating how many positives there are")] = 0,
    one_per_identity: Annotated[bool, Parameter(help="propose only the best image of an identity")] = False,
    models: Annotated[str | None, Parameter(help="names of the models to pool; by default all of the study")] = None,
    top_up: Annotated[
        str | None, Parameter(help="add this model to the pool, and list what of it nobody judged")
    ] = None,
    next_pairs: Annotated[
        int | None, Parameter(name="--next", help="list the next so many pairs to judge of the pool as it is")
    ] = None,
    order: Annotated[Literal["depth", "adaptive"], Parameter(help="of the pairs that --next lists")] = "depth",
    seconds: Annotated[float, Parameter(help="that judging a pair takes, for the cost")] = SECONDS,
    output: Annotated[
        Path | None, Parameter(help="write the pairs to judge to this .csv or .parquet file"), Output()
    ] = None,
    raw: RAW = False,
    replace: Annotated[bool, Parameter(help="pool anew, in place of a pool that has been voted on")] = False,
    threads: Annotated[int | None, Parameter(help="how many threads to use; all cores by default")] = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Pool what the models of a study propose, and show how much they overlap and what judging costs.

    Example: lookalike pool shop --k 6 --random 2000

    Example: lookalike pool shop --next 500 --order adaptive --output next.csv

    Example: lookalike pool shop --top-up new-model --output top-up.csv
    """
    from lookalike.discovery import Pool
    from lookalike.discovery.prevalence import cost

    made_anew = {"--k": k is not None, "--random": random != 0, "--one-per-identity": one_per_identity}
    made_anew |= {"--models": models is not None, "--seconds": seconds != SECONDS, "--replace": replace}
    _check_options(
        [name for name, given in {**made_anew, "--seed": seed != 0}.items() if given], top_up, next_pairs, order
    )
    if output is not None and output.suffix not in (".csv", ".parquet"):
        raise ValueError(f"cannot write pairs to {output}: the name must end in .csv or .parquet")
    check_raw(raw, output)
    cost(1, seconds)  # refused before anything is written
    opened = open_judged(folder)
    if top_up is not None or next_pairs is not None:
        with progress():
            found, rows = _to_judge(opened, top_up, next_pairs, order, threads)
        if top_up is not None:
            release_again(opened)
        _list(found, rows, output, raw, as_json)
        return
    k = K if k is None else k
    names = models.replace(",", " ").split() if models else opened.models()
    if not names:
        raise ValueError(f"the study has no model yet: lookalike study add {folder} NAME FILE")
    if opened.pool_path.exists() and len(opened.votes()) and not replace:
        raise ValueError(
            f"the study has a pool with {len(opened.votes()):,} votes, and its record of who proposed what would be "
            "lost: add a model with --top-up NAME, or pass --replace"
        )
    with progress():
        made = Pool.build(
            {name: opened.model(name).given for name in names}, opened.collection, k=k, random=random, seed=seed,
            one_per_identity=one_per_identity, threads=threads,
        )  # fmt: skip
    opened.write_pool(made)
    release_again(opened)
    if output is not None:
        made.write_pairs(output, raw=raw)
    if as_json:
        facts: dict[str, Any] = {"pairs": len(made), "suspects": made.suspects, "all_pairs": made.all_pairs}
        facts |= {"duplication": made.duplication, "saving": made.saving}
        print_json({**facts, "k": k, "models": made.rows(), "total_seconds": len(made) * seconds})
        return
    console = tables()
    console.print(str(made))
    console.print(f"judging takes {cost(len(made), seconds)} an expert at {seconds:g} seconds a pair")
    n = len(opened.queries)
    if n >= MANY and not opened.wild and n == len(opened.catalogue):
        again = f"remove {opened.pool_path}, lookalike study queries {folder} --draw N, and pool again"
        console.print(f"All {n:,} items are queries: to judge fewer pairs, {again}")
    by_file = f"lookalike pool {folder} --next N --output FILE and lookalike study votes {folder} FILE"
    in_browser = f"lookalike judge {folder} --expert NAME, or " if opened.catalogue.paths is not None else ""
    console.print(f"Next: {in_browser}{by_file}")


def _check_options(made_anew: list[str], top_up: str | None, next_pairs: int | None, order: str) -> None:
    """Raise for options that say how to make a pool where one is only taken from, and for an order of nothing."""
    if top_up is not None and next_pairs is not None:
        raise ValueError("pass either --top-up or --next")
    if made_anew and (top_up is not None or next_pairs is not None):
        way = "--next" if top_up is None else "--top-up"
        raise ValueError(f"{way} takes the pool as it was made: leave out {', '.join(made_anew)}, for making one anew")
    if order != "depth" and next_pairs is None:
        raise ValueError(f"--order {order} is of the pairs that --next lists: pass --next N with it")


def _to_judge(
    opened: "Study", top_up: str | None, n: int | None, order: str, threads: int | None
) -> tuple["Pool", Any]:
    """The pool and the rows of it that are to be judged next."""
    import numpy as np

    from lookalike.discovery import next_pairs
    from lookalike.discovery.dawid_skene import RULES

    record = opened.votes()
    found = opened.pool() if top_up is None else opened.top_up(top_up, threads=threads)
    known = RULES["majority"](record).by_pair if len(record) else {}
    asked = set(record.pairs)  # what nobody could decide is not asked again
    grades = np.array([known.get(pair, 0 if pair in asked else -1) for pair in found.pairs])
    if n is not None:
        return found, next_pairs(found, grades, n, order)
    return found, np.flatnonzero((grades < 0) & found.proposed[:, found.models.index(str(top_up))])


def _list(found: "Pool", rows: Any, output: Path | None, raw: bool, as_json: bool) -> None:
    everything = found.pairs
    pairs = [everything[row] for row in rows]
    if output is not None:
        found.write_pairs(output, rows, raw=raw)
    if as_json:
        print_json([{"query": query, "item": item} for query, item in pairs])
    elif output is None:
        shown = table(("item", ""), first="query")
        for query, item in pairs:
            shown.add_row(query, item)
        tables().print(shown)
    remark(f"{len(pairs):,} pairs to judge" + (f", in {output}" if output is not None else ""))
