"""The errors that a user can put right. Whatever else is raised is a bug, or an error of the system (OSError)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "FileError",
    "InputError",
    "InputTypeError",
    "LookalikeError",
    "MissingPackageError",
    "Option",
    "StoreError",
    "StudyError",
]


@dataclass(frozen=True)
class Option:
    """A parameter in an error's text, and the value to give it if there is one. Commands spell it their own way.

    >>> str(Option("unjudged", "condensed")), str(Option("unjudged"))
    ("unjudged='condensed'", 'unjudged')
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class LookalikeError(Exception):
    """Something that a user can put right, in one sentence. Its parts are texts and options.

    >>> error = InputError("nobody judged some items: give ", Option("unjudged", "condensed"))
    >>> str(error), error.sentence(lambda option: f"--{option.name} {option.value}")
    ("nobody judged some items: give unjudged='condensed'", 'nobody judged some items: give --unjudged condensed')
    """

    def __init__(self, *parts: str | Option) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.sentence(str)

    def sentence(self, spell: Callable[[Option], str]) -> str:
        """The text, with each option as `spell` writes it."""
        return "".join(spell(part) if isinstance(part, Option) else str(part) for part in self.args)


class InputError(LookalikeError, ValueError):
    """A value that was given cannot be used. parameter, value: what it is called and what was given, where known."""

    def __init__(self, *parts: str | Option, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(*parts)
        self.parameter, self.value = parameter, value


class InputTypeError(InputError, TypeError):
    """A value that was given is of a kind that cannot be used."""


class FileError(InputError):
    """A file cannot be used. path: its name; line: the line that is wrong, counted from 1; both where known."""

    def __init__(self, *parts: str | Option, path: object = None, line: int | None = None) -> None:
        super().__init__(*parts)
        self.path, self.line = None if path is None else str(path), line


class StudyError(InputError):
    """A study lacks what was asked of it, or does not fit what it is given."""


class StoreError(LookalikeError, RuntimeError):
    """A database or an object store does not answer, or has no room."""


class MissingPackageError(LookalikeError, ModuleNotFoundError):
    """A package is not installed. package: its name; extra: what to install it by, such as "judge"."""

    def __init__(self, *parts: str | Option, package: str | None = None, extra: str | None = None) -> None:
        super().__init__(*parts)
        self.package, self.extra = package, extra
        self.name = package


def missing_package(what: str, package: str | None, extra: str) -> MissingPackageError:
    """That `what` needs a package, and how to install it.

    >>> str(missing_package("judging", "starlette", "judge"))
    "judging needs starlette, which is not installed: pip install 'lookalike[judge]'"
    """
    return MissingPackageError(
        f"{what} needs {package}, which is not installed: pip install 'lookalike[{extra}]'",
        package=package,
        extra=extra,
    )
