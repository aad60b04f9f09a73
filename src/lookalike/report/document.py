"""A document sufficient in itself: style, scripts, data and pictures are inside, and nothing else may be loaded."""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import vl_convert

from lookalike._version import __version__
from lookalike.report.drawing import CONFIG
from lookalike.report.markup import script_json, text
from lookalike.report.templates import filled, resource

__all__ = ["document", "filled", "made_by", "resource"]


def document(
    title: str,
    description: str,
    body: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Mapping[str, Any],
    pictures: str = "",
) -> str:
    """The whole page as text.

    styles, scripts: files of this package, joined. data: what the scripts read, with the charts to draw. pictures:
    style that holds them.
    """
    code = {"library": _library(), "script": "\n".join(map(resource, scripts))}
    parts = {
        "title": text(title),
        "description": text(description),
        "policy": " ".join(_allowed(script) for script in code.values()),
        "style": "\n".join(map(resource, styles)),
        "pictures": pictures,
        "body": body,
        "data": script_json({**data, "config": CONFIG}),
    }
    return filled(resource("document.html"), parts | code)


def made_by() -> dict[str, str]:
    """Versions of what made the page."""
    vega, lite = vl_convert.get_vega_version(), vl_convert.get_vegalite_versions()[-1]
    return {"made by": f"lookalike {__version__}", "charts by": f"Vega {vega}, Vega-Lite {lite}"}


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
