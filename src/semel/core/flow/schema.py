"""The columns of a flow's rows: their names and kinds, as text, as a Python class, and as Arrow's schema.

A schema is written as Spark's DDL (``"user string, at timestamp"``) or taken from the annotations of a class
(:func:`schema_of`). Of Spark's types it knows the flat ones, with Spark's own second names (``long``, ``integer``, …).

Invariants: equal schemas have one row class (:attr:`Schema.row_type`), whose fields are the columns in their order,
all optional, and hold text, numbers and times only, so that no row can be part of a cycle. A column's name is a
Python name, for rows have it as an attribute. No two names differ in case alone: Spark does not tell those apart.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa

from semel.errors import ConfigError

COLUMNS_MAX: Final = 1_000
_ROW_TYPES_MAX: Final = 1_024  # row classes that are kept


class Kind(StrEnum):
    """What a column holds; the value is Spark's word for it."""

    STRING = "string"
    LONG = "bigint"  # 64 bits, signed
    INT = "int"  # 32 bits, signed
    DOUBLE = "double"
    FLOAT = "float"  # 32 bits; a Python float that is one of them
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"  # an instant, in microseconds; a Python datetime in UTC
    DATE = "date"
    BINARY = "binary"  # base64 in JSON

    @classmethod
    def _missing_(cls, value: object) -> Kind | None:
        return _KIND_OF_WORD.get(value.lower()) if isinstance(value, str) else None

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type of it."""
        return _ARROW_OF[self]

    @property
    def python(self) -> type:
        """The Python class of its values."""
        return _PYTHON_OF[self]

    @property
    def json(self) -> Any:
        """What msgspec reads it as: a column's JSON is of this type, or the row is bad."""
        return _JSON_OF[self]


_SECOND_WORDS: Final = {
    Kind.LONG: ("long",),
    Kind.INT: ("integer",),
    Kind.FLOAT: ("real",),
    Kind.TIMESTAMP: ("timestamp_ltz",),
}
_KIND_OF_WORD: Final[dict[str, Kind]] = {kind.value: kind for kind in Kind} | {
    word: kind for kind, words in _SECOND_WORDS.items() for word in words
}
# Words of other languages, and of Spark's narrower types, with the kind that takes their values.
_MEANT: Final = {
    "str": Kind.STRING,
    "text": Kind.STRING,
    "varchar": Kind.STRING,
    "char": Kind.STRING,
    "decimal": Kind.STRING,
    "uuid": Kind.STRING,
    "byte": Kind.INT,
    "tinyint": Kind.INT,
    "short": Kind.INT,
    "smallint": Kind.INT,
    "int32": Kind.INT,
    "int64": Kind.LONG,
    "number": Kind.DOUBLE,
    "float64": Kind.DOUBLE,
    "float32": Kind.FLOAT,
    "bool": Kind.BOOLEAN,
    "datetime": Kind.TIMESTAMP,
    "time": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP,
    "bytes": Kind.BINARY,
    "blob": Kind.BINARY,
}
_NESTED: Final = ("array", "list", "map", "struct", "variant", "object", "json")
_ARROW_OF: Final = {
    Kind.STRING: pa.string(),
    Kind.LONG: pa.int64(),
    Kind.INT: pa.int32(),
    Kind.DOUBLE: pa.float64(),
    Kind.FLOAT: pa.float32(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.DATE: pa.date32(),
    Kind.BINARY: pa.binary(),
}
_PYTHON_OF: Final[dict[Kind, type]] = {
    Kind.STRING: str,
    Kind.LONG: int,
    Kind.INT: int,
    Kind.DOUBLE: float,
    Kind.FLOAT: float,
    Kind.BOOLEAN: bool,
    Kind.TIMESTAMP: datetime,
    Kind.DATE: date,
    Kind.BINARY: bytes,
}
_JSON_OF: Final[dict[Kind, Any]] = _PYTHON_OF | {
    Kind.LONG: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    Kind.INT: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    Kind.TIMESTAMP: datetime | int,  # a whole number is seconds since 1970, as for Spark's from_json
}
_KIND_OF_CLASS: Final[dict[Any, Kind]] = {
    str: Kind.STRING,
    int: Kind.LONG,
    float: Kind.DOUBLE,
    bool: Kind.BOOLEAN,
    datetime: Kind.TIMESTAMP,
    date: Kind.DATE,
    bytes: Kind.BINARY,
}


@dataclass(frozen=True)
class Field:
    """A column. ``kind`` may be given as Spark's word for it."""

    name: str
    kind: Kind

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _kind_of_word(self.kind))

    @property
    def ddl(self) -> str:
        """As in a Spark schema."""
        name = self.name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name) else f"`{self.name}`"
        return f"{name} {self.kind.value}"


@dataclass(frozen=True)
class Schema:
    """Columns in their order; :class:`~semel.errors.ConfigError` where they cannot be a row's."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        why = _refusal(self.names)
        if why:
            raise ConfigError(f"schema: {why}")

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Field:
        """The column of this name; ``ConfigError`` with a near name where there is none."""
        field = self._by_name.get(name)
        if field is None:
            raise ConfigError(f"there is no column {name!r}{_near(name, self.names)}; there are: {self.ddl}")
        return field

    def __str__(self) -> str:
        return self.ddl

    def select(self, names: Iterable[str]) -> Schema:
        """Only these columns, in this order."""
        return Schema(tuple(self[name] for name in names))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def ddl(self) -> str:
        """As Spark writes it, and :func:`parse_schema` reads it."""
        return ", ".join(field.ddl for field in self.fields)

    @cached_property
    def arrow(self) -> pa.Schema:
        """Arrow's; every column may be null."""
        return pa.schema([pa.field(field.name, field.kind.arrow) for field in self.fields])

    @property
    def row_type(self) -> Any:
        """The class of its rows: ``Row``, a frozen msgspec ``Struct`` whose fields are all optional."""
        return _row_type(self)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}


@lru_cache(maxsize=_ROW_TYPES_MAX)
def _row_type(schema: Schema) -> Any:
    """Cyclic garbage collection is off for rows: they hold no containers."""
    ddl, names = schema.ddl, schema.names

    def reduced(row: Any) -> tuple[Any, ...]:  # pickle finds no class by the name of one that was made
        return _row, (ddl, *(getattr(row, name) for name in names))

    return msgspec.defstruct(
        "Row",
        [(field.name, Annotated[field.kind.json | None, field.kind], None) for field in schema.fields],
        namespace={"__reduce__": reduced, "__doc__": f"A row: {ddl}."},
        module=__name__,
        frozen=True,
        gc=False,
    )


def _row(ddl: str, *values: Any) -> Any:
    return parse_schema(ddl).row_type(*values)


# --- from text ------------------------------------------------------------------------------------------

_COLUMN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s,:`()<>]+))(?:\s*:\s*|\s+|\s*$|(?=,))")
_TYPE: Final = re.compile(r"([^\s,:`()<>]+)\s*")


@lru_cache(maxsize=_ROW_TYPES_MAX)
def parse_schema(text: str) -> Schema:
    """The schema of ``"user string, at timestamp"``; ``ConfigError`` names the text and the place in it."""
    fields: list[Field] = []
    at = 0
    while True:
        column = _COLUMN.match(text, at)
        if column is None:
            raise _misread(
                text, at, "a column's name is missing here" if text.strip() else "it has no columns"
            )
        name = column[1].replace("``", "`") if column[1] is not None else column[2]
        name_at = column.start(1) - 1 if column[1] is not None else column.start(2)
        kind_match = _TYPE.match(text, column.end())
        if kind_match is None:
            raise _misread(text, column.end(), f"column {name!r} has no type: write '{name} string'")
        try:
            fields.append(Field(name, _kind_of_word(kind_match[1])))
        except ConfigError as error:
            raise _misread(text, kind_match.start(1), str(error)) from None
        why = _refusal([field.name for field in fields])
        if why:
            raise _misread(text, name_at, why)
        at = kind_match.end()
        if at == len(text):
            return Schema(tuple(fields))
        if text[at] != ",":
            raise _misread(text, at, _after_type(text[at:]))
        at += 1


def _after_type(rest: str) -> str:
    if re.match(r"not\s+null\b", rest, re.IGNORECASE):
        return "every column may be null, for a row may lack it: leave NOT NULL out"
    return "a comma or the end is expected here: a column is a name and a type"


def _misread(text: str, at: int, why: str) -> ConfigError:
    while at < len(text) and text[at].isspace():
        at += 1
    return ConfigError(f"schema {text!r}, character {at + 1}: {why}")


def _kind_of_word(word: str) -> Kind:
    try:
        return Kind(word)
    except ValueError:
        pass
    lower = word.lower()
    if lower in _NESTED:
        why = "columns are flat: take out of the JSON what is needed in a map step, or keep it as bytes"
        raise ConfigError(f"{word!r} is no type of a column: {why}")
    hint = f"; did you mean {_MEANT[lower].value!r}?" if lower in _MEANT else _near(lower, _KIND_OF_WORD)
    raise ConfigError(f"{word!r} is no type{hint}; types are {', '.join(kind.value for kind in Kind)}")


def _near(word: str, words: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _refusal(names: Sequence[str]) -> str | None:
    """Why these cannot be the columns' names, or ``None``."""
    if not names:
        return "it has no columns"
    if len(names) > COLUMNS_MAX:
        return f"it has {len(names):,} columns, and at most {COLUMNS_MAX:,} are taken"
    met: dict[str, str] = {}
    for name in names:
        if not name.isidentifier():
            return f"{name!r} is no Python name, and a row has its columns as attributes"
        if name.startswith("__"):
            return f"{name!r} begins with two underscores, as Python's own attributes do"
        other = met.get(name.casefold())
        if other == name:
            return f"there are two columns {name!r}"
        if other is not None:
            return f"{other!r} and {name!r} differ only in case, which Spark does not tell apart"
        met[name.casefold()] = name
    return None


# --- from a class ---------------------------------------------------------------------------------------


def schema_of(declared: Any) -> Schema:
    """The schema of a dataclass's, a msgspec Struct's or a TypedDict's annotations; ``ConfigError`` if there is none.

    ``str`` string, ``int`` bigint, ``float`` double, ``bool`` boolean, ``datetime`` timestamp, ``date`` date,
    ``bytes`` binary; with ``| None`` or without; ``Annotated[int, Kind.INT]`` says it more exactly.
    """
    if isinstance(declared, Schema):
        return declared
    if isinstance(declared, str):
        return parse_schema(declared)
    if not isinstance(declared, type):
        raise ConfigError(f"a schema is a text or a class with annotations, not {declared!r}")
    if issubclass(declared, msgspec.Struct):
        _refuse_odd_struct(declared)
    try:
        hints = typing.get_type_hints(declared, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(f"the annotations of {declared.__name__} cannot be read: {error}") from None
    hints = {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}
    if not hints:
        raise ConfigError(f"{declared.__name__} has no annotations, so it has no columns: write 'user: str'")
    return Schema(tuple(Field(name, _kind_of_hint(declared, name, hint)) for name, hint in hints.items()))


def _refuse_odd_struct(declared: type[msgspec.Struct]) -> None:
    config = declared.__struct_config__
    renamed = declared.__struct_fields__ != declared.__struct_encode_fields__
    if config.array_like or config.tag is not None or renamed:
        raise ConfigError(
            f"{declared.__name__} is written to JSON as an array, with a tag, or under other names than its fields': "
            "a row is a plain JSON object of its columns"
        )


def _kind_of_hint(declared: type, name: str, hint: Any) -> Kind:
    exact: Kind | None = None
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            hint, *extras = typing.get_args(hint)
            exact = exact or next((extra for extra in extras if isinstance(extra, Kind)), None)
        elif origin in (typing.Required, typing.NotRequired):
            (hint,) = typing.get_args(hint)
        elif origin in (typing.Union, types.UnionType):
            left = [part for part in typing.get_args(hint) if part is not type(None)]
            left = left[:1] if left == [datetime, int] else left  # as row classes have it
            if len(left) != 1:
                break
            (hint,) = left
        else:
            break
    kind = _KIND_OF_CLASS.get(hint)
    if kind is None or (exact is not None and exact.python is not kind.python):
        known = ", ".join(f"{of.__name__} ({kind.value})" for of, kind in _KIND_OF_CLASS.items())
        raise ConfigError(
            f"{declared.__name__}.{name}: {getattr(hint, '__name__', hint)} is no column's type: take one of {known}, "
            "with '| None' or without"
        )
    return exact or kind
