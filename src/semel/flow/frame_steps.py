"""The steps that Spark runs: values of the plan, like those of :mod:`semel.core.flow`, and judged without Spark.

They are stateless and see one row at a time, but for ``Apply``, whose function is given the whole DataFrame and must
not shuffle it. Spark itself judges a condition or an expression when a flow starts, before a row is written; what is
judged here is only what would be plain nonsense.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from semel.core.flow.schema import Schema

_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
_WORD: Final = re.compile(r"(?<![\w.`])(`?)([A-Za-z_]\w*)\1(?!\s*\()(?![\w`])")
_NAMED_ITEM: Final = re.compile(
    r"(?is)\s*(?P<expression>.*\S)\s+as\s+(?P<quote>`?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*"
)
_RECORD: Final = re.compile(r"(?i)(?<![\w.])`?_record`?(?!\w)")
RECORD_COLUMN: Final = "_record"  # the record of each row, in SQL
_PLAIN: Final = re.compile(r"\s*(`?)([A-Za-z_]\w*)\1\s*")

# What stands in conditions beside columns; a word of these is never taken for a misspelled column.
_SQL_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        and array asc between binary both boolean byte case cast current_date current_timestamp current_user date day
        days dayofweek decimal desc distinct div double else end escape exists false float for from hour hours ilike
        in int integer interval is leading like long map millisecond milliseconds minute minutes month months named
        not now null nulls of on or out over quarter regexp rlike row second seconds short similar smallint some
        string struct substring then timestamp timestamp_ltz timestamp_ntz tinyint to trailing true unknown user using
        varchar week weeks when where with year years
        """,
    )
)


@dataclass(frozen=True, slots=True)
class Where:
    """Rows for which the condition, in Spark's SQL, is true."""

    condition: str

    is_stateful = False

    @property
    def name(self) -> str:
        return f"where {self.condition}"

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return schema

    def plan_parts(self) -> Mapping[str, Any]:
        return {"step": "where", "condition": self.condition}

    def state_parts(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Select:
    """Columns, and Spark's expressions that make columns."""

    columns: tuple[str, ...]
    schema: Schema

    is_stateful = False

    @property
    def name(self) -> str:
        return f"select {', '.join(self.columns)}"

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return self.schema

    def plan_parts(self) -> Mapping[str, Any]:
        return {"step": "select", "columns": list(self.columns), "schema": self.schema.ddl}

    def state_parts(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Apply:
    """A function from DataFrame to DataFrame. ``version`` is that of its source text."""

    function: Callable[[Any], Any]
    function_name: str
    version: str
    schema: Schema

    is_stateful = False

    @property
    def name(self) -> str:
        return f"apply {self.function_name}"

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return self.schema

    def plan_parts(self) -> Mapping[str, Any]:
        return {
            "step": "apply",
            "function": self.function_name,
            "version": self.version,
            "schema": self.schema.ddl,
        }

    def state_parts(self) -> None:
        return None


FrameStep = Where | Select | Apply


def is_frame_step(step: Any) -> bool:
    """Whether only Spark can run it."""
    return isinstance(step, FrameStep)


def names_record(expression: str) -> bool:
    """Whether the expression looks at the record of a row."""
    return _RECORD.search(_QUOTED.sub("''", expression)) is not None


def misspelled_column(expression: str, schema: Schema) -> tuple[str, str] | None:
    """A word of the expression that is no column but nearly one, with that one; ``None`` where nothing looks wrong.

    Only what is all but certain is told: SQL has more words than any list, and a lambda has names of its own.
    """
    if "->" in expression:
        return None
    known = {name.lower() for name in schema.names}
    for match in _WORD.finditer(_QUOTED.sub("''", expression)):
        word = match[2]
        if (
            word.lower() in known
            or word.lower() == RECORD_COLUMN
            or (word.lower() in _SQL_WORDS and not match[1])
        ):
            continue
        near = difflib.get_close_matches(word, schema.names, n=1, cutoff=0.75)
        if near:
            return word, near[0]
    return None


def item_name(item: str) -> tuple[str | None, str | None]:
    """Of an item of ``select``: the column that it makes, and the plain column that it is, each where it is known."""
    named = _NAMED_ITEM.fullmatch(item)
    expression = named["expression"] if named is not None else item
    plain = _PLAIN.fullmatch(expression)
    source = None if plain is None else plain[2]
    return (named["name"] if named is not None else source), source
