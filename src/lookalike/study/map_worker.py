"""Makes the map of a model in a process of its own: `python -m lookalike.study.map_worker STUDY MODEL`.

Each line on standard output is JSON: {"done": 15, "total": 100} while it works; at the end {"made": true}, or
{"problem": "…"} in a sentence.
"""

import json
import sys
from typing import Any

__all__ = ["main"]


def main(folder: str, model: str) -> None:
    """Make a map, and say how far it is."""
    from lookalike.core.errors import LookalikeError
    from lookalike.core.progress import reporting
    from lookalike.study.map import make_map
    from lookalike.study.study import Study

    out = sys.stdout

    def say(facts: dict[str, Any]) -> None:
        out.write(json.dumps(facts) + "\n")
        out.flush()

    try:
        with reporting(lambda what, done, total: say({"what": what, "done": done, "total": total})):
            make_map(Study.open(folder), model)
    except (LookalikeError, OSError, MemoryError) as error:
        say({"problem": str(error) or "there is not enough memory"})
    else:
        say({"made": True})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
