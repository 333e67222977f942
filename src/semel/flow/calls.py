"""A step as it was written: its text, its place, and the error that names both."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from semel.core.flow.functions import takes_tables
from semel.core.flow.schema import Field, Schema, schema_of
from semel.errors import ConfigError, FlowError
from semel.flow.tree import Form, RowShape, Site, call_site

_TEXT_CHARS_MAX: Final = 80
_VALUE_CHARS_MAX: Final = 40

UNTYPED_ADVICE: Final = (
    'Declare what the function returns: schema="name type, ...", or annotate it with a dataclass, a TypedDict or a '
    "msgspec Struct"
)
RECORD_ADVICE: Final = (
    "Of a source with record=True rows carry their record; behind a step with state, and behind apply(), they stem "
    "from no single one: put what is needed into a column in front of it"
)
RAW_ADVICE: Final = 'Declare the columns of the source: source({topic}, json="name type, ...")'


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a verb."""

    text: str
    site: Site

    @classmethod
    def here(cls, verb: str, *arguments: Any, **options: Any) -> Call:
        """Of the line that called into the language; options that are ``None`` or ``False`` are not shown."""
        shown = [_shown(argument) for argument in arguments]
        shown += [
            f"{name}={_shown(value)}"
            for name, value in options.items()
            if value is not None and value is not False
        ]
        text = f"{verb}({', '.join(shown)})"
        return cls(_shortened(text, _TEXT_CHARS_MAX), call_site())

    def behind(self, other: Call) -> Call:
        """The second half of a step that was begun by ``other``."""
        return Call(_shortened(f"{other.text}.{self.text}", _TEXT_CHARS_MAX), self.site)

    def refuse(self, why: str, advice: str) -> FlowError:
        """The error for this step."""
        return FlowError(self.text, str(self.site), why, advice)

    # --- columns ----------------------------------------------------------------------------------------

    def schema_of(self, shape: RowShape, needed_for: str) -> Schema:
        """The columns of the rows; refused where they are not known."""
        if shape.schema is not None:
            return shape.schema
        if shape.form is Form.RAW:
            raise self.refuse(
                f"{needed_for} needs columns, and the rows are bytes", RAW_ADVICE.format(topic="...")
            )
        raise self.refuse(
            f"{needed_for} needs columns, and what the step in front of it returns is not declared",
            UNTYPED_ADVICE,
        )

    def fields_of(self, shape: RowShape, names: Iterable[str], needed_for: str) -> tuple[Field, ...]:
        """The named columns, each once."""
        schema = self.schema_of(shape, needed_for)
        found: list[Field] = []
        for name in names:
            found.append(self.field_of(schema, name))
            if name in [field.name for field in found[:-1]]:
                raise self.refuse(f"column {name!r} is named twice", "Name it once")
        return tuple(found)

    def field_of(self, schema: Schema, name: str) -> Field:
        """One column, by its name."""
        if not isinstance(name, str):
            raise self.refuse(
                f"{name!r} is no column's name", f"Write one of {_listed(schema.names)} as text"
            )
        for field in schema.fields:
            if field.name == name:
                return field
        raise self.refuse(
            f"there is no column {name!r}{near(name, schema.names)}",
            f"The rows have: {schema.ddl}",
        )

    def declared(self, declared: Any, what: str) -> Schema:
        """A schema as the user wrote it."""
        try:
            return schema_of(declared)
        except ConfigError as error:
            raise self.refuse(
                f"{what}: {error}", 'Write "name type, ...", or name a class with annotations'
            ) from None

    # --- functions --------------------------------------------------------------------------------------

    def row_function(self, function: Any, shape: RowShape) -> bool:
        """One of a row, or of a row and its record; answers whether it is of both."""
        if not callable(function) or _can_take(function, 1) or not _can_take(function, 2):
            self.function(function, "a row", 1)
            return False
        self.function(function, "a row and its record", 2)
        if not shape.has_record:
            wanted = f"{_name(function)}{inspect.signature(function)}"
            raise self.refuse(
                f"the function is of two, {wanted}: of a row and its record, and these rows carry none",
                f"Write it for a row alone. {RECORD_ADVICE}",
            )
        if takes_tables(function):
            raise self.refuse(
                "a function of Arrow tables sees columns, and no records",
                "Put what is needed into columns in front of it: map(lambda row, record: ...)",
            )
        return True

    def function(self, function: Any, arguments: str, argument_count: int) -> Callable[..., Any]:
        """One that can be called with so many arguments."""
        if isinstance(function, str):
            raise self.refuse(
                f"{function!r} is text, and a function is needed",
                "Conditions and expressions in SQL go to where() and select()",
            )
        if not callable(function):
            raise self.refuse(f"{function!r} cannot be called", f"Hand over a function of {arguments}")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise self.refuse(
                "the function is asynchronous, and rows are worked on one after the other",
                "Write it with def",
            )
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some built-in ones have none
            return function  # type: ignore[no-any-return]
        try:
            signature.bind(*range(argument_count))
        except TypeError:
            raise self.refuse(
                f"the function cannot be called with {arguments}: it is {_name(function)}{signature}",
                f"It is given {arguments}, and nothing else",
            ) from None
        return function  # type: ignore[no-any-return]


def _can_take(function: Callable[..., Any], argument_count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(argument_count))
    except (TypeError, ValueError):  # some built-in ones have no signature
        return False
    return True


def near(name: str, names: Iterable[str]) -> str:
    """``" (did you mean 'user'?)"``, or nothing."""
    found = difflib.get_close_matches(str(name), list(names), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return _shortened(json.dumps(value, ensure_ascii=False), _VALUE_CHARS_MAX)
    if isinstance(value, Schema):
        return _shown(value.ddl)
    if type(value).__module__.startswith("semel.flow."):
        return type(value).__name__.lower()
    if callable(value):
        name = _name(value)
        return "lambda" if name == "<lambda>" else name
    return _shortened(repr(value), _VALUE_CHARS_MAX)


def _shortened(text: str, chars_max: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars_max else text[: chars_max - 2] + "…" + text[-1]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
