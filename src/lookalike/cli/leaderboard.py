"""`lookalike leaderboard`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.counted import CountedVotes, CountOptions, HowToJudge, counted_votes
from lookalike.cli.errors import spelling
from lookalike.cli.options import (
    FLAT,
    FORMAT,
    JSON,
    REL,
    RULE,
    SEED,
    SMOOTHING,
    THREADS,
    UNLISTED,
    check_smoothing,
    chosen_format,
)
from lookalike.cli.outputs import Output
from lookalike.cli.paper_tables import Wanted, not_judged, recognise_alone, show_tables, with_tables
from lookalike.cli.studies import open_judged, write_result
from lookalike.cli.terminal import progress, remark, say_how_to_open, table, tables, tell
from lookalike.core.endings import JUDGEMENT_FILES
from lookalike.core.errors import FileError, InputError, StudyError
from lookalike.core.figures import without_nan

if TYPE_CHECKING:
    from lookalike.core.tables.table import ResultTable
    from lookalike.discovery import Agreement, Collection, Coverage, Judgements, Leaderboard, Pool
    from lookalike.discovery.bias import LeaveOneOut
    from lookalike.discovery.machines import MachineAgreement
    from lookalike.discovery.rules import GoldScore
    from lookalike.metrics.metric import Metric
    from lookalike.study.study import Study

FOLDER = Annotated[Path | None, Parameter(help="the folder of the study")]
RUN = Annotated[
    list[str] | None, Parameter(help="in place of a study: a TREC run, NAME=FILE; may be given several times")
]
QRELS = Annotated[Path | None, Parameter(help=f"the judgements of the runs: {JUDGEMENT_FILES}")]
METRICS = Annotated[str | None, Parameter(help="names; by default hit rates, reciprocal ranks, areas and guards")]
LEVEL = Annotated[
    Literal["image", "product"], Parameter(help="what a judgement is about: one image, or all of its identity")
]
ONE_PER_IDENTITY = Annotated[
    bool | None, Parameter(help="metrics of ranks see only the best image of an identity; by default as the pool")
]
NEGATIVES = Annotated[int, Parameter(help="unjudged items of each query to sample as negatives")]
LEAVE_ONE_OUT = Annotated[
    bool | None,
    Parameter(
        help="drop what each model alone proposed and evaluate AUC, or --metrics, again; by default with --report"
    ),
]
WITH_RANDOM = Annotated[
    bool, Parameter(help="also count judged pairs that chance alone drew; they are there to estimate prevalence")
]
ALL = Annotated[bool, Parameter(name="--all", help="also show every metric, and what it does to models of the pool")]
P = Annotated[
    Literal["exact", "t"],
    Parameter(help="for --leave-one-out: the p-value of Spearman's coefficient: by all orders, or by Student's t"),
]
IDENTIFICATION = Annotated[
    bool,
    Parameter(
        negative=(),
        help="also show how well models find other images of the query's own identity; this needs no votes",
    ),
]
PAPER_TABLES = Annotated[
    bool, Parameter(negative=(), help="also show the models in the tables 4 to 8 of Barkan et al. 2023")
]
RULES = Annotated[
    bool, Parameter(help="also show the order of models under the other rules, and how each rule does on gold pairs")
]
COMPARE = Annotated[str | None, Parameter(help="a metric by which every pair of models is compared, such as AUC")]
RESAMPLES = Annotated[int, Parameter(help="of the bootstrap behind the intervals")]
COUNTING = Annotated[CountOptions, FLAT]
OUTPUT = Annotated[Path | None, Parameter(help="also write everything to this .json file"), Output()]
REPORT = Annotated[Path | None, Parameter(help="also write a page to look at, .html"), Output(".html")]

__all__ = ["leaderboard"]


def leaderboard(
    folder: FOLDER = None,
    /,
    *,
    run: RUN = None,
    qrels: QRELS = None,
    rule: RULE = None,
    smoothing: SMOOTHING = None,
    rel: REL = None,
    metrics: METRICS = None,
    level: LEVEL = "image",
    one_per_identity: ONE_PER_IDENTITY = None,
    negatives: NEGATIVES = 100,
    with_random: WITH_RANDOM = False,
    counting: COUNTING = CountOptions(),  # noqa: B008  # it never changes
    unlisted: UNLISTED = "below",
    leave_one_out: LEAVE_ONE_OUT = None,
    p: P = "exact",
    identification: IDENTIFICATION = False,
    paper_tables: PAPER_TABLES = False,
    rules: RULES = False,
    compare: COMPARE = None,
    all_metrics: ALL = False,
    resamples: RESAMPLES = 1000,
    output: OUTPUT = None,
    report: REPORT = None,
    threads: THREADS = None,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Compare the models of a study on its judged pairs, and say how far each number can be trusted.

    Example: lookalike leaderboard shop --leave-one-out --report shop.html

    Example: lookalike leaderboard --qrels judged.qrels --run bm25=bm25.run --run dense=dense.run.gz

    Example: lookalike leaderboard shop --paper-tables --output shop.json
    """
    from lookalike.metrics.metric import Metric, parse_all

    printed = chosen_format(form, as_json)
    chosen = None if metrics is None else parse_all(metrics)
    metric = None if compare is None else Metric.parse(compare)
    check_smoothing(smoothing, rule, rules=rules)
    if identification and folder is not None and (alone := not_judged(folder)) is not None:
        recognise_alone(alone, output, report, printed, resamples=resamples, seed=seed, threads=threads)
        return
    contest = _contest_of(folder, run, qrels, how := HowToJudge(rule, smoothing, rel), counting)
    _check_contest(contest, with_random=with_random, rules=rules)
    leaves_out = _leaves_one_out(leave_one_out, contest, report, p)
    checks = _Checks(chosen, metric, rules, how, leaves_out, p)
    wanted = Wanted(identification, paper_tables, report is not None)
    options: dict[str, Any] = {"level": level, "negatives": negatives, "with_random": with_random, "unlisted": unlisted}
    options |= {"one_per_identity": one_per_identity, "resamples": resamples, "seed": seed, "threads": threads}
    with progress():
        outcome = _compare_models(contest, checks, wanted, options)
    _write_files(contest, outcome, output, report)
    every_metric = all_metrics or metrics is not None
    tell(printed, outcome.facts, outcome.tables, lambda: _show(outcome, every_metric=every_metric, page=report))


@dataclass(frozen=True)
class _Contestants:
    """Models, and what they are compared by: those of a study, or runs and judgements."""

    models: Mapping[str, Any]
    collection: "Collection"
    judgements: "Judgements"
    pool: "Pool | None" = None
    study: "Study | None" = None
    counted: "CountedVotes | None" = None


def _check_contest(contest: _Contestants, *, with_random: bool, rules: bool) -> None:
    """Raise where what is asked for needs a pool or votes that are not there."""
    if with_random and contest.pool is None:
        raise InputError("--with-random needs a pool, which knows what chance drew: lookalike pool STUDY")
    if rules and contest.study is None:
        raise InputError("--rules needs the votes of a study")


@dataclass(frozen=True)
class _Checks:
    """What is asked: metrics (None for the usual ones), a metric to compare pairs of models by, and further checks."""

    metrics: "list[Metric] | None"
    compare: "Metric | None"
    rules: bool
    how: HowToJudge
    leave_one_out: bool | None  # None: where it can be
    p: str


@dataclass(frozen=True)
class _Outcome:
    """A leaderboard, and how far its numbers can be trusted."""

    board: "Leaderboard"
    without_own: "LeaveOneOut | None"
    by_rule: "dict[str, Leaderboard] | None"
    on_gold: "dict[str, GoldScore] | None"
    compared: Any
    coverage: "Coverage | None"
    agreement: "Agreement | None"
    machines: "MachineAgreement | None"
    wanted: Wanted
    counted: "CountedVotes | None"

    def facts(self) -> dict[str, Any]:
        """Everything, for other programs."""
        parts: dict[str, Any] = {
            "leave_one_out": self.without_own and self.without_own.rows(),
            "comparison": self.compared and self.compared.rows(),
            "rules": self.by_rule and {name: other.rows() for name, other in self.by_rule.items()},
            "rules_on_gold": self.on_gold
            and {name: {**vars(score), "accuracy": score.accuracy} for name, score in self.on_gold.items()},
            "coverage": self.coverage and self.coverage.to_dict(),
            "agreement": self.agreement and self.agreement.to_dict(),
            "machines": self.machines and self.machines.to_list(),
            **({} if self.counted is None else self.counted.facts()),
        }
        return self.board.to_dict() | {name: part for name, part in parts.items() if part is not None}

    def tables(self) -> "list[ResultTable]":
        """Every number of every model; and where they were compared, every pair."""
        return [self.board.to_table(), *([] if self.compared is None else [self.compared.to_table(pairs=True)])]


def _write_files(contest: _Contestants, outcome: _Outcome, output: Path | None, report: Path | None) -> None:
    """Write the numbers to a file and into the study, and the page, where asked for."""
    from lookalike.core.files import write_text

    text = json.dumps(without_nan(outcome.facts()), indent=1, allow_nan=False) + "\n"
    if output is not None:
        write_text(output, text)
    if contest.study is not None:
        write_result(contest.study, "leaderboard.json", text)
    if report is not None:
        _write_page(report, contest, outcome)


def _leaves_one_out(asked: bool | None, contest: _Contestants, report: Path | None, p: str) -> bool | None:
    """Whether models are compared without the pairs that each alone proposed; None: where a page can show it."""
    if asked is None and report is None:
        asked = False
    if p != "exact" and (asked is False or contest.pool is None):
        raise InputError(f"--p {p} is for --leave-one-out: pass that too")
    if asked and contest.pool is None:
        raise InputError("--leave-one-out needs a pool, which knows who proposed what: lookalike pool STUDY")
    return asked


def _compare_models(contest: _Contestants, checks: _Checks, wanted: Wanted, options: dict[str, Any]) -> _Outcome:
    """Make the leaderboard, and what else is asked."""
    from lookalike import discovery
    from lookalike.discovery.leaderboard import OWN_OUT

    pool, study, by = contest.pool, contest.study, checks.compare
    given = contest.models, contest.judgements, contest.collection
    asked = checks.metrics and [*checks.metrics, *([by] if by is not None else [])]
    board = discovery.leaderboard(*given, pool=pool, metrics=asked, **options)
    if by is not None and by not in board.metrics:  # what is compared is measured too, beside the usual metrics
        board = _with_metric(board, by, contest, options)
    board = with_tables(board, contest.models, contest.judgements, pool, wanted, options)
    without_own = by_rule = on_gold = coverage = agreement = machines = None
    leaves_out = checks.leave_one_out
    if leaves_out is None:  # nobody asked, but a page shows it where it can be
        leaves_out = pool is not None and len(board.contest.as_judged(pool).models) > 1
    if leaves_out and pool is not None:
        without_own = discovery.leave_one_out(board.contest, pool, checks.metrics or OWN_OUT, p=checks.p)
    compared = board.compare(by) if by is not None else None
    counted = contest.counted
    if study is not None and counted is not None:
        votes, gold, how = counted.votes, study.gold(), checks.how
        if checks.rules:
            smoothing: Any = "crowd" if how.smoothing is None else how.smoothing
            terms: dict[str, Any] = {"smoothing": smoothing, "rel": how.rel, "verdicts": counted.verdicts}
            by_rule = discovery.by_rule(board.contest, votes, pool=pool, **terms)
            on_gold = None if gold is None else discovery.gold_scores(votes, gold, **terms)
        coverage = discovery.coverage(votes, pool) if pool is not None else None
        agreement, machines = discovery.agreement(votes, gold, how.rel), counted.machine_agreement(gold, how.rel)
    return _Outcome(board, without_own, by_rule, on_gold, compared, coverage, agreement, machines, wanted, counted)


def _with_metric(board: "Leaderboard", by: "Metric", contest: _Contestants, options: dict[str, Any]) -> "Leaderboard":
    """The same leaderboard with one more metric; models rank again only if it looks deeper than they were ranked."""
    from lookalike import discovery
    from lookalike.discovery.leaderboard import board_of

    metrics = [*board.metrics, by]
    if by.cutoff is None or by.cutoff <= board.contest.depth:
        some = {name: options[name] for name in ("resamples", "seed")}
        return board_of(board.contest, metrics, contest.pool, **some)
    given = contest.models, contest.judgements, contest.collection
    return discovery.leaderboard(*given, pool=contest.pool, metrics=metrics, **options)


def _write_page(page: Path, contest: _Contestants, outcome: _Outcome) -> None:
    """Write the leaderboard as a page to look at."""
    from lookalike.report.leaderboard import write_leaderboard

    study = contest.study
    write_leaderboard(
        page,
        outcome.board,
        title=study.name if study else "Leaderboard",
        pool=contest.pool,
        loo=outcome.without_own,
        study=study,
        votes=contest.counted.votes if contest.counted else None,
        judgements=contest.judgements,
    )


def _show(outcome: _Outcome, *, every_metric: bool, page: Path | None) -> None:
    """Print the leaderboard and the checks, and warnings on standard error."""
    say = tables().print
    say(outcome.board.standing(spelling(leaderboard)))
    say(f"\n{outcome.board.table()}" if every_metric else "--all shows all other metrics")
    show_tables(outcome.board, outcome.wanted)
    if outcome.without_own is not None:
        say(f"\nwithout the pairs that only one model proposed\n{outcome.without_own}")
    if outcome.by_rule is not None:
        usual = next(iter(outcome.by_rule))
        say(f"\nAUC by rule, and how far the order of models agrees with the {usual}'s (Kendall's tau)")
        say(_rules_table(outcome.by_rule, outcome.on_gold))
    if outcome.compared is not None:
        say(f"\n{outcome.compared}")
    if outcome.agreement is not None:
        parts = (outcome.agreement, outcome.machines, outcome.coverage)
        say("\n" + "\n".join(str(part) for part in parts if part is not None))
    if outcome.counted is not None:
        outcome.counted.say_flagged()
    for warning in outcome.board.warnings:
        remark(warning)
    if page is not None:
        say_how_to_open(page)


def _rules_table(by_rule: dict[str, "Leaderboard"], on_gold: "dict[str, GoldScore] | None") -> Any:
    """A row for each rule: the AUC of every model, Kendall's tau with the first rule's order, and gold pairs if any."""
    from lookalike.discovery.bias import agree, or_dash

    aucs = {
        name: [evaluation["AUC"].mean for evaluation in board.evaluations.values()] for name, board in by_rule.items()
    }
    gold = {name: f"{score.right:,} of {score.decided:,}" for name, score in (on_gold or {}).items()}
    usual = next(iter(by_rule))
    columns = [*by_rule[usual].evaluations, "Kendall", *(["gold pairs right"] if gold else [])]
    rows = table(*((name, "") for name in columns), first="rule")
    for name, means in aucs.items():
        tau = or_dash(agree(aucs[usual], means)[2], ".3f")
        rows.add_row(name, *(or_dash(value, ".4f") for value in means), tau, *([gold[name]] if gold else []))
    return rows


def _contest_of(
    folder: Path | None, run: list[str] | None, qrels: Path | None, how: HowToJudge, counting: CountOptions
) -> _Contestants:
    """The models and judgements of a study, or of files."""
    counting.check_study(folder)
    if folder is None:
        return _contest_of_runs(run, qrels, how)
    if run is not None or qrels is not None:
        raise InputError("pass a study, or --run and --qrels")
    return _contest_of_study(folder, how, counting)


def _contest_of_study(folder: Path, how: HowToJudge, counting: CountOptions) -> _Contestants:
    """The models, judgements and pool of a study."""
    from lookalike.study.models_in_turn import ModelsInTurn

    study = open_judged(folder)
    models = ModelsInTurn(study)
    if not models:
        raise StudyError(f"the study has no model yet: lookalike study add {folder} NAME FILE")
    pool = study.pool() if study.pool_path.exists() else None
    counted = counted_votes(study, counting)
    return _Contestants(models, study.collection, counted.judgements(study, how), pool, study, counted)


def _contest_of_runs(run: list[str] | None, qrels: Path | None, how: HowToJudge) -> _Contestants:
    """Runs, of the judged queries alone, and their judgements."""
    from lookalike.discovery import Collection, Judgements
    from lookalike.discovery.formats import read_judgements

    if run is None and qrels is None:
        raise InputError("pass a study, or --run and --qrels")
    if not run or qrels is None:
        raise InputError("--run and --qrels belong together: pass both")
    if how.rule not in (None, "majority"):
        raise InputError(
            f"--rule {how.rule} makes judgements of the votes of a study, and --qrels are judgements already"
        )
    runs = _read_runs(run)
    judgements = _from_grade(Judgements.of(read_judgements(qrels)), how.rel)
    queries = dict.fromkeys(judgements.queries.tolist())
    runs = {name: {q: ranked for q, ranked in run.items() if q in queries} for name, run in runs.items()}
    for name, ranked_by_query in runs.items():
        if not ranked_by_query:
            raise FileError(f"the run {name!r} ranks nothing for any of the judged queries: are these the right files?")
    items = dict.fromkeys(judgements.items.tolist())
    items |= dict.fromkeys(item for run in runs.values() for ranked in run.values() for item in ranked)
    return _Contestants(runs, Collection(list(queries), list(items)), judgements)


def _from_grade(judgements: "Judgements", rel: int | None) -> "Judgements":
    """Judgements of a file, positive from a grade on: from 1, unless another is given."""
    highest = int(judgements.grades.max(initial=1))
    if rel is not None and not 1 <= rel <= highest:
        raise InputError(f"--rel must be a grade from 1 to {highest}, the highest of --qrels, got {rel}")
    return replace(judgements, rel=rel or 1)


def _read_runs(texts: list[str]) -> dict[str, Any]:
    """Runs by name, each given as NAME=FILE."""
    from lookalike.evaluation.trec import read_run

    runs: dict[str, Any] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path:
            raise InputError(f"a run is given as NAME=FILE, got {text!r}")
        if name in runs:
            raise InputError(f"there are two runs named {name!r}: names must differ")
        runs[name] = read_run(path)
    return runs
