"""Agreement of experts: Krippendorff's alpha, Gwet's AC1, Cohen's kappa, and figures of each expert.

On a scale of three steps or more they weigh how far answers lie apart: see `ordinal_agreement`.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.text_table import aligned, percent
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.ordinal_agreement import as_counts, gwet_ac2, ordinal_alpha, weighted_kappa
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.votes import CANT_TELL, NOT_SIMILAR, SIMILAR, Ballots, Votes
from lookalike.evaluation.results import as_table, shown

if TYPE_CHECKING:
    import pandas

ENOUGH = 20  # pairs that two experts have both decided, for a kappa that says something

__all__ = [
    "ENOUGH",
    "Agreement",
    "ExpertFigures",
    "Kappas",
    "agreement",
    "cohen_kappa",
    "figure_cells",
    "gwet_ac1",
    "krippendorff_alpha",
]


@dataclass(frozen=True)
class ExpertFigures:
    """Figures of one expert's votes; a share is nan where there is no vote to count."""

    expert: str
    votes: int  # pairs with a vote of this expert; of several votes the last counts
    decided: int  # of these, pairs called similar or not similar, or given a grade
    cant_tell: float  # share of votes
    similar: float  # share of decided votes; on a scale, of grades that are positive
    with_others: float  # share of decided votes that agree with what most of the others say, where that is one answer
    median_seconds: float  # over all votes, changed ones too
    changed: int  # votes that differ from the expert's vote before on the same pair
    gold_asked: int  # gold pairs with a vote, can't tell too
    gold_right: int

    @property
    def gold(self) -> float:
        """Share of the gold pairs with a vote that the expert got right; can't tell is not right."""
        return self.gold_right / self.gold_asked if self.gold_asked else float("nan")


@dataclass(frozen=True)
class Kappas:
    """The lowest and the highest kappa of two experts. left_out: how many twos have too few pairs in common."""

    low: float
    high: float
    left_out: int

    @property
    def note(self) -> str:
        """A remark on the experts that were left out; empty if there are none."""
        return f" ({self.left_out:,} left out, with fewer than {ENOUGH} pairs in common)" if self.left_out else ""


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far experts agree, over all pairs with two decided votes or more; can't tell counts for neither side.

    kappa: (experts, experts), Cohen's kappa over the pairs that both decided, `common` of them; nan where undefined.
    unanimous: share of pairs on which all who decided agree. figures: of each expert. scale: of the answers; with three
    steps or more, alpha is the ordinal one, ac1 is AC2, and kappa is weighted, both with quadratic weights. rel: the
    lowest grade that is positive.
    """

    alpha: float
    ac1: float
    kappa: np.ndarray
    common: np.ndarray
    unanimous: float
    pairs: int  # with two decided votes or more
    figures: tuple[ExpertFigures, ...]
    scale: Scale = BINARY
    rel: int = 1

    @property
    def names(self) -> tuple[str, str, str]:
        """What alpha, ac1 and kappa are called: on a scale they are other figures."""
        if self.scale.graded:
            return "Krippendorff's ordinal alpha", "Gwet's AC2", "Cohen's weighted kappa"
        return "Krippendorff's alpha", "Gwet's AC1", "Cohen's kappa"

    @property
    def positive(self) -> str:
        """What an answer is called that is positive: "similar", or on a scale "related or more"."""
        return self.scale.positive(self.rel)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each expert."""
        return [{**vars(figures), "gold": figures.gold} for figures in self.figures]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for other programs to read."""
        graded = self.scale.graded
        about = {} if self.scale == BINARY else {"scale": str(self.scale), "rel": self.rel}
        figures = {"alpha": self.alpha, "ac2" if graded else "ac1": self.ac1}
        figures |= {"unanimous": self.unanimous, "pairs": self.pairs}
        return about | figures | {"experts": self.rows(), "kappas": self.kappa_rows()}

    def kappa_rows(self) -> list[dict[str, Any]]:
        """A row for each two experts."""
        names = [figures.expert for figures in self.figures]
        return [
            {"first": names[i], "second": names[j], "pairs": int(self.common[i, j]), "kappa": float(self.kappa[i, j])}
            for i, j in zip(*np.triu_indices(len(names), 1), strict=True)
        ]

    @property
    def kappas(self) -> "Kappas | None":
        """The lowest and the highest Cohen's kappa of two experts; None where no two have one.

        Two experts with fewer than ENOUGH pairs in common are left out, unless there are no others.
        """
        defined = [(row["kappa"], row["pairs"]) for row in self.kappa_rows() if not math.isnan(row["kappa"])]
        sure = [kappa for kappa, pairs in defined if pairs >= ENOUGH]
        kappas = sure or [kappa for kappa, _ in defined]
        return Kappas(min(kappas), max(kappas), len(defined) - len(kappas)) if defined else None

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for each expert."""
        return as_table(self.rows()).set_index("expert")

    def __str__(self) -> str:
        head = ["expert", "votes", "decided", "can't tell", self.positive, "as others", "seconds", "changed", "gold"]
        table = [figure_cells(figures) for figures in self.figures]
        kappas, between = self.kappas, ""
        alpha, ac1, kappa = self.names
        if kappas is not None:
            between = f", {kappa} {shown(kappas.low)} to {shown(kappas.high)}{kappas.note}"
        if not self.pairs:
            return f"{aligned([head, *table])}\nno pair has two decided votes: how far experts agree is not known"
        return "\n".join(
            [
                aligned([head, *table]),
                f"{alpha} {shown(self.alpha)}, {ac1} {shown(self.ac1)}{between}",
                f"{percent(self.unanimous)} of {self.pairs:,} pairs with two decided votes or more are unanimous",
            ]
        )

    __repr__ = __str__


def figure_cells(f: ExpertFigures) -> list[str]:
    """The figures of an expert as the cells of a table in text."""
    return [
        f.expert,
        f"{f.votes:,}",
        f"{f.decided:,}",
        percent(f.cant_tell),
        percent(f.similar),
        percent(f.with_others),
        "-" if np.isnan(f.median_seconds) else f"{f.median_seconds:.1f}",
        f"{f.changed:,}",
        f"{f.gold_right}/{f.gold_asked}" if f.gold_asked else "-",
    ]


def agreement(votes: Votes, gold: Any = None, rel: int | None = None) -> Agreement:
    """How far experts agree with each other, and with the known answers of gold pairs.

    gold: judgements, or rows (query, item, grade); on a scale an answer is right where it is that grade. Gold pairs
    count like all others wherever experts are compared. rel: the lowest grade that is positive, by default the highest.

    >>> votes = Votes(["q"] * 6, list("aabbcc"), ["ann", "bob"] * 3, [1, 1, 1, 0, 0, 0])
    >>> print(agreement(votes, gold=[("q", "b", 1)]))
    expert  votes  decided  can't tell  similar  as others  seconds  changed  gold
    ann         3        3        0.0%    66.7%      66.7%        -        0   1/1
    bob         3        3        0.0%    33.3%      66.7%        -        0   0/1
    Krippendorff's alpha 0.4444, Gwet's AC1 0.3333, Cohen's kappa 0.4000 to 0.4000
    66.7% of 3 pairs with two decided votes or more are unanimous
    """
    ballots, least = votes.ballots, votes.scale.rel(rel)
    counts, graded = ballots.by_grade, votes.scale.graded
    several = counts.sum(1) > 1
    kappa, common = (_weighted_kappas if graded else _kappas)(ballots)
    return Agreement(
        alpha=(ordinal_alpha if graded else krippendorff_alpha)(counts),
        ac1=(gwet_ac2 if graded else gwet_ac1)(counts),
        kappa=kappa,
        common=common,
        unanimous=_share(((counts[several] > 0).sum(1) == 1).sum(), several.sum()),
        pairs=int(several.sum()),
        figures=_figures(votes, counts, {} if gold is None else Judgements.of(gold).by_pair, least),
        scale=votes.scale,
        rel=least,
    )


def krippendorff_alpha(counts: Any) -> float:
    """Krippendorff's alpha for unordered answers: 1 is perfect agreement, 0 what chance gives (Krippendorff 2011).

    counts: (n_pairs, n_answers), how many experts gave each answer; pairs with fewer than two answers say nothing.
    nan where no pair has two, or where all answers are the same.

    >>> round(krippendorff_alpha([[2, 0], [1, 1], [0, 2]]), 4)     # 1 - (2/6) / (2·3·3 / (6·5))
    0.4444
    """
    counts = as_counts(counts)
    counts = counts[counts.sum(1) > 1]
    per_pair, per_answer = counts.sum(1), counts.sum(0)
    n = per_pair.sum()
    observed = ((per_pair**2 - (counts**2).sum(1)) / (per_pair - 1)).sum() / max(n, 1)
    expected = (n**2 - (per_answer**2).sum()) / max(n * (n - 1), 1)
    return float(1 - observed / expected) if expected > 0 else float("nan")


def gwet_ac1(counts: Any) -> float:
    """Gwet's AC1: agreement beyond chance that skewed answers do not spoil (Gwet 2008; missing votes: Gwet 2014).

    counts: (n_pairs, n_answers), how many experts gave each answer. Pairs with two answers or more say how far experts
    agree, all pairs how common an answer is. nan where no pair has two.

    >>> round(gwet_ac1([[2, 0], [1, 1], [0, 2]]), 4)       # (2/3 - 1/2) / (1 - 1/2)
    0.3333
    """
    counts = as_counts(counts)
    counts = counts[counts.sum(1) > 0]
    n = counts.sum(1)
    several = n > 1
    if not several.any():
        return float("nan")
    agreeing = (counts * (counts - 1)).sum(1)[several] / (n * (n - 1))[several]
    common = (counts / n[:, None]).mean(0)
    chance = (common * (1 - common)).sum() / (counts.shape[1] - 1)
    return float((agreeing.mean() - chance) / (1 - chance))


def cohen_kappa(table: Any) -> float:
    """Cohen's kappa of two experts: agreement beyond what their own shares of each answer give by chance (Cohen 1960).

    table: (n_answers, n_answers), how many pairs the first gave the answer of the row, the second that of the column.
    nan where there is no pair, or where both gave one answer alone.

    >>> round(cohen_kappa([[1, 0], [1, 1]]), 4)        # (2/3 - 4/9) / (1 - 4/9)
    0.4
    """
    table = as_counts(table)
    if table.shape[0] != table.shape[1]:
        raise InputError(f"a table of two experts has as many rows as columns, got shape {table.shape}")
    return float(_kappa(table.trace(), (table.sum(1) * table.sum(0)).sum(), table.sum()))


def _kappa(same: Any, by_chance: Any, n: Any) -> np.ndarray:
    """Cohen's kappa from the number of equal answers, the sum of products of margins, and the number of pairs."""
    beyond = n * n - by_chance
    return np.divide(n * same - by_chance, beyond, out=np.full(np.shape(beyond), np.nan), where=beyond > 0)


def _marks(ballots: Ballots, answer: int) -> Any:
    """A sparse matrix (n_pairs, n_experts) with 1 where an expert gave this answer."""
    from scipy.sparse import csr_array

    chosen = ballots.answers == answer
    shape = (len(ballots.queries), len(ballots.experts))
    return csr_array((np.ones(chosen.sum(), np.int64), (ballots.pair[chosen], ballots.expert[chosen])), shape=shape)


def _weighted_kappas(ballots: Ballots) -> tuple[np.ndarray, np.ndarray]:
    """The weighted kappa of every two experts, and the number of pairs that both decided."""
    marks = [_marks(ballots, grade) for grade in range(len(ballots.scale))]
    tables = np.array([[(first.T @ second).toarray() for second in marks] for first in marks])
    n = len(ballots.experts)
    kappas = [[weighted_kappa(tables[:, :, one, other]) for other in range(n)] for one in range(n)]
    return np.array(kappas).reshape(n, n), tables.sum((0, 1)).reshape(n, n)


def _kappas(ballots: Ballots) -> tuple[np.ndarray, np.ndarray]:
    """Cohen's kappa of every two experts, and the number of pairs that both decided."""
    no, yes = (_marks(ballots, answer) for answer in (NOT_SIMILAR, SIMILAR))
    both_yes, both_no, yes_no = ((a.T @ b).toarray() for a, b in ((yes, yes), (no, no), (yes, no)))
    common = both_yes + both_no + yes_no + yes_no.T
    first_yes = both_yes + yes_no  # of the expert of the row, among pairs that both decided
    by_chance = first_yes * first_yes.T + (common - first_yes) * (common - first_yes).T
    return _kappa(both_yes + both_no, by_chance, common), common


def _figures(
    votes: Votes, counts: np.ndarray, gold: dict[tuple[str, str], int], least: int
) -> tuple[ExpertFigures, ...]:
    ballots, answers = votes.ballots, votes.ballots.answers
    decided = answers != CANT_TELL
    others = counts[ballots.pair]
    others[np.flatnonzero(decided), answers[decided]] -= 1
    most = others.max(1, keepdims=True, initial=0)
    comparable = decided & ((others == most).sum(1) == 1)  # one answer is the most frequent of the others
    as_others = comparable & (others.argmax(1) == answers)
    grades = [gold.get(pair) for pair in zip(ballots.queries.tolist(), ballots.items.tolist(), strict=True)]
    highest = ballots.scale.top  # without a scale, whatever is above 0 is similar
    truth = np.array([CANT_TELL if grade is None else min(grade, highest) for grade in grades], np.int8)[ballots.pair]
    asked = truth != CANT_TELL
    chosen = (decided | True, decided, answers >= least, comparable, as_others, asked, asked & (truth == answers))
    n, n_decided, n_similar, n_comparable, n_as_others, n_asked, n_right = (
        np.bincount(ballots.expert[mask], minlength=len(ballots.experts)).tolist() for mask in chosen
    )
    by = np.searchsorted(ballots.experts, votes.experts)
    return tuple(
        ExpertFigures(
            expert=name,
            votes=n[i],
            decided=n_decided[i],
            cant_tell=_share(n[i] - n_decided[i], n[i]),
            similar=_share(n_similar[i], n_decided[i]),
            with_others=_share(n_as_others[i], n_comparable[i]),
            median_seconds=_median(votes.seconds[by == i]),
            changed=int(ballots.changed[by == i].sum()),
            gold_asked=n_asked[i],
            gold_right=n_right[i],
        )
        for i, name in enumerate(ballots.experts.tolist())
    )


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float("nan")


def _median(values: np.ndarray) -> float:
    measured = values[~np.isnan(values)]
    return float(np.median(measured)) if len(measured) else float("nan")
