"""A flow as a value: a frozen tree of named steps, each with the place where it was written.

Invariants
    A node is never changed; a step makes a new one. Trees may share nodes, and nothing is ever walked by recursion.
    What a node says of its rows (columns, key) is known when it is made, without Spark and without a server: so each
    step is judged when it is written. :mod:`semel.flow.builder` makes nodes, :mod:`semel.flow.planner` cuts them.

The key of a row
    A source's rows have the record's key, of unknown meaning, or of the declared columns. ``key_by`` gives a row a
    new key, and the steps behind it keep that one, whatever they do to the columns. ``apply`` hands a whole DataFrame
    to a function and loses the keys.

The record of a row
    Rows of a source with ``record=True`` carry the time and the headers of their record through all steps that look at
    one row at a time. Behind a step with state a row is made of many records, and carries those of none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from semel.core.flow.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class Site:
    """Where a step was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def call_site() -> Site:
    """The line that called into the language: the innermost one that is not the language's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith("semel.flow."):
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


class Form(Enum):
    """What is known of rows before any of them is there."""

    COLUMNS = "columns"  # a schema
    RAW = "bytes"  # the records' values as they came
    UNTYPED = "untyped"  # whatever a function returns; can be written, but not looked into


@dataclass(frozen=True, slots=True)
class RowShape:
    """Of the rows that leave a step."""

    form: Form
    schema: Schema | None = None  # exactly where the form is COLUMNS
    key: tuple[Field, ...] | None = None  # what the record's key was made of; None: not known, or none
    is_key_in_columns: bool = False  # the columns of the key's names still hold it
    has_record_key: bool = True  # rows still carry the record's key, known or not
    has_record: bool = False  # rows carry the time and the headers of the record that they stem from


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A step. ``text`` is the step as it was written, shortened."""

    text: str
    site: Site
    shape: RowShape

    @property
    def parents(self) -> tuple[Node, ...]:
        """The steps whose rows this one takes."""
        return ()

    @property
    def own(self) -> tuple[Any, ...]:
        """What, beside its parents, tells this step from another of its kind."""
        return ()


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceNode(Node):
    """A topic that others write."""

    topic: str
    is_copied: bool = False
    is_doubled: bool = False  # a header says which row each came of: the next step takes each once

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.topic, self.shape, self.is_copied, self.is_doubled)


@dataclass(frozen=True, eq=False, kw_only=True)
class StatelessNode(Node):
    """Steps of Python or Spark that look at one row at a time. ``part``: which one of a branch."""

    parent: Node
    specs: tuple[Any, ...]
    part: int | None = None

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.parent,)

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.specs, self.part)


@dataclass(frozen=True, eq=False, kw_only=True)
class KeyByNode(Node):
    """Rows get another key; behind it all rows of a key are in one partition."""

    parent: Node
    partition_count: int | None = None

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.parent,)

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.shape.key, self.partition_count)


@dataclass(frozen=True, eq=False, kw_only=True)
class StatefulNode(Node):
    """A step with state for each key (or, of ``dedupe``, for each partition); ``label`` is a part of stage names."""

    parent: Node
    spec: Any
    label: str

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.parent,)

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.spec, self.label)


@dataclass(frozen=True, eq=False, kw_only=True)
class MergeNode(Node):
    """The rows of several streams in one recorded order."""

    merged: tuple[Node, ...]

    @property
    def parents(self) -> tuple[Node, ...]:
        return self.merged


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNode(Node):
    """The last row of each key."""

    parent: Node

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.parent,)


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinNode(Node):
    """Each row with the row that the table has for its key."""

    left: Node
    table: TableNode
    how: str
    is_repairing: bool

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.left, self.table)

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.how, self.is_repairing)


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedNode(Node):
    """No step: the stages behind it are named after ``name``."""

    parent: Node
    name: str

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.parent,)

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.name,)


@dataclass(frozen=True, eq=False, kw_only=True)
class OutputNode(Node):
    """Rows go to a topic."""

    parent: Node
    topic: str

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.parent,)

    @property
    def own(self) -> tuple[Any, ...]:
        return (self.topic,)


def in_order(roots: Iterable[Node]) -> list[Node]:
    """Every node once, parents before what is made of them."""
    ordered: dict[int, Node] = {}
    waiting: list[tuple[Node, Iterator[Node]]] = []
    for root in roots:
        if id(root) in ordered:
            continue
        waiting.append((root, iter(root.parents)))
        while waiting:
            node, parents = waiting[-1]
            for parent in parents:
                if id(parent) not in ordered:
                    waiting.append((parent, iter(parent.parents)))
                    break
            else:
                ordered[id(node)] = node
                waiting.pop()
    return list(ordered.values())


def same_as(nodes: Iterable[Node]) -> dict[int, Node]:
    """For the ``id`` of each node the first one that is equal to it, with everything in front of it."""
    first: dict[tuple[Any, ...], Node] = {}
    found: dict[int, Node] = {}
    for node in nodes:
        parents = tuple(id(found[id(parent)]) for parent in node.parents)
        own = tuple(_hashable(part) for part in node.own)
        found[id(node)] = first.setdefault((type(node), own, parents), node)
    return found


def _hashable(part: Any) -> Any:
    try:
        hash(part)
    except TypeError:  # a step that holds an unhashable value, as an initial state: equal to itself only
        return ("itself", id(part))
    return part
