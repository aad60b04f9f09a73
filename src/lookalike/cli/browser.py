"""Pages in a browser: under which names they answer, and how they are opened."""

import os
import socket
import sys

from lookalike.core.errors import InputError

__all__ = ["allowed_hosts", "open_page"]


def allowed_hosts(host: str, more: tuple[str, ...]) -> tuple[str, ...]:
    """The names under which browsers may ask for a page: that of the address it is on, and further ones.

    Where it is on all addresses, that of this machine in its network comes first, for links that others can follow.
    """
    from lookalike.web.guard import host_of

    wrong = [name for name in more if host_of(name) != name.lower()]
    if wrong:
        raise InputError(f"--allow-host takes a name such as shop.example, without a port, got {wrong[0]!r}")
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
