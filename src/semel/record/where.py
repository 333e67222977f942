"""Which records are meant: an SQL condition over each, as SQLite judges it; and what an SQL expression makes of each.

SQLite comes with Python and has the whole of a condition's grammar, with SQL's logic of null. A record is one row
of its own for it: nothing else can be read, and nothing written. Kept from surprising those who come from Spark:
``LIKE`` minds the case, and a ``CAST`` to a type that SQLite does not have, which it would take for a number, is
refused.

JSON is not read by SQLite, whose reader is another one with each of its versions: the functions of it that a condition
may have are those of :mod:`~semel.record.json_sql`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from semel.errors import ConfigError, SemelError
from semel.record.batch import Record
from semel.record.json_sql import NAMES, JsonSql

COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp_ms")
_ALLOWED: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_CAST: Final = re.compile(r"\bas\s+(\w+)\s*\)", re.IGNORECASE)
_TYPES: Final = {"INT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "FLOAT", "TEXT", "BLOB", "NUMERIC"}

Select = Callable[[int, Sequence[Record]], list[Record]]  # of a partition's records, those that it holds for
Values = Callable[
    [int, Sequence[Record]], list[bytes | None]
]  # of a partition's records, what it makes of each
_Ask = Callable[[int, Record], tuple[object] | None]
_WHERE: Final = "an SQL condition", "value = 'late', or value ->> 'delay' > 60 of a JSON value"
_VALUE: Final = "an SQL expression", "upper(value), or json_set(value, '$.late', 1) of a JSON value"


class ConditionFailed(SemelError):
    """A record that the condition cannot be judged on, as a value that is no JSON; says which."""

    def __init__(self, offset: int, why: str, option: str = "--where") -> None:
        self.offset, self.why = offset, why
        super().__init__(f"offset {offset}: {option}: {why}")


def compile_where(condition: str) -> Select:
    """``key``, ``value`` (text where they are UTF-8), ``partition``, ``offset`` and ``timestamp_ms``, judged by SQL.

    :class:`ConfigError` for what is no condition over them; a call raises :class:`ConditionFailed`.
    """
    # A limit keeps the row a row: as constants, all of the condition would be judged at once, also what stands behind
    # an AND whose left side does not hold.
    ask = _compiled("--where", condition, "SELECT 1 FROM (SELECT {} LIMIT 1) WHERE ({}\n)", *_WHERE)

    def select(partition: int, records: Sequence[Record]) -> list[Record]:
        return [record for record in records if ask(partition, record) is not None]

    return select


def compile_value(expression: str) -> Values:
    """What an expression over the same columns makes of each record; a number as SQL writes it, null as null.

    The errors are those of :func:`compile_where`.
    """
    ask = _compiled(
        "--input-value", expression, "SELECT CAST(({1}\n) AS BLOB) FROM (SELECT {0} LIMIT 1)", *_VALUE
    )

    def values(partition: int, records: Sequence[Record]) -> list[bytes | None]:
        found = (ask(partition, record) for record in records)
        return [value if isinstance(value, bytes) else None for row in found if row for value in row]

    return values


def _compiled(option: str, condition: str, statement: str, what: str, example: str) -> _Ask:
    for found in _CAST.finditer(condition):
        if found[1].upper() not in _TYPES:
            raise ConfigError(
                f"{option}: CAST(… AS {found[1]}) would be taken for a number. Key and value are text already; "
                f"else cast to {', '.join(sorted(_TYPES))}"
            )
    database = sqlite3.connect(":memory:", cached_statements=8)
    database.execute("PRAGMA case_sensitive_like = ON")
    json_sql = JsonSql(database)
    other_functions: list[str] = []

    def allowed(action: int, _: str | None, name: str | None, *__: object) -> int:
        if (
            action == sqlite3.SQLITE_FUNCTION
            and name
            and name.lower().startswith("json")
            and name.lower() not in NAMES
        ):
            other_functions.append(name)
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

    database.set_authorizer(allowed)
    columns = ", ".join(f'? AS "{name}"' for name in COLUMNS)
    query = statement.format(columns, condition)
    try:
        database.execute(query, (None,) * len(COLUMNS)).fetchone()
    except (sqlite3.Error, sqlite3.Warning) as error:
        why = json_sql.taken_why() or str(error)
        if other_functions:
            why = f"{other_functions[0]} is no function of a condition: JSON is read by {', '.join(NAMES)}"
        raise ConfigError(
            f"{option} {condition!r}: {why}. It is {what} over {', '.join(COLUMNS)}, as {example}"
        ) from None

    def ask(partition: int, record: Record) -> tuple[object] | None:
        row = (_text(record.key), _text(record.value), partition, record.offset, record.timestamp_ms)
        try:
            found: tuple[object] | None = database.execute(query, row).fetchone()
        except sqlite3.Error as error:
            raise ConditionFailed(record.offset, json_sql.taken_why() or str(error), option) from None
        return found

    return ask


def _text(data: bytes | None) -> str | bytes | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return data
