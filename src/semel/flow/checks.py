"""What a verb asks of its arguments and of the rows in front of it; refused as :class:`~semel.errors.FlowError`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from semel.core.flow.folds import Fold, StateForm
from semel.core.flow.functions import shown, type_text
from semel.core.flow.schema import Field, Kind, Schema
from semel.core.log.names import INTERNAL_TOPICS, topic_name_error
from semel.errors import ConfigError, StepFailed
from semel.flow.calls import RAW_ADVICE, RECORD_ADVICE, Call, near
from semel.flow.durations import parse_duration_ms
from semel.flow.frame_steps import RECORD_COLUMN, item_name, misspelled_column, names_record
from semel.flow.tree import Form, RowShape
from semel.types import SINKS_TOPIC

NAME_CHARS_MAX: Final = 100  # "<flow>.<stage>.changelog" is a topic's name, which has 249 at most
NAME_ADVICE: Final = f"Take up to {NAME_CHARS_MAX} ASCII letters, digits, underscores and dashes"
# The flow's topics and the ends of their names, which no stage's name may be.
TAKEN_NAMES: Final = frozenset({"bad", "late", "merge", "changelog"})

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_-]{{0,{NAME_CHARS_MAX - 1}}}", re.ASCII)
_NUMBERS: Final = frozenset({Kind.LONG, Kind.INT, Kind.DOUBLE, Kind.FLOAT})


# --- names ------------------------------------------------------------------------------------------------


def name_error(name: object) -> str | None:
    """Why this cannot be the name of a flow or a stage; ``None`` when it can."""
    if not isinstance(name, str):
        return f"{name!r} is no text"
    if _NAME.fullmatch(name) is None:
        return f"{name!r} cannot be part of the names of sinks and topics"
    if name in TAKEN_NAMES:
        return f"{name!r} is what a flow calls topics that it makes for itself"
    return None


def refuse_topic(call: Call, topic: object) -> None:
    """What cannot be a topic's name, and the topics in which others keep their state."""
    if not isinstance(topic, str):
        raise call.refuse(f"{topic!r} is no topic's name", "Write the name of one topic as text")
    why = topic_name_error(topic)
    if why is not None:
        raise call.refuse(why, "Write the topic's name as the server has it")
    if topic.startswith("__") or topic in {*INTERNAL_TOPICS, SINKS_TOPIC}:
        raise call.refuse(
            f"{topic} is reserved: topics whose names begin with two underscores keep the state of others",
            "Take another topic",
        )


# --- text for Spark ---------------------------------------------------------------------------------------


def refuse_no_text(call: Call, given: object, what: str, advice: str) -> None:
    """Spark's verbs take SQL."""
    if not isinstance(given, str):
        raise call.refuse(f"{given!r} is not {what} in SQL", advice)
    if not given.strip():
        raise call.refuse(f"{what} is missing", "Write it in Spark's SQL")


def refuse_misspelled(call: Call, expression: str, schema: Schema, shape: RowShape) -> None:
    """A word in SQL that is all but certainly a column spelled wrong, and the record of rows that carry none."""
    if names_record(expression) and RECORD_COLUMN not in schema and not shape.has_record:
        raise call.refuse(f"it looks at {RECORD_COLUMN}, and these rows carry no record", RECORD_ADVICE)
    found = misspelled_column(expression, schema)
    if found is not None:
        word, column = found
        raise call.refuse(
            f"there is no column {word!r} (did you mean {column!r}?)", f"The rows have: {schema.ddl}"
        )


def refuse_record_column(call: Call, shape: RowShape) -> None:
    """A column by the name that the record has in SQL, where no capital letters count."""
    if not shape.has_record or shape.schema is None:
        return
    for name in shape.schema.names:
        if name.lower() == RECORD_COLUMN:
            raise call.refuse(
                f"column {name!r} has the name that the record has in SQL",
                "Name it otherwise, or leave record=True out where the source is declared",
            )


def selected(
    call: Call, known: Schema, columns: Sequence[str], declared: Any
) -> tuple[Schema, frozenset[str]]:
    """The columns that a selection makes, and those of them that it takes over as they are."""
    names = [item_name(column) for column in columns]
    if any(source == "*" or name == "*" for name, source in names) or "*" in [c.strip() for c in columns]:
        raise call.refuse("* is not taken: the columns of a flow's rows are said", "Name the columns")
    if declared is None:
        fields: list[Field] = []
        for column, (name, source) in zip(columns, names, strict=True):
            if name is None or source is None:
                raise call.refuse(
                    f"the type of {column.strip()!r} is not known before Spark runs",
                    'Say what the selection makes: select(..., schema="name type, ...")',
                )
            fields.append(Field(name, call.field_of(known, source).kind))
        made = _schema(call, fields)
    else:
        made = call.declared(declared, "what the selection makes")
        if len(made) != len(columns):
            raise call.refuse(
                f"{len(columns)} columns are selected and {len(made)} declared",
                "Declare one for each, in order",
            )
        for (name, source), field in zip(names, made, strict=True):
            if source is not None:
                call.field_of(known, source)
            if name is not None and name != field.name:
                raise call.refuse(
                    f"column {name!r} is declared as {field.name!r}",
                    "Declare them in the order of the selection",
                )
    return made, frozenset(name for name, source in names if name is not None and name == source)


# --- rows -------------------------------------------------------------------------------------------------


def made_shape(call: Call, shape: RowShape, schema: Schema | None, *, is_columnar: bool) -> RowShape:
    """Of what a function of Python makes of rows; the key stays, and no column is known to hold it."""
    if is_columnar:
        known = call.schema_of(shape, "a function of Arrow tables")
        return replace(shape, form=Form.COLUMNS, schema=schema or known, is_key_in_columns=False)
    form = Form.UNTYPED if schema is None else Form.COLUMNS
    return replace(shape, form=form, schema=schema, is_key_in_columns=False)


def merged_shape(call: Call, shapes: Sequence[RowShape]) -> RowShape:
    """Of the rows of several streams: the columns of all, where those that two have are of one type."""
    forms = {shape.form for shape in shapes}
    if forms == {Form.RAW}:
        return RowShape(
            Form.RAW,
            has_record_key=all(shape.has_record_key for shape in shapes),
            has_record=all(shape.has_record for shape in shapes),
        )
    for number, shape in enumerate(shapes):
        if shape.schema is None:
            which = "this stream" if number == 0 else f"stream {number} of the arguments"
            what = "bytes" if shape.form is Form.RAW else "not declared"
            raise call.refuse(
                f"the columns of all streams have to be known, and those of {which} are {what}",
                RAW_ADVICE.format(topic="...")
                if shape.form is Form.RAW
                else 'Declare them where they are made: schema="name type, ..."',
            )
    fields: dict[str, Field] = {}
    for shape in shapes:
        for field in shape.schema or ():
            other = fields.setdefault(field.name, field)
            if other.kind is not field.kind:
                raise call.refuse(
                    f"column {field.name!r} is {other.kind.value} in one stream and {field.kind.value} in another",
                    "Give it one type in both, or another name in one of them",
                )
    first = shapes[0]
    is_keyed = first.key is not None and all(shape.key == first.key for shape in shapes)
    return RowShape(
        Form.COLUMNS,
        _schema(call, list(fields.values())),
        key=first.key if is_keyed else None,
        is_key_in_columns=is_keyed and all(shape.is_key_in_columns for shape in shapes),
        has_record_key=all(shape.has_record_key for shape in shapes),
        has_record=all(shape.has_record for shape in shapes),
    )


def refuse_unkeyed(call: Call, shape: RowShape) -> tuple[Field, ...]:
    """The key that a step with state goes by."""
    if shape.key is not None:
        return shape.key
    names = [] if shape.schema is None else list(shape.schema.names)
    example = f'key_by("{names[0]}")' if names else 'key_by("...")'
    raise call.refuse(
        "its state is that of a key, and the rows have no key that the flow knows",
        f"Put .{example} in front of it, with the column it goes by",
    )


def refuse_other_beginning(call: Call, spec: Fold) -> None:
    """A fold whose ``init`` is no state that it could have come to."""
    if spec.init is None:
        return
    try:
        StateForm(spec.name, spec.state_type, spec.init).write(b"", spec.init)
    except StepFailed as failed:
        kind = type_text(spec.state_type)
        is_class = isinstance(spec.init, type)
        raise call.refuse(
            f"its state begins as {shown(spec.init)}, which is no state of {spec.name}: {failed.why}",
            f"Write init={type_text(spec.init)}()"
            if is_class
            else f"Let init be of the type that the function annotates its first parameter with ({kind}), or mend that",
        ) from failed


def number_column(call: Call, schema: Schema, name: str) -> Field:
    """A column to add up."""
    field = call.field_of(schema, name)
    if field.kind not in _NUMBERS:
        raise call.refuse(f"column {name!r} is {field.kind.value}, and no number", "Name a column of numbers")
    return field


def time_column(call: Call, schema: Schema, name: str) -> Field:
    """A column to go by in time."""
    field = call.field_of(schema, name)
    if field.kind is not Kind.TIMESTAMP:
        times = [other.name for other in schema if other.kind is Kind.TIMESTAMP]
        raise call.refuse(
            f"column {name!r} is {field.kind.value}, and windows go by a timestamp",
            f"Columns with a timestamp: {', '.join(times) or 'none; declare one as timestamp'}",
        )
    return field


def duration_ms(call: Call, given: str | timedelta, what: str) -> int:
    """A length of time in milliseconds, more than nothing."""
    found = _duration_ms(call, given, what)
    if found == 0:
        raise call.refuse(f"{what} is nothing", "Make it a millisecond or more")
    return found


def lateness_ms(call: Call, given: str | timedelta) -> int:
    """How long a window waits behind its end, in milliseconds."""
    return _duration_ms(call, given, "the lateness")


def idle_ms(call: Call, given: str | timedelta | None) -> int:
    """Behind how much time without a row windows go on by it, in milliseconds; 0: never."""
    return 0 if given is None else duration_ms(call, given, "the idle time")


def _duration_ms(call: Call, given: str | timedelta, what: str) -> int:
    try:
        return parse_duration_ms(given)
    except ValueError as error:
        raise call.refuse(f"{what}: {error}", 'For example "10 minutes"') from None


def choice(call: Call, name: str, given: object, choices: Sequence[str]) -> str:
    """One of a few words."""
    if isinstance(given, str) and given in choices:
        return given
    hint = near(given, choices) if isinstance(given, str) else ""
    raise call.refuse(f"{name}={given!r} is not known{hint}", f"Take one of {', '.join(map(repr, choices))}")


def _schema(call: Call, fields: list[Field]) -> Schema:
    try:
        return Schema(tuple(fields))
    except ConfigError as error:
        raise call.refuse(str(error), "Give each column a name of its own") from None
