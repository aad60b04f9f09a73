"""The tables 4 to 8 of Barkan et al. 2023, with their columns in their order, of a study's own models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookalike.core.text_table import aligned
from lookalike.discovery.collection import Collection
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.leaderboard import AREAS, Leaderboard, leaderboard
from lookalike.discovery.pool import Pool
from lookalike.discovery.recognition import CUTOFFS, recognition, why_no_recognition
from lookalike.metrics.metric import Metric, parse_all

BUILDERS, NEW = "GT generators", "New models"  # the paper's words for who built the pool, and who did not
HEADS = {"VSDHR": "HR", "VSDMRR": "MRR", "AUC": "ROC-AUC", "PRAUC": "PR-AUC"}
NEGATIVES = {"judged": "Anno.", "sampled": "Neg"}
TITLES = {
    4: "Identity recognition performance",
    5: "Discovery performance",
    6: "Image in the wild performance",
    7: "Closed-catalog discovery performance",
    8: "Image in the wild discovery performance",
}
ALL_IMAGES = (
    "HR and MRR of tables 5 to 8 rank every image of a product, as the pool was made; Barkan et al. rank one of each"
)
OTHERS = "models that did not build the pool"
NO_SAMPLE = "no column Neg: negatives are sampled among unjudged items that some model ranks 101 to 500 and none above"

__all__ = ["BUILDERS", "NEW", "TITLES", "PaperTable", "PaperTables", "paper_tables"]


@dataclass(frozen=True)
class PaperTable:
    """One table: a column for each metric, in the paper's order, and models in groups. missing: why there is none.

    values: {model: {metric: (mean, low, high)}}, from 0 to 1; printed in per cent. note: what it lacks.
    """

    number: int
    metrics: list[Metric] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, dict[Metric, tuple[float, float, float]]] = field(default_factory=dict)
    missing: str = ""
    note: str = ""

    @property
    def title(self) -> str:
        """The table's number and title in the paper."""
        return f"Table {self.number}. {TITLES[self.number]}"

    @property
    def heads(self) -> list[list[str]]:
        """The lines of the head, a cell for each column; a cell that goes on is empty."""
        cells = [self.head(metric) for metric in self.metrics]
        depth = max((len(cell) for cell in cells), default=0)
        lines = [[cell[line] if line < len(cell) else "" for cell in cells] for line in range(depth)]
        for line in range(depth - 1):
            above = [tuple(cell[: line + 1]) for cell in cells]
            repeats = [here == before for here, before in zip(above[1:], above, strict=False)]
            lines[line][1:] = ["" if again else name for again, name in zip(repeats, lines[line][1:], strict=True)]
        return lines

    def head(self, metric: Metric) -> list[str]:
        """The words above a column, from the top. Tables 7 and 8 have judged negatives alone, and do not say so."""
        return _heads(metric)[: 2 if self.number in (7, 8) else 3]

    def is_best(self, model: str, metric: Metric) -> bool:
        """Whether no model of the table has a higher number; of equal numbers each is the best."""
        means = [values[metric][0] for values in self.values.values()]
        return len(means) > 1 and bool(self.values[model][metric][0] >= np.nanmax([*means, -np.inf]) - 1e-12)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each model and column."""
        return [
            {
                "model": model, "group": group, "column": " ".join(self.head(metric)), "metric": metric.label,
                **dict(zip(("mean", "low", "high"), self.values[model][metric], strict=True)),
            }
            for group, models in self.groups.items() for model in models for metric in self.metrics
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        return {
            "table": self.number, "title": TITLES[self.number], "missing": self.missing or None,
            "note": self.note or None, "columns": [" ".join(self.head(metric)) for metric in self.metrics],
            "rows": self.rows(),
        }  # fmt: skip

    def __str__(self) -> str:
        if self.missing:
            return f"{self.title}: {self.missing}"
        lines = [["", *head] for head in self.heads]
        for group, models in self.groups.items():
            lines += [[group, *[""] * len(self.metrics)]] if group else []
            lines += [[model, *(self._cell(model, metric) for metric in self.metrics)] for model in models]
        return "\n".join([self.title, aligned(lines), *([self.note] if self.note else [])])

    def _cell(self, model: str, metric: Metric) -> str:
        mean = self.values[model][metric][0]
        return "- " if np.isnan(mean) else f"{mean * 100:.1f}{'*' if self.is_best(model, metric) else ' '}"


@dataclass(frozen=True)
class PaperTables:
    """The tables 4 to 8; prints each that can be made, and one line for each that cannot."""

    tables: list[PaperTable]

    def to_dict(self) -> list[dict[str, Any]]:
        """All tables as plain Python values."""
        return [table.to_dict() for table in self.tables]

    def __str__(self) -> str:
        made = [str(table) for table in self.tables if not table.missing]
        missing = "\n".join(str(table) for table in self.tables if table.missing)
        reading = "as in Barkan et al. 2023, in per cent; * best of a column" if made else ""
        return "\n\n".join(part for part in (reading, *made, missing) if part)

    __repr__ = __str__


def paper_tables(
    models: Mapping[str, Any],
    judgements: Judgements,
    collection: Collection,
    *,
    pool: Pool | None = None,
    **options: Any,
) -> PaperTables:
    """The tables 4 to 8 of Barkan et al. 2023 of these models. options: of `leaderboard`.

    Tables 5 and 7 are of queries that are items, 6 and 8 of others. Tables 7 and 8 are of models that did not build the
    pool; they use judged negatives, as the size of the printed numbers shows.
    """
    closed = bool(np.isin(collection.query_ids, collection.item_ids).any())
    tables = [_recognised(models, collection, options)]
    board = None
    if collection.n_items >= max(CUTOFFS):
        board = leaderboard(models, judgements, collection, pool=pool, cutoffs=CUTOFFS, **options)
    for number in (5, 6, 7, 8):
        if closed != (number in (5, 7)):
            tables.append(PaperTable(number, missing=_other_queries(closed)))
        elif board is None:
            few = f"it looks at {max(CUTOFFS)} ranks, and there are {collection.n_items} items"
            tables.append(PaperTable(number, missing=few))
        else:
            tables.append(_discovery(number, board))
    return PaperTables(tables)


def _other_queries(closed: bool) -> str:
    return "of queries that are not items, and these are" if closed else "of queries that are items, and these are not"


def _recognised(models: Mapping[str, Any], collection: Collection, options: Mapping[str, Any]) -> PaperTable:
    """Table 4."""
    if why := why_no_recognition(collection):
        return PaperTable(4, missing=why)
    some = {name: options[name] for name in ("resamples", "seed", "threads") if name in options}
    found = recognition(models, collection, **some)
    values = {
        name: {metric: (score.mean, *found.intervals[name][metric]) for metric, score in evaluation.scores.items()}
        for name, evaluation in found.evaluations.items()
    }
    return PaperTable(4, found.metrics, {"": list(values)}, values)


def _discovery(number: int, board: Leaderboard) -> PaperTable:
    """Table 5 or 6, of all models; 7 or 8, of those that did not build the pool."""
    few = number in (7, 8)
    cutoffs = CUTOFFS[:1] if few else CUTOFFS
    ranks = [f"{name}@{k}" for name in ("VSDHR", "VSDMRR") for k in cutoffs]
    metrics = parse_all([*ranks, *(area for area in AREAS if not few or "sampled" not in area)])
    measured = [metric for metric in metrics if metric in board.metrics]
    builders = [name for name, helped in board.helped.items() if helped]
    new = [name for name in board.helped if name not in builders]
    if few and not new:
        return PaperTable(number, missing=f"of {OTHERS}, and all of these did")
    groups = {"": new} if few or not builders else {BUILDERS: builders, NEW: new}
    values = {
        name: {metric: (board[name][metric].mean, *board.intervals[name][metric]) for metric in measured}
        for names in groups.values()
        for name in names
    }
    notes = [OTHERS] * (few and bool(builders)) + [NO_SAMPLE] * (len(measured) < len(metrics))
    notes += [ALL_IMAGES] * (board.contest.collection.has_identities and not board.contest.one_per_identity)
    return PaperTable(
        number, measured, {group: names for group, names in groups.items() if names}, values, "", "; ".join(notes)
    )


def _heads(metric: Metric) -> list[str]:
    """The words above a column, from the top.

    >>> _heads(Metric.parse("VSDHR@5")), _heads(Metric.parse("PRAUC(average='micro', negatives='sampled')"))
    (['HR', '@5'], ['PR-AUC', 'Micro', 'Neg'])
    """
    if metric.cutoff is not None:
        return [HEADS[metric.name], f"@{metric.cutoff}"]
    options = metric.options()
    return [HEADS[metric.name], options["average"].capitalize(), NEGATIVES[options["negatives"]]]
