"""`lookalike leaderboard`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.options import JSON, RULE, SEED
from lookalike.cli.outputs import Output
from lookalike.cli.studies import judgements_of, open_judged, write_result
from lookalike.cli.terminal import print_json, progress, remark, say_how_to_open, table, tables
from lookalike.core.files import write_text
from lookalike.evaluation.results import without_nan

if TYPE_CHECKING:
    from lookalike.discovery import Agreement, Collection, Coverage, Judgements, Leaderboard, Pool
    from lookalike.study.study import Study

__all__ = ["leaderboard"]


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
        from lookalike.report.discovery import write_leaderboard

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
