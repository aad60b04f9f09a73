"""The figures that compare hashers."""

import math

import numpy as np

from lookalike.evaluation.code_space import items_by_code
from lookalike.report.figure import Figure, FigurePanel
from lookalike.report.hashers import charts
from lookalike.report.hashers.entries import HasherComparison, HasherEntry
from lookalike.report.hashers.words import all_codes, random_codes
from lookalike.report.html import data_table, mark, text
from lookalike.report.numbers import listed, number, percent, plural, whole

__all__ = ["all_figures"]


def all_figures(comparison: HasherComparison) -> list[Figure]:
    """Every figure that these trials allow: lengths are compared only where there are several."""
    figures = [_tradeoff(comparison), _codes(comparison), _code_order(comparison)]
    figures += [_curves(comparison), _radii(comparison)]
    if len(comparison.lengths) > 1:
        figures += [_lengths(comparison), _spread(comparison)]
    return figures


def _tradeoff(comparison: HasherComparison) -> Figure:
    panels = []
    for bits in comparison.lengths:
        told = [
            f"{entry.hasher}: mAP {number(entry['mAP'])}, mLGAP@2 {number(entry['LGAP@2'])}, "
            f"{percent(entry['possible_utilisation'])} of possible codes used"
            for entry in _ranked(comparison.of_length(bits), "mAP")
        ]
        panels.append(
            FigurePanel(_bits(bits), f"{_bits(bits)}. {'; '.join(told)}.", charts.tradeoff_chart(comparison, bits))
        )
    rows = [
        (
            entry.hasher,
            entry.bits,
            number(entry["LGAP@2"]),
            number(entry["mAP"]),
            number(entry["worst"]),
            number(entry["best"]),
            percent(entry["possible_utilisation"]),
        )
        for entry in comparison.entries
    ]
    sizes = "".join(
        f'<span><svg class="size" width="{2 * radius:.0f}" height="{2 * radius:.0f}" aria-hidden="true">'
        f'<circle cx="50%" cy="50%" r="{radius - 1:.1f}"/></svg>{percent(share)}</span> '
        for share in (0.1, 0.5, 1.0)
        for radius in [math.sqrt((25 + 275 * share) / math.pi) + 1]
    )
    return Figure(
        "tradeoff",
        "Trade-off",
        "Accuracy against dispersion",
        "Up is accurate; right is accurate <em>and</em> spread over many codes; the stroke is what ties leave open. "
        "High on the left: the mAP comes from few, crowded codes. "
        f'<span class="sizes">Size: share of possible codes used {sizes}</span>',
        panels,
        data_table(["hasher", "bits", "mLGAP@2", "mAP", "worst", "best", "of possible codes"], rows),
        *_by_lengths(comparison),
    )


def _codes(comparison: HasherComparison) -> Figure:
    bits = comparison.lengths[0]
    entries = comparison.of_length(bits)
    highest = max(entry.trial.usage.largest for entry in entries)
    panels, rows = [], []
    for entry in entries:
        used, index = entry.trial.usage, comparison.hashers.index(entry.hasher)
        half = int(np.searchsorted(used.counts.cumsum(), used.items / 2)) + 1
        title = (
            f"{mark(index)} <span>{text(entry.hasher)}</span> "
            f"<small><b>{used.distinct:,}</b> of {all_codes(bits)}</small>"
        )
        told = (
            f"{entry.hasher}: {plural(used.items, 'item')} on {used.distinct:,} of {all_codes(bits)} codes, "
            f"{used.largest:,} on the fullest; {plural(half, 'code')} hold half of the items."
        )
        panels.append(FigurePanel(title, told, charts.codes_chart(comparison, entry, highest), {"hasher": index}))
        rows.append(
            (
                entry.hasher,
                whole(used.distinct),
                percent(entry["utilisation"]),
                percent(entry["possible_utilisation"]),
                whole(used.largest),
                whole(half),
                f"{used.entropy:.2f}",
            )
        )
    even = random_codes(comparison.n_items, bits)
    head = ["hasher", "codes", "of all", "of possible", "on the fullest", "codes with half the items", "entropy, bits"]
    return Figure(
        "codes",
        "Use of codes",
        f"How {plural(comparison.n_items, 'item')} fall on {all_codes(bits)} codes of {bits} bits",
        "Each code’s items, from the fullest code to the emptiest, on a root scale; shaded: codes that nothing uses. "
        f'<span class="dashed">Dashed</span>: evenly random bits, which would take about {even:,.0f} codes. '
        "A tall, narrow peak is a collapse: search becomes classification, and nothing ranks items within a class.",
        panels,
        data_table(head, rows),
        small=True,
    )


def _code_order(comparison: HasherComparison) -> Figure:
    bits = comparison.lengths[0]
    entries = comparison.of_length(bits)
    histograms = [items_by_code(entry.trial.gallery) for entry in entries]
    highest = max(int(ordered.items.max()) for ordered in histograms)
    panels, rows = [], []
    for entry, ordered in zip(entries, histograms, strict=True):
        index, short, fullest = comparison.hashers.index(entry.hasher), ordered.shorter(3), int(ordered.items.argmax())
        written = f"{fullest:0{ordered.prefix_bits}b}{'' if ordered.is_whole else '…'}"
        title = f"{mark(index)} <span>{text(entry.hasher)}</span>"
        told = f"{entry.hasher}: {ordered.items[fullest]:,} items on {written}, the most; by the first bits "
        eighths = [(f"{number:0{short.prefix_bits}b}", whole(int(n))) for number, n in enumerate(short.items)]
        told += ", ".join(f"{start} {n}" for start, n in eighths) + "."
        spec = charts.code_order_chart(comparison, entry, ordered, highest)
        panels.append(FigurePanel(title, told, spec, {"hasher": index}))
        rows.append((entry.hasher, written, whole(int(ordered.items[fullest])), *(n for _, n in eighths)))
    place = "Each code’s items" if histograms[0].is_whole else "Items by the first 12 bits of their code"
    head = ["hasher", "fullest", "its items", *(f"{start}…" for start, _ in eighths)]
    return Figure(
        "code-order",
        "Code order",
        f"Where among the codes of {bits} bits the items lie",
        f"{place}, in numerical order (the first bit is the highest), on a root scale (Ding et al. 2018, figure 1). "
        '<span class="dashed">Dashed</span>: the same number everywhere. Codes that differ in the first bit lie far '
        "apart here: gaps show bits that are constant or follow each other.",
        panels,
        data_table(head, rows),
        small=True,
    )


def _curves(comparison: HasherComparison) -> Figure:
    levels = (0.1, 0.25, 0.5, 0.75, 0.9)
    panels, rows = [], []
    for bits in comparison.lengths:
        told = []
        for entry in comparison.of_length(bits):
            curve = entry.trial.by_cutoff
            at = [float(np.interp(level, curve.recall, curve.precision)) for level in levels]
            told.append(f"{entry.hasher} {number(at[2])}")
            rows.append((entry.hasher, bits, *map(number, at)))
        words = f"{_bits(bits)}. Precision where half of the relevant items are found: {', '.join(told)}."
        panels.append(FigurePanel(_bits(bits), words, charts.curve_chart(comparison, bits)))
    return Figure(
        "curves",
        "Precision–recall",
        "Precision against recall",
        "The further a line stays up as it goes right, the better. Ties are averaged: no line depends on their order.",
        panels,
        data_table(["hasher", "bits", *(f"precision at recall {level:g}" for level in levels)], rows),
        *_by_lengths(comparison),
    )


def _radii(comparison: HasherComparison) -> Figure:
    panels, rows = [], []
    for quantity in ("precision", "recall"):
        for bits in comparison.lengths:
            told = [
                f"{entry.hasher} {number(float(getattr(entry.trial.by_radius, quantity)[min(2, bits)]))}"
                for entry in comparison.of_length(bits)
            ]
            words = f"{quantity.capitalize()} within radius {min(2, bits)} of {_bits(bits)}: {', '.join(told)}."
            spec = charts.radius_chart(comparison, bits, quantity)
            panels.append(FigurePanel(f"{quantity.capitalize()} <small>{_bits(bits)}</small>", words, spec))
    for entry in comparison.entries:
        curve = entry.trial.by_radius
        cells = []
        for radius in range(4):
            in_reach = radius < len(curve.at)
            cells += [number(float(values[radius])) if in_reach else "–" for values in (curve.precision, curve.recall)]
        rows.append((entry.hasher, entry.bits, *cells))
    head = [f"{name} ≤ {radius}" for radius in range(4) for name in ("P", "R")]
    return Figure(
        "radius",
        "Radius",
        "Precision and recall within a Hamming radius",
        "What a table lookup of all codes within the radius returns. A query that finds nothing there counts as "
        "precision 0, so long codes start at 0.",
        panels,
        data_table(["hasher", "bits", *head], rows),
        *_by_lengths(comparison),
    )


def _lengths(comparison: HasherComparison) -> Figure:
    panels = []
    for index, hasher in enumerate(comparison.hashers):
        entries = comparison.of_hasher(hasher)
        told = [
            f"{number(entry['mAP'])} at {entry.bits} ({number(entry['worst'])} to {number(entry['best'])} by ties)"
            for entry in entries
        ]
        title = f"{mark(index)} <span>{text(hasher)}</span>"
        words = f"{hasher}, mAP by bits: {listed(told)}."
        panels.append(FigurePanel(title, words, charts.length_chart(comparison, hasher), {"hasher": index}))
    exact = comparison.exact_score
    rule = "" if math.isnan(exact) else f" Dotted: no hashing, {number(exact)}."
    return Figure(
        "lengths",
        "Length",
        "mAP against bits",
        "The band is what ties leave open, from the worst to the best order; it narrows as longer codes tie less."
        f"{rule} Grey: the other hashers.",
        panels,
        _by_length(comparison, "mAP"),
        small=True,
    )


def _spread(comparison: HasherComparison) -> Figure:
    told = []
    for hasher in comparison.hashers:
        values = [f"{number(entry['LGAP@2'])} at {entry.bits}" for entry in comparison.of_hasher(hasher)]
        told.append(f"{hasher} {listed(values)}")
    return Figure(
        "spread",
        "mLGAP@2",
        "mLGAP@2 against bits",
        "It falls with length, since more codes and fewer items lie within radius 2: compare equal lengths only.",
        [FigurePanel("", f"mLGAP@2 by bits. {'; '.join(told)}.", charts.spread_chart(comparison))],
        _by_length(comparison, "LGAP@2"),
        most=1,
    )


def _by_length(comparison: HasherComparison, name: str) -> str:
    values = {(entry.hasher, entry.bits): entry[name] for entry in comparison.entries}
    rows = [
        (hasher, *(number(values.get((hasher, bits), float("nan"))) for bits in comparison.lengths))
        for hasher in comparison.hashers
    ]
    return data_table(["hasher", *map(_bits, comparison.lengths)], rows)


def _by_lengths(comparison: HasherComparison) -> tuple[str, int]:
    """Width and number of panels in a row, one for each length."""
    n = len(comparison.lengths)
    return ("17rem" if n == 4 else "20rem"), (n if n <= 4 else 3)


def _ranked(entries: list[HasherEntry], name: str) -> list[HasherEntry]:
    return sorted(entries, key=lambda entry: -entry[name] if not math.isnan(entry[name]) else math.inf)


def _bits(bits: int) -> str:
    return plural(bits, "bit")
