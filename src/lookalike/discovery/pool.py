"""Pool: the pairs that several models propose for judging, and the rank that each model gave each pair."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.csv_files import write_csv
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.files import digest, provenance, read_arrays, write_arrays
from lookalike.core.text_table import aligned, times
from lookalike.discovery.collection import Collection
from lookalike.discovery.rankers import as_model

RANDOM = "random"  # marks pairs drawn by chance in files; no model can have this name

SOURCES = ("proposed", RANDOM, "both", "elsewhere")  # of judged pairs

COLUMNS = ("query", "item", "model", "rank", "score")  # of the file of a pool

__all__ = ["RANDOM", "SOURCES", "Pool"]


@dataclass(frozen=True, eq=False)
class Pool:
    """Pairs to judge: the top k of each model, with who proposed each pair, and pairs drawn by chance.

    queries, items: (n,) positions in the collection, sorted. ranks: (n, models), from 1, 0 where a model did not
    propose the pair; scores: (n, models), nan there. random: (n,), which pairs were also drawn by chance.

    >>> import numpy as np
    >>> shop = Collection(["q"], ["q", "a", "b", "c"])
    >>> pool = Pool.build({"one": np.array([[9, 3, 2, 1]]), "two": np.array([[9, 3, 1, 2]])}, shop, k=2)
    >>> pool
    3 pairs of 1 queries, top 2 of 2 models: 25.0 % duplicates, 1.0 times fewer than all 3 pairs
    model  pairs  alone  in one  in two
    one        2      1       -   50.0%
    two        2      1   50.0%       -
    """

    collection: Collection
    models: tuple[str, ...]
    k: int
    queries: np.ndarray
    items: np.ndarray
    ranks: np.ndarray
    scores: np.ndarray
    random: np.ndarray
    one_per_identity: bool = False
    seed: int = 0

    @classmethod
    def build(
        cls,
        models: Mapping[str, Any],
        collection: Collection,
        *,
        k: int,
        random: int = 0,
        one_per_identity: bool = False,
        seed: int = 0,
        threads: int | None = None,
    ) -> "Pool":
        """The pool of models: each is (queries, gallery) embeddings or Codes, a matrix of scores, or a run.

        random: how many pairs to draw by chance, for estimating how many positives there are. seed: draws them, and
        the order of tied items, once for all models: so models that tie the same items propose the same pairs.
        """
        if not models:
            raise InputError("a pool needs at least one model")
        pool = cls.empty(collection, k=k, random=random, one_per_identity=one_per_identity, seed=seed)
        for name, model in models.items():
            pool = pool.with_model(name, model, threads=threads)
        proposed = np.zeros(collection.n_queries, bool)
        proposed[pool.queries[pool.proposed.any(1)]] = True
        if not proposed.all():
            query = str(collection.query_ids[proposed.argmin()])
            raise InputError(f"no model proposes anything for query {query!r}: every query needs candidates")
        return pool

    @classmethod
    def empty(
        cls, collection: Collection, *, k: int, random: int = 0, one_per_identity: bool = False, seed: int = 0
    ) -> "Pool":
        """A pool of no model yet, with pairs drawn by chance."""
        most = max(1, collection.n_items - int(collection.own_sizes.min()))
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
            raise InputError(
                Option("k"),
                f" must be from 1 to {most}, the items that a query can have, got {k}",
                parameter="k",
                value=k,
            )
        queries, items = draw_pairs(collection, random, seed)
        nothing = np.zeros((len(queries), 0))
        return cls(
            collection, (), k, queries, items, nothing.astype(np.int32), nothing, np.ones(len(queries), bool),
            one_per_identity, seed,
        )  # fmt: skip

    def with_model(self, name: str, given: Any, *, threads: int | None = None) -> "Pool":
        """This pool with another model's proposals. given: the model, as in `build`."""
        if name in self.models:
            raise InputError(f"there is a model {name!r} in the pool already: names must differ")
        if not isinstance(name, str) or name in (RANDOM, ""):
            raise InputError(f"a model cannot be named {name!r}")
        model = as_model(given, self.collection, name)
        top = model.top(self.collection, self.k, one_per_identity=self.one_per_identity, threads=threads)
        tie_order = np.random.default_rng(self.seed).permutation(self.collection.n_items)
        rows, ranks = top.first(self.k, tie_order)
        return self._with_column(name, top.queries[rows], top.items[rows], ranks, top.scores[rows])

    def _with_column(
        self, name: str, queries: np.ndarray, items: np.ndarray, ranks: np.ndarray, scores: np.ndarray
    ) -> "Pool":
        old, new = self.collection.keys(self.queries, self.items), self.collection.keys(queries, items)
        keys = np.union1d(old, new)
        before, now = np.searchsorted(keys, old), np.searchsorted(keys, new)
        shape = (len(keys), len(self.models) + 1)
        all_ranks, all_scores = np.zeros(shape, np.int32), np.full(shape, np.nan)
        all_ranks[before, :-1], all_scores[before, :-1] = self.ranks, self.scores
        all_ranks[now, -1], all_scores[now, -1] = ranks, scores
        random = np.zeros(len(keys), bool)
        random[before] = self.random
        n_items = self.collection.n_items
        return replace(
            self, models=(*self.models, name), queries=keys // n_items, items=keys % n_items,
            ranks=all_ranks, scores=all_scores, random=random,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def proposed(self) -> np.ndarray:
        """Which model proposed which pair, (n, models) of bool."""
        return self.ranks > 0

    @property
    def suspects(self) -> int:
        """Pairs that a model proposed."""
        return int(self.proposed.any(1).sum())

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Ids of query and item of every pair."""
        ids = self.collection.query_ids[self.queries], self.collection.item_ids[self.items]
        return list(zip(ids[0].tolist(), ids[1].tolist(), strict=True))

    @property
    def proposals(self) -> dict[str, list[tuple[str, str]]]:
        """Ids of the pairs that each model proposed."""
        pairs = self.pairs
        return {name: [pairs[row] for row in np.flatnonzero(self.ranks[:, i])] for i, name in enumerate(self.models)}

    @property
    def drawn(self) -> list[tuple[str, str]]:
        """Ids of the pairs drawn by chance."""
        pairs = self.pairs
        return [pairs[row] for row in np.flatnonzero(self.random)]

    @property
    def all_pairs(self) -> int:
        """How many pairs of a query and an item not its own there are."""
        return possible_pairs(self.collection)

    @property
    def random_alone(self) -> np.ndarray:
        """Which pairs were drawn by chance and proposed by no model."""
        return np.asarray(self.random & ~self.proposed.any(1))

    def alone(self, model: str, *, or_random: bool = False) -> np.ndarray:
        """Which pairs nobody but this model proposed, not even chance; with or_random, chance may have drawn them."""
        column = self._column(model)
        return np.asarray(self.proposed[:, column] & (self.proposed.sum(1) == 1) & (or_random | ~self.random))

    def sources(self, queries: Any, items: Any) -> np.ndarray:
        """Why each pair of ids is to be judged: proposed by a model, random, both, or elsewhere: not in the pool."""
        rows = dict(zip(self.pairs, np.where(self.random, np.where(self.random_alone, 1, 2), 0).tolist(), strict=True))
        pairs = zip(np.asarray(queries).tolist(), np.asarray(items).tolist(), strict=True)
        return np.array([SOURCES[rows.get(pair, 3)] for pair in pairs], f"U{max(map(len, SOURCES))}")

    def at(self, k: int) -> "Pool":
        """The pool that the same models would have given with a smaller k."""
        if not 1 <= k <= self.k:
            raise InputError(f"the pool holds the top {self.k} of each model: k must be from 1 to that, got {k}")
        ranks = np.where(self.ranks <= k, self.ranks, 0)
        return replace(self, k=k)._kept(ranks, self.models)

    def without(self, model: str) -> "Pool":
        """The pool that the other models would have given."""
        column = self._column(model)
        others = [name for name in self.models if name != model]
        kept = replace(self, scores=np.delete(self.scores, column, axis=1))
        return kept._kept(np.delete(self.ranks, column, axis=1), tuple(others))

    def _kept(self, ranks: np.ndarray, models: tuple[str, ...]) -> "Pool":
        stays = ranks.any(1) | self.random
        scores = np.where(ranks > 0, self.scores, np.nan)
        return replace(
            self, models=models, queries=self.queries[stays], items=self.items[stays], ranks=ranks[stays],
            scores=scores[stays], random=self.random[stays],
        )  # fmt: skip

    def _column(self, model: str) -> int:
        if model not in self.models:
            raise InputError(f"there is no model {model!r} in the pool, only {', '.join(self.models)}")
        return self.models.index(model)

    @property
    def overlap(self) -> np.ndarray:
        """Share of the pairs of the model in the row that the model in the column proposed too, (models, models)."""
        together = self.proposed.astype(float).T @ self.proposed
        return np.asarray(together / np.maximum(together.diagonal()[:, None], 1))

    @property
    def duplication(self) -> float:
        """Share of the models' proposals that are repeats: 1 - |union| / Σ |proposals of each|."""
        total = int(self.proposed.sum())
        return 1 - self.suspects / total if total else 0.0

    @property
    def saving(self) -> float:
        """All possible pairs over the pairs to judge, those drawn by chance included."""
        return self.all_pairs / max(len(self), 1)

    def layers(self) -> np.ndarray:
        """The best rank that any model gave each pair; pairs that only chance drew are spread over all layers."""
        best = np.where(self.proposed, self.ranks, self.k + 1).min(1, initial=self.k + 1)
        by_chance = best > self.k
        drawn = np.random.default_rng(self.seed).integers(1, self.k + 1, by_chance.sum())
        best[by_chance] = drawn
        return best

    @property
    def digest(self) -> str:
        """A fingerprint, for tracing results."""
        return digest(np.array(self.models), self.queries, self.items, self.ranks, self.random)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each model: how many pairs it proposed, and the share of them that each other model proposed."""
        overlap = self.overlap
        return [
            {
                "model": name,
                "pairs": int(self.proposed[:, i].sum()),
                "alone": int(self.alone(name, or_random=True).sum()),
                **{f"in {other}": float(overlap[i, j]) for j, other in enumerate(self.models)},
            }
            for i, name in enumerate(self.models)
        ]

    def __str__(self) -> str:
        chance = f" and {int(self.random.sum()):,} drawn by chance" if self.random.any() else ""
        head = (
            f"{len(self):,} pairs of {self.collection.n_queries:,} queries, "
            f"top {self.k} of {len(self.models)} models{chance}: {self.duplication * 100:.1f} % duplicates, "
            f"{times(self.saving)} times fewer than all {self.all_pairs:,} pairs"
        )
        table = [["model", "pairs", "alone", *(f"in {name}" for name in self.models)]]
        for row in self.rows():
            shares = ["-" if row["model"] == n else f"{row[f'in {n}'] * 100:.1f}%" for n in self.models]
            table.append([row["model"], f"{row['pairs']:,}", f"{row['alone']:,}", *shares])
        return f"{head}\n{aligned(table)}"

    __repr__ = __str__

    def write_pairs(self, path: str | Path, rows: Any = slice(None), *, raw: bool = False) -> None:
        """Write pairs to judge, all or some rows, to .csv or .parquet: query and item, not who proposed them.

        raw: in CSV, leave text as it is that a spreadsheet takes for a formula.
        """
        ids = {
            "query": self.collection.query_ids[self.queries[rows]],
            "item": self.collection.item_ids[self.items[rows]],
        }
        if Path(path).suffix == ".csv":
            write_csv(path, {name: column.tolist() for name, column in ids.items()}, raw=raw)
        else:
            write_arrays(path, ids, provenance("pairs"))

    def save(self, path: str | Path, *, raw: bool = False) -> None:
        """Write to .parquet, which `load` reads, or .csv: for each proposal query, item, model, rank and score.

        raw: in CSV, leave text as it is that a spreadsheet takes for a formula.
        """
        pair, model = np.nonzero(np.column_stack([self.proposed, self.random]))
        by_chance = model == len(self.models)
        ranks, scores = (
            np.column_stack([values, np.zeros(len(self))])[pair, model] for values in (self.ranks, self.scores)
        )
        arrays = {
            "query": self.collection.query_ids[self.queries[pair]],
            "item": self.collection.item_ids[self.items[pair]],
            "model": np.array([*self.models, RANDOM])[model],
            "rank": ranks.astype(np.int32),
            "score": np.where(by_chance, np.nan, scores),
        }
        if Path(path).suffix == ".csv":
            write_csv(path, {name: column.tolist() for name, column in arrays.items()}, raw=raw)
            return
        facts = {name: getattr(self, name) for name in ("k", "one_per_identity", "seed")}
        about = provenance("pool", models=list(self.models), collection=self.collection.digest, **facts)
        write_arrays(path, arrays, about)

    @classmethod
    def load(cls, path: str | Path, collection: Collection) -> "Pool":
        """Read a pool that `save` wrote to .parquet."""
        arrays, about = read_arrays(path)
        if about.get("lookalike") != "pool":
            raise FileError(f"{path} holds no pool: it was not written by Pool.save", path=path)
        if not {"collection", "k", "one_per_identity", "seed", "models"} <= set(about):
            raise FileError(f"{path} is damaged: it does not say how the pool was made", path=path)
        if {arrays[name].ndim if name in arrays else 0 for name in COLUMNS} != {1}:
            columns = ", ".join(COLUMNS)
            raise FileError(f"{path} is damaged: it must have the columns {columns}, each a value a row", path=path)
        if arrays["rank"].dtype.kind not in "iu" or arrays["score"].dtype.kind not in "iuf":
            raise FileError(f"{path} is damaged: ranks and scores must be numbers", path=path)
        if about["collection"] != collection.digest:
            raise FileError(
                f"{path} is the pool of another collection: its queries or items have changed since", path=path
            )
        queries, items = collection.positions(zip(arrays["query"], arrays["item"], strict=True), f"{path}, proposal")
        by_chance = arrays["model"] == RANDOM
        drawn = np.unique(collection.keys(queries[by_chance], items[by_chance]))
        nothing = np.zeros((len(drawn), 0))
        pool = cls(
            collection, (), about["k"], drawn // collection.n_items, drawn % collection.n_items,
            nothing.astype(np.int32), nothing, np.ones(len(drawn), bool), about["one_per_identity"], about["seed"],
        )  # fmt: skip
        for name in about["models"]:
            rows = arrays["model"] == name
            pool = pool._with_column(name, queries[rows], items[rows], arrays["rank"][rows], arrays["score"][rows])
        return pool


def possible_pairs(collection: Collection) -> int:
    """How many pairs of a query and an item not its own there are."""
    return collection.n_queries * collection.n_items - int(collection.own_sizes.sum())


def draw_pairs(collection: Collection, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a query and an item not its own, drawn by chance, each at most once; sorted."""
    possible = possible_pairs(collection)
    if not 0 <= n <= possible:
        raise InputError(f"pairs drawn by chance must be from 0 to {possible}, got {n}")
    generator, keys = np.random.default_rng([seed, 1]), np.zeros(0, np.int64)
    if n > possible // 2:  # draw from a list of all: drawing until they differ would take long
        everything = np.arange(collection.n_queries * collection.n_items)
        others = ~collection.is_own(everything // collection.n_items, everything % collection.n_items)
        keys = generator.choice(everything[others], n, replace=False)
    while len(keys) < n:
        more = generator.integers(collection.n_queries * collection.n_items, size=2 * (n - len(keys)) + 8)
        more = more[~collection.is_own(more // collection.n_items, more % collection.n_items)]
        both = np.concatenate([keys, more])
        _, first = np.unique(both, return_index=True)
        keys = both[np.sort(first)][:n]
    keys = np.sort(keys)
    return keys // collection.n_items, keys % collection.n_items
