"""The standing of a leaderboard in words: models in their places, who leads, and how surely."""

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError
from lookalike.core.tables.table import ResultTable, TableCell, TableHead
from lookalike.core.text_table import aligned, percent
from lookalike.discovery.standing import Gap, Number, Place, Placing, numbers_of, score_of
from lookalike.evaluation.result_tables import cell_of_score, direction, norm_legend, ties_legend

if TYPE_CHECKING:
    from lookalike.discovery.leaderboard import Leaderboard

NAMED = 6  # models named in a sentence

__all__ = ["named", "place_text", "standing_numbers", "standing_table", "who_leads"]


def standing_table(board: "Leaderboard", placing: Placing) -> str:
    """A line for each model: place, name, the leading number with its interval, and whether it built the pool.

    How much of each model's top was judged is shown where that is not all of it.
    """
    pooled = any(board.helped.values())
    head = ["   model", placing.number.label, "95 % interval", *(["built the pool"] if pooled else [])]
    shares = {model: _judged(board, model) for model in board.evaluations}
    gaps = any(share < 1 for share in shares.values())
    if gaps:
        cutoff = max((metric.cutoff or 0 for metric in next(iter(board.judged.values()))), default=0)
        head.append(f"judged of top {cutoff}")
    rows = [head]
    for place in placing.places:
        row = [f"{place_text(place):<3}{place.model}", _number(place.value), _span(place.low, place.high)]
        row += [("yes" if board.helped[place.model] else "no")] if pooled else []
        rows.append([*row, percent(shares[place.model])] if gaps else row)
    return aligned(rows)


def standing_numbers(board: "Leaderboard", metrics: Iterable[str] | None, ties: bool) -> ResultTable:
    """A row for each model, in their places, and a column for each number that is asked for, or for all."""
    numbers = numbers_of(board) if metrics is None else _chosen(board, metrics)
    heads = ["model", *(TableHead(_short(number), higher_is_better=direction(number.metric)) for number in numbers)]
    rows = [
        [TableCell(model), *(cell_of_score(score_of(board, model, number), ties) for number in numbers)]
        for model in board.placing.ranking
    ]
    legend = (*norm_legend(dict.fromkeys(number.metric for number in numbers)), *ties_legend(ties))
    notes = (who_leads(board.placing), board.facts, *board.conventions(), *board.warnings)
    return ResultTable.of(heads, rows, legend=legend, notes=notes, lying=metrics is None)


def _short(number: Number) -> str:
    return number.label.replace(number.metric.label, str(number.metric), 1)


def _chosen(board: "Leaderboard", metrics: Iterable[str]) -> list[Number]:
    """The numbers of a board that are named, by their label, or by the name of a metric."""
    by_name = {name: number for number in numbers_of(board) for name in (number.label, _short(number))}
    chosen = []
    for name in [metrics] if isinstance(metrics, str) else metrics:
        number = by_name.get(str(name))
        if number is None:
            similar = nearest(name, by_name, 0.6)
            hint = (
                f"only {', '.join(map(_short, numbers_of(board)))}" if similar is None else f"did you mean {similar!r}?"
            )
            raise InputError(f"the leaderboard has no number {str(name)!r}, {hint}")
        chosen.append(number)
    return list(dict.fromkeys(chosen))


def place_text(place: Place) -> str:
    """The place as text, with a sign where several models share it; a dash without a value."""
    if math.isnan(place.value):
        return "–"
    return f"{place.rank}{'=' if place.tied else ''}"


def who_leads(placing: Placing, called: Callable[[Number], str] = lambda number: number.label) -> str:
    """A sentence on who leads and how surely. called: the name of the number for readers."""
    by, places = called(placing.number), [place for place in placing.places if not math.isnan(place.value)]
    if not places:
        return f"No model has a value of {by}: no query has judged pairs of both kinds."
    first, leaders = places[0], placing.leaders
    value = f"{_number(first.value)} (95 % interval {_span(first.low, first.high)})"
    too_few = f"{placing.queries} {'query is' if placing.queries == 1 else 'queries are'} too few to tell"
    if len(places) == 1:
        return f"{first.model} is the only model with a value of {by}: {value}."
    if len(leaders) > 1:
        shared = f"{named(leaders)} share the first place by {by}: {_number(first.value)}"
        return f"{shared}; {too_few} who is ahead." if placing.few else f"{shared}."
    second, gap = places[1], placing.gaps[0]
    ahead = f"ahead of {named([place.model for place in places[1:] if place.rank == second.rank])}"
    lead = f"{first.model} leads by {by}: {value}, {ahead} ({_number(second.value)})"
    difference = abs(round(first.value, 3) - round(second.value, 3))  # of the numbers as they are shown
    if placing.few:
        return f"{lead} by {difference:.3f}, but {too_few} whether that is more than luck."
    return f"{lead} by {difference:.3f} ({_surely(gap, len(placing.gaps))}): {_verdict(placing)}."


def named(models: list[str]) -> str:
    """Names joined for a sentence; of many, only the first.

    >>> named(["a", "b"]), named(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e and 3 others')
    """
    if len(models) > NAMED:
        models = [*models[: NAMED - 1], f"{len(models) - NAMED + 1} others"]
    *others, last = models
    return f"{', '.join(others)} and {last}" if others else last


def _surely(gap: Gap, n_gaps: int) -> str:
    """The interval and the p-value of a difference, and what they are corrected for."""
    p_value = "<0.001" if gap.p_value < 0.0005 else f"{gap.p_value:.3f}"
    corrected = f"; both corrected for {n_gaps} comparisons" if n_gaps > 1 else ""
    return f"95 % interval {_signed(gap.low)} to {_signed(gap.high)}, p {p_value}{corrected}"


def _verdict(placing: Placing) -> str:
    """Whether other queries might have put another model first."""
    clear = placing.clear
    close = [gap.model for gap in placing.gaps if gap.model not in clear]
    if not close:
        return "more than other queries would change"
    if not clear:
        return "too close to call"
    return f"too close to call against {named(close)}, clearly ahead of {named(clear)}"


def _judged(board: "Leaderboard", model: str) -> float:
    """The share that was judged of a model's deepest top; 1 where no metric asks for it."""
    cutoffs = [metric.cutoff or 1 for metric in board.judged[model]] if model in board.judged else []
    return board.judged_share(model, max(cutoffs)) if cutoffs else 1.0


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}".replace("-", "−")


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def _span(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{_number(low)} to {_number(high)}"
