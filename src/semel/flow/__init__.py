"""Flows: the exactly-once patterns as one small language, run by Spark or in this process.

>>> from semel.flow import source
>>> clicks = source("clicks", json="user string, url string, at timestamp")
>>> counts = clicks.key_by("user").count().to("clicks-of-users")
>>> [stage.name for stage in counts.plan().stages]
['clicks-by-user', 'clicks-by-user-count']

A flow is a value: a tree of steps that is built, judged and planned here, without Spark and without a server. A step
that makes no sense raises :class:`~semel.errors.FlowError` where it is written.
"""

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
    "Schema",
    "Stream",
    "Table",
    "flow",
    "source",
]
