"""Templates: files of this package that pages are filled into."""

import importlib.resources
from collections.abc import Mapping, Sequence

from lookalike.report.html import text

__all__ = ["filled", "head", "resource"]


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced, in one pass: what is put in is never searched.

    >>> filled("{{a}} {{b}}", {"a": "{{b}}", "b": "c"})
    '{{b}} c'
    """
    pieces = template.split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        out += [parts[name], rest]
    return "".join(out)


def head(title: str, styles: Sequence[str], allowed: Sequence[str] = ()) -> str:
    """The beginning of every page, up to the parts of its head that differ.

    styles: files of this package, joined. allowed: scripts that may run, as a content security policy names them.
    """
    scripts = f"; script-src {' '.join(allowed)}" if allowed else ""
    parts = {"title": text(title), "style": "\n".join(map(resource, styles)), "scripts": scripts}
    return filled(resource("head.html"), parts)


def resource(name: str) -> str:
    """The text of a file of this package."""
    return importlib.resources.files("lookalike.report").joinpath(name).read_text(encoding="utf-8")
