"""Write the generated parts of the documentation, or with --check fail when they are not up to date."""

import inspect
import io
import math
import re
import sys
from pathlib import Path

from rich.console import Console

import lookalike as la
from lookalike.cli import app
from lookalike.experiments.claims import BUDGETS, CLAIMS, MeasuredNumber
from lookalike.experiments.replicate import Replication, results_in
from lookalike.hashers import HASHERS
from lookalike.metrics.metric import ALIASES, MEASURES, NUMBER, TREC_NAMES, WHOLE, Measure

ROOT = Path(__file__).parent.parent


def metric_table() -> str:
    """A row for each family of metrics."""
    rows = ["| name | what it is | parameters | undefined with |", "|---|---|---|---|"]
    for name, measure in MEASURES.items():
        also = [alias for alias, meant in ALIASES.items() if meant == name]
        written = f"`{name}{_cutoff(measure)}`" + (
            f" (also {', '.join(f'`{alias}`' for alias in also)})" if also else ""
        )
        rows.append(f"| {written} | {measure.summary} | {_parameters(measure)} | {measure.where_undefined} |")
    return "\n".join(rows)


def _cutoff(measure: Measure) -> str:
    return {"none": "", "radius": "@r", "required": "@k"}.get(measure.cutoff, "[@k]")


def _parameters(measure: Measure) -> str:
    shown = []
    for name, (default, *others) in measure.parameters.items():
        if others and others[-1] in (WHOLE, NUMBER):
            shown.append(f"`{name}={default}`" if default is not None else f"`{name}=`number, in place of `@k`")
        else:
            shown.append(" or ".join(f"`{name}={choice!r}`" for choice in (default, *others)))
    return ", ".join(shown)


def trec_table() -> str:
    """A row for each name of trec_eval."""
    return "\n".join(
        ["| trec_eval | here |", "|---|---|", *(f"| `{name}` | `{ours}` |" for name, ours in TREC_NAMES.items())]
    )


def hasher_table() -> str:
    """A row for each hasher: its first sentence, and what may be set."""
    rows = ["| name | what it is | parameters |", "|---|---|---|"]
    for name, hasher in HASHERS.items():
        first = str(inspect.getdoc(hasher)).splitlines()[0]
        parameters = inspect.signature(hasher).parameters.values()
        rows.append(f"| `{name}` | {first} | {', '.join(f'`{p.name}={p.default!r}`' for p in parameters)} |")
    return "\n".join(rows)


def public_names() -> str:
    """A row for each public function and class: how it is called, and its first sentence."""
    rows = ["| name | what it is |", "|---|---|"]
    for name in la.__all__:
        thing = getattr(la, name)
        if not inspect.getdoc(thing) or isinstance(thing, str):
            continue
        first = str(inspect.getdoc(thing)).splitlines()[0]
        parameters = list(inspect.signature(thing).parameters.values()) if inspect.isfunction(thing) else []
        shown = [p.name + ("=" if p.default is not p.empty else "") for p in parameters]
        call = f"({', '.join(shown)})" if parameters else ""
        rows.append(f"| `la.{name}{call}` | {first} |")
    return "\n".join(rows)


def command_pages() -> str:
    """The --help page of every command."""
    pages = []
    commands = [[], *([name] for name in sorted(app) if not name.startswith("-"))]
    commands += [["study", name] for name in sorted(app["study"]) if not name.startswith("-")]
    for command in sorted(commands):
        text = io.StringIO()
        app.help_print(command, console=Console(file=text, width=100, force_terminal=False))
        pages.append(f"## lookalike {' '.join(command)}".rstrip() + f"\n\n```text\n{text.getvalue().strip()}\n```")
    return "\n\n".join(re.sub(r" +$", "", page, flags=re.MULTILINE) for page in pages)


def replication() -> str:
    """The verdicts on all claims, then a paragraph on each; of every budget that results are kept of."""
    found = {budget: results_in(ROOT / "docs" / "understanding" / "replication", budget) for budget in BUDGETS}
    parts = []
    for budget, results in found.items():
        if results:
            parts += [f"## Verdicts, {budget} budget", _made(results), _verdicts(results)]
    latest = {result.claim: result for results in found.values() for result in results}
    paper = ""
    for name, claim in CLAIMS.items():
        if name in latest:
            if claim.paper != paper:
                paper = claim.paper
                parts.append(f"## {paper}")
            parts.append(_paragraph(latest[name]))
    return "\n\n".join(parts)


def _made(results: list[Replication]) -> str:
    dates = sorted({result.made for result in results})
    versions = ", ".join(f"{name} {version}" for name, version in results[-1].versions.items())
    seconds = sum(result.seconds for result in results)
    command = f"`lookalike replicate --budget {results[0].budget}`"
    return (
        f"Made by {command} on {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, {seconds:,.0f} seconds: {versions}."
    )


def _verdicts(results: list[Replication]) -> str:
    rows = ["| claim | name | place | verdict | parts seen | seconds |", "|---|---|---|---|---|---|"]
    for result in results:
        claim = CLAIMS[result.claim]
        seen = f"{sum(check.held for check in result.checks)} of {len(result.checks)}" if result.checks else "–"
        where = f"{claim.paper}: {claim.place}"
        cells = (claim.title, f"`{claim.name}`", where, f"**{result.verdict}**", seen, f"{result.seconds:.1f}")
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows)


def _paragraph(result: Replication) -> str:
    claim = CLAIMS[result.claim]
    lines = [
        f"### {claim.title}",
        f"*{claim.paper}, {claim.place}.* {claim.says} Tried: {claim.protocol} Data: {claim.data}. Seeds: "
        f"{claim.seeds(result.budget)}. It holds if: {claim.criterion} **It {result.verdict}** ({result.budget} budget)"
        + (f": {result.why}." if result.why else "."),
    ]
    for word, held in (("Seen", True), ("Not seen", False)):
        sentences = [check.sentence for check in result.checks if check.held is held]
        if sentences:
            lines.append(f"{word}: {'; '.join(sentences)}.")
    beside = [number for number in result.numbers if not math.isnan(number.printed)]
    if beside:
        shown = [f"{number.name}: {_shown(number)} (printed {_figure(number.printed)})" for number in beside]
        lines.append(f"Beside the print: {'; '.join(shown)}.")
    return "\n\n".join(lines)


def _shown(number: MeasuredNumber) -> str:
    ends = "" if math.isnan(number.low) else f", {_figure(number.low)} to {_figure(number.high)}"
    return f"{_figure(number.value)}{ends}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def main() -> None:
    """Update every file that has a generated part."""
    parts = {
        "metrics": metric_table,
        "trec names": trec_table,
        "hashers": hasher_table,
        "commands": command_pages,
        "python": public_names,
        "replication": replication,
    }
    stale = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = new = path.read_text(encoding="utf-8")
        for name, make in parts.items():
            start, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
            if start in text:
                new = re.sub(
                    f"{start}.*?{end}", lambda _, m=make, s=start, e=end: f"{s}\n{m()}\n{e}", new, flags=re.DOTALL
                )
        if new != text:
            stale.append(path.relative_to(ROOT))
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"not up to date: {', '.join(map(str, stale))}; run make docs")


if __name__ == "__main__":
    main()
