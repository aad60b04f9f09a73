"""`lookalike pool`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.options import FORMAT, JSON, RAW, SEED, STUDY, THREADS, check_raw, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.studies import open_judged, release_again
from lookalike.cli.terminal import progress, remark, rich_table, tables, tell
from lookalike.core.endings import TABLES, either
from lookalike.core.errors import InputError, StudyError
from lookalike.core.tables.table import ResultTable, TableHead

if TYPE_CHECKING:
    from lookalike.discovery import Pool
    from lookalike.study.study import Study

K = 6  # items that each model proposes for a query
MANY = 200  # queries, from which on it is said how to have fewer
RISK_OF_ERROR = 0.05  # that the estimated share of positives is off by more than was promised
SECONDS = 15.0  # that judging a pair takes (Barkan et al. 2023)

DEPTH = Annotated[int | None, Parameter(help=f"how many items each model proposes for a query ({K})")]
RANDOM = Annotated[int, Parameter(help="pairs to draw by chance, for estimating how many positives there are")]
ERROR = Annotated[
    float | None,
    Parameter(
        help="in place of --random: draw enough pairs to estimate a share of positives below this to within this, by "
        "Chebyshev's inequality"
    ),
]
RISK = Annotated[float, Parameter(help="how likely the estimate may be off by --error or more")]
ONE_PER_IDENTITY = Annotated[bool, Parameter(help="propose only the best image of an identity")]
MODELS = Annotated[str | None, Parameter(help="names of the models to pool; by default all of the study")]
TOP_UP = Annotated[str | None, Parameter(help="add this model to the pool, and list what of it nobody judged")]
NEXT = Annotated[int | None, Parameter(name="--next", help="list the next so many pairs to judge of the pool as it is")]
ORDER = Annotated[Literal["depth", "adaptive"], Parameter(help="of the pairs that --next lists")]
PACE = Annotated[float, Parameter(help="that judging a pair takes, for the cost")]
OUTPUT = Annotated[Path | None, Parameter(help=f"write the pairs to judge to this {either(TABLES)} file"), Output()]
REPLACE = Annotated[bool, Parameter(help="pool anew, in place of a pool that has been voted on")]

__all__ = ["pool"]


def pool(
    folder: STUDY,
    /,
    *,
    k: DEPTH = None,
    random: RANDOM = 0,
    error: ERROR = None,
    risk: RISK = RISK_OF_ERROR,
    one_per_identity: ONE_PER_IDENTITY = False,
    models: MODELS = None,
    top_up: TOP_UP = None,
    next_pairs: NEXT = None,
    order: ORDER = "depth",
    seconds: PACE = SECONDS,
    output: OUTPUT = None,
    raw: RAW = False,
    replace: REPLACE = False,
    threads: THREADS = None,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Pool what the models of a study propose, and show how much they overlap and what judging costs.

    Example: lookalike pool shop --k 6 --random 2000

    Example: lookalike pool shop --k 6 --error 0.01 --risk 0.05

    Example: lookalike pool shop --next 500 --order adaptive --output next.csv

    Example: lookalike pool shop --top-up new-model --output top-up.csv
    """
    from lookalike.discovery.prevalence import cost

    of_a_new_pool = {"--k": k is not None, "--random": random != 0, "--one-per-identity": one_per_identity}
    of_a_new_pool |= {"--models": models is not None, "--seconds": seconds != SECONDS, "--replace": replace}
    of_a_new_pool |= {"--seed": seed != 0, "--error": error is not None, "--risk": risk != RISK_OF_ERROR}
    _check_options([name for name, is_passed in of_a_new_pool.items() if is_passed], top_up, next_pairs, order)
    if output is not None and output.suffix not in TABLES:
        raise InputError(f"cannot write pairs to {output}: the name must end in {either(TABLES)}")
    check_raw(raw, output)
    cost(1, seconds)  # refused before anything is written
    study = open_judged(folder)
    if top_up is not None or next_pairs is not None:
        with progress():
            pooled, rows = _to_judge(study, top_up, next_pairs, order, threads)
        if top_up is not None:
            release_again(study)
        _list(pooled, rows, output, raw, chosen_format(form, as_json))
        return
    names = _models(study, folder, models)
    _check_votes(study, replace)
    random = _pairs_by_chance(study, random, error, risk)
    options = {"k": K if k is None else k, "random": random, "seed": seed, "one_per_identity": one_per_identity}
    pooled = _build(study, names, options | {"threads": threads})
    if output is not None:
        pooled.write_pairs(output, raw=raw)
    printed, told = chosen_format(form, as_json), (pooled, seconds, risk)
    tell(printed, lambda: _facts(*told), lambda: [_table(pooled)], lambda: _show(study, folder, *told))


def _models(study: "Study", folder: Path, models: str | None) -> list[str]:
    """The names of the models to pool."""
    names = models.replace(",", " ").split() if models else study.models()
    if not names:
        raise StudyError(f"the study has no model yet: lookalike study add {folder} NAME FILE")
    return names


def _check_votes(study: "Study", replace: bool) -> None:
    """Raise where a new pool would take the place of one that experts voted on."""
    if study.pool_path.exists() and len(study.votes()) and not replace:
        raise StudyError(
            f"the study has a pool with {len(study.votes()):,} votes, and its record of who proposed what would be "
            "lost: add a model with --top-up NAME, or pass --replace"
        )


def _build(study: "Study", names: list[str], options: dict[str, Any]) -> "Pool":
    """Pool what these models propose, and keep the pool in the study."""
    from lookalike.discovery import Pool

    with progress():
        pooled = Pool.build({name: study.model(name).given for name in names}, study.collection, **options)
    study.write_pool(pooled)
    release_again(study)
    return pooled


def _pairs_by_chance(study: "Study", random: int, error: float | None, risk: float) -> int:
    """How many pairs to draw: as many as was said, or as Chebyshev's inequality asks for."""
    from lookalike.discovery.pool import possible_pairs
    from lookalike.discovery.prevalence import chebyshev_error, chebyshev_size

    chebyshev_error(random, risk)  # a risk that is none is refused
    if error is None:
        return random
    if random:
        raise InputError("pass either --random, a number of pairs, or --error, which says how many")
    size, possible = chebyshev_size(error, risk), possible_pairs(study.collection)
    if size > possible:
        raise InputError(
            f"--error {error:g} at --risk {risk:g} takes {size:,} pairs drawn by chance, more than the {possible:,} "
            "that there are: pass a larger error or risk"
        )
    return size


def _table(pooled: "Pool") -> ResultTable:
    """A row for each model: how many pairs it proposed, and the share of them that each other model proposed."""
    return ResultTable.of_rows(pooled.rows(), notes=(str(pooled).split("\n")[0],))


def _facts(pooled: "Pool", seconds: float, risk: float) -> dict[str, Any]:
    """What is in the pool, for JSON."""
    from lookalike.discovery.prevalence import chebyshev_error

    facts: dict[str, Any] = {"pairs": len(pooled), "suspects": pooled.suspects, "all_pairs": pooled.all_pairs}
    facts |= {"duplication": pooled.duplication, "saving": pooled.saving}
    if drawn := int(pooled.random.sum()):
        facts["chebyshev"] = {"random": drawn, "risk": risk, "error": chebyshev_error(drawn, risk)}
    return {**facts, "k": pooled.k, "models": pooled.rows(), "total_seconds": len(pooled) * seconds}


def _promise(drawn: int, risk: float) -> str:
    """What Chebyshev's inequality says of pairs drawn by chance, before any is judged."""
    from lookalike.discovery.prevalence import chebyshev_error

    error = chebyshev_error(drawn, risk)
    if error >= 1:
        return (
            f"{drawn:,} pairs drawn by chance are too few for Chebyshev's inequality to promise anything: --error says "
            "how many are enough"
        )
    return (
        f"by Chebyshev's inequality {drawn:,} pairs drawn by chance estimate a share of positives below {error:.3g} to "
        f"within {error:.3g}, except with a probability of {risk:.3g}"
    )


def _show(study: "Study", folder: Path, pooled: "Pool", seconds: float, risk: float) -> None:
    """Print the pool, what judging costs, and what to do next."""
    from lookalike.discovery.prevalence import cost

    say = tables().print
    say(str(pooled))
    say(f"judging takes {cost(len(pooled), seconds)} an expert at {seconds:g} seconds a pair")
    if pooled.random.any():
        say(_promise(int(pooled.random.sum()), risk))
    n = len(study.queries)
    if n >= MANY and not study.wild and n == len(study.catalogue):
        again = f"remove {study.pool_path}, lookalike study queries {folder} --draw N, and pool again"
        say(f"All {n:,} items are queries: to judge fewer pairs, {again}")
    by_file = f"lookalike pool {folder} --next N --output FILE and lookalike study votes {folder} FILE"
    in_browser = f"lookalike judge {folder} --expert NAME, or " if study.catalogue.paths is not None else ""
    say(f"Next: {in_browser}{by_file}")


def _check_options(of_a_new_pool: list[str], top_up: str | None, next_pairs: int | None, order: str) -> None:
    """Raise for options of a new pool where one is only read, and for an order of nothing."""
    if top_up is not None and next_pairs is not None:
        raise InputError("pass either --top-up or --next")
    if of_a_new_pool and (top_up is not None or next_pairs is not None):
        way, listed = "--next" if top_up is None else "--top-up", ", ".join(of_a_new_pool)
        raise InputError(f"{way} takes the pool as it was made: leave out {listed}, for making one anew")
    if order != "depth" and next_pairs is None:
        raise InputError(f"--order {order} is of the pairs that --next lists: pass --next N with it")


def _to_judge(study: "Study", top_up: str | None, n: int | None, order: str, threads: int | None) -> tuple["Pool", Any]:
    """The pool, and the rows of it to judge next."""
    import numpy as np

    from lookalike.discovery import next_pairs
    from lookalike.discovery.rules import judge_by

    votes = study.counted_votes()
    pooled = study.pool() if top_up is None else study.top_up(top_up, threads=threads)
    judged = judge_by(None, votes).binary.by_pair if len(votes) else {}
    asked = set(votes.pairs)  # what nobody could decide is not asked again
    grades = np.array([judged.get(pair, 0 if pair in asked else -1) for pair in pooled.pairs])
    if n is not None:
        return pooled, next_pairs(pooled, grades, n, order)
    return pooled, np.flatnonzero((grades < 0) & pooled.proposed[:, pooled.models.index(str(top_up))])


def _list(pooled: "Pool", chosen: Any, output: Path | None, raw: bool, printed: str) -> None:
    """Print the pairs to judge, or write them to a file."""
    every_pair = pooled.pairs
    pairs = [every_pair[row] for row in chosen]
    if output is not None:
        pooled.write_pairs(output, chosen, raw=raw)
    rows = [{"query": query, "item": item} for query, item in pairs]
    listed = ResultTable.of(["query", TableHead("item")], pairs)

    def show() -> None:
        if output is None:
            tables().print(rich_table(listed))

    tell(printed, lambda: rows, lambda: [listed], show)
    remark(f"{len(pairs):,} pairs to judge" + (f", in {output}" if output is not None else ""))
