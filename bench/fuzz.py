"""Can any input break a reader or a page? Valid files and requests, changed by chance, given to everything that reads.

Each case is seeded, and runs in a child process. What raises anything but a sentence of ours, crashes, takes 20 seconds
or 2 GB has failed: its files are kept, and the line that repeats it is printed.

    OMP_WAIT_POLICY=PASSIVE python bench/fuzz.py --cases 10000
    OMP_WAIT_POLICY=PASSIVE python bench/fuzz.py --seconds 3600 --seed 7
    OMP_WAIT_POLICY=PASSIVE python bench/fuzz.py --only tallies --seed 7 --case 12
"""

import argparse
import collections
import heapq
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzzing import running
from fuzzing.running import Outcome, Target
from fuzzing.targets import TARGETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, help="in all, over all targets (1,000)")
    parser.add_argument("--seconds", type=float, help="go on for so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="the name of one target")
    parser.add_argument("--without", action="append", default=[], help="leave out this target")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--kept", type=Path, help="a folder for what failed; by default a new one")
    parser.add_argument("--json", type=Path, help="also write every outcome to this file")
    options = parser.parse_args()
    targets = [
        target for target in TARGETS if options.only in (None, target.name) and target.name not in options.without
    ]
    if not targets:
        parser.error(f"there is no target {options.only!r}: there are {', '.join(target.name for target in TARGETS)}")
    kept = options.kept or Path(tempfile.mkdtemp(prefix="lookalike-fuzz-"))
    started = time.monotonic()
    called = running.prepare(targets, kept)
    print(f"seed {options.seed}: {len(targets)} targets, made ready in {time.monotonic() - started:.0f} s", flush=True)
    outcomes = []
    for outcome in running.run(cases(targets, options), options.seed, kept):
        outcomes.append(outcome)
        if outcome.verdict == "failed":
            print(f"FAILED {outcome.words[:300]}\n  at {outcome.where}\n  {repeat(outcome, options.seed)}", flush=True)
        elif len(outcomes) % 1000 == 0:
            print(f"{len(outcomes):,} cases, {time.monotonic() - started:.0f} s", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"called": called, "outcomes": [vars(outcome) for outcome in outcomes]}))
    sys.exit(summary(outcomes, options.seed, kept, time.monotonic() - started))


def cases(targets: list[Target], options: argparse.Namespace) -> Iterator[tuple[Target, int]]:
    """The cases that were asked for: by turns, of each target as many as its share; without an end where time is."""
    if options.case is not None:
        yield targets[0], options.case
        return
    until, number = time.monotonic() + (options.seconds or 0), collections.Counter[str]()
    n = options.cases or (1000 if options.seconds is None else sys.maxsize)
    due = [(0.5 / target.share, order) for order, target in enumerate(targets)]
    while number.total() < n and (options.seconds is None or time.monotonic() < until):
        at, order = heapq.heappop(due)
        target = targets[order]
        yield target, number[target.name]
        number[target.name] += 1
        heapq.heappush(due, (at + 1 / target.share, order))


def repeat(outcome: Outcome, seed: int) -> str:
    return f"python bench/fuzz.py --only {outcome.target!r} --seed {seed} --case {outcome.case}"


def summary(outcomes: list[Outcome], seed: int, kept: Path, seconds: float) -> int:
    """Print a table by target, and every way in which something failed; whether anything did."""
    by_target = collections.defaultdict(list)
    for outcome in outcomes:
        by_target[outcome.target].append(outcome)
    print(f"\n{'target':16}{'cases':>7}{'accepted':>10}{'refused':>9}{'failed':>8}{'slowest':>10}{'memory':>9}")
    for name, found in [*sorted(by_target.items()), ("all", outcomes)]:
        verdicts = collections.Counter(outcome.verdict for outcome in found)
        slowest, most = max(outcome.seconds for outcome in found), max(outcome.megabytes for outcome in found)
        counts = "".join(
            f"{verdicts[verdict]:>{width}}" for verdict, width in (("accepted", 10), ("refused", 9), ("failed", 8))
        )
        print(f"{name:16}{len(found):>7}{counts}{slowest:>8.1f} s{most:>6.0f} MB")
    failed = [outcome for outcome in outcomes if outcome.verdict == "failed"]
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    print(f"seed {seed}, {len(outcomes):,} cases in {seconds:.0f} s; the slowest: {repeat(slowest, seed)}")
    if failed:
        places = {(outcome.target, outcome.where) for outcome in failed}
        print(f"{len(failed)} failed, in {len(places)} places; their files are in {kept}")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
