"""Vectors that are spread over columns, a number in each: emb_0, emb_1, …"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lookalike.core.readers.tables import NUMBERS, Field

__all__ = ["NumberColumns"]


@dataclass(frozen=True)
class NumberColumns:
    """Columns whose names differ by a number at their end, in the order of the numbers."""

    prefix: str
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        """What they are called together: what their names begin with, or the first and the last of them."""
        return self.prefix.rstrip("_-. ") or f"{self.names[0]}…{self.names[-1]}"

    @property
    def missing(self) -> int | None:
        """The first number that no column has, counted from the lowest, which is 0 or 1; None if there is none."""
        first = min(self.numbers[0], 1)
        return next((number for number, own in enumerate(self.numbers, first) if number != own), None)

    def is_called(self, name: str) -> bool:
        """Whether a user can mean these columns by a name."""
        return name in (self.title, self.prefix) or name.rstrip("*") == self.prefix

    @classmethod
    def among(cls, fields: Iterable[Field], least: int = 2) -> "list[NumberColumns]":
        """All such columns among the columns of a table, at least two together.

        >>> fields = [Field("emb_1", "f"), Field("emb_0", "f"), Field("price", "f"), Field("x1", "U")]
        >>> [group.names for group in NumberColumns.among(fields)]
        [('emb_0', 'emb_1')]
        """
        found: dict[str, dict[int, str]] = {}
        for field in fields:
            match = re.fullmatch(r"(.*?)(\d{1,9})", field.name, re.DOTALL)
            if match is not None and field.kind in tuple(NUMBERS) and field.shape == ():
                found.setdefault(match[1], {}).setdefault(int(match[2]), field.name)
        return [
            cls(prefix, tuple(sorted(names)), tuple(names[number] for number in sorted(names)))
            for prefix, names in found.items()
            if len(names) >= least
        ]
