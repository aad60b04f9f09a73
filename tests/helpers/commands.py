"""Commands for tests: what they print, and that bad input ends in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lookalike import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output, and standard error without the progress that is told where a step takes long."""
    code = 0
    try:
        cli.main([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    captured = capsys.readouterr()
    return code, captured.out, re.sub(r"(?m)^.+: \d+ of \d+\n", "", captured.err)


def numbers(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What a command with --json printed, parsed."""
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    parsed = json.loads(out)
    assert isinstance(parsed, dict)
    return parsed


def assert_refused(capsys: pytest.CaptureFixture[str], folder: Path, command: str, words: str) -> None:
    """A command ends with one line that holds these words and exit code 2, and leaves nothing in the folder."""
    before = sorted(folder.iterdir())
    code, out, err = run(capsys, *command.split())
    assert (code, out) == (2, "")
    assert err.startswith("lookalike: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert re.search(words, err), err
    assert sorted(folder.iterdir()) == before, "something was left behind"


def done(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command printed that ended well."""
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out


def refused(capsys: pytest.CaptureFixture[str], told: str, *arguments: object) -> None:
    """A command ends with one line that holds these words, and exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("lookalike: ")
    assert err.count("\n") == 1
    assert told in err
