"""The sections of a leaderboard's page that are tables of Barkan et al. 2023: identification, and tables 4 to 8."""

import math
from itertools import groupby
from typing import TYPE_CHECKING

from lookalike.report.html import short, text
from lookalike.report.leaderboard.standing import Standing
from lookalike.report.leaderboard.words import interval
from lookalike.report.numbers import MISSING, number

if TYPE_CHECKING:
    from lookalike.discovery.paper_tables import PaperTable
    from lookalike.metrics.metric import Metric

NAMES = {"VSDHR": "Hit rate", "VSDMRR": "Reciprocal rank"}

__all__ = ["paper_section", "recognition_section"]


def recognition_section(standing: Standing) -> str:
    """How well models find other images of a query's own identity; empty where this was not measured."""
    found = standing.board.recognised
    if found is None:
        return ""
    metrics = found.metrics
    best = {metric: max(each[metric].mean for each in found.evaluations.values()) for metric in metrics}
    head = "".join(f"<th scope='col' title='{text(m.label)}'>{NAMES[m.name]} @{m.cutoff}</th>" for m in metrics)
    rows = []
    for name, evaluation in found.evaluations.items():
        cells = []
        for metric in metrics:
            value, ends = evaluation[metric].mean, interval(found.intervals[name][metric])
            won = len(found.evaluations) > 1 and value >= best[metric] - 1e-12
            shown = f"<b>{number(value)}</b>" if won else number(value)
            cells.append(f"<td>{shown}<br><small>{ends}</small></td>")
        rows.append(f"<tr>{_name(standing, name)}{''.join(cells)}</tr>")
    reading = (
        "This is another task than discovery. A hit is another image of the query’s own product, which all other "
        "numbers of this page leave out. A model may be good at one task and poor at the other. "
        f"{found.recognisable:,} of {found.queries:,} queries have such an image. Hit rate: such images in the top k, "
        "over k or over as many as there are. Small: 95\u202f% interval over queries. Bold: best."
    )
    return (
        '<section id="identification"><h2>Finding other images of the same product</h2>'
        f'<p class="reading">{reading}</p>'
        '<div class="scroll fit plain" tabindex="0" role="region" aria-label="Identification">'
        "<table><caption class='unseen'>How well models find other images of the query’s own product</caption>"
        f"<thead><tr><th scope='col'>Model</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        "</section>"
    )


def paper_section(standing: Standing) -> str:
    """The tables 4 to 8 of Barkan et al. 2023 of these models; empty where they were not asked for."""
    paper = standing.board.paper
    if paper is None:
        return ""
    made = "".join(_table(standing, table) for table in paper.tables if not table.missing)
    lines = [text(table) for table in paper.tables if table.missing]
    missing = f"<p class='reading'>Left out. {'. '.join(lines)}.</p>" if lines else ""
    return (
        '<section id="paper"><h2>Tables of Barkan et al. 2023</h2><p class="reading">The columns of their tables 4 to '
        "8, in their order and in per cent, of these models. Anno.: judged negatives; Neg: sampled ones. Bold: best of "
        "a column. Rest on a number for its 95\u202f% interval.</p>"
        f"{made}{missing}</section>"
    )


def _table(standing: Standing, table: "PaperTable") -> str:
    bodies = []
    for group, models in table.groups.items():
        span = f"<th scope='rowgroup'>{text(group)}</th><td colspan='{len(table.metrics)}'></td>"
        rows = [f"<tr class='group'>{span}</tr>"] if group else []
        for model in models:
            cells = "".join(_cell(table, model, metric) for metric in table.metrics)
            rows.append(f"<tr>{_name(standing, model)}{cells}</tr>")
        bodies.append(f"<tbody>{''.join(rows)}</tbody>")
    note = f"<p class='reading'>{text(table.note[:1].upper() + table.note[1:])}.</p>" if table.note else ""
    return (
        f"<h3>{text(table.title)}</h3>"
        f'<div class="scroll fit plain" tabindex="0" role="region" aria-label="{text(table.title)}">'
        f"<table><caption class='unseen'>{text(table.title)}</caption><thead>{_head(table)}</thead>{''.join(bodies)}"
        f"</table></div>{note}"
    )


def _head(table: "PaperTable") -> str:
    """The lines of the head; a cell spans the columns that it is about."""
    columns = [table.head(metric) for metric in table.metrics]
    depth = max(map(len, columns))
    lines = []
    for line in range(depth):
        cells = "<th scope='col'>Model</th>" if line == depth - 1 else "<td class='stick'></td>"
        for path, same in groupby(columns, key=lambda column: tuple(column[: line + 1])):
            name = path[line] if line < len(path) else ""
            span = len(list(same))
            cells += f"<th scope='{'col' if span == 1 else 'colgroup'}' colspan='{span}'>{name}</th>"
        lines.append(f"<tr>{cells}</tr>")
    return "".join(lines)


def _cell(table: "PaperTable", model: str, metric: "Metric") -> str:
    mean, low, high = table.values[model][metric]
    if math.isnan(mean):
        return f"<td>{MISSING}</td>"
    shown = f"{mean * 100:.1f}"
    hover = f" title='95 % interval {low * 100:.1f} to {high * 100:.1f}'" if not math.isnan(low) else ""
    return f"<td{hover}>{f'<b>{shown}</b>' if table.is_best(model, metric) else shown}</td>"


def _name(standing: Standing, model: str) -> str:
    name = f"<span class='name'>{text(short(model, 24))}</span>"
    return f"<th scope='row' title='{text(model)}'>{standing.mark(model)} {name}</th>"
