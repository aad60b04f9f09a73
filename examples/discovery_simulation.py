"""Which metrics favour the models that built the pool? A simulation with a known truth.

Models of known quality rank a catalogue. Half of them build the pool. Experts of known reliability judge it. The other
half of the models are just as good and come later. A neutral metric gives both halves the same value. Some of the
judged pairs were drawn by chance: they say how many positives there are, and would move AUC if they counted.

    python examples/discovery_simulation.py
"""

from dataclasses import dataclass

import numpy as np

from lookalike.discovery import Collection, Judgements, Pool, Votes, judge_in_order, leaderboard, majority

METRICS = {
    "hit rate in the top 6": "VSDHR@6",
    "AUC on judged pairs": "AUC",
    "Bpref on judged pairs": "Bpref",
    "AUC, sampled negatives": "AUC(negatives='sampled')",
}
OWN_OUT, EQUAL_TERMS = "AUC, own pairs left out", "Bpref on equal terms"


@dataclass
class World:
    """A collection, the truth about which pairs are similar, and the scores of models: truth plus noise."""

    collection: Collection
    truth: np.ndarray
    models: dict[str, np.ndarray]


def world(seed: int, *, n_queries: int = 200, n_items: int = 2000, quality: float = 0.8, pairs: int = 4) -> World:
    """Make a world with `pairs` models that build the pool, and as many of the same quality that do not."""
    generator = np.random.default_rng(seed)
    closeness = generator.normal(size=(n_queries, n_items)).astype(np.float32)
    truth = closeness > 2.3  # about one pair in a hundred is similar
    models = {}
    for number in range(pairs):
        for side in ("inside", "outside"):
            noise = generator.normal(size=closeness.shape).astype(np.float32)
            models[f"{side} {number}"] = quality * closeness + np.sqrt(1 - quality**2) * noise
    ids = [f"q{i}" for i in range(n_queries)], [f"i{i}" for i in range(n_items)]
    return World(Collection(*ids), truth, models)


def judged_by(pool: Pool, truth: np.ndarray, reliabilities: list[float], seed: int) -> Votes:
    """Votes of experts. Each expert tells the truth about a pair with the probability in `reliabilities`."""
    generator = np.random.default_rng([seed, 7])
    true = truth[pool.queries, pool.items]
    queries, items = (list(side) for side in zip(*pool.pairs, strict=True))
    answers = [np.where(generator.random(len(pool)) < reliability, true, ~true) for reliability in reliabilities]
    experts = [f"expert {i}" for i in range(len(reliabilities)) for _ in range(len(pool))]
    n = len(reliabilities)
    return Votes(queries * n, items * n, experts, np.concatenate(answers).astype(int))


def judged_world(seed: int) -> tuple[World, Pool, Judgements]:
    """A world, the pool that half of its models build, and what experts say of it."""
    made = world(seed)
    inside = {name: model for name, model in made.models.items() if name.startswith("inside")}
    pool = Pool.build(inside, made.collection, k=6, random=600, seed=seed)  # chance draws 13 % of the pairs
    return made, pool, majority(judged_by(pool, made.truth, [0.95, 0.9, 0.85], seed))


def gaps(seed: int) -> dict[str, float]:
    """For each metric, the mean of the models inside the pool minus that of their equals outside."""
    made, pool, judgements = judged_world(seed)
    board = leaderboard(
        made.models, judgements, made.collection, pool=pool, metrics=list(METRICS.values()), negatives=50, resamples=1
    )

    def gap(values: dict[str, float]) -> float:
        sides = [
            np.mean([value for name, value in values.items() if name.startswith(side)])
            for side in ("inside", "outside")
        ]
        return float(sides[0] - sides[1])

    values = {title: {name: board[name][metric].mean for name in made.models} for title, metric in METRICS.items()}
    values[OWN_OUT] = {name: board.own_out[name]["AUC"].mean for name in made.models}
    values[EQUAL_TERMS] = {name: board.equal_terms[name]["Bpref"].mean for name in made.models}
    return {title: gap(by_model) for title, by_model in values.items()}


def moved_by_chance(seed: int) -> float:
    """How much AUC rises, on average over the models, if pairs that chance drew count as judged pairs."""
    made, pool, judgements = judged_world(seed)
    without, counted = (
        leaderboard(
            made.models, judgements, made.collection, pool=pool, metrics="AUC", with_random=with_random, resamples=1
        )
        for with_random in (False, True)
    )
    return float(np.mean([counted[name]["AUC"].mean - without[name]["AUC"].mean for name in made.models]))


def positives_found(seed: int, budget: float = 0.3) -> dict[str, int]:
    """How many positives the first judged pairs hold, in both orders. Six models have a precision from 0.3 to 0.8."""
    generator = np.random.default_rng(seed)
    n_queries, n_items, k = 200, 2000, 6
    truth = generator.random((n_queries, n_items)) < 0.02
    models = {}
    for number, precision in enumerate(np.linspace(0.3, 0.8, 6)):
        scores = generator.random((n_queries, n_items))
        for query in range(n_queries):
            right, wrong = np.flatnonzero(truth[query]), np.flatnonzero(~truth[query])
            hits = generator.binomial(min(k, len(right)), precision)
            chosen = [generator.choice(right, hits, replace=False), generator.choice(wrong, k - hits, replace=False)]
            top = generator.permutation(np.concatenate(chosen))
            scores[query, top] = 2 + np.arange(k)
        models[f"model {number}"] = scores
    collection = Collection([f"q{i}" for i in range(n_queries)], [f"i{i}" for i in range(n_items)])
    pool = Pool.build(models, collection, k=k, seed=seed)

    def judge(rows: np.ndarray) -> np.ndarray:
        return truth[pool.queries[rows], pool.items[rows]].astype(int)

    size = round(budget * len(pool))
    return {order: int((judge_in_order(pool, judge, size, order) > 0).sum()) for order in ("depth", "adaptive")}


def interval(values: list[float]) -> str:
    """The mean over seeds and its 95 % interval, as text."""
    half = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):+.4f} ± {half:.4f}"


def main() -> None:
    """Print the tables."""
    seeds = range(20)
    worlds = [gaps(seed) for seed in seeds]
    print("How much more a model inside the pool gets than its equal outside (20 worlds)")
    for title in worlds[0]:
        print(f"  {title:26}{interval([row[title] for row in worlds])}")
    print("How much AUC moves if pairs drawn by chance, 13 % of the judged ones, count (20 worlds)")
    print(f"  more by                   {interval([moved_by_chance(seed) for seed in seeds])}")
    orders = [positives_found(seed) for seed in seeds]
    more = [row["adaptive"] / row["depth"] - 1 for row in orders]
    print("How many more positives the adaptive order finds than depth, when 30 % of the pool is judged (20 worlds)")
    print(f"  more by                   {interval(more)}")


if __name__ == "__main__":
    main()
