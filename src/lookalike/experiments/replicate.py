"""Claims of papers tried again, one after the other; each result is a file, so that a killed run goes on."""

import json
import logging
import math
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import choice, nearest
from lookalike.core.errors import FileError, InputError, MissingPackageError
from lookalike.core.files import check_format, digest, provenance, read_json, write_text
from lookalike.core.progress import report
from lookalike.core.version import __version__
from lookalike.evaluation.results import without_nan
from lookalike.experiments.claims import BUDGETS, CLAIMS
from lookalike.experiments.claims.claim import (
    UNTRIED,
    VERDICTS,
    CannotTryError,
    Check,
    MeasuredNumber,
    Numbers,
    PaperClaim,
    verdict_of,
)

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch")
STEPS = "steps"  # the folder of what steps of claims gave

logger = logging.getLogger("lookalike")

__all__ = ["Replication", "choose", "fingerprint", "read_result", "replicate", "result_path", "results_in"]


@dataclass(frozen=True)
class Replication:
    """What trying a claim again gave."""

    claim: str
    budget: str
    verdict: str
    numbers: tuple[MeasuredNumber, ...] = ()
    checks: tuple[Check, ...] = ()
    why: str = ""  # it cannot be tried here
    seconds: float = math.nan
    settings: Mapping[str, Any] = field(default_factory=dict)
    made: str = ""  # the date
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""  # of the protocol that it was made by
    kept: bool = False  # read from an earlier run

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, with where it comes from."""
        values = {name: value for name, value in asdict(self).items() if name not in ("kept", "numbers", "checks")}
        numbers = [{name: _short(value) for name, value in asdict(n).items()} for n in self.numbers]
        return provenance(
            "replication", **values, checks=[asdict(check) for check in self.checks], numbers=without_nan(numbers)
        )


def choose(names: Iterable[str]) -> list[PaperClaim]:
    """The claims of these names, in the order of the papers; all of them where no name is given."""
    wanted = list(names)
    for name in wanted:
        if name not in CLAIMS:
            similar = nearest(name, CLAIMS)
            question = "" if similar is None else f"did you mean {similar}? "
            raise InputError(f"there is no claim {name!r}: {question}lookalike replicate --list shows all")
    return [claim for claim in CLAIMS.values() if not wanted or claim.name in wanted]


def replicate(
    claims: Iterable[PaperClaim],
    budget: str,
    folder: str | Path,
    *,
    again: bool = False,
    watch: Callable[[Replication], None] | None = None,
) -> list[Replication]:
    """Try claims again, each with its result in a file of the folder; what was tried before is read from there.

    A result counts as tried before where the claim's protocol and settings have not changed since; one that could not
    be tried is tried anew. again: try all anew. watch: is called with each result.
    """
    choice("budget", budget, BUDGETS)
    folder, claims = Path(folder), list(claims)
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for number, claim in enumerate(claims):
        report(f"trying claims: {claim.name}", number, len(claims))
        result = None if again else _earlier(claim, budget, folder)
        if result is None:
            result = try_claim(claim, budget, folder / STEPS, again=again)
            write_text(
                result_path(folder, claim.name, budget), json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"
            )
        results.append(result)
        if watch is not None:
            watch(result)
    report("trying claims", len(claims), len(claims))
    return results


def try_claim(claim: PaperClaim, budget: str, steps: Path, *, again: bool = False) -> Replication:
    """Measure a claim and judge the numbers."""
    started = time.perf_counter()
    facts: dict[str, Any] = {
        "settings": dict(claim.settings[budget]),
        "made": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": versions(),
        "fingerprint": fingerprint(claim, budget),
    }
    try:
        numbers = Numbers(claim.measure(KeptSteps(claim.settings[budget], steps, again)))
        if unknown := [number.name for number in numbers if math.isnan(number.value)]:
            raise CannotTryError(f"{unknown[0]} has no value: there is nothing to compute it from")
    except (CannotTryError, MissingPackageError, OSError) as error:
        seconds = time.perf_counter() - started
        return Replication(claim.name, budget, UNTRIED, why=str(error), seconds=seconds, **facts)
    checks = tuple(Check(check.sentence, bool(check.held)) for check in claim.judge(numbers))
    seconds = time.perf_counter() - started
    return Replication(claim.name, budget, verdict_of(checks), tuple(numbers), checks, seconds=seconds, **facts)


@dataclass(frozen=True)
class KeptSteps:
    """The settings of a run, and a folder in which each step that has ended is kept."""

    settings: Mapping[str, Any]
    folder: Path
    again: bool = False

    def keep(self, step: str, compute: Callable[[], Any]) -> Any:
        """What a step gave, as JSON values. Its name says all that it depends on, so claims can share it."""
        name = re.sub(r"[^\w.-]+", "-", step)
        path = self.folder / f"{name[:80]}-{digest(np.array([step, __version__]))}.json"
        if path.is_file() and not self.again:
            try:
                return read_json(path.read_bytes(), path)["value"]
            except (FileError, KeyError, TypeError) as error:
                logger.warning("%s is computed anew: %s", path, error)
        value = json.loads(json.dumps(compute()))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(provenance("replication step", step=step, value=value)))
        return value


def fingerprint(claim: PaperClaim, budget: str) -> str:
    """A fingerprint of what is done for a claim: a result of another protocol is not its result."""
    facts = [claim.name, budget, dict(claim.settings[budget]), claim.protocol, claim.data, claim.criterion]
    return digest(np.array([json.dumps(facts, sort_keys=True)]))


def versions() -> dict[str, str]:
    """Versions of what numbers depend on."""
    found = {"lookalike": __version__, "Python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def result_path(folder: str | Path, name: str, budget: str) -> Path:
    """The file of a claim's result."""
    return Path(folder) / f"{name}-{budget}.json"


def results_in(folder: str | Path, budget: str) -> list[Replication]:
    """The results of a folder, in the order of the claims."""
    paths = [result_path(folder, name, budget) for name in CLAIMS]
    return [read_result(path) for path in paths if path.is_file()]


def read_result(path: str | Path) -> Replication:
    """Read a result that `replicate` wrote."""
    path = Path(path)
    saved = read_json(path.read_bytes(), path)
    if not isinstance(saved, dict) or saved.get("lookalike") != "replication":
        raise FileError(f"{path} holds no result of lookalike replicate", path=path)
    check_format(saved, path)
    try:
        numbers = tuple(_number(row) for row in saved["numbers"])
        checks = tuple(Check(_typed(str, row["sentence"]), _typed(bool, row["held"])) for row in saved["checks"])
        texts = {
            name: _typed(str, saved[name]) for name in ("claim", "budget", "verdict", "why", "made", "fingerprint")
        }
        facts = {name: _typed(dict, saved[name]) for name in ("settings", "versions")}
        seconds = float(_typed((int, float), saved["seconds"]))
    except (KeyError, TypeError) as error:
        raise FileError(f"{path} is damaged: {error}; remove it to try the claim again", path=path) from error
    if texts["verdict"] not in VERDICTS or texts["claim"] not in CLAIMS or texts["budget"] not in BUDGETS:
        raise FileError(f"{path} is damaged: it names no known claim, budget or verdict; remove it", path=path)
    return Replication(**texts, **facts, seconds=seconds, numbers=numbers, checks=checks, kept=True)


def _number(row: Mapping[str, Any]) -> MeasuredNumber:
    """A number of a file, in which null stands for nan."""
    values = {name: row[name] for name in ("value", "low", "high", "printed")}
    floats = {name: math.nan if v is None else float(_typed((int, float), v)) for name, v in values.items()}
    return MeasuredNumber(_typed(str, row["name"]), **floats, group=_typed(str, row["group"]))


def _typed(kind: Any, value: Any) -> Any:
    """A value of a file, if it is of the kind that was written."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r} is not what was written there")
    return value


def _earlier(claim: PaperClaim, budget: str, folder: Path) -> Replication | None:
    """The result of an earlier run, if it was made by the same protocol and could be tried."""
    path = result_path(folder, claim.name, budget)
    if not path.is_file():
        return None
    try:
        result = read_result(path)
    except FileError as error:
        logger.warning("%s is tried again: %s", claim.name, error)
        return None
    same = result.fingerprint == fingerprint(claim, budget)
    return result if same and result.verdict != UNTRIED else None


def _short(value: Any) -> Any:
    """Numbers of six digits: more are noise, and files stay small."""
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value
