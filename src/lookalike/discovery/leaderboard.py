"""Leaderboard: models compared on judged pairs, with what tells how far each number can be trusted."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.bootstrap import bootstrap_intervals
from lookalike.core.errors import Option
from lookalike.core.files import provenance, write_text
from lookalike.core.tables.formats import TableFormats
from lookalike.core.tables.table import ResultTable
from lookalike.core.text_table import aligned
from lookalike.discovery.collection import Collection
from lookalike.discovery.contest import OF_PAIRS, Contest
from lookalike.discovery.equal_terms import on_equal_terms
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import Pool
from lookalike.discovery.standing import Placing, numbers_of, placing, value_of
from lookalike.discovery.standing_text import standing_numbers, standing_table, who_leads
from lookalike.evaluation.compare import Comparison, compare
from lookalike.evaluation.result_tables import safe_names
from lookalike.evaluation.result_text import unlisted_note
from lookalike.evaluation.results import Evaluation, Score, as_table, shown, without_nan
from lookalike.metrics.metric import Metric, parse_all

if TYPE_CHECKING:
    import pandas

    from lookalike.discovery.paper_tables import PaperTables
    from lookalike.discovery.recognition import Recognition

AREAS = [
    f"{name}(average='{average}', negatives='{negatives}')"
    for name in ("AUC", "PRAUC")
    for average in ("micro", "macro")
    for negatives in ("judged", "sampled")
]
OWN_OUT = ("AUC", "AUC(average='micro')")
EQUAL_TERMS = ("Bpref", "AUC")  # the first one leads
LOW = 0.8  # share of the top k that must be judged for a rank metric to be trusted
EFFECTS = "what a number does to models that helped to build the pool, beside equals that did not"

__all__ = ["AREAS", "EFFECTS", "Leaderboard", "discovery_metrics", "effect", "intervals_of", "leaderboard"]


def discovery_metrics(*cutoffs: int, graded: bool = False) -> list[Metric]:
    """The metrics of Barkan et al. 2023, tables 5 to 8, and metrics that tell how much was judged.

    graded: with nDCG, which counts the grades of a scale themselves.
    """
    ranks = [f"{name}@{k}" for name in ("VSDHR", "VSDMRR") for k in cutoffs]
    guards = [f"{name}@{k}" for name in ("Judged", "P") for k in cutoffs]
    deepest = max(cutoffs)
    by_grades = [f"nDCG@{k}" for k in cutoffs] if graded else []
    others = ["Bpref", f"RBP@{deepest}", f"RBP(part='residual')@{deepest}", *by_grades]
    return parse_all([*ranks, *AREAS, *guards, *others])


def effect(metric: str | Metric, own_out: bool = False, equal_terms: bool = False) -> str:
    """Whether a metric favours or punishes models that helped to build the pool, or is neutral, as simulations show.

    own_out: of the metric without the pairs that a model alone proposed. equal_terms: of the metric with each two
    models compared on equal terms. "" for metrics of how much was judged, and for FNMR, which was not simulated.

    >>> [effect(name) for name in ("VSDHR@5", "AUC", "AUC(negatives='sampled')", "Judged@5")]
    ['favours', 'punishes', 'neutral', '']
    """
    wanted = Metric.parse(metric)
    options = wanted.options()
    if wanted.name in ("Judged", "FNMR") or options.get("part") == "residual":
        return ""
    if own_out or equal_terms or options.get("negatives") == "sampled":
        return "neutral"
    return "punishes" if wanted.name in OF_PAIRS else "favours"


@dataclass(frozen=True, eq=False)
class Leaderboard(TableFormats):
    """An evaluation of every model; `leaderboard["dino"]["AUC"].mean` is a number of it.

    own_out: AUC of each model without the judged pairs that it alone proposed, the same as AUC for models that proposed
    none; nothing where no model is known to have built the pool. equal_terms: Bpref and AUC with each two models
    compared on a pool that both or neither of them helped to build; nothing where own_out has nothing. upper: precision
    if everything that nobody judged were relevant. judged: Judged@k at the k of every metric of ranks, asked for or
    not. listed: how many items a model has in its top k, averaged over queries.
    """

    evaluations: dict[str, Evaluation]
    helped: dict[str, bool]  # which models helped to build the pool
    own_out: dict[str, Evaluation]
    upper: dict[str, Evaluation]
    contest: Contest
    about: dict[str, Any]
    intervals: dict[str, dict[Metric, tuple[float, float]]] = field(default_factory=dict)
    own_out_intervals: dict[str, dict[Metric, tuple[float, float]]] = field(default_factory=dict)
    judged: dict[str, Evaluation] = field(default_factory=dict)
    listed: dict[str, dict[int, float]] = field(default_factory=dict)  # items of the top k, fewer in a short run
    equal_terms: dict[str, Evaluation] = field(default_factory=dict)
    equal_terms_intervals: dict[str, dict[Metric, tuple[float, float]]] = field(default_factory=dict)
    recognised: "Recognition | None" = None  # how well models find other images of a query's identity, if asked for
    paper: "PaperTables | None" = None  # the tables of Barkan et al. 2023, if asked for

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that every model was measured by."""
        return list(next(iter(self.evaluations.values())))

    def __getitem__(self, model: str) -> Evaluation:
        if model not in self.evaluations:
            raise KeyError(f"there is no model {model!r} on the leaderboard, only {', '.join(self.evaluations)}")
        return self.evaluations[model]

    def ranking(self, metric: str | Metric) -> list[str]:
        """Models by a metric, the best first."""
        wanted = Metric.parse(metric)
        means = {name: evaluation[wanted].mean for name, evaluation in self.evaluations.items()}
        return sorted(means, key=lambda name: (np.isnan(means[name]), -wanted.sign * means[name]))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each model and metric, with its interval, the best and worst of ties, and the upper bound of P."""
        out = []
        for name, evaluation in self.evaluations.items():
            for metric, score in evaluation.scores.items():
                low, high = self.intervals[name][metric]
                row: dict[str, Any] = {"model": name, "helped": self.helped[name], "metric": metric.label}
                row["effect"] = effect(metric)
                row |= {"mean": score.mean, "low": low, "high": high, "best": score.best, "worst": score.worst}
                row |= {"undefined": score.undefined}
                row["own_out"] = self.own_out[name][metric].mean if metric in self.own_out[name].scores else None
                row["own_out_low"], row["own_out_high"] = self.own_out_intervals[name].get(metric, (None, None))
                even = self.equal_terms[name].scores.get(metric) if name in self.equal_terms else None
                row["equal_terms"] = None if even is None else even.mean
                ends = self.equal_terms_intervals.get(name, {}).get(metric, (None, None))
                row["equal_terms_low"], row["equal_terms_high"] = ends
                row["upper"] = self.upper[name][metric].mean if metric in self.upper[name].scores else None
                out.append(row)
        return out

    def compare(
        self, metric: str | Metric, *, own_out: bool = False, equal_terms: bool = False, level: float = 0.95,
        random_state: int = 0,
    ) -> Comparison:  # fmt: skip
        """Every pair of models on one metric: paired difference, interval, p-value with Holm's correction.

        own_out: each without the judged pairs that it alone proposed. equal_terms: each two on equal terms.
        """
        wanted = Metric.parse(metric)
        evaluations = self.equal_terms if equal_terms else self.own_out if own_out else self.evaluations
        only = {name: Evaluation({wanted: e[wanted]}, e.query_ids, e.about) for name, e in evaluations.items()}
        return compare(only, level=level, random_state=random_state)

    def judged_share(self, model: str, cutoff: int) -> float:
        """The share that was judged of the items that a model has in its top k; a run may list fewer than k."""
        share = self.judged[model][f"Judged@{cutoff}"].mean
        listed = self.listed.get(model, {}).get(cutoff, cutoff)
        return min(1.0, share * cutoff / listed) if listed else float("nan")

    @property
    def warnings(self) -> list[str]:
        """What keeps numbers from being trusted: pairs all of one kind; for a model, too little judged or listed."""
        return [*self._one_sided()] + [
            warning
            for name in self.evaluations
            for metric, score in self.judged[name].scores.items()
            for warning in self._warnings(name, metric.cutoff or 1, score)
        ]

    def _one_sided(self) -> Iterator[str]:
        """A sentence if judged pairs are all of one kind."""
        if self.about["positives"] in (0, self.about["pairs"]):
            kind = "no judged pair is" if not self.about["positives"] else "all judged pairs are"
            yield f"{kind} positive: nothing can be said of who is better"

    def _warnings(self, name: str, k: int, score: Score) -> Iterator[str]:
        if not score.mean < LOW:
            return
        listed = self.listed.get(name, {}).get(k, float(k))
        short = listed < k - 1e-9 and self.contest.lists_some(name)
        if short:
            yield f"{name} lists only {listed:.3g} items a query: metrics of the top {k} count the rest as not found"
        if self.judged_share(name, k) < LOW:
            cut = score.best * k >= LOW * listed  # in the best order of tied items: judging more would not end this
            why = ", which cuts through tied items that the pool has some of" if cut else ""
            pooled = any(self.helped.values())
            own = "Bpref on equal terms or by " if pooled else ""
            more = "" if cut else ", or judge its top-up" if pooled else ", or judge more of it"
            top = "the items that it lists" if short else f"its top {k}"
            yield (
                f"{name}: {self.judged_share(name, k):.0%} of {top} was judged{why}, so metrics of ranks "
                f"count what nobody judged as wrong: compare models by {own}AUC with sampled negatives{more}"
            )

    def table(self) -> str:
        """A line for each metric and a column for each model: names of metrics are long."""
        helped = ("yes" if yes else "" for yes in self.helped.values())
        lines = [["metric", "builders", *self.evaluations], ["helped to build the pool", "", *helped]]
        for number in numbers_of(self):
            means = (shown(value_of(self, model, number)) for model in self.evaluations)
            lines.append([number.label, effect(*number), *means])
        return f"{aligned(lines)}\nbuilders: {EFFECTS}"

    @cached_property
    def placing(self) -> Placing:
        """The models in their places by the leading number, and how surely the first one leads."""
        return placing(self)

    def standing(self, spell: Callable[[Option], str] = str) -> str:
        """The models in their places, who leads and how surely, and what the numbers are made of."""
        parts = [standing_table(self, self.placing), who_leads(self.placing), self.facts, *self.conventions(spell)]
        return "\n".join(parts)

    @property
    def facts(self) -> str:
        """A sentence on what the numbers are made of."""
        about = self.about
        facts = f"{about['queries']:,} queries, {about['pairs']:,} judged pairs, {about['positives']:,} positive"
        if self.contest.judgements.scale is not None:
            facts += f" ({self.contest.judgements.positive})"
        if about["random_left_out"]:
            facts += f"; {about['random_left_out']:,} more drawn by chance are left out"
        if about["random_counted"]:
            facts += f"; {about['random_counted']:,} of them drawn by chance, which count too"
        return facts

    def text(self, *, warnings: bool = True) -> str:
        """Every metric of every model, what they are made of, and warnings."""
        return "\n".join([self.table(), self.facts, *self.conventions(), *(self.warnings if warnings else [])])

    def conventions(self, spell: Callable[[Option], str] = str) -> list[str]:
        """How the numbers were counted, in sentences. spell: how an option is written."""
        areas = dict.fromkeys(metric.name for metric in self.metrics if metric.area)
        return [unlisted_note(areas, self.about["unlisted"], True, spell)] if "unlisted" in self.about else []

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def to_table(self, metrics: Iterable[str] | None = None, *, ties: bool = False) -> ResultTable:
        """A row for each model, in their places, and a column for each number.

        metrics: those to show, by the names that the printed table has; by default all, then with a row for each
        number, as they are many. ties: best and worst stand beside each number.
        """
        return standing_numbers(self, metrics, ties)

    def log(self, prefix: str = "") -> dict[str, float]:
        """Every metric of every model by a name that trackers accept, such as "dino/AUC" and "dino/AUC_best"."""
        names = safe_names(self.evaluations)
        parts = (evaluation.log(f"{prefix}{names[model]}/") for model, evaluation in self.evaluations.items())
        return {key: value for part in parts for key, value in part.items()}

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for each model and a column for each metric."""
        table = as_table(self.rows())
        return table.pivot_table(index="model", columns="metric", values="mean", sort=False, dropna=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries, as plain Python values."""
        more = {"standing": self.placing, "identification": self.recognised, "paper_tables": self.paper}
        parts = {name: part.to_dict() for name, part in more.items() if part is not None}
        return provenance("leaderboard", **self.about, warnings=self.warnings, rows=self.rows(), **parts)

    def to_json(self, path: str | Path | None = None) -> str:
        """Everything but the values of single queries as JSON, written to `path` if given."""
        text = json.dumps(without_nan(self.to_dict()), indent=1, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text


def leaderboard(
    models: Mapping[str, Any],
    judgements: Judgements,
    collection: Collection,
    *,
    pool: Pool | None = None,
    metrics: str | Iterable[str | Metric] | None = None,
    one_per_identity: bool | None = None,
    level: str = "image",
    negatives: int = 100,
    with_random: bool = False,
    unlisted: str = "below",
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    cutoffs: tuple[int, ...] | None = None,
) -> Leaderboard:
    """Evaluate models on judged pairs.

    models: each (queries, gallery) embeddings or Codes, a matrix of scores, or a run.
    unlisted: for AUC and PRAUC, judged items that a run does not list tie "below" all that it lists, or are left "out".
    pool: tells which models helped to build it, and which pairs each alone proposed. metrics: by default the columns of
    Barkan et al. 2023 at the `cutoffs`, or at the pool's k. A metric of ranks without a cutoff, such as AP, looks at
    all ranks. one_per_identity: rank metrics see only the best image of each; by default as
    the pool was made, and without a pool where identities are known.
    negatives: how many unjudged items of each query count as sampled negatives. with_random: also count the pairs of
    the pool that were drawn by chance and proposed by no model; they are there to say how many positives there are.
    """
    usual = pool.k if pool is not None else min(5, collection.n_items)
    graded = isinstance(judgements, Judgements) and judgements.graded
    wanted = discovery_metrics(*(cutoffs or [usual]), graded=graded) if metrics is None else parse_all(metrics)
    if one_per_identity is None:
        one_per_identity = pool.one_per_identity if pool is not None else collection.has_identities
    depths = [] if pool is None else [pool.k]
    sampled = any(metric.options().get("negatives", "judged") != "judged" for metric in wanted)
    contest = Contest(
        models,
        collection,
        judgements,
        depth=max([metric.cutoff or (1 if metric.name in OF_PAIRS else usual) for metric in wanted] + depths),
        one_per_identity=one_per_identity,
        level=level,
        negatives=negatives if sampled else 0,
        pool=None if with_random else pool,
        unlisted=unlisted,
        all_ranks=any(metric.cutoff is None and metric.name not in OF_PAIRS for metric in wanted),
        seed=seed,
        threads=threads,
    )
    if metrics is None and not len(contest.sampled_queries):  # lists too short to sample from
        wanted = [metric for metric in wanted if metric.options().get("negatives") != "sampled"]
    return board_of(contest, wanted, pool, resamples=resamples, seed=seed)


def board_of(
    contest: Contest, metrics: list[Metric], pool: Pool | None, *, kept: np.ndarray | None = None,
    resamples: int = 1000, seed: int = 0,
) -> Leaderboard:  # fmt: skip
    """The leaderboard of a contest on all judgements, or on those that are kept."""
    given = pool
    if pool is not None:
        contest.check_pool(pool)
        pool = contest.as_judged(pool)
    names = list(contest.entries)
    evaluations = {name: contest.evaluate(name, metrics, kept=kept) for name in names}
    helped = {name: pool is not None and name in pool.models for name in names}
    areas = [metric for metric in parse_all(list(OWN_OUT)) if metric in metrics]
    own_out, upper, judged, own = {}, {}, {}, {}
    of_ranks = [metric for metric in metrics if metric.name not in OF_PAIRS]
    cutoffs = sorted({metric.cutoff or contest.depth for metric in of_ranks})
    precisions = [metric for metric in metrics if metric.name == "P"]
    nothing = Evaluation({}, contest.collection.query_ids, {"items": contest.collection.n_items})
    for name in names:
        stays = np.ones(len(contest.judgements), bool) if kept is None else kept
        if pool is not None and helped[name]:
            own[name] = proposed_alone(contest, pool, name)
            stays = stays & ~own[name]
        judged[name] = contest.evaluate(name, [f"Judged@{k}" for k in cutoffs], kept=kept) if cutoffs else nothing
        own_out[name] = contest.evaluate(name, areas, kept=stays) if areas and any(helped.values()) else nothing
        upper[name] = contest.evaluate(name, precisions, kept=kept, unjudged="relevant") if precisions else nothing
    grades = contest.judgements.grades if kept is None else contest.judgements.grades[kept]
    about = {
        "queries": contest.collection.n_queries, "items": contest.collection.n_items, "pairs": len(grades),
        "positives": int((grades >= contest.judgements.rel).sum()), "rule": contest.judgements.rule,
        "level": contest.level,
        "one_per_identity": contest.one_per_identity, "depth": contest.depth, "seed": seed, "resamples": resamples,
        "sampled": len(contest.sampled_queries), "random_left_out": contest.random_left_out,
        "random_counted": random_counted(contest, pool),
        "inputs": contest.inputs | {"pool": None if given is None else given.digest},
    }  # fmt: skip
    if contest.judgements.scale is not None:
        about |= {"scale": str(contest.judgements.scale), "rel": contest.judgements.rel}
    if any(metric.area for metric in metrics) and not contest.lists_all:
        about["unlisted"] = contest.unlisted
    fair = [metric for metric in parse_all(list(EQUAL_TERMS)) if metric in metrics]
    equal_terms = on_equal_terms(contest, fair, own, kept) if fair and own else dict.fromkeys(names, nothing)
    ends = [intervals_of(scores, resamples, seed) for scores in (evaluations, own_out, equal_terms)]
    listed = {name: {k: contest.listed(name, k) for k in cutoffs} for name in names}
    return Leaderboard(
        evaluations, helped, own_out, upper, contest, about, ends[0], ends[1], judged, listed, equal_terms, ends[2]
    )


def proposed_alone(contest: Contest, pool: Pool, model: str) -> np.ndarray:
    """Which judgements are about pairs that nobody but this model proposed."""
    alone = pool.alone(model, or_random=not contest.random_counts)
    return np.isin(contest.judged, contest.collection.keys(pool.queries[alone], pool.items[alone]))


def random_counted(contest: Contest, pool: Pool | None) -> int:
    """How many judged pairs count that were drawn by chance alone."""
    if pool is None:
        return 0
    drawn = contest.collection.keys(pool.queries, pool.items)[pool.random_alone]
    return int(np.isin(contest.judged, drawn).sum())


def intervals_of(
    evaluations: Mapping[str, Evaluation], resamples: int, seed: int, level: float = 0.95
) -> dict[str, dict[Metric, tuple[float, float]]]:
    """Bootstrap intervals of every metric of every model."""
    intervals: dict[str, dict[Metric, tuple[float, float]]] = {name: {} for name in evaluations}
    columns = [(name, metric) for name, evaluation in evaluations.items() for metric in evaluation]
    if columns:
        scores = [evaluations[name][metric] for name, metric in columns]
        values = np.stack([score.per_query for score in scores], axis=1)
        weights = np.stack([score.mean_weights for score in scores], axis=1)
        ends = bootstrap_intervals(values, level, seed, resamples, weights)
        for (name, metric), (low, high) in zip(columns, ends.tolist(), strict=True):
            intervals[name][metric] = (low, high)
    return intervals
