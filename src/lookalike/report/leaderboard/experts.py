"""Sections on experts: how far they agree, and pictures of the pairs on which they disagree."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lookalike.core.decode import default_limit, fitted
from lookalike.discovery.agreement import Agreement, agreement
from lookalike.discovery.machines import machine_agreement
from lookalike.discovery.scale import BINARY
from lookalike.discovery.votes import CANT_TELL
from lookalike.report.html import Card, cards, data_table, text
from lookalike.report.inline_images import PIXELATED, uri
from lookalike.report.numbers import MISSING, number, percent, plural

if TYPE_CHECKING:
    from lookalike.discovery import Catalogue, Judgements, Votes
    from lookalike.study.study import Study

SHOWN = 12  # disputed pairs
PIXELS = 224  # a picture's longest side

__all__ = ["Dispute", "Disputes", "agreement_section", "disputed"]


def agreement_section(votes: "Votes | None", study: "Study | None", rel: int | None = None) -> str:
    """How far experts agree, in figures; nothing without votes. rel: the lowest grade that is positive."""
    if votes is None or not len(votes):
        return ""
    agreed = agreement(votes, study.gold() if study is not None else None, rel)
    fair = "AC2" if agreed.scale.graded else "AC1"
    further = " Grades that lie further apart disagree more." if agreed.scale.graded else ""
    return (
        '<section id="agreement"><h2>How far experts agree</h2><p class="reading">1 is perfect agreement, 0 what '
        f"chance would give. {fair} stays fair where most answers are the same. Can’t tell counts for neither side."
        f"{further}</p>"
        f"{cards('Agreement in short', _cards(agreed))}"
        '<div class="scroll fit plain" tabindex="0" role="region" aria-label="Experts">'
        f"{_experts(agreed)}</div>{_kappas(agreed)}{_machines(votes, study, rel)}</section>"
    )


def _machines(votes: "Votes", study: "Study | None", rel: int | None) -> str:
    """How far machines agree with people; nothing without machines, or where their votes count like people's."""
    names = frozenset() if study is None else study.machines() - set(votes.experts.tolist())
    if study is None or not names:
        return ""
    everything = study.votes(machines=True)
    compared = machine_agreement(votes, everything[np.isin(everything.experts, sorted(names))], study.gold(), rel)
    kappa = compared.kappa.replace("'", "’")
    head = ["machine", "votes", "decided", "can’t tell", compared.positive, "as people", f"{kappa} with each person"]
    rows = []
    for machine in compared.machines:
        f, kappas = machine.figures, ", ".join(f"{name} {number(kappa)}" for name, _, kappa in machine.kappas)
        shares = (percent(f.cant_tell), percent(f.similar), percent(f.with_others))
        rows.append((f.expert, f"{f.votes:,}", f"{f.decided:,}", *shares, kappas))
    return (
        '<p class="reading">The votes of machines count nowhere. This is how far they agree with people.</p>'
        '<div class="scroll fit plain" tabindex="0" role="region" aria-label="Machines">'
        f"{data_table(head, rows)}</div>"
    )


def _cards(agreed: Agreement) -> list[Card]:
    kappas = agreed.kappas
    least, most = (number(end) for end in ((kappas.low, kappas.high) if kappas else (math.nan, math.nan)))
    whose = f"of every two experts{kappas.note if kappas else ''}"
    two = [" to ", most] if least != most else []
    pairs = f"of {plural(agreed.pairs, 'pair')} with two decided votes or more"
    alpha, ac1, kappa = _names(agreed)
    return [
        Card(alpha, number(agreed.alpha), "of all experts"),
        Card(ac1, number(agreed.ac1), "of all experts"),
        Card(kappa, least, whose, "", *two),
        Card("Unanimous", percent(agreed.unanimous), pairs),
    ]


def _names(agreed: Agreement) -> list[str]:
    """What the figures are called, with the apostrophes of a page."""
    return [name.replace("'", "’") for name in agreed.names]


def _experts(agreed: Agreement) -> str:
    gold = any(figures.gold_asked for figures in agreed.figures)
    head = ["expert", "votes", "decided", "can’t tell", agreed.positive, "as the others", "median seconds", "changed"]
    rows = [
        (
            figures.expert,
            f"{figures.votes:,}",
            f"{figures.decided:,}",
            percent(figures.cant_tell),
            percent(figures.similar),
            percent(figures.with_others),
            MISSING if math.isnan(figures.median_seconds) else f"{figures.median_seconds:.1f}",
            f"{figures.changed:,}",
            *([f"{figures.gold_right:,} of {figures.gold_asked:,}" if figures.gold_asked else MISSING] if gold else []),
        )
        for figures in agreed.figures
    ]
    return data_table([*head, *(["gold pairs right"] if gold else [])], rows)


def _kappas(agreed: Agreement) -> str:
    rows = [
        (f"{row['first']} and {row['second']}", f"{row['pairs']:,}", number(row["kappa"]))
        for row in agreed.kappa_rows()
    ]
    if not rows:
        return ""
    table = data_table(["experts", "pairs that both decided", _names(agreed)[2]], rows)
    return (
        '<details class="data"><summary>Every two experts</summary><div class="scroll" tabindex="0" role="region" '
        f'aria-label="Agreement of every two experts">{table}</div></details>'
    )


@dataclass(frozen=True)
class Dispute:
    """A pair on which experts disagree. by_grade: how many gave each grade; spread: the variance of these."""

    query: str
    item: str
    by_grade: tuple[int, ...]
    cant_tell: int
    spread: float


def disputed(votes: "Votes") -> list[Dispute]:
    """Pairs with votes for both sides: the most evenly split first, then those with most votes.

    On a scale, pairs with different grades, those that spread most first: of two grades that is the same.
    Of equals, the first pair of every query comes before the second of any.
    """
    ballots = votes.ballots
    counts, cant_tell, spread = ballots.by_grade, ballots.counts(CANT_TELL).tolist(), ballots.spread.tolist()
    pairs = [
        Dispute(
            str(ballots.queries[row]), str(ballots.items[row]), tuple(counts[row].tolist()), cant_tell[row], spread[row]
        )
        for row in np.flatnonzero(ballots.spread).tolist()
    ]
    pairs.sort(key=lambda pair: (*_evenness(pair), pair.query, pair.item))
    before: dict[tuple[float, int, str], int] = {}
    turns = []
    for pair in pairs:
        key = (*_evenness(pair), pair.query)
        turns.append(before.get(key, 0))
        before[key] = turns[-1] + 1
    order = sorted(range(len(pairs)), key=lambda index: (*_evenness(pairs[index]), turns[index], index))
    return [pairs[index] for index in order]


def _evenness(pair: Dispute) -> tuple[float, int]:
    return -pair.spread, -sum(pair.by_grade)


class Disputes:
    """The section of disputed pairs, and the style that holds their pictures, each once."""

    def __init__(self, votes: "Votes | None", study: "Study | None", judgements: "Judgements | None") -> None:
        pairs = disputed(votes) if votes is not None and len(votes) else []
        self._study, self._judgements = study, judgements
        self._scale = BINARY if votes is None else votes.scale
        self._classes: dict[Path, str] = {}
        self._rules: list[str] = []
        self.pairs = pairs[:SHOWN]
        self.section = self._section(len(pairs)) if pairs else ""

    def style(self) -> str:
        """A class for every picture."""
        return "\n".join(self._rules)

    def _section(self, n: int) -> str:
        shown = (
            f"the {len(self.pairs)} most evenly split of {n:,} such pairs" if n > len(self.pairs) else plural(n, "pair")
        )
        with default_limit():
            pairs = "".join(map(self._pair, self.pairs))
        return (
            '<section id="disputes"><h2>Pairs that experts disagree on</h2><p class="reading">Query left, candidate '
            f"right: {shown}. Are they hard, or is the question unclear? "
            f'<span class="key">{self._key()}'
            f'<span class="unsure">?</span> can’t tell</span></p><ol class="disputes">{pairs}</ol></section>'
        )

    def _pair(self, pair: Dispute) -> str:
        votes = [(pair.by_grade[grade], *self._sign(grade)) for grade in range(self._scale.top, -1, -1)]
        votes.append((pair.cant_tell, "unsure", "?", "can’t tell"))
        cast = [vote for vote in votes if vote[0]]
        bar = "".join(f'<i class="{kind}" style="flex-grow:{n}">{sign}</i>' for n, kind, sign, _ in cast)
        told = ", ".join(f"{n:,} {word}" for n, _, _, word in cast)
        queries, items = (self._study.queries, self._study.catalogue) if self._study is not None else (None, None)
        return (
            f'<li class="pair"><div class="two">{self._side("query", pair.query, queries)}'
            f'{self._side("candidate", pair.item, items)}</div><div class="split" aria-hidden="true">{bar}</div>'
            f"<p>{told}{self._outcome(pair)}</p></li>"
        )

    def _sign(self, grade: int) -> tuple[str, str, str]:
        """The class, the sign and the words of a grade: of a scale its number, between the highest and the lowest."""
        kind = {self._scale.top: "hit", 0: "miss"}.get(grade, "between")
        sign = str(grade) if self._scale.graded else {1: "✓", 0: "✗"}[grade]
        return kind, sign, text(self._scale.words[grade])

    def _key(self) -> str:
        signs = map(self._sign, range(self._scale.top, -1, -1))
        return "".join(f'<span class="{kind}">{sign}</span> {words} ' for kind, sign, words in signs)

    def _outcome(self, pair: Dispute) -> str:
        grade = self._judgements.by_pair.get((pair.query, pair.item)) if self._judgements is not None else None
        if grade is None or self._judgements is None:
            return ""
        scale = self._judgements.scale
        words = ("similar" if grade else "not similar") if scale is None else scale.words[grade]
        if scale is None and self._scale != BINARY:  # a rule that says only whether a pair is positive
            words = "positive" if grade else "not positive"
        return f"; counts as {text(words)} <small>({text(self._judgements.rule)})</small>"

    def _side(self, what: str, name: str, catalogue: "Catalogue | None") -> str:
        classes = self._picture(name, catalogue)
        label = text(name)
        shown = (
            f'<i class="picture {classes}" role="img" aria-label="{what} {label}"></i>'
            if classes
            else f'<span class="absent"><small>{what}, no picture</small>{label}</span>'
        )
        return f'<figure>{shown}<figcaption title="{label}">{label}</figcaption></figure>'

    def _picture(self, name: str, catalogue: "Catalogue | None") -> str:
        """The classes of a picture, "" where there is none to show."""
        if catalogue is None or self._study is None or catalogue.paths is None:
            return ""
        rows = np.flatnonzero(catalogue.ids == name)
        if not len(rows):
            return ""
        path = self._study.path / str(catalogue.paths[rows[0]])
        if path not in self._classes:
            self._classes[path] = self._read(path)
        return self._classes[path]

    def _read(self, path: Path) -> str:
        try:
            picture = fitted(path, PIXELS) if path.is_file() else None
        except Exception:  # whatever is wrong with a file, its id is shown instead
            picture = None
        if picture is None:
            return ""
        name = f"p{len(self._rules)}"
        self._rules.append(f".{name}{{background-image:url({uri(picture, PIXELS)})}}")
        return f"{name} tiny" if max(picture.shape[:2]) <= PIXELATED else name
