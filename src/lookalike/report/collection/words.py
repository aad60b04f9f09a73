"""Sentences about a survey."""

import math

from lookalike.report.leaderboard.words import interval, signed
from lookalike.report.numbers import number, percent, plural
from lookalike.study.survey import Alike, Retrieval, StorageOption, Survey, Tradeoff

TASKS = {"identity": "the same identity", "category": "the same category"}
MANY = {"identity": "identities", "category": "categories"}
NAMES = {"RR": "MRR"}

__all__ = [
    "MANY",
    "TASKS",
    "apart",
    "called",
    "good_enough",
    "lead_sentence",
    "memory",
    "rule",
    "summary",
    "usual",
    "within",
]


def apart(value: float, unit: str) -> str:
    """How far two items are apart, never rounded to the same.

    >>> apart(4, "bits"), apart(1, "bits"), apart(0.99993, "cosine"), apart(1.0, "cosine"), apart(12.345, "distance")
    ('4 bits', '1 bit', 'cosine >0.999', 'cosine 1', 'distance 12.3')
    """
    if unit == "bits":
        return plural(int(value), "bit")
    return f"{unit} {_plain(value, unit)}"


def within(nearest: float, farthest: float, unit: str) -> str:
    """The range of distances within a group, as text.

    >>> within(0, 4, "bits"), within(1.0, 0.96, "cosine"), within(1.0, 1.0, "cosine"), within(0.5, 0.5, "distance")
    ('0 to 4 bits', 'cosine 0.960 to 1', 'identical', 'distance 0.5')
    """
    if nearest == farthest and nearest == (1.0 if unit == "cosine" else 0):
        return "identical"
    low, high = sorted((nearest, farthest))
    if _plain(low, unit) == _plain(high, unit):
        return apart(low, unit)
    return (
        f"{int(low)} to {int(high)} bits" if unit == "bits" else f"{unit} {_plain(low, unit)} to {_plain(high, unit)}"
    )


def _plain(value: float, unit: str) -> str:
    if unit == "bits":
        return str(int(value))
    if unit == "distance":
        return f"{value:.3g}"
    return "1" if value == 1 else ">0.999" if value >= 0.9995 else number(value)


def rule(alike: Alike) -> str:
    """A sentence on when two items are near-duplicates, and why."""
    near = alike.near
    shown = _plain(near.limit, alike.unit)
    nearer = {
        "bits": f"differ in at most {plural(int(near.limit), 'bit')}",
        "cosine": f"have a cosine of at least {shown}",
        "distance": f"are at most {shown} apart",
    }
    derived = "one bit of 16" if alike.unit == "bits" else "a quarter of the usual distance"
    why = "as was asked for" if near.chosen else derived
    return f"Two items are near-duplicates if they {nearer[alike.unit]} ({why}). {usual(alike)}"


def usual(alike: Alike) -> str:
    """A sentence on the usual distance of two items."""
    return f"The median of two items drawn by chance is {apart(alike.near.usual, alike.unit)}."


def called(label: str) -> str:
    """The name of a metric for readers.

    >>> called("RR"), called("Hit@1")
    ('MRR', 'Hit@1')
    """
    return NAMES.get(label, label)


def memory(n_bytes: float) -> str:
    """Bytes as people write them.

    >>> memory(8), memory(5120), memory(8_000_000), memory(5.12e9)
    ('8 B', '5.1 kB', '8 MB', '5.1 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            shown = n_bytes / size
            return f"{shown:.1f} {unit}".replace(".0 ", " ") if shown < 100 else f"{shown:,.0f} {unit}"
    return f"{n_bytes:.0f} B"


def summary(survey: Survey) -> list[str]:
    """Sentences on the size, near-duplicates, look-alikes, the best model and short codes."""
    sentences = [_size(survey)]
    if survey.lead is not None:
        sentences += _near(survey, survey.alike[survey.lead])
    sentences += [lead_sentence(retrieval) for retrieval in survey.retrieval[:1]]
    if survey.tradeoff is not None:
        sentences += _saved(survey.tradeoff)
    return sentences


def _size(survey: Survey) -> str:
    counts = [plural(len(survey.ids), "item")]
    for labels, name in ((survey.identities, "identity"), (survey.categories, "category")):
        if labels is not None:
            counts.append(plural(len({label for label in labels.tolist() if label}), name))
    vectors = plural(len(survey.models), "model")
    return f"{', '.join(counts)}; seen by {vectors}."


def _near(survey: Survey, alike: Alike) -> list[str]:
    near = alike.near
    by = f"By {alike.model}"
    if near.groups:
        groups = plural(len(near.groups), "group")
        sentences = [f"{by}, {near.grouped:,} of {plural(alike.compared, 'item')} are near-duplicates, in {groups}."]
    else:
        sentences = [f"{by}, no two of {plural(alike.compared, 'item')} are near-duplicates."]
    if near.pairs and survey.across is not None:
        n_alike = sum(_as_near(pair.distance, near.limit, alike.unit) for pair in near.pairs)
        if n_alike:
            most = "At least " if n_alike == len(near.pairs) else ""
            pairs = plural(n_alike, "pair")
            sentences.append(
                f"{most}{pairs} of different {MANY[survey.across]} {'is' if n_alike == 1 else 'are'} among them."
            )
    return sentences


def _as_near(distance: float, limit: float, unit: str) -> bool:
    return distance >= limit if unit == "cosine" else distance <= limit


def lead_sentence(retrieval: Retrieval) -> str:
    """A sentence on which model finds the label best, and whether that is more than luck."""
    ranked = retrieval.ranking()
    first = ranked[0]
    value, ends = retrieval.evaluations[first]["AP"].mean, retrieval.intervals[first][retrieval.main]
    lead = f"{first} finds {TASKS[retrieval.label]} best: AP {number(value)} ({interval(ends)})"
    if retrieval.lead is None:
        return f"{lead}."
    gap = retrieval.lead
    sure = "more than other queries would change" if gap.low > 0 else "too close to call"
    by = f"{signed(gap.difference)} ({signed(gap.low)} to {signed(gap.high)})"
    second = f"{gap.second} ({number(retrieval.evaluations[gap.second]['AP'].mean)})"
    return f"{lead}, against {second} by {by}: {sure}."


def good_enough(tradeoff: Tradeoff) -> StorageOption | None:
    """The shortest code that keeps 95 % of the embeddings' AP (without labels, half of their neighbours)."""
    embeddings, *others = tradeoff.options
    for option in sorted(others, key=lambda option: (option.bytes, -option.agreement)):
        if math.isnan(option.quality):
            if option.agreement >= 0.5:
                return option
        elif option.quality >= 0.95 * embeddings.quality:
            return option
    return None


def _saved(tradeoff: Tradeoff) -> list[str]:
    option = good_enough(tradeoff)
    if option is None:
        return []
    embeddings = tradeoff.options[0]
    smaller = f"{embeddings.bytes / option.bytes:,.0f} times less memory"
    name = f"{option.name} at {option.n_bits} bits"
    if math.isnan(option.quality):
        kept = f"keeps {percent(option.agreement)} of the {tradeoff.k} nearest"
    else:
        kept = f"has an AP of {number(option.quality)}, the embeddings {number(embeddings.quality)}"
    return [f"{name} takes {smaller} than the embeddings of {tradeoff.model} and {kept}."]
