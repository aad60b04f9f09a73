"""Cases run in child processes, each judged: returned, refused in words, or failed."""

from __future__ import annotations

import dis
import faulthandler
import functools
import importlib
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from cyclopts import CycloptsError

import lookalike
from lookalike.core import kernels as _compiled
from lookalike.core.errors import LookalikeError

PACKAGE = str(Path(lookalike.__file__).parent)
PRINTED = (LookalikeError, OSError, MemoryError)  # by the command line, as a sentence; all else is a bug
# scikit-learn's words, in whose manner hashers are
OF_SKLEARN = re.compile(r"X has \d+ features?, but \w+ is expecting \d+ features? as input")
PER_CHILD = 100  # cases
SLOW_TO_IMPORT = """torch torch._dynamo faiss onnxruntime onnx numba sklearn.utils.validation scipy.stats scipy.linalg
distributed altair PIL.Image pyarrow.csv pyarrow.parquet starlette.testclient lookalike.cli lookalike.judging.pages.app
lookalike.judging.store.store lookalike.web.look.app lookalike.learning.hasher lookalike.study.encode
lookalike.study.hashed_models lookalike.study.finder lookalike.report"""


@dataclass(frozen=True)
class Target:
    """Something that reads input. case: makes a case with random numbers in an empty folder, and runs it.

    valid: reads valid input, from the folder of seeds. share: how often it gets its turn, less where it is slow.
    """

    name: str
    case: Callable[[Random, Path, Path], Any]
    valid: Callable[[Path, Path], Any] = lambda seeds, folder: None
    share: float = 1.0


@dataclass(frozen=True)
class Limits:
    """What a case may take. seconds: of the processor, or four times as many by the clock, as machines are shared.

    megabytes: beside what the process has when the case begins.
    """

    seconds: float = 20.0
    megabytes: float = 2048.0


LIMITS = Limits()


@dataclass(frozen=True)
class Outcome:
    """What became of a case: accepted, refused or failed, in these words, at this place."""

    target: str
    case: int
    verdict: str
    words: str = ""
    where: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0


class ServerError(Exception):
    """A case found something wrong without an exception, such as a status of 500."""


def judged(act: Callable[[], Any], folder: Path) -> tuple[str, str, str]:
    """Verdict, words and place: a refusal is an exception that the command line prints, in words of ours."""
    try:
        act()
    except CycloptsError as error:
        return "refused", str(error), ""
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"[:2000]
        is_told = isinstance(error, PRINTED) and str(error).strip() and _is_in_words(error, folder)
        return "refused" if is_told else "failed", words, _where(error)
    return "accepted", "", ""


def _is_in_words(error: BaseException, folder: Path) -> bool:
    """Whether a `raise` of the package raised it, or it names the file: what libraries say of themselves is no help."""
    last: Any = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    is_ours = code.co_filename.startswith(PACKAGE) and code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    names_file = str(folder) in str(error) or getattr(error, "filename", None) is not None
    return is_ours or names_file or OF_SKLEARN.match(str(error)) is not None


def _where(error: BaseException) -> str:
    """The last lines of the package that the exception came through, then where it was raised."""
    frames = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    own = [frame for frame in frames if frame[0].startswith(PACKAGE)][-2:]
    return " > ".join(f"{Path(file).name}:{line} {name}" for file, line, name in dict.fromkeys([*own, *frames[-1:]]))


def case_of(target: Target, seed: int, number: int, seeds: Path, folder: Path) -> Any:
    """Make and run one case: the same for the same target, seed and number."""
    return target.case(Random(f"{seed} {target.name} {number}"), seeds, folder)


def run(cases: Iterable[tuple[Target, int]], seed: int, kept: Path, limits: Limits = LIMITS) -> Iterator[Outcome]:
    """Run cases, each a target and a number, and say what became of each; what failed is left in the folder `kept`."""
    seeds, cases = kept.absolute() / "seeds", iter(cases)
    while waiting := [
        (target.name, number, functools.partial(case_of, target, seed, number, seeds))
        for target, number in islice(cases, PER_CHILD)
    ]:
        while waiting:  # by another child, where a case has ended the one before
            outcomes = 0
            for outcome in in_child(waiting, kept, limits):
                outcomes += 1
                yield outcome
            waiting = waiting[outcomes:]


def in_child(acts: list[tuple[str, int, Callable[[Path], Any]]], kept: Path, limits: Limits) -> Iterator[Outcome]:
    """Run acts, each with the name of its target and its number, in one child process, until one of them ends it."""
    log = (kept / f"child-{os.getpid()}.log").absolute()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            _work(acts, log, writing, limits)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        yield from _watched(child, reading, acts, log, limits)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)  # which has ended, unless this was stopped
        os.waitpid(child, 0)
        log.unlink(missing_ok=True)


def _folder(log: Path, name: str, number: int) -> Path:
    return log.parent / f"{name.replace(' ', '-')}-{number}"


def _work(acts: list[tuple[str, int, Callable[[Path], Any]]], log: Path, writing: int, limits: Limits) -> None:
    """Be the child: say that a case begins, and what became of it."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(output, 1), os.dup2(output, 2)
    warnings.simplefilter("ignore")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = size + int(2 * limits.megabytes * 2**20)  # what is asked for at once and never used
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    faulthandler.disable()  # pytest has enabled it, and Lightning has set all signals back since: begin anew
    faulthandler.enable(output)
    for name, number, act in acts:
        os.ftruncate(output, 0)
        folder = _folder(log, name, number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        os.chdir(folder)
        Path("/proc/self/clear_refs").write_text("5")  # the most memory so far is what there is now
        before, started = memory("self", "VmRSS"), time.process_time()
        os.write(writing, json.dumps([before, started]).encode() + b"\n")
        faulthandler.dump_traceback_later(limits.seconds, file=output)
        verdict, words, where = judged(functools.partial(act, folder), folder)
        faulthandler.cancel_dump_traceback_later()
        seconds, megabytes = time.process_time() - started, memory("self", "VmHWM") - before
        if megabytes > limits.megabytes:
            verdict, words = "failed", f"more than {limits.megabytes:g} MB: {megabytes:.0f}"
        os.chdir(log.parent)
        if verdict != "failed":
            shutil.rmtree(folder, ignore_errors=True)
        found = Outcome(name, number, verdict, words, where, seconds, megabytes)
        os.write(writing, json.dumps(asdict(found)).encode() + b"\n")


def _watched(child: int, reading: int, acts: list[Any], log: Path, limits: Limits) -> Iterator[Outcome]:
    """What a child says, and an end to it where a case takes too much."""
    left, done, begun, clock, ended = b"", 0, None, 0.0, ""
    while True:
        if select.select([reading], [], [], 0.02)[0]:
            more = os.read(reading, 1 << 16)
            if not more:
                break
            *lines, left = (left + more).split(b"\n")
            for said in map(json.loads, lines):
                if isinstance(said, list):
                    begun, clock = said, time.monotonic()
                else:
                    begun, done = None, done + 1
                    yield Outcome(**said)
        elif begun is not None and not ended:
            if processor(child) - begun[1] > limits.seconds or time.monotonic() - clock > 4 * limits.seconds:
                ended = f"more than {limits.seconds:g} s"
            elif memory(child, "VmRSS") - begun[0] > limits.megabytes:
                ended = f"more than {limits.megabytes:g} MB"
            if ended:
                os.kill(child, signal.SIGKILL)
    how = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    if begun is None and done < len(acts):
        raise RuntimeError(f"a process ended between two cases, {how}: {log.read_text(errors='replace')}")
    if begun is not None:
        name, number, _ = acts[done]
        is_killed = how.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        by = signal.Signals(how.si_status).name if is_killed else f"exit code {how.si_status}"
        said = log.read_text(errors="replace")[:20_000]
        (_folder(log, name, number) / "last-words.txt").write_text(said)
        yield Outcome(name, number, "failed", ended or f"ended by {by}", _place(said), time.monotonic() - clock)


def _place(said: str) -> str:
    """The lines of the package, the innermost first, in what faulthandler wrote of the first thread that has any."""
    lines = [line.strip() for line in said.splitlines() if line.lstrip().startswith("File ")]
    own = [line for line in lines if PACKAGE in line]
    return " < ".join(line.replace(PACKAGE, "lookalike") for line in [*lines[:1], *own[:2]])


def memory(process: int | str, what: str) -> float:
    """Megabytes of a process: VmRSS now, VmHWM at most."""
    try:
        said = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in said.splitlines() if line.startswith(what)), 0.0)


def processor(process: int) -> float:
    """Seconds of the processor that a process has used."""
    try:
        used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def prepare(targets: list[Target], kept: Path) -> list[str]:
    """Make valid files, and have every target read them, which must go well; the functions of the package it called."""
    from fuzzing.seeds import make_seeds

    for module in SLOW_TO_IMPORT.split():  # once, for all children
        importlib.import_module(module)
    seeds, called = kept.absolute() / "seeds", kept.absolute() / "called.txt"
    shutil.rmtree(seeds, ignore_errors=True)
    seeds.mkdir(parents=True)
    called.unlink(missing_ok=True)
    _all_go_well([("seeds", 0, lambda folder: make_seeds(seeds))], kept)
    for load in (_compiled.kernels, _compiled.product_kernel, _compiled.bend_kernels, _compiled.soft_kernels):
        for loop in vars(load()).values():
            for key in getattr(loop, "signatures", ()):
                loop.prepare(key)
    _all_go_well([(target.name, 0, functools.partial(_valid, target, seeds, called)) for target in targets], kept)
    return sorted(set(called.read_text().split()))


def _all_go_well(acts: list[tuple[str, int, Callable[[Path], Any]]], kept: Path) -> None:
    outcomes = in_child(
        acts, kept, Limits(seconds=280, megabytes=8192)
    )  # what is compiled for the first time takes long
    if wrong := [outcome for outcome in outcomes if outcome.verdict != "accepted"]:
        listed = "".join(f"\n{outcome.target}: {outcome.words} at {outcome.where}" for outcome in wrong)
        raise RuntimeError(f"valid input was not accepted:{listed}")


def _valid(target: Target, seeds: Path, called: Path, folder: Path) -> None:
    _recorded(lambda: target.valid(seeds, folder), called)


def _recorded(act: Callable[[], Any], called: Path) -> None:
    """Do it, and note which functions of the package are called, in all threads."""
    codes: set[Any] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note), sys.setprofile(note)
    try:
        act()
    finally:
        threading.setprofile(None), sys.setprofile(None)
    own = [(Path(code.co_filename), code.co_qualname) for code in codes if code.co_filename.startswith(PACKAGE)]
    modules = [(".".join(path.relative_to(PACKAGE).with_suffix("").parts), name) for path, name in own]
    with called.open("a") as file:
        file.write("".join(f"{module}.{name}\n" for module, name in modules))
