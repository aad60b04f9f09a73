"""`lookalike look`."""

import contextlib
import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lookalike.cli.browser import allowed_hosts, open_page
from lookalike.cli.options import ALLOW_HOST, HOST, OPEN, PORT
from lookalike.cli.terminal import remark, tables
from lookalike.core.errors import missing_package

__all__ = ["look"]


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
        raise missing_package("a page in a browser", error.name, "judge") from error
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
