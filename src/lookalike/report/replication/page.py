"""The page of claims tried again."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lookalike.experiments.claims import CLAIMS, VERDICTS, PaperClaim
from lookalike.experiments.replicate import Replication
from lookalike.report.document import about, document, filled, resource
from lookalike.report.html import Card, cards, menu, text
from lookalike.report.numbers import plural, seconds
from lookalike.report.replication.figures import figure

BADGES = dict(zip(VERDICTS, ("holds", "part", "fails", "untried"), strict=True))
MEANINGS = {
    "holds": "all of its parts were seen",
    "holds in part": "some of its parts were seen, others were not",
    "does not hold": "none of its parts was seen",
    "cannot be tried here": "something that it needs is missing",
}

__all__ = ["page"]


def page(results: Sequence[Replication]) -> str:
    """The whole page as text."""
    shown = [(CLAIMS[result.claim], result) for result in results]
    papers = [(paper, list(group)) for paper, group in groupby(shown, key=lambda pair: pair[0].paper)]
    figures = {claim.name: figure(claim, result, _reading(claim, result)) for claim, result in shown}
    sentence = _summary(results)
    links = [
        ("table", "Table"),
        *((f"paper-{number}", text(_short(paper))) for number, (paper, _) in enumerate(papers)),
    ]
    parts = {
        "menu": menu([*links, ("about", "About")]),
        "summary": f"<p>{text(sentence)}</p>",
        "cards": cards("In short", [_card(verdict, results) for verdict in VERDICTS]),
        "rows": plural(len(results), "claim"),
        "table": _table(shown),
        "papers": "".join(
            f'<h2 class="paper" id="paper-{number}">{text(paper)}</h2>'
            + "".join(figures[claim.name].html() for claim, _ in of_paper)
            for number, (paper, of_paper) in enumerate(papers)
        ),
        "about": about(_facts(results), ["replication/formulas.html", "intervals.html"], ["replication/cited.html"]),
    }
    charts = {name: spec for each in figures.values() for name, spec in each.specs().items()}
    return document(
        "Claims of papers tried again",
        sentence,
        filled(resource("replication/page.html"), parts),
        styles=["page.css", "leaderboard/page.css", "replication/page.css"],
        scripts=["common.js", "replication/page.js"],
        data={"charts": charts},
    )


def _summary(results: Sequence[Replication]) -> str:
    """How many claims hold, in a sentence."""
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in VERDICTS}
    several = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
    told = ", ".join(
        f"{count} {several.get(verdict, verdict) if count > 1 else verdict}"
        for verdict, count in counts.items()
        if count
    )
    budgets = " and ".join(dict.fromkeys(result.budget for result in results))
    return f"{plural(len(results), 'claim')} tried again on real data, in the {budgets} budget: {told}."


def _card(verdict: str, results: Sequence[Replication]) -> Card:
    count = sum(result.verdict == verdict for result in results)
    return Card(verdict.capitalize(), str(count), MEANINGS[verdict], "", f" of {len(results)}")


def _badge(verdict: str) -> str:
    return f'<span class="badge {BADGES[verdict]}">{text(verdict)}</span>'


def _table(shown: Sequence[tuple[PaperClaim, Replication]]) -> str:
    """A row for each claim, with a link to its section."""
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("claim", "paper", "place", "verdict", "parts seen", "seconds")
    )
    rows = "".join(
        f'<tr><th scope="row"><a href="#{claim.name}">{text(claim.title)}</a></th><td>{text(_short(claim.paper))}</td>'
        f"<td>{text(claim.place)}</td><td>{_badge(result.verdict)}</td><td>{_parts(result)}</td>"
        f"<td>{seconds(result.seconds)}</td></tr>"
        for claim, result in shown
    )
    return f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _parts(result: Replication) -> str:
    return f"{sum(check.held for check in result.checks)} of {len(result.checks)}" if result.checks else "–"


def _short(paper: str) -> str:
    """A paper's name, as short as a menu needs it."""
    return "Two sections without a title" if paper == "Two evaluation sections without a title" else paper


def _reading(claim: PaperClaim, result: Replication) -> str:
    """What the paper says, what was done, what would count, and which parts were seen."""
    facts = {
        "Says": f"{text(claim.says)} <small>({text(claim.place)})</small>",
        "Tried": f"{text(claim.protocol)}",
        "Data": text(claim.data),
        "Seeds": text(claim.seeds(result.budget)),
        "Holds if": text(claim.criterion),
    }
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items())
    checks = "".join(
        f'<li class="{"seen" if check.held else "unseen-part"}">{text(check.sentence)}</li>' for check in result.checks
    )
    why = f"<p>{text(result.why)}</p>" if result.why else ""
    parts = f'<ul class="checks">{checks}</ul>' if checks else ""
    return f'{_badge(result.verdict)}<dl class="claim">{listed}</dl>{why}{parts}'


def _facts(results: Sequence[Replication]) -> dict[str, Any]:
    """Where the numbers come from."""
    versions: dict[str, Any] = {}
    for result in results:
        versions |= result.versions
    return {
        "command": f"lookalike replicate --budget {results[0].budget}",
        "made on": ", ".join(sorted({result.made for result in results})),
        "seconds in all": seconds(sum(result.seconds for result in results)),
        **versions,
    }
