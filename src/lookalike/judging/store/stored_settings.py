"""Settings that the database of votes holds: what experts are asked, and where the study is served."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import sqlalchemy as sa

from lookalike.judging.store.schema import read_meta, write_meta
from lookalike.judging.store.types import Briefing
from lookalike.judging.store.work import StoreWork

T = TypeVar("T")

__all__ = ["StoredSettings"]


class StoredSettings(ABC):
    """The settings of a store, read and written by its transactions."""

    @abstractmethod
    def do(self, run: Callable[[StoreWork], T], clients: list[str] | None = None) -> T:
        """Do something in a transaction, and return what it returns when it is on disk."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection to read by."""

    def briefing(self) -> Briefing:
        """The question to the experts, and the guide on how to answer it."""
        meta = self.meta()
        return Briefing(meta.get("question", ""), meta.get("guide", ""))

    def brief(self, question: str | None = None, guide: str | None = None) -> None:
        """Set the question to the experts, the guide, or both; None leaves it as it is."""
        texts = {name: text for name, text in {"question": question, "guide": guide}.items() if text is not None}
        Briefing(**texts)
        self.set_meta(**texts)

    def organiser(self) -> int:
        """The number of the organiser's link; links with another number do not work."""
        return int(self.meta().get("organiser", 0))

    def renew_organiser(self) -> int:
        """Make the organiser's links so far useless; the number of new ones."""

        def run(work: StoreWork) -> int:
            number = int(read_meta(work.connection).get("organiser", 0)) + 1
            write_meta(work.connection, organiser=number)
            return number

        return self.do(run)

    def served(self) -> tuple[str | None, int | None]:
        """The address of a proxy under which browsers find the study, and the port; None for what was never set."""
        meta = self.meta()
        return meta.get("address"), int(meta["port"]) if "port" in meta else None

    def remember_served(self, address: str | None, port: int) -> None:
        """Store the address and the port in the database, for `served`."""
        self.set_meta(address=address, port=port)

    def meta(self) -> dict[str, str]:
        """All settings that the database has, by name."""
        with self.reading() as connection:
            return read_meta(connection)

    def set_meta(self, **values: Any) -> None:
        """Store settings in the database; None removes one."""
        if values:
            self.do(lambda work: write_meta(work.connection, **values))
