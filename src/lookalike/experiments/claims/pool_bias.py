"""Claim: hit rates favour the models that built the pool, and AUC does not."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from lookalike.discovery import leaderboard
from lookalike.experiments.claims.catalogues import FULL, QUICK, ShownCatalogue, catalogues
from lookalike.experiments.claims.claim import CannotTryError, Check, MeasuredNumber, Numbers, PaperClaim, Run, mean_of

LATER = 2  # models that come after the pool in both cases
FEWEST = 6  # models, so that at least three others build the pool
NEUTRAL = 0.01
OWN_OUT, EQUAL = "AUC, own left out", "Bpref, equal terms"

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """How much more a model gets inside the pool than outside, beside models that came later in both cases."""
    gaps: dict[str, list[float]] = {}
    for shown in catalogues(run):
        if len(shown.models) < FEWEST:
            continue
        of_catalogue: dict[str, list[float]] = {}
        for seed in run.settings["seeds"]:
            for gap in _gaps(shown, run.settings["k"], seed):
                for name, value in gap.items():
                    of_catalogue.setdefault(name, []).append(value)
        for name, values in of_catalogue.items():
            yield mean_of(f"{shown.name}, {name}", values, group=f"Inside less outside, {shown.name}")
            gaps.setdefault(name, []).extend(values)
    if not gaps:
        raise CannotTryError(f"fewer than {FEWEST} models can run on any catalogue")
    for name, values in gaps.items():
        yield mean_of(f"all, {name}", values, group="Inside less outside, all catalogues")


def _gaps(shown: ShownCatalogue, k: int, seed: int) -> Iterator[dict[str, float]]:
    """For each model in turn, and each number: how far ahead of later models it is inside, less how far outside."""
    generator, names = np.random.default_rng([seed, 3]), list(shown.models)
    for model in names:
        others = [name for name in names if name != model]
        later = [str(name) for name in generator.choice(others, LATER, replace=False)]
        builders = [name for name in others if name not in later]
        inside, outside = (_numbers(shown, sorted(pool, key=names.index), k, seed)
                           for pool in ([*builders, model], builders))  # fmt: skip
        yield {name: _ahead(inside[name], model, later) - _ahead(outside[name], model, later) for name in inside}


def _numbers(shown: ShownCatalogue, builders: list[str], k: int, seed: int) -> dict[str, dict[str, float]]:
    """Every number of every model, by the pool of these builders."""
    pool = shown.pool(k, builders, seed)
    metrics = [f"VSDHR@{k}", f"VSDMRR@{k}", "AUC", "Bpref"]
    board = leaderboard(
        shown.models, shown.judged(pool), shown.collection, pool=pool, metrics=metrics, resamples=1, threads=1
    )
    values = {metric: {name: board[name][metric].mean for name in shown.models} for metric in metrics}
    values[OWN_OUT] = {name: board.own_out[name]["AUC"].mean for name in shown.models}
    values[EQUAL] = {name: board.equal_terms[name]["Bpref"].mean for name in shown.models}
    titles = {f"VSDHR@{k}": "HR", f"VSDMRR@{k}": "MRR"}
    return {titles.get(name, name): of_models for name, of_models in values.items()}


def _ahead(values: Mapping[str, float], model: str, later: list[str]) -> float:
    return float(values[model] - np.mean([values[name] for name in later]))


def judge(numbers: Numbers) -> list[Check]:
    """Hit rates favour, AUC is neutral as printed, and so are our two remedies."""

    def neutral(name: str) -> bool:
        return abs(numbers[f"all, {name}"].value) <= NEUTRAL

    return [
        Check("HR favours the models that built the pool", numbers["all, HR"].low > 0),
        Check("MRR favours them", numbers["all, MRR"].low > 0),
        Check("AUC neither favours nor punishes them", neutral("AUC")),
        Check("AUC without a model's own pairs is neutral", neutral(OWN_OUT)),
        Check("Bpref on equal terms is neutral", neutral(EQUAL)),
    ]


CLAIM = PaperClaim(
    name="pool-bias",
    title="Hit rates favour the models that built the pool, AUC does not",
    paper="Barkan et al. 2023",
    place="sections 3.4 and 4",
    says="Metrics of ranks are biased towards generators; ROC-AUC should not favour models that took part.",
    protocol=(
        "Each real model in turn: inside the pool and left out of it, both times beside two models that came later. "
        "The two numbers added here, AUC without own pairs and Bpref on equal terms, are tried too."
    ),
    data="each catalogue with labels that six models or more can rank: Fashion-MNIST, CIFAR-10, …",
    criterion="Intervals over models and draws: HR and MRR above 0. Neutral: a mean of at most 0.01 either way.",
    settings={
        "quick": {**QUICK, "seeds": [0, 1, 2, 3]},
        "full": {**FULL, "seeds": list(range(10))},
    },
    measure=measure,
    judge=judge,
)
