"""The figures of a leaderboard: bars of each metric, and how much they depend on who built the pool."""

import math

from lookalike.discovery.bias import P_VALUES, LeaveOneOut, LeftOut
from lookalike.discovery.leaderboard import effect
from lookalike.metrics.metric import Metric
from lookalike.report.figure import Figure, FigurePanel
from lookalike.report.html import data_table, text
from lookalike.report.leaderboard import charts
from lookalike.report.leaderboard.standing import BUILT, LATER, Number, Standing, called
from lookalike.report.leaderboard.table import columns
from lookalike.report.leaderboard.words import interval, signed
from lookalike.report.numbers import MISSING, number

__all__ = ["all_figures"]


def all_figures(standing: Standing, loo: LeaveOneOut | None) -> list[Figure]:
    """Every figure that the board has numbers for."""
    figures = [_bars(standing), *_bias(standing)]
    return [*figures, *_changes(standing, loo)]


def _bars(standing: Standing) -> Figure:
    panels, tables = [], []
    for index, of in enumerate(standing.numbers):
        hidden = of != standing.lead
        spec = charts.bars_chart(standing, of)
        told, rows = [], []
        for model in standing.ranking(*of):
            value, ends = number(standing.value(model, *of)), interval(standing.interval(model, *of))
            told.append(f"{model} {value}{f' ({ends})' if ends else ''}")
            rows.append((model, *_role(standing, model), value, ends or MISSING))
        words = f"{called(*of)}, with 95 % intervals. {'; '.join(told)}."
        whom = f" <small>{effect(*of)}{' to' if effect(*of) == 'neutral' else ''} who built the pool</small>"
        title = f"{text(called(*of))}{whom if effect(*of) else ''}"
        panels.append(FigurePanel(title, words, spec, {"metric": index}, hidden))
        head = ["model", *([""] if standing.grouped else []), called(*of), "95 % interval"]
        tables.append(f'<div data-metric="{index}"{" hidden" if hidden else ""}>{data_table(head, rows)}</div>')
    shades = f'<span class="shade">{BUILT}</span> <span class="shade later">{LATER}</span> ' if standing.grouped else ""
    return Figure(
        "bars",
        "Bars",
        "One metric at a time",
        f"The best first; the whisker is the 95 % interval over queries. {shades}",
        panels,
        "".join(tables),
        most=1,
        controls=_select(standing),
    )


def _select(standing: Standing) -> str:
    """A choice of the metric, in the groups of the table."""
    if len(standing.numbers) < 2:
        return ""
    groups: dict[str, list[Number]] = {}
    for column in columns(standing):
        if column.of is not None:
            groups.setdefault(column.group, []).append(column.of)
    inner = "".join(
        f'<optgroup label="{name}">{"".join(_option(standing, of) for of in numbers)}</optgroup>'
        for name, numbers in groups.items()
    )
    return f'<div class="controls"><label>Metric <select id="metric">{inner}</select></label></div>'


def _option(standing: Standing, of: Number) -> str:
    selected = " selected" if of == standing.lead else ""
    return f'<option value="{standing.numbers.index(of)}"{selected}>{text(called(*of))}</option>'


def _bias(standing: Standing) -> list[Figure]:
    hits, area = standing.hits, standing.main
    if hits is None or area.name not in ("AUC", "PRAUC") or len(standing.models) < 2:
        return []
    has_own_out = any(area in evaluation.scores for evaluation in standing.board.own_out.values()) and standing.has_pool
    told, rows = [], []
    for model in standing.ranking(area):
        values = [standing.value(model, hits), standing.value(model, area)]
        without = standing.own_out(model, area)
        change = without - values[1]
        role = f", {_role(standing, model)[0]}" if standing.grouped else ""
        told.append(
            f"{model}{role}: {called(hits)} {number(values[0])}, {called(area)} {number(values[1])}"
            + (f", {number(without)} without its own pairs" if has_own_out else "")
        )
        more = (number(without), signed(change)) if has_own_out else ()
        rows.append((model, *_role(standing, model), *map(number, values), *more))
    reading = "Models of equal AUC tend to have equal hit rates."
    if standing.grouped:
        reading += " Hollow marks came later: what they find and nobody judged counts as wrong, so they lie too low."
    if has_own_out:
        reading += (
            " The stroke leads to the AUC without the judged pairs that only this model proposed: a long stroke "
            "means that the number depends on who built the pool."
        )
    head = ["model", *([""] if standing.grouped else []), called(hits), called(area)]
    head += [f"{called(area)}, own pairs out", "change"] if has_own_out else []
    panel = FigurePanel(
        "", f"{called(hits)} against {called(area)}. {'; '.join(told)}.", charts.bias_chart(standing, hits, area)
    )
    heading = text(f"{called(hits).capitalize()} against {called(area)}")
    return [Figure("bias", "Bias", heading, reading, [panel], data_table(head, rows), most=1)]


def _changes(standing: Standing, loo: LeaveOneOut | None) -> list[Figure]:
    if loo is None or not loo.rows_:
        return []
    by_metric: dict[Metric, list[LeftOut]] = {}
    for row in sorted(loo.rows_, key=lambda row: row.metric != standing.main):
        by_metric.setdefault(row.metric, []).append(row)
    panels, rows = [], []
    for metric, changes in by_metric.items():
        told = [f"{row.model} {signed(row.change)}" for row in sorted(changes, key=lambda row: -row.change)]
        words = f"Change of {called(metric)} when a model’s own pairs are dropped: {', '.join(told)}."
        panels.append(FigurePanel(text(called(metric)), words, charts.change_chart(changes)))
        rows += [_left_out(row) for row in changes]
    head = ["left out", "metric", "pairs dropped", "all pairs", "without its own", "change", "places"]
    head += ["mean ± sd", "Spearman", "p", "Kendall"]
    reading = (
        "For each model that built the pool, the pairs that only it proposed are dropped and all are measured again. "
        "A bar to the left: part of its number comes from its own pairs. A bar to the right: its own pairs, which are "
        "mostly wrong, lower its number. The order of all models hardly shows this (Spearman, in the numbers; "
        f"{P_VALUES[loo.p]})."
    )
    reading += "".join(f" {why}." for why in loo.gaps)
    heading = "What each model owes to its own pairs"
    table = data_table(head, rows)
    return [Figure("changes", "Own pairs", heading, reading, panels, table, least="20rem", most=min(3, len(panels)))]


def _left_out(row: LeftOut) -> tuple[str, ...]:
    spread = MISSING if math.isnan(row.mean) else f"{number(row.mean)} ± {number(row.deviation)}"
    values = (row.spearman, row.p_value, row.kendall)
    places = MISSING if math.isnan(row.shift) else f"{row.shift:+g}".replace("-", "−") if row.shift else "0"
    counts = (f"{row.dropped:,}", number(row.full), number(row.value), signed(row.change), places)
    return (row.model, called(row.metric), *counts, spread, *map(number, values))


def _role(standing: Standing, model: str) -> tuple[str, ...]:
    if not standing.grouped:
        return ()
    return (BUILT if standing.board.helped[model] else LATER,)
