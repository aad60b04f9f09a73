"""`lookalike look`."""

import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from lookalike.cli.terminal import remark, tables

PORT = Annotated[
    int, Parameter(help="where the page is; 0 takes one that is free", validator=validators.Number(gte=0, lte=65535))
]
HOST = Annotated[str, Parameter(help="the address to listen on; by default only this machine can connect")]
ALLOW_HOST = Annotated[
    tuple[str, ...], Parameter(help="a further name under which browsers may ask for the page", negative=())
]
OPEN = Annotated[
    bool | None,
    Parameter(name="--open", negative="--no-open", help="open the page in a browser; by default on a desktop"),
]

__all__ = ["ALLOW_HOST", "HOST", "OPEN", "PORT", "allowed_hosts", "look", "open_page"]


def look(
    study: Annotated[Path, Parameter(help="the folder of a study")],
    /,
    *,
    port: PORT = 8000,
    host: HOST = "127.0.0.1",
    allow_host: ALLOW_HOST = (),
    open_browser: OPEN = None,
    as_json: Annotated[
        bool, Parameter(name="--json", help="print the address as one line of JSON, then serve")
    ] = False,
) -> None:
    """Look through a study in a browser: its catalogue, and what looks like an item or a picture of your own.

    Example: lookalike look shop

    Example: lookalike look shop --port 0 --json
    """
    from lookalike.study.study import Study

    opened = Study.open(study)
    try:
        from lookalike.web.guard import LOOPBACK
        from lookalike.web.look.app import create_look_app
        from lookalike.web.server import listen, serve
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a page in a browser needs {error.name}, which is not installed: pip install 'lookalike[judge]'"
        ) from error
    hosts = allowed_hosts(host, allow_host)
    app = create_look_app(opened, hosts=hosts)
    with contextlib.suppress(KeyboardInterrupt), listen(host, port) as listening:  # Ctrl-C is how it ends
        address = f"http://{hosts[0]}:{listening.getsockname()[1]}/"
        if hosts[0] not in LOOPBACK:
            remark("anyone who can reach this address sees the images of the study")
        say = tables().print
        say(json.dumps({"address": address}) if as_json else f"{opened.name} is at {address} (Ctrl-C ends it)")
        open_page(address, open_browser)
        serve(app, listening)


def allowed_hosts(host: str, more: tuple[str, ...]) -> tuple[str, ...]:
    """The names under which browsers may ask for a page: that of the address it is on, and further ones.

    Where it is on all addresses, that of this machine in its network comes first, for links that others can follow.
    """
    from lookalike.web.guard import host_of

    wrong = [name for name in more if host_of(name) != name.lower()]
    if wrong:
        raise ValueError(f"--allow-host takes a name such as shop.example, without a port, got {wrong[0]!r}")
    if host in ("0.0.0.0", "::"):  # noqa: S104
        return (_own_address(), socket.gethostname().lower(), *more)
    return (f"[{host}]" if ":" in host else host, *more)


def _own_address() -> str:
    """The address of this machine in its network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:  # in no network
            return "127.0.0.1"
        return str(asking.getsockname()[0])


def open_page(address: str, wanted: bool | None) -> None:
    """Open a page in a browser; None: where somebody sees it, and a window opens rather than the terminal is taken."""
    if not (_on_a_desktop() if wanted is None else wanted):
        return
    import webbrowser

    webbrowser.open(address)


def _on_a_desktop() -> bool:
    shows = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shows and sys.stdout.isatty()
