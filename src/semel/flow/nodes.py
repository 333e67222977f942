"""Steps as nodes of the tree: what the verbs make, once their arguments have been judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from semel.core.flow.join import joined_schema
from semel.core.flow.lineage import Dedupe
from semel.core.flow.schema import Schema
from semel.errors import ConfigError
from semel.flow import checks
from semel.flow.calls import Call
from semel.flow.tree import JoinNode, KeyByNode, Node, RowShape, StatefulNode, StatelessNode, TableNode

Columns = str | Schema | type  # "user string, at timestamp", or a class with annotations


def declared(call: Call, schema: Columns | None, what: str = "the columns that it makes") -> Schema | None:
    """What the user says of columns, if anything."""
    return None if schema is None else call.declared(schema, what)


def stateless(
    parent: Node, call: Call, specs: tuple[Any, ...], shape: RowShape, part: int | None = None
) -> Node:
    checks.refuse_record_column(call, shape)
    return StatelessNode(text=call.text, site=call.site, shape=shape, parent=parent, specs=specs, part=part)


def made(parent: Node, call: Call, spec: Any) -> Node:
    shape = checks.made_shape(call, parent.shape, spec.schema, is_columnar=spec.is_columnar)
    return stateless(parent, call, (spec,), shape)


def stateful(parent: Node, call: Call, spec: Any, label: str, shape: RowShape) -> Node:
    if not isinstance(spec, Dedupe):  # which passes rows on
        shape = replace(shape, has_record=False)
    return StatefulNode(text=call.text, site=call.site, shape=shape, parent=parent, spec=spec, label=label)


def key_by(parent: Node, call: Call, columns: tuple[str, ...], partitions: int | None) -> Node:
    if not columns:
        raise call.refuse("no column is named", 'Name one or more, as in ("user")')
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise call.refuse(f"partitions={partitions!r} is no number of partitions", "Write 1 or more")
    key = call.fields_of(parent.shape, columns, "a key")
    shape = replace(parent.shape, key=key, is_key_in_columns=True, has_record_key=True)
    return KeyByNode(text=call.text, site=call.site, shape=shape, parent=parent, partition_count=partitions)


def join(left: Node, call: Call, table: TableNode, how: str, repair: bool) -> Node:
    table_key, table_schema = table.shape.key, table.shape.schema
    assert table_key is not None
    assert table_schema is not None
    known = call.schema_of(left.shape, "a join")
    names = tuple(field.name for field in table_key)
    if left.shape.key != table_key:
        for field in table_key:
            found = call.field_of(known, field.name)
            if found.kind is not field.kind:
                raise call.refuse(
                    f"the key {field.name!r} is {found.kind.value} in the stream and {field.kind.value} in the table",
                    "Give it one type in both",
                )
        left = key_by(left, call, names, None)
    try:
        schema = joined_schema(known, table_schema, names)
    except ConfigError as error:
        raise call.refuse(
            str(error), "Leave it out, or name it otherwise, on one side (select, map)"
        ) from None
    shape = replace(left.shape, schema=schema, has_record=False)
    return JoinNode(
        text=call.text, site=call.site, shape=shape, left=left, table=table, how=how, is_repairing=repair
    )


def refuse_no(call: Call, wanted: type, given: object, advice: str) -> None:
    """What is handed over has to be of the language's own."""
    if not isinstance(given, wanted):
        kind = type(given).__name__
        what = f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
        raise call.refuse(f"{what} is no {wanted.__name__.lower()}", advice)
