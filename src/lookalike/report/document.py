"""A document that needs nothing else: style, scripts, data and pictures are inside, and loading more is forbidden."""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import vl_convert

from lookalike.core.version import __version__
from lookalike.report.html import facts, script_json, text
from lookalike.report.templates import filled, head, resource
from lookalike.report.vega import CONFIG

__all__ = ["about", "document", "filled", "resource"]


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
        "head": head(title, styles, [_allowed(script) for script in code.values()]),
        "description": text(description),
        "pictures": pictures,
        "body": body,
        "data": script_json({**data, "config": CONFIG}),
    }
    return filled(resource("document.html"), parts | code)


def about(values: Mapping[str, Any], formulas: Sequence[str], cited: Sequence[str]) -> str:
    """The end of every page: where its numbers come from, what they mean and whom to cite.

    formulas, cited: files of this package, joined.
    """
    parts = {"facts": facts({**values, **_made_by()})}
    parts |= {name: "".join(map(resource, files)) for name, files in (("formulas", formulas), ("cited", cited))}
    return filled(resource("about.html"), parts)


def _made_by() -> dict[str, str]:
    """Versions of what made the page."""
    vega, lite = vl_convert.get_vega_version(), vl_convert.get_vegalite_versions()[-1]
    return {"made by": f"lookalike {__version__}", "charts by": f"Vega {vega}, Vega-Lite {lite}"}


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, which takes seconds to bundle."""
    script = vl_convert.javascript_bundle("globalThis.vegaEmbed = vegaEmbed;")
    if "</script" in script or "<!--" in script:
        raise AssertionError("the drawing library cannot be put into a page: it holds the end of a script")
    return script


def _allowed(script: str) -> str:
    """The script as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
