"""Calling the functions of a flow's user: what they are given, what they may return, and whose fault an error is.

A function sees typed rows (or, by its annotation, Arrow tables) and returns rows. What it returns is *captured* at
once, for it may go on changing the very object with the next row, and is *conformed* to the schema that the step
declares, so that a wrong type stops the flow at the row that it came of, and not a later stage.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec
import pyarrow as pa

from semel.core.flow.schema import Schema
from semel.errors import StepFailed

SCALARS: Final = frozenset(
    {type(None), bool, int, float, str, bytes, datetime.datetime, datetime.date, datetime.timedelta}
)
# A few milliseconds of a processor: what of a function is told in an error or a plan is short.
SHOWN_CHARS_MAX: Final = 200


def name_of(function: Callable[..., Any]) -> str:
    """As plans and errors call it."""
    name = getattr(function, "__name__", None) or type(function).__name__
    return str(name)


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Its annotations as types; empty where there are none or they name what cannot be found."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target)
    except Exception:  # names that are only there for a type checker
        return {}


def first_parameter(function: Callable[..., Any]) -> Any | None:
    """The annotation of the first parameter, as a type."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # made in C
        return None
    return annotations_of(function).get(names[0]) if names else None


def takes_tables(function: Callable[..., Any]) -> bool:
    """Whether it wants Arrow tables: its first parameter, or what it returns, is annotated so."""
    return first_parameter(function) is pa.Table or annotations_of(function).get("return") is pa.Table


def state_type_of(function: Callable[..., Any], init: Any) -> Any:
    """What a fold's state is read back as: the annotation of its first parameter, else the type of ``init``."""
    annotated = first_parameter(function)
    if annotated is not None:
        return annotated
    return Any if init is None else type(init)


def type_text(of: Any) -> str:
    """A type as a plan names it: the same in every process, and from whatever file or module it comes."""
    parts = typing.get_args(of)
    if not parts:
        if of is types.NoneType:
            return "None"
        return of.__qualname__ if isinstance(of, type) else str(of).replace("typing.", "")
    outer = typing.get_origin(of)
    texts = map(repr if outer is typing.Literal else type_text, parts)
    if outer in (typing.Union, types.UnionType):
        return " | ".join(texts)
    return f"{type_text(outer)}[{', '.join(texts)}]"


def given_rows(returned: Any) -> Iterable[Any]:
    """The rows that a flat_map or a fold returned: several, one, or none."""
    if returned is None:
        return ()
    kind: type = type(returned)
    return returned if holds_rows(kind) else (returned,)


@functools.lru_cache(maxsize=1024)
def holds_rows(kind: type) -> bool:
    """Whether such an object is several rows: a list, a tuple without names, an iterator."""
    if issubclass(kind, tuple):
        return not hasattr(kind, "_fields")
    return issubclass(kind, (list, Iterator))


class Capture:
    """Keeps a returned row as it is now. Rows that cannot change are kept themselves.

    A row of a schema holds numbers, texts and times only, or is refused: then a shallow copy is one for ever.
    """

    def __init__(self, schema: Schema | None) -> None:
        self._is_flat = schema is not None
        self._is_frozen: dict[type, bool] = {}

    def __call__(self, row: Any) -> Any:
        kind = type(row)
        if kind is dict:
            if self._is_flat:
                return row.copy()
            for value in row.values():
                if type(value) not in SCALARS:
                    return copy.deepcopy(row)
            return row.copy()
        is_frozen = self._is_frozen.get(kind)
        if is_frozen is None:
            is_frozen = self._is_frozen[kind] = _holds_scalars_for_ever(kind)
        return row if is_frozen else copy.deepcopy(row)


class Conform:
    """Makes rows of a schema of what a function returned."""

    def __init__(self, step: str, schema: Schema | None) -> None:
        self._step, self._schema = step, schema
        if schema is not None:
            self._row_type: Any = schema.row_type
            self._rows_type: Any = list[self._row_type]  # type: ignore[name-defined]
            self._names = frozenset(schema.names)
            self._encode = msgspec.msgpack.Encoder().encode
            self._decode = msgspec.msgpack.Decoder(self._rows_type).decode

    def rows(self, made: list[Any], place: Callable[[int], str]) -> list[Any]:
        """``place(i)`` names the input row that ``made[i]`` came of."""
        if self._schema is None or not made:
            return made
        kinds = set(map(type, made))
        try:
            if kinds == {self._row_type}:
                return self._decode(self._encode(made))
            names = self._names
            if kinds == {dict}:
                if not names.issuperset(chain.from_iterable(made)):
                    raise TypeError
            elif dict in kinds:
                for row in made:
                    if type(row) is dict and not row.keys() <= names:
                        raise TypeError
            return msgspec.convert(made, self._rows_type, from_attributes=True)  # type: ignore[no-any-return]
        except Exception:
            return [self._one(row, place(number)) for number, row in enumerate(made)]

    def _one(self, row: Any, position: str) -> Any:
        assert self._schema is not None
        try:
            if isinstance(row, Mapping):
                unknown = sorted(str(name) for name in row.keys() - self._names)
                if unknown:
                    raise TypeError(
                        f"it returned a row with {_listed(unknown)}, which its schema ({self._schema.ddl}) has not"
                    )
                row = dict(row)
            elif isinstance(row, tuple) and hasattr(row, "_asdict"):
                row = row._asdict()
            elif type(row) is self._row_type:
                return self._decode(self._encode([row]))[0]
            elif type(row) in SCALARS or isinstance(row, (list, tuple)):
                raise TypeError(
                    f"it returned {shown(row)}, which is no row of its schema ({self._schema.ddl})"
                )
            return msgspec.convert(row, self._row_type, from_attributes=True)
        except TypeError as error:
            raise StepFailed(self._step, position, str(error)) from error
        except msgspec.ValidationError as error:
            raise StepFailed(
                self._step,
                position,
                f"it returned {shown(row)}, which does not fit its schema ({self._schema.ddl}): {error}",
            ) from error


def shown(value: Any) -> str:
    """A value in an error's text, cut where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


def _listed(names: list[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))


def _holds_scalars_for_ever(kind: type) -> bool:
    if kind in SCALARS:
        return True
    if issubclass(kind, msgspec.Struct):
        if not kind.__struct_config__.frozen:
            return False
    elif dataclasses.is_dataclass(kind):
        if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return False
    else:
        return False
    try:
        hints = typing.get_type_hints(kind)
    except Exception:
        return False
    return all(_is_scalar(hint) for hint in hints.values())


def _is_scalar(hint: Any) -> bool:
    if hint in SCALARS or hint is None:
        return True
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return _is_scalar(arguments[0])
    return (
        bool(arguments)
        and all(_is_scalar(argument) for argument in arguments)
        and (typing.get_origin(hint) not in (list, dict, tuple, set))
    )
