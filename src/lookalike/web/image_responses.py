"""Images as a browser asks for them: by version, so that it may keep them."""

from starlette.requests import Request
from starlette.responses import Response

from lookalike.web.thumbnails import Drawn

__all__ = ["image_response", "not_modified", "with_version"]


def with_version(address: str, version: str | None) -> str:
    """The address of an image, with its version if it has one: browsers may keep what is asked for by version.

    >>> with_version("/picture/3", "0123456789abcdef0123")
    '/picture/3?v=0123456789abcdef'
    """
    return address if version is None else f"{address}?v={version[:16]}"


def image_response(drawn: Drawn, request: Request) -> Response:
    """An image, and how long the browser may keep it."""
    return Response(drawn.body, media_type=drawn.kind, headers=_caching(drawn.version, request))


def not_modified(version: str | None, request: Request) -> Response | None:
    """The answer to a browser that has this version already; None if it does not."""
    if version is None or f'"{version}"' not in request.headers.get("if-none-match", ""):
        return None
    return Response(status_code=304, headers=_caching(version, request))


def _caching(version: str | None, request: Request) -> dict[str, str]:
    """For how long an image may be kept: for ever if it was asked for by version, else as long as it is the same."""
    if version is None:
        return {"cache-control": "no-store"}
    asked = request.query_params.get("v") == version[:16]
    lasting = "private, max-age=31536000, immutable" if asked else "private, no-cache"
    return {"etag": f'"{version}"', "cache-control": lasting}
