"""A metric is a value: `nDCG(gain='linear')@10` is its name, its key in results and its text on the command line."""

import ast
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError, InputTypeError
from lookalike.metrics.registry import MEASURES, NUMBER, WHOLE, Measure
from lookalike.metrics.values import Part, Values

if TYPE_CHECKING:
    from lookalike.evaluation.tally import Tally

ALIASES = {"mAP": "AP", "mLGAP": "LGAP", "HR": "Hit", "MRR": "RR"}
ELSEWHERE = {"recall": "R", "precision": "P", "success": "Hit", "hitrate": "Hit"}  # what others call ours
ALIASES |= {"mAP@R": "MAP@R", "MAPR": "MAP@R", "RPrec": "RPrecision"}
TREC_NAMES = {  # what trec_eval calls a metric, with K for a cutoff, and what it is here
    "map": "AP",
    "map_cut_K": "AP(norm='total')@K",
    "ndcg": "nDCG(gain='linear')",
    "ndcg_cut_K": "nDCG(gain='linear')@K",
    "P_K": "P@K",
    "recall_K": "R@K",
    "Rprec": "RPrecision",
    "recip_rank": "RR",
    "success_K": "Hit@K",
    "bpref": "Bpref",
}

LONGEST = 300  # letters of a name

__all__ = ["ALIASES", "MEASURES", "NUMBER", "TREC_NAMES", "WHOLE", "Measure", "Metric", "our_name", "parse_all"]

_NAME = re.compile(r"\s*(?P<name>[mM]AP@R\b|\w+)\s*(?:\((?P<parameters>[^()]*)\))?\s*(?:@\s*(?P<cutoff>[^\s@]+))?\s*")


@dataclass(frozen=True)
class Metric:
    """A metric with all its choices made; equal, hashed and printed by its name.

    >>> Metric.parse("mAP@1000"), Metric.parse("map_cut_1000")
    (AP@1000, AP(norm='total')@1000)
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
            raise InputTypeError(f"a metric is named by a string such as 'AP@1000', got {text!r}")
        if len(text) > LONGEST:  # comparing a very long text with names takes long
            raise InputError(f"a metric has a name of at most {LONGEST} letters, got {len(text):,}: {text[:20]!r}…")
        match = _NAME.fullmatch(our_name(text))
        if match is None:
            raise InputError(f"{text!r} is not the name of a metric: write NAME, NAME@k or NAME(parameter=value)@k")
        name = ALIASES.get(match["name"], match["name"])
        if name not in MEASURES:
            known = ELSEWHERE.get(match["name"].lower())
            hint = f", did you mean {known!r}?" if known else _question(match["name"], [*MEASURES, *ALIASES])
            hint = hint or f", only {', '.join(MEASURES)}"
            raise InputError(f"there is no metric {match['name']!r}{hint}")
        measure = MEASURES[name]
        parameters = _read_parameters(name, measure, match["parameters"] or "")
        cutoff = _read_cutoff(text, name, measure, match["cutoff"])
        if measure.cutoff == "required" and (cutoff is None) == (parameters.get("radius") is None):
            needed = f"a cutoff or a radius, {name}@10 or {name}(radius=2)"
            if "radius" not in measure.parameters:
                needed = f"a cutoff, such as {name}@10"
            raise InputError(f"{name} needs {needed}, got {text!r}")
        if cutoff is None:
            parameters.pop("norm", None)  # without a cutoff the denominators agree
        changed = {key: parameters[key] for key in measure.parameters if key in parameters}
        return cls(name, tuple((k, v) for k, v in changed.items() if v != measure.parameters[k][0]), cutoff)

    @property
    def measure(self) -> Measure:
        """The family it belongs to."""
        return MEASURES[self.name]

    def options(self) -> dict[str, Any]:
        """Every parameter with its value."""
        return {name: choices[0] for name, choices in self.measure.parameters.items()} | dict(self.parameters)

    @property
    def micro(self) -> bool:
        """Whether it compares the scores of different queries."""
        return bool(self.options().get("average") == "micro")

    @property
    def area(self) -> bool:
        """Whether it is of score thresholds, as areas are: judged items without a rank then tie below all others."""
        return "average" in self.measure.parameters

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is: `sign * value` is always higher for what is better."""
        return 1 if self.measure.higher_is_better else -1

    def compute(self, tally: "Tally") -> Values:
        """Its values for every query of a tally."""
        return self.part(tally).settled()

    def part(self, tally: "Tally") -> Part:
        """What a block of queries adds to the metric; all parts are joined, then settled."""
        options = self.options()
        if self.measure.cutoff != "none":
            options["k"] = None if self.cutoff is None else min(self.cutoff, 1 << 62)  # no gallery is larger
        return self.measure.compute(tally, **options)

    @property
    def label(self) -> str:
        """The name as readers need it: AP with a cutoff says what it divides by, FNMR at which rate it is."""
        always = "norm" if self.name == "AP" and self.cutoff is not None else "fmr" if self.name == "FNMR" else None
        if always is not None:
            return self._text({always: self.options()[always], **dict(self.parameters)})
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
        raise InputError("no metric is asked for: pass metrics such as ['AP@1000', 'nDCG@100']")
    return parsed


def our_name(text: str) -> str:
    """Our name of a metric of trec_eval, with further parameters if there are some; other texts as they are.

    >>> our_name("ndcg_cut_10"), our_name("P_5(rel=2)"), our_name("nDCG@10")
    ("nDCG(gain='linear')@10", 'P(rel=2)@5', 'nDCG@10')
    """
    match = re.fullmatch(r"\s*(?P<name>\w+?)(?:_(?P<cutoff>\d+))?\s*(?:\((?P<parameters>[^()]*)\))?\s*", text)
    name = "" if match is None else match["name"] + ("" if match["cutoff"] is None else "_K")
    if match is None or name not in TREC_NAMES:
        return text
    ours = _NAME.fullmatch(TREC_NAMES[name])
    assert ours is not None
    parameters = ", ".join(filter(None, (ours["parameters"], match["parameters"])))
    cutoff = "" if match["cutoff"] is None else f"@{match['cutoff']}"
    return ours["name"] + (f"({parameters})" if parameters else "") + cutoff


def _read_parameters(name: str, measure: Measure, text: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InputError(f"parameters of {name} are written as name=value, got {part!r}")
        if key not in measure.parameters:
            listed = ", ".join(measure.parameters)
            raise InputError(f"{name} has no parameter {key!r}{_question(key, measure.parameters)} (it has {listed})")
        if key in parameters:
            raise InputError(f"{name} is given {key} twice")
        parameters[key] = _read_value(name, key, value, measure.parameters[key])
    return parameters


_BOUNDS: dict[str, tuple[Callable[[float], bool], str]] = {
    "rel": (lambda value: 1 <= value < math.inf, "from 1"),
    "radius": (lambda value: 0 <= value < math.inf, "from 0"),
    "p": (lambda value: 0 < value < 1, "between 0 and 1"),
    "fmr": (lambda value: 0 <= value < 1, "from 0, below 1"),
}


def _read_value(name: str, key: str, text: str, choices: tuple[Any, ...]) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        value = text  # a word without quotes
    if choices[-1] in (WHOLE, NUMBER):
        inside, bounds = _BOUNDS[key]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole or (choices[-1] == NUMBER and isinstance(value, float))) or not inside(value):
            raise InputError(f"the {key!r} parameter of {name} must be a {choices[-1]} {bounds}, got {text}")
        return int(value) if value == int(value) else value
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise InputError(
            f"the {key!r} parameter of {name} must be one of {listed}, got {text}{_question(text, choices)}"
        )
    return value


def _read_cutoff(text: str, name: str, measure: Measure, cutoff: str | None) -> int | None:
    what, least = ("radius", 0) if measure.cutoff == "radius" else ("cutoff", 1)
    if cutoff is None:
        if measure.cutoff == "radius":
            raise InputError(f"{name} needs a radius, such as {name}@2, got {text!r}")
        return None
    if measure.cutoff == "none":
        raise InputError(f"{name} has no cutoff: write {name}, got {text!r}")
    if not re.fullmatch(r"\d{1,100}", cutoff) or int(cutoff) < least:
        if (name, cutoff) == ("AP", "R"):
            raise InputError(f"{text!r} is written as 'MAP@R' or 'MAP@R(rel=2)'")
        raise InputError(f"the {what} of {name} must be a whole number from {least}, got {cutoff!r} in {text!r}")
    return int(cutoff)


def _question(word: str, choices: Iterable[Any]) -> str:
    """A question after the nearest choice, nothing if none is near."""
    similar = nearest(word, choices, 0.5)
    return "" if similar is None else f", did you mean {similar!r}?"
