"""Write the generated parts of the documentation, or with --check fail when they are not up to date."""

import inspect
import io
import re
import sys
from pathlib import Path

from rich.console import Console

import lookalike as la
from lookalike.cli import app
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


def main() -> None:
    """Update every file that has a generated part."""
    parts = {
        "metrics": metric_table,
        "trec names": trec_table,
        "hashers": hasher_table,
        "commands": command_pages,
        "python": public_names,
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
