"""Rows in windows, of which it is still to be said what is gathered in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from semel.core.flow.folds import Fold
from semel.core.flow.functions import takes_tables
from semel.core.flow.ready import Count, Last, Max, Min, Sum
from semel.core.flow.schema import Field, Schema
from semel.errors import ConfigError
from semel.flow import checks, nodes
from semel.flow.calls import UNTYPED_ADVICE, Call
from semel.flow.functions import folded_rows_schema, version_of
from semel.flow.nodes import Columns
from semel.flow.tree import Form, Node
from semel.flow.window_shape import WindowShape

_Keyed = TypeVar("_Keyed")  # rows with a key, as the flow goes on


@dataclass(frozen=True, eq=False)
class Windowed(Generic[_Keyed]):
    """Rows in windows. What is gathered in each comes next: one row for each window of each key, when it closes.

    It has the key's columns, ``window_start``, ``window_end`` (exclusive), and what was gathered.
    """

    node: Node
    call: Call
    shape: WindowShape
    keyed: Callable[[Node], _Keyed]

    def count(self, column: str = "count") -> _Keyed:
        """How many rows are in the window."""
        call = self._then("count", *([column] if column != "count" else []))
        return self._gathered(call, Count(self._key, column=column), "count")

    def sum(self, of: str, column: str = "") -> _Keyed:
        """The sum of a column of numbers, named ``sum_<of>`` where ``column`` does not say it."""
        call = self._then("sum", of, *([column] if column else []))
        checks.number_column(call, self._schema(call), of)
        return self._gathered(call, Sum(self._key, of=of, column=column), f"sum-{of}")

    def min(self, of: str, column: str = "") -> _Keyed:
        """The least value of a column, named ``min_<of>`` where ``column`` does not say it."""
        call = self._then("min", of, *([column] if column else []))
        call.field_of(self._schema(call), of)
        return self._gathered(call, Min(self._key, of=of, column=column), f"min-{of}")

    def max(self, of: str, column: str = "") -> _Keyed:
        """The greatest value of a column, named ``max_<of>`` where ``column`` does not say it."""
        call = self._then("max", of, *([column] if column else []))
        call.field_of(self._schema(call), of)
        return self._gathered(call, Max(self._key, of=of, column=column), f"max-{of}")

    def last(self) -> _Keyed:
        """The last row of the window, in the recorded order."""
        return self._gathered(self._then("last"), Last(self._key), "last")

    def fold(
        self,
        function: Callable[[Any, Any], Any],
        init: Any = None,
        *,
        schema: Columns | None = None,
        merge: Callable[[Any, Any], Any] | None = None,
    ) -> _Keyed:
        """A fold of Python's over the window's rows: what it returned for the last of them is told.

        ``merge(state, state)`` makes one state of those of two sessions that a row between them joins: for sessions.
        """
        call = self._then("fold", function, init=init, schema=schema, merge=merge)
        call.function(function, "a state and a row", 2)
        if takes_tables(function):
            raise call.refuse(
                "a window gathers row by row", "Write the function for one row, or fold without windows"
            )
        if merge is not None:
            call.function(merge, "two states", 2)
        if self.shape.is_session and merge is None:
            raise call.refuse(
                "two sessions become one when a row falls between them, and nothing says what their states make",
                "Say merge=f, where f(state, state) gives one state",
            )
        if not self.shape.is_session and merge is not None:
            raise call.refuse("windows of one length are never merged", "Leave merge= out")
        declared = nodes.declared(call, schema) or folded_rows_schema(function)
        if declared is None:
            raise call.refuse("what a window tells has columns, and they are not declared", UNTYPED_ADVICE)
        spec = Fold.of(function, init, declared, version=version_of(function))
        checks.refuse_other_beginning(call, spec)
        return self._gathered(call, spec, "fold", merge)

    @property
    def _key(self) -> tuple[Field, ...]:
        assert self.node.shape.key is not None
        return self.node.shape.key

    def _then(self, verb: str, *arguments: Any, **options: Any) -> Call:
        return Call.here(verb, *arguments, **options).behind(self.call)

    def _schema(self, call: Call) -> Schema:
        return call.schema_of(self.node.shape, "a window")

    def _gathered(
        self, call: Call, gathers: Any, label: str, merge: Callable[[Any, Any], Any] | None = None
    ) -> _Keyed:
        version = "" if merge is None else version_of(merge)
        try:
            spec = self.shape.spec(gathers, self._schema(call), self._key, merge, version)
            schema = spec.output_schema()
        except (ConfigError, ValueError) as error:
            raise call.refuse(str(error), "Name the columns otherwise") from None
        shape = replace(self.node.shape, form=Form.COLUMNS, schema=schema, is_key_in_columns=True)
        return self.keyed(nodes.stateful(self.node, call, spec, f"{self.shape.label}-{label}", shape))


def windowed(
    parent: Node, call: Call, shape: WindowShape, keyed: Callable[[Node], _Keyed]
) -> Windowed[_Keyed]:
    """Rows of a key in windows over a timestamp."""
    checks.refuse_unkeyed(call, parent.shape)
    checks.time_column(call, call.schema_of(parent.shape, "a window"), shape.on)
    return Windowed(parent, call, shape, keyed)
