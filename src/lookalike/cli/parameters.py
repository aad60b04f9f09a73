"""How the parameters of a command are written on a command line."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from cyclopts import Parameter

__all__ = ["flag_of", "is_flag", "parameters_of"]


def parameters_of(command: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a command by name; fields of options that several commands share are parameters too."""
    found: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = getattr(parameter.annotation, "__origin__", parameter.annotation)
        if dataclasses.is_dataclass(kind):
            for field in dataclasses.fields(kind):
                found[field.name] = parameter.replace(name=field.name, annotation=field.type)
        else:
            found[name] = parameter
    return found


def flag_of(parameter: inspect.Parameter) -> str:
    """What names a parameter on a command line, such as --partials or QUERIES."""
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        return parameter.name.upper()
    for mark in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(mark, Parameter) and mark.name:
            return list(mark.name)[-1]
    return f"--{parameter.name.replace('_', '-')}"


def is_flag(parameter: inspect.Parameter) -> bool:
    """Whether the name of a parameter stands alone: it is a flag, or it has its place."""
    kind = getattr(parameter.annotation, "__origin__", parameter.annotation)
    return kind is bool or parameter.kind is inspect.Parameter.POSITIONAL_ONLY
