"""Whether the packages that draw reports are installed."""

import importlib.util

from lookalike.core.errors import MissingPackageError

NEEDED = ("altair", "vl_convert", "PIL")

__all__ = ["check_installed"]


def check_installed() -> None:
    """Raise where a package that reports need is missing, before any work is done."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise MissingPackageError(
                'a report needs altair, vl-convert-python and pillow: pip install "lookalike[report]"',
                package=name,
                extra="report",
            )
