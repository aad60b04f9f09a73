"""Addresses of tables in databases. What may be a password never gets into a name or into an error."""

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError
from lookalike.core.readers.source import Columns

ENGINES = {"pgvector": "pgvector", "postgresql": "pgvector", "postgres": "pgvector", "lancedb": "lancedb"}
ENGINES |= {"qdrant": "qdrant"}
COLUMNS = ("vector", "id", "label", "tags", "group", "by")
FORMS = {
    "pgvector": "pgvector://USER:PASSWORD@HOST:PORT/DATABASE?table=TABLE",
    "lancedb": "lancedb:FOLDER/TABLE",
    "qdrant": "qdrant://HOST:6333/COLLECTION or qdrant:FOLDER/COLLECTION",
}

__all__ = ["DatabaseAddress", "address_of", "malformed"]


@dataclass(frozen=True)
class DatabaseAddress:
    """What an address says. location: between the engine's name and the "?"; it may hold a password."""

    engine: str
    location: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"DatabaseAddress({self.engine})"  # the rest may hold a password

    def columns(self, columns: Columns) -> Columns:
        """The columns that the address names, and for all others those of `columns`."""
        return replace(columns, **{name: self.options[name] for name in COLUMNS if name in self.options})

    @property
    def skips_nulls(self) -> bool:
        """Whether rows without a vector are left out; else they are an error."""
        if "nulls" not in self.options:
            return False
        if self.options["nulls"] != "skip":
            raise malformed(self.engine, "nulls=skip leaves out rows without a vector; nulls has no other value")
        return True

    def check_options(self, *known: str) -> None:
        """Raise for an option after the "?" that is neither a column's, nor nulls, nor one of these."""
        names = (*known, *COLUMNS, "nulls")
        for name in self.options:
            if name not in names:
                guess = nearest(name, names)
                question = "" if guess is None else f", did you mean {guess}?"
                raise malformed(self.engine, f"after the ? stand {', '.join(names)}, not {name!r}{question}")


def address_of(text: str) -> DatabaseAddress | None:
    """The address that a text is; None where it is no address of a database.

    >>> address_of("lancedb:shop/items?label=class").options
    {'label': 'class'}
    >>> address_of("items.npz") is None
    True
    """
    scheme, colon, rest = str(text).partition(":")
    if not colon or scheme not in ENGINES:
        return None
    engine = ENGINES[scheme]
    location, _, query = rest.partition("?")
    if location.startswith("//"):
        _check_signs(engine, location, query)
    elif scheme != "lancedb" and (scheme != "qdrant" or not location):
        raise malformed(engine, "after the colon stand two slashes")
    return DatabaseAddress(engine, location, _options(engine, query))


def malformed(engine: str, why: str) -> InputError:
    """That an address cannot be used, and how one looks."""
    return InputError(f"the address must be like {FORMS[engine]}: {why}")


def _check_signs(engine: str, location: str, query: str) -> None:
    """Raise where signs of a password would be taken for those of the address, and shown as a part of its name."""
    server, _, path = location[2:].partition("/")
    if not (location + query).isprintable() or " " in location + query:
        raise malformed(engine, "a space or a sign that cannot be printed is written as % and two digits, such as %20")
    if server.count("@") > 1 or "@" in path or "@" in query:
        raise malformed(engine, "in a password, @ is written %40, / is written %2F and ? is written %3F")
    if "#" in location:
        raise malformed(engine, "# is written %23")


def _options(engine: str, query: str) -> dict[str, str]:
    """The options after the "?"."""
    options: dict[str, str] = {}
    for part in query.split("&") if query else []:
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch("[a-z_]+", name):
            raise malformed(engine, "after the ? stand options such as label=class, with & between them")
        if name in options:
            raise malformed(engine, f"the option {name} stands there twice")
        options[name] = unquote(value)
    return options
