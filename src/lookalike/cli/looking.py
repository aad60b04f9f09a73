"""`lookalike look`."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from lookalike.cli.terminal import remark, tables

__all__ = ["look"]


def look(
    study: Annotated[Path, Parameter(help="the folder of a study")],
    /,
    *,
    port: Annotated[
        int,
        Parameter(help="where the page is; 0 takes one that is free", validator=validators.Number(gte=0, lte=65535)),
    ] = 8000,
    host: Annotated[
        str, Parameter(help="the address to listen on; by default only this machine can connect")
    ] = "127.0.0.1",
    allow_host: Annotated[
        tuple[str, ...], Parameter(help="a further name under which browsers may ask for the page", negative=())
    ] = (),
    open_browser: Annotated[
        bool | None,
        Parameter(name="--open", negative="--no-open", help="open the page in a browser; by default on a desktop"),
    ] = None,
    as_json: Annotated[
        bool, Parameter(name="--json", help="print the address as one line of JSON, then serve")
    ] = False,
) -> None:
    """Look through a study in a browser: its catalogue, and what looks like an item or a picture of your own.

    Example: lookalike look shop

    Example: lookalike look shop --port 0 --json
    """
    from lookalike.study import Study

    opened = Study.open(study)
    try:
        from lookalike.web.guarding import LOOPBACK, host_of
        from lookalike.web.look import create_look_app
        from lookalike.web.serving import listen, serve
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a page in a browser needs {error.name}, which is not installed: pip install 'lookalike[judge]'"
        ) from error
    named = f"[{host}]" if ":" in host else host
    wrong = [name for name in allow_host if host_of(name) != name.lower()]
    if wrong:
        raise ValueError(f"--allow-host takes a name such as shop.example, without a port, got {wrong[0]!r}")
    app = create_look_app(opened, hosts=(named, *allow_host))
    with contextlib.suppress(KeyboardInterrupt), listen(host, port) as listening:  # Ctrl-C is how it ends
        address = f"http://{named}:{listening.getsockname()[1]}/"
        if named not in LOOPBACK:
            remark("anyone who can reach this address sees the images of the study")
        say = tables().print
        say(json.dumps({"address": address}) if as_json else f"{opened.name} is at {address} (Ctrl-C ends it)")
        if _on_a_desktop() if open_browser is None else open_browser:
            import webbrowser

            webbrowser.open(address)
        serve(app, listening)


def _on_a_desktop() -> bool:
    """Whether somebody sees this, on a screen where a browser can open a window rather than take over the terminal."""
    shows = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shows and sys.stdout.isatty()
