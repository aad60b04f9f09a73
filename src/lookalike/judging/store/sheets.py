"""How an expert's page lays pairs out: one after the other, or all of a query on a sheet."""

from dataclasses import dataclass
from typing import Literal, cast

import sqlalchemy as sa

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import InputError, Option
from lookalike.judging.store.schema import VOTES
from lookalike.judging.store.stored_settings import StoredSettings

LAYOUTS: tuple["LayoutName", ...] = ("pairs", "sheet")
SMALLEST, USUAL, LARGEST = 2, 12, 24  # candidates of a sheet
LAYOUT_NAMES = ("layout", "sheet_size")  # in the table meta

__all__ = [
    "LARGEST",
    "LAYOUT_NAMES",
    "SMALLEST",
    "USUAL",
    "Layout",
    "count_votes_on_sheets",
    "read_layout",
    "set_layout",
]

LayoutName = Literal["pairs", "sheet"]


@dataclass(frozen=True)
class Layout:
    """What an expert sees at once: "pairs", one after the other, or a "sheet" of so many candidates of a query."""

    name: LayoutName = "pairs"
    sheet_size: int = USUAL

    def __post_init__(self) -> None:
        choice("layout", self.name, LAYOUTS)
        if whole_number("sheet_size", self.sheet_size, SMALLEST) > LARGEST:
            raise InputError(
                Option("sheet_size"),
                f" must be at most {LARGEST}, got {self.sheet_size:,}",
                parameter="sheet_size",
                value=self.sheet_size,
            )


def read_layout(store: StoredSettings) -> Layout:
    """The layout that a store has."""
    meta = store.meta()
    return Layout(cast(LayoutName, meta.get("layout", "pairs")), int(meta.get("sheet_size", USUAL)))


def set_layout(store: StoredSettings, name: LayoutName | None = None, sheet_size: int | None = None) -> None:
    """Set the layout, the size of sheets, or both; None leaves it as it is. Pages follow when they are loaded anew."""
    before = read_layout(store)
    Layout(name or before.name, before.sheet_size if sheet_size is None else sheet_size)
    values = {"layout": name, "sheet_size": sheet_size}
    store.set_meta(**{key: value for key, value in values.items() if value is not None})


def count_votes_on_sheets(store: StoredSettings) -> int:
    """How many votes were given on sheets: the ids of their answers are UUIDs of version 8."""
    on_sheet = sa.select(sa.func.count()).select_from(VOTES).where(VOTES.c.client.like("________-____-8%"))
    with store.reading() as connection:
        return int(connection.execute(on_sheet).scalar_one())
