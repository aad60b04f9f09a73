"""The page that compares hashers."""

from lookalike.experiments.trials import Trials
from lookalike.report.document import about, document, filled, resource
from lookalike.report.hashers.entries import HasherComparison, HasherEntry
from lookalike.report.hashers.examples import Examples
from lookalike.report.hashers.figures import all_figures
from lookalike.report.hashers.table import comparison_table, meanings
from lookalike.report.hashers.words import all_codes, summary
from lookalike.report.html import Card, cards, choice, mark, menu, text
from lookalike.report.numbers import number, plural

__all__ = ["page"]


def page(trials: Trials, queries: int, random_state: int) -> str:
    """The whole page as text."""
    comparison = HasherComparison(trials)
    figures = all_figures(comparison)
    examples = Examples(comparison, queries, random_state)
    sentences = summary(comparison)
    title = comparison.task.title
    links = [("table", "Table"), *((figure.name, figure.short) for figure in figures)]
    links += [("examples", "Examples")] if examples.panels else []
    parts = {
        "title": text(title),
        "menu": menu([*links, ("about", "About")]),
        "summary": "".join(f"<p>{text(sentence)}</p>" for sentence in [sentences[0], " ".join(sentences[1:])]),
        "cards": cards("In short", _cards(comparison)),
        "filter": _filter(comparison),
        "rows": plural(len(comparison.entries), "row"),
        "table": comparison_table(comparison),
        "left_out": _left_out(comparison),
        "long": "long" if len(comparison.entries) > 40 else "",
        "meanings": meanings(),
        "legend": _legend(comparison),
        "figures": "".join(figure.html() for figure in figures),
        "examples": _examples(comparison, examples),
        "about": about(
            {"task": title, **comparison.task.about, "example seed": random_state},
            ["hashers/formulas.html"],
            ["hashers/cited.html"],
        ),
    }
    charts = {name: spec for figure in figures for name, spec in figure.specs().items()}
    return document(
        f"{title} · hashers compared",
        " ".join(sentences),
        filled(resource("hashers/page.html"), parts),
        styles=["page.css"],
        scripts=["common.js", "hashers/page.js"],
        data={"hashers": comparison.hashers, "charts": charts},
        pictures=examples.style(),
    )


def _cards(comparison: HasherComparison) -> list[Card]:
    """The four numbers to see first."""
    shown = []
    if (best := comparison.top("mAP")) is not None:
        why = "expected over all orders of tied items"
        shown.append(Card("Highest mAP", number(best["mAP"]), why, _who(comparison, best)))
    if (tied := comparison.top("ties")) is not None:
        ends, why = [number(tied[end]) for end in ("worst", "best")], "the mAP one could report for the same codes"
        shown.append(Card("Widest range by ties", ends[0], why, _who(comparison, tied), " to ", ends[1]))
    if (spread := comparison.top("LGAP@2")) is not None:
        why = "relevant within radius 2, and spread"
        shown.append(Card("Highest mLGAP@2", number(spread["LGAP@2"]), why, _who(comparison, spread)))
    if (crowded := comparison.top("possible_utilisation", choose=min)) is not None:
        used = crowded.trial.usage
        share, why = f" of {all_codes(used.n_bits)}", f"for {plural(used.items, 'item')}"
        shown.append(Card("Fewest codes in use", f"{used.distinct:,}", why, _who(comparison, crowded), share))
    return shown


def _who(comparison: HasherComparison, entry: HasherEntry) -> str:
    return f"{mark(comparison.hashers.index(entry.hasher))} {text(entry.hasher)}, {plural(entry.bits, 'bit')}"


def _lengths(lengths: list[int]) -> list[tuple[str, str]]:
    return [(str(bits), plural(bits, "bit")) for bits in lengths]


def _filter(comparison: HasherComparison) -> str:
    lengths = _lengths(comparison.lengths)
    return choice("filter", "Show", [("all", "all"), *lengths]) if len(lengths) > 1 else ""


def _left_out(comparison: HasherComparison) -> str:
    """What could not be tried, and why."""
    if not comparison.left_out:
        return ""
    reasons = "".join(f"<li><b>{text(name)}</b>: {text(reason)}</li>" for name, reason in comparison.left_out)
    return f'<div class="left-out"><p>Not tried:</p><ul>{reasons}</ul></div>'


def _legend(comparison: HasherComparison) -> str:
    chips = "".join(
        f'<button type="button" aria-pressed="false" data-hasher="{index}">{mark(index, dash=True)}'
        f'<span class="name">{text(hasher)}</span></button>'
        for index, hasher in enumerate(comparison.hashers)
    )
    return f'{chips}<button type="button" class="everyone" hidden>show all</button>'


def _examples(comparison: HasherComparison, examples: Examples) -> str:
    if not examples.panels:
        return ""
    start = comparison.hashers.index(examples.start.hasher)
    options = "".join(
        f'<option value="{index}"{" selected" if index == start else ""}>{text(hasher)}</option>'
        for index, hasher in enumerate(comparison.hashers)
    )
    kind = "squares" if examples.pixelated else ""
    return (
        '<section id="examples"><h2>What a search shows</h2>'
        '<p class="reading">Some queries and their nearest items, a box for each distance. Inside a box all items are '
        "tied: what a script prints as “top 5” is any 5 of the first boxes. "
        '<span class="key"><span class="hit">✓</span> relevant <span class="miss">✗</span> not relevant</span></p>'
        f'<div class="controls"><label>Hasher <select id="example-hasher">{options}</select></label>'
        f"{choice('example-bits', 'Length', _lengths(examples.lengths))}</div>"
        f'<p id="example-none" hidden>This hasher was not tried at this length.</p>'
        f'<div class="examples {kind}" aria-live="polite">{examples.panels}</div></section>'
    )
