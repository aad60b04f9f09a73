"""The page: template, style, script and the one drawing library, filled with what the trials found."""

import base64
import functools
import hashlib
import importlib.resources
from typing import Any

import vl_convert

from lookalike._version import __version__
from lookalike.report.charts import CONFIG
from lookalike.report.entries import Comparison
from lookalike.report.examples import Examples
from lookalike.report.figures import Figure, all_figures
from lookalike.report.markup import mark, script_json, text
from lookalike.report.table import comparison_table, meanings
from lookalike.report.words import all_codes, number, plural, summary
from lookalike.trials import Trials

__all__ = ["page"]


def page(trials: Trials, queries: int, random_state: int) -> str:
    """The whole page as text."""
    comparison = Comparison(trials)
    figures = all_figures(comparison)
    examples = Examples(comparison, queries, random_state)
    scripts = {"library": _library(), "script": _file("page.js")}
    specs = {f"{figure.name}-{place}": panel.spec for figure in figures for place, panel in enumerate(figure.panels)}
    data = {"hashers": comparison.hashers, "config": CONFIG, "charts": specs}
    sentences = summary(comparison)
    parts = {
        "title": text(comparison.task.title),
        "description": text(" ".join(sentences)),
        "policy": " ".join(_allowed(script) for script in scripts.values()),
        "style": _file("page.css"),
        "pictures": examples.style(),
        "menu": _menu(figures, bool(examples.panels)),
        "summary": "".join(f"<p>{text(sentence)}</p>" for sentence in [sentences[0], " ".join(sentences[1:])]),
        "cards": _cards(comparison),
        "filter": _lengths("filter", "Show", comparison.lengths, everything=True),
        "rows": plural(len(comparison.entries), "row"),
        "table": comparison_table(comparison),
        "left_out": _left_out(comparison),
        "long": "long" if len(comparison.entries) > 40 else "",
        "meanings": meanings(),
        "legend": _legend(comparison),
        "figures": "".join(figure.html() for figure in figures),
        "examples": _examples(comparison, examples),
        "footer": _footer(comparison, random_state),
        "data": script_json(data),
    }
    return _filled(_file("page.html"), parts | scripts)


def _filled(template: str, parts: dict[str, str]) -> str:
    """The template with each `{{name}}` replaced, in one pass: what is put in is never searched."""
    pieces = template.split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [parts[name], rest]
    return "".join(filled)


def _file(name: str) -> str:
    return importlib.resources.files("lookalike.report").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, which takes seconds to bundle."""
    script = vl_convert.javascript_bundle("globalThis.vegaEmbed = vegaEmbed;")
    if "</script" in script or "<!--" in script:
        raise ValueError("the drawing library cannot be put into a page: it holds the end of a script")
    return script


def _allowed(script: str) -> str:
    """The script as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _menu(figures: list[Figure], examples: bool) -> str:
    links = [("table", "Table"), *((figure.name, figure.short) for figure in figures)]
    links += [("examples", "Examples")] if examples else []
    links += [("about", "About")]
    return "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in links)


def _cards(comparison: Comparison) -> str:
    """The four numbers to see first."""
    cards = []
    if (best := comparison.top("mAP")) is not None:
        cards.append(("Highest mAP", number(best["mAP"]), best, "expected over all orders of tied items"))
    if (tied := comparison.top("ties")) is not None:
        span = f"{number(tied['worst'])}<small> to </small>{number(tied['best'])}"
        cards.append(("Widest range by ties", span, tied, "the mAP one could report for the same codes"))
    if (spread := comparison.top("LGAP@2")) is not None:
        cards.append(("Highest mLGAP@2", number(spread["LGAP@2"]), spread, "relevant within radius 2, and spread"))
    if (crowded := comparison.top("possible_utilisation", choose=min)) is not None:
        used = crowded.trial.usage
        share = f"{used.distinct:,}<small> of {all_codes(used.n_bits)}</small>"
        cards.append(("Fewest codes in use", share, crowded, f"for {plural(used.items, 'item')}"))
    return "".join(
        f'<li><span class="what">{what}</span><strong>{value}</strong>'
        f'<span class="who">{mark(comparison.hashers.index(entry.hasher))} {text(entry.hasher)}, '
        f'{plural(entry.bits, "bit")}</span><span class="why">{why}</span></li>'
        for what, value, entry, why in cards
    )


def _lengths(name: str, legend: str, lengths: list[int], *, everything: bool = False) -> str:
    """A choice of lengths; nothing where there is none."""
    if len(lengths) < 2:
        return ""
    choices = [*([("all", "all")] if everything else []), *((str(bits), plural(bits, "bit")) for bits in lengths)]
    inner = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if place == 0 else ""}>'
        f"<span>{title}</span></label>"
        for place, (value, title) in enumerate(choices)
    )
    return f'<fieldset class="choice" id="{name}"><legend>{legend}</legend>{inner}</fieldset>'


def _left_out(comparison: Comparison) -> str:
    """What could not be tried, and why."""
    if not comparison.left_out:
        return ""
    reasons = "".join(f"<li><b>{text(name)}</b>: {text(reason)}</li>" for name, reason in comparison.left_out)
    return f'<div class="left-out"><p>Not tried:</p><ul>{reasons}</ul></div>'


def _legend(comparison: Comparison) -> str:
    chips = "".join(
        f'<button type="button" aria-pressed="false" data-hasher="{place}">{mark(place, dash=True)}'
        f'<span class="name">{text(hasher)}</span></button>'
        for place, hasher in enumerate(comparison.hashers)
    )
    return f'{chips}<button type="button" class="everyone" hidden>show all</button>'


def _examples(comparison: Comparison, examples: Examples) -> str:
    if not examples.panels:
        return ""
    start = comparison.hashers.index(examples.start.hasher)
    options = "".join(
        f'<option value="{place}"{" selected" if place == start else ""}>{text(hasher)}</option>'
        for place, hasher in enumerate(comparison.hashers)
    )
    kind = "squares" if examples.pixelated else ""
    return (
        '<section id="examples"><h2>What a search shows</h2>'
        '<p class="reading">Some queries and their nearest items, a box for each distance. Inside a box all items are '
        "tied: what a script prints as “top 5” is any 5 of the first boxes. "
        '<span class="key"><span class="hit">✓</span> relevant <span class="miss">✗</span> not relevant</span></p>'
        f'<div class="controls"><label>Hasher <select id="example-hasher">{options}</select></label>'
        f"{_lengths('example-bits', 'Length', examples.lengths)}</div>"
        f'<p id="example-none" hidden>This hasher was not tried at this length.</p>'
        f'<div class="examples {kind}" aria-live="polite">{examples.panels}</div></section>'
    )


def _footer(comparison: Comparison, random_state: int) -> str:
    facts: dict[str, Any] = {"task": comparison.task.title, **comparison.task.about}
    facts |= {"example seed": random_state, "made by": f"lookalike {__version__}"}
    facts |= {"charts by": f"Vega {vl_convert.get_vega_version()}, Vega-Lite {vl_convert.get_vegalite_versions()[-1]}"}
    return "".join(
        f"<dt>{text(name)}</dt><dd>{text(value if 'seed' in str(name) else _fact(value))}</dd>"
        for name, value in facts.items()
    )


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(inner)}" for name, inner in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
