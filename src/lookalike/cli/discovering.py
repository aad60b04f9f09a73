"""`lookalike pool` and `lookalike leaderboard`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.outputs import Output
from lookalike.cli.studies import (
    RAW,
    RULE,
    STUDY,
    check_raw,
    judgements_of,
    open_judged,
    release_again,
    write_result,
)
from lookalike.cli.terminal import JSON, SEED, print_json, progress, remark, say_how_to_open, table, tables
from lookalike.core.files import write_text
from lookalike.evaluation.results import without_nan

if TYPE_CHECKING:
    from lookalike.discovery import Agreement, Collection, Coverage, Judgements, Leaderboard, Pool
    from lookalike.study.study import Study

K = 6  # items that each model proposes for a query
MANY = 200  # queries, from which on it is said how to have fewer
SECONDS = 15.0  # that judging a pair takes (Barkan et al. 2023)

__all__ = ["leaderboard", "pool"]


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


def leaderboard(
    folder: Annotated[Path | None, Parameter(help="the folder of the study")] = None,
    /,
    *,
    run: Annotated[
        list[str] | None, Parameter(help="in place of a study: a TREC run, NAME=FILE; may be given several times")
    ] = None,
    qrels: Annotated[Path | None, Parameter(help="the judgements of the runs: .qrels, .csv, .parquet or .json")] = None,
    rule: RULE = "majority",
    metrics: Annotated[
        str | None, Parameter(help="names; by default hit rates, reciprocal ranks, areas and guards")
    ] = None,
    level: Annotated[
        Literal["image", "product"], Parameter(help="what a judgement is about: one image, or all of its identity")
    ] = "image",
    one_per_identity: Annotated[
        bool | None, Parameter(help="metrics of ranks see only the best image of an identity; by default as the pool")
    ] = None,
    negatives: Annotated[int, Parameter(help="unjudged items of each query to sample as negatives")] = 100,
    leave_one_out: Annotated[
        bool | None,
        Parameter(
            help="drop what each model alone proposed and evaluate AUC, or --metrics, again; by default with --report"
        ),
    ] = None,
    rules: Annotated[bool, Parameter(help="also show the order of models under the other rules")] = False,
    compare: Annotated[
        str | None, Parameter(help="a metric by which every pair of models is compared, such as AUC")
    ] = None,
    resamples: Annotated[int, Parameter(help="of the bootstrap behind the intervals")] = 1000,
    output: Annotated[Path | None, Parameter(help="also write everything to this .json file"), Output()] = None,
    report: Annotated[Path | None, Parameter(help="also write a page to look at, .html"), Output(".html")] = None,
    threads: Annotated[int | None, Parameter(help="how many threads to use; all cores by default")] = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Compare the models of a study on its judged pairs, and say how far each number can be trusted.

    Example: lookalike leaderboard shop --leave-one-out --report shop.html

    Example: lookalike leaderboard --qrels judged.qrels --run bm25=bm25.run --run dense=dense.run.gz
    """
    from lookalike import discovery
    from lookalike.discovery.leaderboard import OWN_OUT
    from lookalike.metrics.metric import Metric, parse_all

    wanted = None if metrics is None else parse_all(metrics)
    by = None if compare is None else Metric.parse(compare)
    opened, models, collection, judgements, pooled = _contestants(folder, run, qrels, rule)
    if by is not None:  # what is compared is measured too
        wanted = wanted or discovery.discovery_metrics(pooled.k if pooled is not None else min(5, collection.n_items))
        wanted = list(dict.fromkeys([*wanted, by]))
    if leave_one_out is None:
        leave_one_out = report is not None and pooled is not None and len(pooled.models) > 1
    if leave_one_out and pooled is None:
        raise ValueError("--leave-one-out needs a pool, which knows who proposed what: lookalike pool STUDY")
    if rules and opened is None:
        raise ValueError("--rules needs the votes of a study")
    with progress():
        board = discovery.leaderboard(
            models, judgements, collection, pool=pooled, metrics=wanted, level=level, negatives=negatives,
            one_per_identity=one_per_identity, resamples=resamples, seed=seed, threads=threads,
        )  # fmt: skip
        left_out = None
        if leave_one_out and pooled is not None:
            asked = OWN_OUT if metrics is None else parse_all(metrics)
            left_out = discovery.leave_one_out(board.contest, pooled, asked)
        by_rule = (
            discovery.by_rule(board.contest, opened.votes(), pool=pooled) if rules and opened is not None else None
        )
        compared = board.compare(by) if by is not None else None
    covered, agreed = (None, None) if opened is None else _votes_in_figures(opened, pooled)
    parts: dict[str, Any] = {
        "leave_one_out": left_out and left_out.rows(),
        "comparison": compared and compared.rows(),
        "rules": None if by_rule is None else {name: other.rows() for name, other in by_rule.items()},
        "coverage": covered and covered.to_dict(),
        "agreement": agreed and agreed.to_dict(),
    }
    everything = board.to_dict() | {name: part for name, part in parts.items() if part is not None}
    text = json.dumps(without_nan(everything), indent=1, allow_nan=False) + "\n"
    if output is not None:
        write_text(output, text)
    if opened is not None:
        write_result(opened, "leaderboard.json", text)
    if report is not None:
        from lookalike.report.leaderboard import write_leaderboard

        write_leaderboard(
            report, board, title=opened.name if opened else "Leaderboard", pool=pooled, loo=left_out, study=opened,
            votes=opened.votes() if opened else None, judgements=judgements,
        )  # fmt: skip
    if as_json:
        print_json(everything)
        return
    say = tables().print
    say(board.text(warnings=False))
    if left_out is not None:
        say(f"\nwithout the pairs that only one model proposed\n{left_out}")
    if by_rule is not None:
        say("\nAUC by rule, and how far the order of models agrees with the majority's (Kendall's tau)")
        say(_rules_table(by_rule))
    if compared is not None:
        say(f"\n{compared}")
    if agreed is not None:
        say("\n" + "\n".join(str(part) for part in (agreed, covered) if part is not None))
    for warning in board.warnings:
        remark(warning)
    if report is not None:
        say_how_to_open(report)


def _votes_in_figures(opened: "Study", pooled: "Pool | None") -> tuple["Coverage | None", "Agreement"]:
    """How much of the pool is judged, and how far experts agree."""
    from lookalike.discovery import agreement, coverage

    votes = opened.votes()
    return coverage(votes, pooled) if pooled is not None else None, agreement(votes, opened.gold())


def _rules_table(by_rule: dict[str, "Leaderboard"]) -> Any:
    from lookalike.discovery.bias import agree

    values = {name: [found["AUC"].mean for found in board.evaluations.values()] for name, board in by_rule.items()}
    made = table(*((name, "") for name in by_rule["majority"].evaluations), ("Kendall", ""), first="rule")
    for name, means in values.items():
        tau = agree(values["majority"], means)[2]
        made.add_row(name, *(f"{value:.4f}" for value in means), f"{tau:.3f}")
    return made


def _contestants(
    folder: Path | None, run: list[str] | None, qrels: Path | None, rule: str
) -> tuple["Study | None", dict[str, Any], "Collection", "Judgements", "Pool | None"]:
    """Models, the collection, judgements and the pool: of a study, or of runs and qrels."""
    from lookalike.discovery import Collection, Judgements
    from lookalike.discovery.formats import read_judgements
    from lookalike.evaluation.trec import read_run

    if (folder is None) == (run is None and qrels is None):
        raise ValueError("pass a study, or --run and --qrels")
    if folder is not None:
        opened = open_judged(folder)
        models = {name: opened.model(name).given for name in opened.models()}
        if not models:
            raise ValueError(f"the study has no model yet: lookalike study add {folder} NAME FILE")
        pooled = opened.pool() if opened.pool_path.exists() else None
        return opened, models, opened.collection, judgements_of(opened, rule), pooled
    if not run or qrels is None:
        raise ValueError("--run and --qrels belong together: pass both")
    if rule != "majority":
        raise ValueError(f"--rule {rule} makes judgements of the votes of a study, and --qrels are judgements already")
    runs: dict[str, Any] = {}
    for text in run:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise ValueError(f"a run is given as NAME=FILE, got {text!r}")
        if name in runs:
            raise ValueError(f"there are two runs named {name!r}: names must differ")
        runs[name] = read_run(path)
    judgements = Judgements.of(read_judgements(qrels))
    queries = dict.fromkeys(judgements.queries.tolist())
    runs = {name: {q: ranked for q, ranked in found.items() if q in queries} for name, found in runs.items()}
    items = dict.fromkeys(judgements.items.tolist())
    items |= dict.fromkeys(item for found in runs.values() for ranked in found.values() for item in ranked)
    for name, found in runs.items():
        if not found:
            raise ValueError(
                f"the run {name!r} ranks nothing for any of the judged queries: are these the right files?"
            )
    return None, runs, Collection(list(queries), list(items)), judgements, None
