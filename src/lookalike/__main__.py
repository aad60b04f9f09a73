"""So that `python -m lookalike` is the command line."""

from lookalike.cli import main

if __name__ == "__main__":
    main()
