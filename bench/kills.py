"""What does a kill leave? Encode and index a folder of images, killed at random moments, and compare with undisturbed.

Each command is run once undisturbed, to know its time; then, in another folder, started and killed with SIGKILL at
random moments of that time, and at last run to its end. Every file of the two studies is compared by its hash.

    lookalike data cifar10 --images photos --first 2000
    OMP_WAIT_POLICY=PASSIVE python bench/kills.py photos --kills 10
"""

import argparse
import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    commands = [  # and within which part of its time each is killed: encode goes on where it was
        (["encode", str(options.folder.resolve()), "--study", "study"], 2 / options.kills),
        (["index", "study", "--hasher", "ITQ", "--kind", "ivf"], 1),
        (["index", "study", "--model", "efficientnet-lite0", "--kind", "hnsw"], 1),
    ]
    how = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        undisturbed, disturbed = Path(scratch, "a"), Path(scratch, "b")
        undisturbed.mkdir(), disturbed.mkdir()
        for command, part in commands:
            seconds = run(command, undisturbed)
            hit = sum(killed(command, disturbed, how.uniform(0, part * seconds)) for _ in range(options.kills))
            print(f"{command[0]}: {seconds:.1f} s undisturbed; {hit} of {options.kills} runs were killed", flush=True)
            run(command, disturbed)
        expected, found = contents(undisturbed), contents(disturbed)
        for name in sorted({*expected, *found}):
            same = expected.get(name) == found.get(name)
            print(f"{'same' if same else 'DIFFERENT':10}{expected.get(name, '–')[:16]}  {name}")
        sys.exit(expected != found)


def run(command: list[str], folder: Path) -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "lookalike", *command], cwd=folder, check=True, capture_output=True)
    return time.monotonic() - started


def killed(command: list[str], folder: Path, after: float) -> bool:
    """Start a command and kill it after so many seconds; whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lookalike", *command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


if __name__ == "__main__":
    main()
