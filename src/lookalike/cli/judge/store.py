"""The store of a study's votes, opened for a command."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from lookalike.core.errors import InputError, missing_package

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study

__all__ = ["needs_packages", "open_store"]


def needs_packages(part: Literal["pages.workers", "store.store"] = "store.store") -> None:
    """Raise where packages are missing that this part of judging needs."""
    try:
        importlib.import_module(f"lookalike.judging.{part}")
    except ModuleNotFoundError as error:
        raise missing_package("judging", error.name, "judge") from error


@contextlib.contextmanager
def open_store(study: "Study", database: str | None = None) -> Iterator["Store"]:
    """The store of a study, in its own file or in a database elsewhere."""
    from lookalike.judging.store.location import forget_database
    from lookalike.judging.store.store import Store

    if database is not None and database != "sqlite" and not database.startswith(("postgresql://", "postgres://")):
        raise InputError("--database must be like postgresql://USER@HOST/NAME, or sqlite for the study's own file")
    if database == "sqlite":
        with Store.open(None, study) as before:
            before.copy_votes(study)
        forget_database(study)
        database = None
    with Store.open(database, study) as store:
        yield store
