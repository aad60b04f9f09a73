"""Files of this package that pages are made of, and filling them in."""

import importlib.resources
from collections.abc import Mapping

__all__ = ["filled", "resource"]


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


def resource(name: str) -> str:
    """A file of this package."""
    return importlib.resources.files("lookalike.report").joinpath(name).read_text(encoding="utf-8")
