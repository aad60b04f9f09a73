"""The tables of judging, the same on SQLite and PostgreSQL, and how older forms become the newest."""

from typing import Any

import sqlalchemy as sa

from lookalike.core.errors import FileError, InputError
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.vote_log import JUDGED, NEWEST, SCHEMA, TRIGGERS
from lookalike.judging.store.types import VoteRow

__all__ = [
    "ALL_EXPERTS",
    "ALL_VOTES",
    "CROWD",
    "EXPERTS",
    "LATER",
    "MACHINES",
    "META",
    "MISSING",
    "NOTES",
    "OF_PEOPLE",
    "PAIRS",
    "PRACTICE",
    "PRACTISED",
    "SEATS",
    "VERDICTS",
    "VOTES",
    "VOTE_ROWS",
    "make_newest",
    "read_meta",
    "remake_votes",
    "write_meta",
]

_TABLES = sa.MetaData()
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows by columns of this type only
_TIME = sa.BigInteger  # milliseconds since 1970, UTC

VOTES = sa.Table(
    "votes",
    _TABLES,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("expert", sa.Text, nullable=False),
    sa.Column("answer", sa.Integer, sa.CheckConstraint("answer IN (1, 0, -1)"), nullable=False),
    sa.Column("time", _TIME),
    sa.Column("seconds", sa.Float(53)),
    sa.Column("client", sa.Text, unique=True),  # made by who sent it; a vote that is sent again is known by it
)
META = sa.Table(
    "meta",
    _TABLES,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text),
)
EXPERTS = sa.Table(
    "experts",
    _TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("link_number", sa.Integer, nullable=False),
    sa.Column("expires", _TIME),
    sa.Column("revoked", _TIME),
)
PAIRS = sa.Table(
    "pairs",
    _TABLES,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("block", sa.BigInteger, nullable=False),  # pairs of one block stay together, small blocks come first
    sa.Column("wanted", sa.Integer),  # experts; NULL: a gold pair, which everybody judges
    sa.UniqueConstraint("query", "item"),
    sqlite_autoincrement=True,  # a number never names another pair later
)
SEATS = sa.Table(
    "places",
    _TABLES,
    sa.Column("pair", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("slot", sa.Integer, sa.CheckConstraint("slot >= 0"), primary_key=True, autoincrement=False),
    sa.Column("expert", sa.Text, nullable=False),
    sa.Column("until", _TIME, nullable=False),  # when it may be taken over, unless there is a vote
    sa.Column("turn", sa.Integer, nullable=False),  # the order in which the expert got it
    sa.Column("voted", sa.Integer, sa.CheckConstraint("voted IN (0, 1)"), nullable=False),
    sa.UniqueConstraint("pair", "expert"),
    sa.Index("places_of_expert", "expert", "pair"),
)
sa.Index("places_held", SEATS.c.voted, sqlite_where=SEATS.c.voted == 0, postgresql_where=SEATS.c.voted == 0)
LATER = sa.Table(
    "later",
    _TABLES,
    sa.Column("pair", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("expert", sa.Text, primary_key=True),
    sa.Column("at", _TIME, nullable=False),
)
MISSING = sa.Table(
    "missing",
    _TABLES,
    sa.Column("pair", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("expert", sa.Text, primary_key=True),
    sa.Column("side", sa.Text, primary_key=True),
    sa.Column("at", _TIME, nullable=False),
)
MACHINES = sa.Table(
    "machines",
    _TABLES,
    sa.Column("name", sa.Text, primary_key=True),  # votes of an expert of this name are a machine's
    sa.Column("since", _TIME, nullable=False),
)
NOTES = sa.Table(
    "notes",
    _TABLES,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("expert", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, sa.CheckConstraint("kind IN ('note', 'flag', 'unflag')"), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("time", _TIME, nullable=False),
    sa.Column("client", sa.Text, unique=True, nullable=False),
    sqlite_autoincrement=True,
)
VERDICTS = sa.Table(
    "verdicts",
    _TABLES,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("answer", sa.Integer, sa.CheckConstraint("answer >= -2"), nullable=False),  # -2: taken back
    sa.Column("time", _TIME, nullable=False),
    sa.Column("client", sa.Text, unique=True, nullable=False),
    sqlite_autoincrement=True,
)
PRACTICE = sa.Table(  # every answer of practice; rows are only added
    "practice",
    _TABLES,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("expert", sa.Text, nullable=False),
    sa.Column("mark", sa.Text, nullable=False),  # of the pairs that were practised
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),  # in the round
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("answer", sa.Integer, nullable=False),
    sa.Column("correct", sa.Integer, nullable=False),
    sa.Column("at", _TIME, nullable=False),
    sa.UniqueConstraint("expert", "mark", "round", "place"),
)
PRACTISED = sa.Table(
    "practised",
    _TABLES,
    sa.Column("expert", sa.Text, primary_key=True),
    sa.Column("how", sa.Text, nullable=False),  # passed, admitted by the organiser, or before: judging had begun
    sa.Column("at", _TIME, nullable=False),
)
CROWD = sa.Table(  # people who came by the open link
    "crowd",
    _TABLES,
    sa.Column("expert", sa.Text, primary_key=True),
    sa.Column("participant", sa.Text, unique=True),
    sa.Column("joined", _TIME, nullable=False),
    sa.Column("completed", _TIME),
    sa.Column("screened", _TIME),
    sa.Column("correct", sa.Integer),  # of the gold pairs by which it was decided
    sa.Column("asked", sa.Integer),
    sa.Column("changed", _TIME, nullable=False),
)
_STAYS = "answers of practice are never changed or deleted"
_RAISES = f"BEGIN RAISE EXCEPTION '{_STAYS}' USING ERRCODE = 'integrity_constraint_violation'; END"
_ALWAYS = "BEFORE UPDATE OR DELETE OR TRUNCATE ON practice FOR EACH STATEMENT EXECUTE FUNCTION practice_stays()"
for _dialect, _statement in (
    ("sqlite", f"CREATE TRIGGER practice_stays BEFORE UPDATE ON practice BEGIN SELECT RAISE(ABORT, '{_STAYS}'); END"),
    ("sqlite", f"CREATE TRIGGER practice_remains BEFORE DELETE ON practice BEGIN SELECT RAISE(ABORT, '{_STAYS}'); END"),
    ("postgresql", f"CREATE FUNCTION practice_stays() RETURNS trigger LANGUAGE plpgsql AS $${_RAISES}$$"),
    ("postgresql", f"CREATE TRIGGER practice_stays {_ALWAYS}"),
):
    sa.event.listen(PRACTICE, "after_create", sa.DDL(_statement).execute_if(dialect=_dialect))  # type: ignore[no-untyped-call]

ALL_EXPERTS = sa.select(EXPERTS.c.name, EXPERTS.c.link_number, EXPERTS.c.expires, EXPERTS.c.revoked).order_by(
    EXPERTS.c.name
)
ALL_VOTES = sa.select(
    VOTES.c.query, VOTES.c.item, VOTES.c.expert, VOTES.c.answer, VOTES.c.time, VOTES.c.seconds
).order_by(VOTES.c.number)
OF_PEOPLE = VOTES.c.expert.not_in(sa.select(MACHINES.c.name))  # votes that are not of machines
VOTE_ROWS = sa.select(*(VOTES.c[name] for name in VoteRow._fields)).order_by(VOTES.c.number)

_APPEND_ONLY = """
CREATE FUNCTION votes_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'votes are never changed or deleted: add a new one' USING ERRCODE = 'integrity_constraint_violation'; END $$;
CREATE TRIGGER votes_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON votes FOR EACH STATEMENT EXECUTE FUNCTION votes_stay();
"""  # noqa: E501


_ONLY_ADDED = {  # by kind of database: the statements that let it refuse to change, replace or delete rows of a table
    "sqlite": [
        """CREATE TRIGGER %(table)s_stay BEFORE UPDATE ON %(table)s
        BEGIN SELECT RAISE(ABORT, '%(table)s are never changed: add a new one'); END""",
        """CREATE TRIGGER %(table)s_remain BEFORE DELETE ON %(table)s
        BEGIN SELECT RAISE(ABORT, '%(table)s are never deleted'); END""",
        """CREATE TRIGGER %(table)s_are_new BEFORE INSERT ON %(table)s
        WHEN EXISTS (SELECT 1 FROM %(table)s WHERE number = NEW.number OR client = NEW.client)
        BEGIN SELECT RAISE(ABORT, '%(table)s are never replaced: add a new one'); END""",
    ],
    "postgresql": [
        """CREATE FUNCTION %(table)s_stay() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '%(table)s are never changed or deleted: add a new one'
        USING ERRCODE = 'integrity_constraint_violation'; END $$""",
        """CREATE TRIGGER %(table)s_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON %(table)s
        FOR EACH STATEMENT EXECUTE FUNCTION %(table)s_stay()""",
    ],
}
for _table in (NOTES, VERDICTS):
    for _kind, _statements in _ONLY_ADDED.items():
        for _statement in _statements:
            _ddl: sa.DDL = sa.DDL(_statement)  # type: ignore[no-untyped-call]
            sa.event.listen(_table, "after_create", _ddl.execute_if(dialect=_kind))


def make_newest(connection: sa.Connection, where: str) -> None:
    """Make the tables that are missing, within a transaction; an error if a newer version made them."""
    if connection.dialect.name == "sqlite":
        _make_newest_sqlite(connection, where)
    elif not _is_ours(connection, where):
        _TABLES.create_all(connection)
        connection.exec_driver_sql(_APPEND_ONLY)
        _begin_meta(connection)
    elif (schema := int(read_meta(connection)["schema"])) > NEWEST:
        raise FileError(f"{where} was written by a newer lookalike, in form {schema}: upgrade to read it", path=where)
    else:
        _TABLES.create_all(connection)  # those that came later


def _is_ours(connection: sa.Connection, where: str) -> bool:
    """Whether the tables are there; an error if some of them are those of another program."""
    there = set(sa.inspect(connection).get_table_names()) & set(_TABLES.tables)
    if not there:
        return False
    columns = {column["name"] for column in sa.inspect(connection).get_columns("meta")} if "meta" in there else set()
    if not {"key", "value"} <= columns or "schema" not in read_meta(connection):
        raise InputError(
            f"{where} holds tables of something else, such as {min(there)}: use an empty database or schema"
        )
    return True


def _make_newest_sqlite(connection: sa.Connection, where: str) -> None:
    schema = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if schema > NEWEST:
        raise FileError(f"{where} was written by a newer lookalike, in form {schema}: upgrade to read it", path=where)
    if schema <= SCHEMA:
        connection.exec_driver_sql("ALTER TABLE votes ADD COLUMN client TEXT")
        connection.exec_driver_sql("CREATE UNIQUE INDEX votes_client ON votes (client)")
        _TABLES.create_all(connection, [table for table in _TABLES.sorted_tables if table is not VOTES])
        _begin_meta(connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {JUDGED}")
    else:
        _TABLES.create_all(connection)  # those that came later


def _begin_meta(connection: sa.Connection) -> None:
    write_meta(connection, schema=JUDGED, revision="", epoch="")


def remake_votes(connection: sa.Connection, scale: Scale) -> None:
    """Make the table of votes, which must be empty, take the grades of a scale, and store the scale.

    With a scale the database is in the newest form, so that earlier versions, which know 1 and 0 alone, refuse it.
    """
    form = JUDGED if scale == BINARY else NEWEST
    check = f"answer IN ({', '.join(map(str, scale.answers))})"
    if connection.dialect.name == "sqlite":
        assert connection.execute(sa.select(sa.func.count()).select_from(VOTES)).scalar_one() == 0
        columns = "query TEXT NOT NULL, item TEXT NOT NULL, expert TEXT NOT NULL"
        more = f"answer INTEGER NOT NULL CHECK ({check}), time INTEGER, seconds REAL, client TEXT"
        for statement in (
            "DROP TABLE votes",  # SQLite cannot change the check of a table
            f"CREATE TABLE votes (number INTEGER PRIMARY KEY AUTOINCREMENT, {columns}, {more})",
            *TRIGGERS,
            "CREATE UNIQUE INDEX votes_client ON votes (client)",
            f"PRAGMA user_version = {form}",
        ):
            connection.exec_driver_sql(statement)
    else:
        connection.exec_driver_sql("ALTER TABLE votes DROP CONSTRAINT votes_answer_check")
        connection.exec_driver_sql(f"ALTER TABLE votes ADD CONSTRAINT votes_answer_check CHECK ({check})")
    write_meta(connection, schema=form, scale=None if scale == BINARY else str(scale))


def read_meta(connection: sa.Connection) -> dict[str, str]:
    """The table meta: the form of the database, its settings, and the marks by which changes are seen."""
    return {row.key: row.value for row in connection.execute(sa.select(META)) if row.value is not None}


def write_meta(connection: sa.Connection, **values: Any) -> None:
    """Set values of the table meta."""
    rows = [{"key": key, "value": None if value is None else str(value)} for key, value in values.items()]
    connection.execute(sa.delete(META).where(META.c.key.in_(values)))
    connection.execute(sa.insert(META), rows)
