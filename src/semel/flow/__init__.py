"""Flows: the exactly-once patterns as one small language, run by Spark or in this process.

>>> from semel.flow import source
>>> clicks = source("clicks", json="user string, url string, at timestamp")
>>> counts = clicks.key_by("user").count().to("clicks-of-users")
>>> [stage.name for stage in counts.plan().stages]
['clicks-by-user', 'clicks-by-user-count']

A flow is a value: a tree of steps that is built, judged and planned here, without Spark and without a server. A step
that makes no sense raises :class:`~semel.errors.FlowError` where it is written.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.core.flow.record import Record
    from semel.core.flow.schema import Field, Kind, Schema
    from semel.errors import FlowError
    from semel.flow.builder import Keyed, Stream, Table, source
    from semel.flow.nodes import Columns
    from semel.flow.value import Flow, flow

__all__ = [
    "Columns",
    "Field",
    "Flow",
    "FlowError",
    "Keyed",
    "Kind",
    "Record",
    "Schema",
    "Stream",
    "Table",
    "flow",
    "source",
]

# Imported at first use: Spark's many processes work on stages without the language.
_HOMES = {
    "Columns": "semel.flow.nodes",
    "Field": "semel.core.flow.schema",
    "Flow": "semel.flow.value",
    "FlowError": "semel.errors",
    "Keyed": "semel.flow.builder",
    "Kind": "semel.core.flow.schema",
    "Record": "semel.core.flow.record",
    "Schema": "semel.core.flow.schema",
    "Stream": "semel.flow.builder",
    "Table": "semel.flow.builder",
    "flow": "semel.flow.value",
    "source": "semel.flow.builder",
}


def __dir__() -> list[str]:
    """What completion shows."""
    return sorted(__all__)


if not TYPE_CHECKING:  # to a type checker every misspelled name would be there

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'semel.flow' has no attribute {name!r}")
        return getattr(import_module(home), name)
