"""From the core's refusals to the exceptions of the public API."""

from __future__ import annotations

from typing import TypeVar

from semel import errors
from semel.core.sink.refusal import Refusal

Value = TypeVar("Value")


def allow(outcome: Value | Refusal) -> Value:
    """The value; a refusal is raised as the :class:`semel.errors.SinkError` of its reason."""
    if isinstance(outcome, Refusal):
        raise getattr(errors, outcome.reason.value)(outcome.evidence)
    return outcome
