"""The page of a collection."""

import math
from typing import TYPE_CHECKING, Any

from lookalike.report.collection import JudgedStudy
from lookalike.report.collection.alike import duplicates_section, lookalikes_section
from lookalike.report.collection.comparison import comparison_section
from lookalike.report.collection.thumbnails import InlineThumbnails
from lookalike.report.collection.tradeoff import tradeoff_figure
from lookalike.report.collection.words import MANY, TASKS, apart, good_enough, summary
from lookalike.report.document import about, document, filled, resource
from lookalike.report.html import Card, cards, mark, menu, text
from lookalike.report.leaderboard.page import Parts, parts
from lookalike.report.leaderboard.words import interval
from lookalike.report.numbers import number, percent, plural
from lookalike.study.survey import Survey

if TYPE_CHECKING:
    from lookalike.study.study import Study

LISTED = 200  # files that were left out

__all__ = ["page"]


def page(survey: Survey, study: "Study", judged: JudgedStudy | None) -> str:
    """The whole page as text."""
    pictures = InlineThumbnails(study)
    duplicates, lookalikes = duplicates_section(survey, pictures), lookalikes_section(survey, pictures)
    compared, bars = comparison_section(survey, judged.board if judged is not None else None)
    tradeoff = tradeoff_figure(survey.tradeoff) if survey.tradeoff is not None else None
    board = _board(survey, study, judged)
    figures = [figure for figure in (bars, tradeoff) if figure is not None]
    links = [("duplicates", "Near-duplicates", duplicates), ("lookalikes", "Look-alikes", lookalikes)]
    links += [("models", "Models", compared), ("tradeoff", "Trade-off", "yes" if tradeoff else "")]
    sections = [(name, title) for name, title, section in links if section]
    if board is not None:
        sections += [("leaderboard", "Leaderboard"), *board.links]
    sentences = summary(survey)
    body = {
        "title": text(survey.title),
        "menu": menu([*sections, ("about", "About")]),
        "summary": f"<p>{text(sentences[0])}</p><p>{text(' '.join(sentences[1:]))}</p>",
        "cards": cards("In short", _cards(survey)),
        "skipped": _skipped(survey),
        "duplicates": duplicates,
        "lookalikes": lookalikes,
        "models": compared,
        "bars": f'<div class="charts">{bars.html()}</div>' if bars else "",
        "tradeoff": _opened(f'<div class="charts">{tradeoff.html()}</div>') if tradeoff else "",
        "leaderboard": _leaderboard(board),
        "missing": _missing(survey),
        "about": about(
            _about(survey) | (_renamed(board) if board else {}),
            ["collection/formulas.html", *(board.formulas if board else ["intervals.html"])],
            board.cited if board else [],
        ),
    }
    charts = {name: spec for figure in figures for name, spec in figure.specs().items()}
    return document(
        f"{survey.title} · what is in it",
        " ".join(sentences),
        filled(resource("collection/page.html"), body),
        styles=["page.css", "leaderboard/page.css", "collection/page.css"],
        scripts=["common.js", "collection/page.js", *(["leaderboard/page.js"] if board else [])],
        data={"models": list(survey.models), "charts": charts | (board.charts if board else {})},
        pictures="\n".join(filter(None, [pictures.style(), board.pictures if board else ""])),
    )


def _board(survey: Survey, study: "Study", judged: JudgedStudy | None) -> Parts | None:
    if judged is None:
        return None
    return parts(judged.board, survey.title, judged.pool, judged.loo, study, judged.votes, judged.judgements)


def _cards(survey: Survey) -> list[Card]:
    """The numbers to see first."""
    shown = []
    if survey.lead is not None:
        alike = survey.alike[survey.lead]
        near, tag = alike.near, _tag(survey, survey.lead)
        share = percent(near.grouped / alike.compared)
        groups = f"{share} of all, in {plural(len(near.groups), 'group')}" if near.groups else "of all items"
        shown.append(Card("Near-duplicates", f"{near.grouped:,}", groups, tag))
        if near.pairs and survey.across is not None:
            first = near.pairs[0]
            why = f"the nearest of different {MANY[survey.across]}"
            shown.append(Card("Most alike", apart(first.distance, alike.unit), why, tag))
    for retrieval in survey.retrieval:
        best = retrieval.ranking()[0]
        ends = interval(retrieval.intervals[best][retrieval.main])
        value = number(retrieval.evaluations[best]["AP"].mean)
        shown.append(
            Card(f"Finds {TASKS[retrieval.label]}", value, f"AP, 95\u202f% interval {ends}", _tag(survey, best))
        )
    option = good_enough(survey.tradeoff) if survey.tradeoff is not None else None
    if option is not None and survey.tradeoff is not None:
        kept = percent(option.agreement) if math.isnan(option.quality) else number(option.quality)
        of = f"of the {survey.tradeoff.k} nearest" if math.isnan(option.quality) else "AP"
        less = f"{survey.tradeoff.options[0].bytes / option.bytes:,.0f} times less memory, {kept} {of}"
        shown.append(
            Card("Short codes", f"{option.n_bits} bits", less, text(f"{option.name} of {survey.tradeoff.model}"))
        )
    return shown


def _opened(figure: str) -> str:
    """The same figure with its table of numbers open."""
    return figure.replace('<details class="data">', '<details class="data" open>')


def _tag(survey: Survey, model: str) -> str:
    return f"{mark(list(survey.models).index(model))} {text(model)}"


def _leaderboard(board: Parts | None) -> str:
    if board is None:
        return ""
    first, *others = board.sentences
    lead = f'<p class="reading">{text(first)} {text(" ".join(others))}</p>'
    return (
        f'<section id="leaderboard" class="part"><h2>Discovery leaderboard</h2>{lead}{board.warnings}{board.cards}'
        f"</section>{board.main}"
    )


def _missing(survey: Survey) -> str:
    if not survey.missing:
        return ""
    names = {
        "near": "Near-duplicates",
        "across": "Look-alikes",
        "retrieval": "Models compared",
        "tradeoff": "What shorter codes cost",
    }
    items = "".join(f"<li><b>{text(names.get(key, key))}</b>: {text(why)}</li>" for key, why in survey.missing.items())
    return f'<section id="missing"><h2>What is not here</h2><ul class="left-out">{items}</ul></section>'


def _skipped(survey: Survey) -> str:
    if not survey.skipped:
        return ""
    items = "".join(f"<li>{text(file)}: {text(why)}</li>" for file, why in survey.skipped[:LISTED])
    more = f"<li>and {len(survey.skipped) - LISTED:,} more</li>" if len(survey.skipped) > LISTED else ""
    count = plural(len(survey.skipped), "file")
    return (
        f'<details class="skipped"><summary>{count} of the folder {"was" if len(survey.skipped) == 1 else "were"} left '
        f"out</summary><ul>{items}{more}</ul></details>"
    )


def _about(survey: Survey) -> dict[str, Any]:
    """Where the numbers come from."""
    return {"study": survey.title, "items": len(survey.ids), "models": len(survey.models), **survey.about}


def _renamed(board: Parts) -> dict[str, Any]:
    """Facts about the leaderboard that are not among those of the collection."""
    said_above = {"study", "items", "seed"}
    return {name: value for name, value in board.about.items() if name not in said_above}
