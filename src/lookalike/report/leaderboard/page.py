"""The page of a leaderboard."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lookalike.discovery.leaderboard import EFFECTS, effect
from lookalike.discovery.standing import leaders_of
from lookalike.report.document import about, document, filled, resource
from lookalike.report.html import Card, cards, choice, menu, short, text
from lookalike.report.leaderboard.experts import Disputes, agreement_section
from lookalike.report.leaderboard.figures import all_figures
from lookalike.report.leaderboard.paper import paper_section, recognition_section
from lookalike.report.leaderboard.pool import pool_section
from lookalike.report.leaderboard.standing import Number, Standing, called
from lookalike.report.leaderboard.table import leaderboard_table, meanings
from lookalike.report.leaderboard.words import interval, signed, summary
from lookalike.report.numbers import number, percent, plural
from lookalike.report.vega import Spec

if TYPE_CHECKING:
    from lookalike.discovery import Judgements, Leaderboard, Pool, Votes
    from lookalike.discovery.bias import LeaveOneOut
    from lookalike.study.study import Study

SHARED = 3  # models named on a card that have the same number

__all__ = ["Parts", "page", "parts"]


@dataclass(frozen=True)
class Parts:
    """A leaderboard in the pieces that a page is made of."""

    links: list[tuple[str, str]]  # of its sections, for the menu
    sentences: list[str]
    cards: str
    warnings: str
    judged: str  # which pairs were
    main: str
    formulas: list[str]  # files of this package
    cited: list[str]
    about: dict[str, Any]
    charts: dict[str, Spec]
    models: list[str]
    pictures: str  # style that holds them


def parts(
    board: "Leaderboard",
    title: str,
    pool: "Pool | None",
    loo: "LeaveOneOut | None",
    study: "Study | None",
    votes: "Votes | None",
    judgements: "Judgements | None",
) -> Parts:
    """The pieces of a leaderboard's page."""
    standing = Standing(board)
    figures = all_figures(standing, loo)
    disputes = Disputes(votes, study, judgements)
    rel = None if judgements is None or judgements.scale is None else judgements.rel
    sections = {
        "pool": ("Pool", pool_section(standing, pool, judgements, votes)),
        "identification": ("Identification", recognition_section(standing)),
        "paper": ("Tables", paper_section(standing)),
        "agreement": ("Agreement", agreement_section(votes, study, rel)),
        "disputes": ("Disputes", disputes.section),
    }
    links = [("table", "Table"), *((figure.name, figure.short) for figure in figures)]
    links += [(name, short) for name, (short, section) in sections.items() if section]
    main = {
        "grouping": choice("grouping", "Rows", [("groups", "by who built the pool"), ("all", "together")])
        if standing.grouped
        else "",
        "reading": _reading(standing),
        "rows": plural(len(standing.models), "model"),
        "table": leaderboard_table(standing),
        "meanings": meanings(standing),
        "legend": _legend(standing),
        "figures": "".join(figure.html() for figure in figures),
        "sections": "".join(section for _, section in sections.values()),
    }
    return Parts(
        links,
        summary(standing),
        cards("In short", _cards(standing)),
        _warnings(board.warnings),
        _judged(pool),
        filled(resource("leaderboard/main.html"), main),
        ["leaderboard/formulas.html", "intervals.html"],
        ["leaderboard/cited.html"],
        _about(standing, title, pool),
        {name: spec for figure in figures for name, spec in figure.specs().items()},
        standing.models,
        disputes.style(),
    )


def page(title: str, pieces: Parts) -> str:
    """The whole page as text."""
    body = {
        "title": text(title),
        "menu": menu([*pieces.links, ("about", "About")]),
        "summary": f"<p>{text(pieces.sentences[0])}</p><p>{text(' '.join(pieces.sentences[1:]))}</p>",
        "cards": pieces.cards,
        "warnings": pieces.warnings,
        "judged": pieces.judged,
        "main": pieces.main,
        "about": about(pieces.about, pieces.formulas, pieces.cited),
    }
    return document(
        f"{title} · models compared",
        " ".join(pieces.sentences),
        filled(resource("leaderboard/page.html"), body),
        styles=["page.css", "leaderboard/page.css"],
        scripts=["common.js", "leaderboard/page.js"],
        data={"models": pieces.models, "charts": pieces.charts},
        pictures=pieces.pictures,
    )


def _cards(standing: Standing) -> list[Card]:
    """The numbers to see first: the leader, the largest effect of own pairs, and the least judged model."""
    main, hits = standing.main, standing.hits
    shown = []
    for of in [standing.lead] if hits is None or hits == main else [standing.lead, Number(hits)]:
        leaders = leaders_of(standing.board, of)
        if not leaders:
            continue
        ends = interval(standing.interval(leaders[0], *of)) if len(leaders) == 1 else ""
        why = f"95\u202f% interval {ends}" if ends else f"shared by {len(leaders)} models"
        why += f"; {effect(*of)} who built the pool" if effect(*of) in ("favours", "punishes") else ""
        tags = ", ".join(map(standing.tag, leaders[:SHARED])) + (" …" if len(leaders) > SHARED else "")
        shown.append(Card(f"Highest {called(*of)}", number(standing.value(leaders[0], *of)), why, tags))
    changes = {model: standing.own_out(model, main) - standing.value(model, main) for model in standing.models}
    if any(abs(change) > 0 for change in changes.values()):
        model = max(changes, key=lambda model: (abs(changes[model]) > 0, abs(changes[model])))
        why = f"of {called(main)}, the largest change"
        shown.append(Card("Without its own pairs", signed(changes[model]), why, standing.tag(model)))
    shares = {model: standing.judged(model) for model in standing.models}
    if min(shares.values()) < 1:
        model = min(shares, key=lambda model: shares[model])
        shown.append(Card("Least judged", percent(shares[model]), "of its top was judged", standing.tag(model)))
    return shown


def _judged(pool: "Pool | None") -> str:
    """A sentence on which pairs were judged."""
    if pool is None:
        return "Only some of all pairs were judged."
    drawn = int(pool.random_alone.sum())
    chance = f", and {plural(drawn, 'pair')} drawn by chance" if drawn else ""
    return f"Only pairs that some model proposed were judged{chance}."


def _warnings(warnings: list[str]) -> str:
    if not warnings:
        return ""
    first, rest = warnings[:4], warnings[4:]
    more = f"<details><summary>{len(rest)} more</summary><ul>{_items(rest)}</ul></details>" if rest else ""
    return (
        '<aside class="warnings" aria-label="Warnings"><h2>Before you trust ranks</h2>'
        f"<ul>{_items(first)}</ul>{more}</aside>"
    )


def _items(lines: list[str]) -> str:
    return "".join(f"<li>{text(line)}</li>" for line in lines)


def _reading(standing: Standing) -> str:
    sentences = ["Bold: best of all models. Press a header to sort."]
    sentences.append(f"Favours, punishes, neutral: {EFFECTS}; compare models by what is neutral.")
    if standing.grouped:
        sentences.append("Hollow marks: models that came later.")
    if any(standing.doubtful(model, metric) for model in standing.models for metric in standing.metrics):
        sentences.append(
            '<span class="doubt">Dotted</span>: less than 80 % of the top was judged, so the number may be too low.'
        )
    sentences += [f"{text(note)}." for note in standing.board.conventions()]
    return " ".join(sentences)


def _legend(standing: Standing) -> str:
    chips = "".join(
        f'<button type="button" aria-pressed="false" data-model="{index}" title="{text(model)}">'
        f'{standing.mark(model)}<span class="name">{text(short(model, 24))}</span></button>'
        for index, model in enumerate(standing.models)
    )
    return f'{chips}<button type="button" class="everyone" hidden>show all</button>'


def _about(standing: Standing, title: str, pool: "Pool | None") -> dict[str, Any]:
    """Where the numbers come from."""
    about = standing.board.about
    level = {"image": "one image", "product": "all images of a product"}
    values = {
        "study": title,
        "queries": about["queries"],
        "items": about["items"],
        "judged pairs": about["pairs"],
        "of these positive": about["positives"],
        "drawn by chance, left out": about["random_left_out"],
        "rule for votes": about["rule"],
        "a judgement is about": level.get(about["level"], about["level"]),
        "images of a product": "only the best ranks" if about["one_per_identity"] else "all rank",
        "ranks looked at": about["depth"],
        "seed": about["seed"],
    }
    if pool is not None:
        values |= {"k of the pool": pool.k, "pairs of the pool": len(pool), "seed of the pool": pool.seed}
    return values
