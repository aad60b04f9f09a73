"""A metric is a value: `nDCG(gain='linear')@10` is its name, its key in results and its text on the command line."""

import ast
import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.metrics.average_precision import NORMS, average_precision
from lookalike.metrics.first import hit, reciprocal_rank
from lookalike.metrics.gain import DISCOUNTS, GAINS, dcg, ndcg
from lookalike.metrics.local_group import local_group_average_precision
from lookalike.metrics.retrieved import precision, precision_within, recall, recall_within
from lookalike.metrics.thresholds import area_under_precision_recall, area_under_roc
from lookalike.metrics.values import Values

if TYPE_CHECKING:
    from lookalike.tally import Tally

__all__ = ["MEASURES", "Measure", "Metric", "parse_all"]


@dataclass(frozen=True)
class Measure:
    """A family of metrics: how it is computed from a tally, and what its names may say."""

    summary: str
    compute: Callable[..., Values]  # of the tally, k and the parameters
    parameters: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # choices, the first the default
    cutoff: str = "optional"  # "optional", "required", "none", or "radius" where @r is one
    undefined: str = "zero"
    where_undefined: str = "nothing relevant"


def _groups(tally: "Tally", rel: int, k: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Relevant and retrieved items of the groups that a cutoff leaves."""
    return tally.relevant(rel)[:, tally.top(k)], tally.retrieved[:, tally.top(k)]


def _binary(function: Callable[..., Values]) -> Callable[..., Values]:
    """A metric of relevant and retrieved items alone."""

    def compute(tally: "Tally", rel: int, **options: Any) -> Values:
        return function(*_groups(tally, rel, options.get("k")), **options)

    return compute


def _binary_with_total(function: Callable[..., Values]) -> Callable[..., Values]:
    """A metric that also needs how many relevant items there are, ranked or not."""

    def compute(tally: "Tally", rel: int, **options: Any) -> Values:
        return function(*_groups(tally, rel, options["k"]), total=tally.total_relevant(rel), **options)

    return compute


def _precision(tally: "Tally", rel: int, radius: float | None, k: int | None) -> Values:
    if radius is not None:
        return precision_within(tally.relevant(rel), tally.retrieved, tally.within(radius))
    assert k is not None
    return precision(*_groups(tally, rel, k), k)


def _recall(tally: "Tally", rel: int, radius: float | None, k: int | None) -> Values:
    total = tally.total_relevant(rel)
    if radius is not None:
        return recall_within(tally.relevant(rel), total, tally.within(radius))
    assert k is not None
    return recall(*_groups(tally, rel, k), total, k)


def _lgap(tally: "Tally", rel: int, k: int) -> Values:
    if tally.n_bits is None:
        raise ValueError("LGAP is a metric of codes: embeddings and scores have no code space to fill")
    if tally.condensed:
        raise ValueError("LGAP needs every item's code: it has no value when unjudged items are left out (condensed)")
    if tally.largest is None or tally.largest.shape[1] <= min(k, tally.n_bits):
        raise ValueError(f"LGAP@{k} needs the codes within radius {k}: count with radius={k}")
    return local_group_average_precision(tally.relevant(rel), tally.largest, tally.n_bits, k)


def _dcg(tally: "Tally", k: int | None, **options: Any) -> Values:
    return dcg(tally.counts[:, tally.top(k)], k, **options)


def _ndcg(tally: "Tally", k: int | None, **options: Any) -> Values:
    return ndcg(tally.counts[:, tally.top(k)], tally.totals, k, **options)


WHOLE, NUMBER = "whole number", "number"  # parameters that are not a choice of words
_REL = (1, WHOLE)
_RADIUS = (None, NUMBER)

MEASURES: dict[str, Measure] = {
    "AP": Measure(
        "mean over the relevant items of the precision at their rank",
        _binary_with_total(average_precision),
        {"norm": NORMS, "rel": _REL},
    ),
    "nDCG": Measure(
        "gains discounted by rank, over those of the ideal ranking",
        _ndcg,
        {"gain": GAINS, "discount": DISCOUNTS},
    ),
    "DCG": Measure(
        "gains discounted by rank, summed", _dcg, {"gain": GAINS, "discount": DISCOUNTS}, where_undefined="never"
    ),
    "P": Measure(
        "share of relevant items in the top k, or within a radius",
        _precision,
        {"radius": _RADIUS, "rel": _REL},
        cutoff="required",
        where_undefined="never",
    ),
    "R": Measure(
        "share of all relevant items that are in the top k, or within a radius",
        _recall,
        {"radius": _RADIUS, "rel": _REL},
        cutoff="required",
    ),
    "Hit": Measure("whether any relevant item is in the top k", _binary(hit), {"rel": _REL}, where_undefined="never"),
    "RR": Measure("1 / rank of the first relevant item", _binary_with_total(reciprocal_rank), {"rel": _REL}),
    "AUC": Measure(
        "share of (relevant, other) pairs in the right order; a tie counts half",
        _binary(area_under_roc),
        {"rel": _REL},
        cutoff="none",
        undefined="skip",
        where_undefined="one class only",
    ),
    "PRAUC": Measure(
        "area under the precision-recall curve, by steps; a tie group is one threshold",
        _binary(area_under_precision_recall),
        {"rel": _REL},
        cutoff="none",
        undefined="skip",
        where_undefined="one class only",
    ),
    "LGAP": Measure(
        "precision within radius 0…r, weighed by how evenly items fill the codes there",
        _lgap,
        {"rel": _REL},
        cutoff="radius",
        where_undefined="never",
    ),
}
ALIASES = {"mAP": "AP", "mLGAP": "LGAP", "HR": "Hit", "MRR": "RR"}

_NAME = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<parameters>[^()]*)\))?\s*(?:@\s*(?P<cutoff>[^\s@]+))?\s*")


@dataclass(frozen=True)
class Metric:
    """A metric with all its choices made; equal, hashed and printed by its name.

    >>> Metric.parse("mAP@1000")
    AP@1000
    >>> Metric.parse('AP(norm="total")@1000').label, Metric.parse("AP@1000").label
    ("AP(norm='total')@1000", "AP(norm='retrieved')@1000")
    """

    name: str
    parameters: tuple[tuple[str, Any], ...] = ()  # those that differ from the default, in the measure's order
    cutoff: int | None = None

    @classmethod
    def parse(cls, text: "str | Metric") -> "Metric":
        """Read a name such as "nDCG(gain='linear')@10"."""
        if isinstance(text, Metric):
            return text
        if not isinstance(text, str):
            raise TypeError(f"a metric is named by a string such as 'AP@1000', got {text!r}")
        match = _NAME.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not the name of a metric: write NAME, NAME@k or NAME(parameter=value)@k")
        name = ALIASES.get(match["name"], match["name"])
        if name not in MEASURES:
            raise ValueError(f"there is no metric {match['name']!r}{_nearest(match['name'], [*MEASURES, *ALIASES])}")
        measure = MEASURES[name]
        given = _read_parameters(name, measure, match["parameters"] or "")
        cutoff = _read_cutoff(text, name, measure, match["cutoff"])
        if measure.cutoff == "required" and (cutoff is None) == (given.get("radius") is None):
            raise ValueError(f"{name} needs a cutoff or a radius, {name}@10 or {name}(radius=2), got {text!r}")
        if "norm" in given and cutoff is None:
            del given["norm"]  # without a cutoff the denominators agree
        changed = {key: given[key] for key in measure.parameters if key in given}
        return cls(name, tuple((k, v) for k, v in changed.items() if v != measure.parameters[k][0]), cutoff)

    @property
    def measure(self) -> Measure:
        """The family it belongs to."""
        return MEASURES[self.name]

    def options(self) -> dict[str, Any]:
        """Every parameter with its value."""
        return {name: choices[0] for name, choices in self.measure.parameters.items()} | dict(self.parameters)

    def compute(self, tally: "Tally") -> Values:
        """Its values for every query of a tally."""
        options = self.options()
        if self.measure.cutoff != "none":
            options["k"] = None if self.cutoff is None else min(self.cutoff, 1 << 62)  # no gallery is larger
        return self.measure.compute(tally, **options)

    @property
    def label(self) -> str:
        """The name in full where a reader needs it: AP cut at k says what it divides by."""
        if self.name == "AP" and self.cutoff is not None:
            return self._text({"norm": self.options()["norm"], **dict(self.parameters)})
        return str(self)

    def _text(self, parameters: dict[str, Any]) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        return self.name + (f"({inner})" if inner else "") + ("" if self.cutoff is None else f"@{self.cutoff}")

    def __str__(self) -> str:
        return self._text(dict(self.parameters))

    __repr__ = __str__


def parse_all(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """Several metrics, each once, in the order given: a list, or one string with spaces or commas between them.

    >>> parse_all("AP(norm='total', rel=2)@5 mAP, P@10")
    [AP(norm='total', rel=2)@5, AP, P@10]
    """
    if isinstance(metrics, Metric):
        metrics = [metrics]
    if isinstance(metrics, str):  # separated by what is not within parentheses
        metrics = [name for name in re.split(r"[\s,]+(?![^()]*\))", metrics.strip()) if name]
    parsed = list(dict.fromkeys(Metric.parse(metric) for metric in metrics))
    if not parsed:
        raise ValueError("no metric is asked for: pass metrics such as ['AP@1000', 'nDCG@100']")
    return parsed


def _read_parameters(name: str, measure: Measure, text: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f"parameters of {name} are written as name=value, got {part!r}")
        if key not in measure.parameters:
            known = ", ".join(measure.parameters)
            raise ValueError(f"{name} has no parameter {key!r}{_nearest(key, measure.parameters)} (it has {known})")
        if key in given:
            raise ValueError(f"{name} is given {key} twice")
        given[key] = _read_value(name, key, value, measure.parameters[key])
    return given


def _read_value(name: str, key: str, text: str, choices: tuple[Any, ...]) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        value = text  # a word without quotes
    if choices[-1] in (WHOLE, NUMBER):
        whole = isinstance(value, int) and not isinstance(value, bool)
        least = 1 if key == "rel" else 0
        if not (whole or (choices[-1] == NUMBER and isinstance(value, float))) or not least <= value < float("inf"):
            raise ValueError(f"the {key!r} parameter of {name} must be a {choices[-1]} from {least}, got {text}")
        return int(value) if value == int(value) else value
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(
            f"the {key!r} parameter of {name} must be one of {listed}, got {text}{_nearest(text, choices)}"
        )
    return value


def _read_cutoff(text: str, name: str, measure: Measure, cutoff: str | None) -> int | None:
    what, least = ("radius", 0) if measure.cutoff == "radius" else ("cutoff", 1)
    if cutoff is None:
        if measure.cutoff == "radius":
            raise ValueError(f"{name} needs a radius, such as {name}@2, got {text!r}")
        return None
    if measure.cutoff == "none":
        raise ValueError(f"{name} has no cutoff: write {name}, got {text!r}")
    if not re.fullmatch(r"\d{1,100}", cutoff) or int(cutoff) < least:
        raise ValueError(f"the {what} of {name} must be a whole number from {least}, got {cutoff!r} in {text!r}")
    return int(cutoff)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.5)
    return next((f", did you mean {name!r}?" for name in known if close and name.lower() == close[0]), "")
