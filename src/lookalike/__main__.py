"""The command line, as `lookalike` and as `python -m lookalike`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run a command; Ctrl-C ends it without a traceback, also while modules are loaded."""
    try:
        from lookalike.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
