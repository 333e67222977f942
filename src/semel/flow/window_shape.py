"""The windows that rows are put in, before it is said what is gathered in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from semel.core.flow.schema import Field, Schema
from semel.core.flow.sessions import SessionWindow
from semel.core.flow.windows import TumblingWindow
from semel.flow.durations import short_duration


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Of one length, or, with a gap instead, sessions."""

    on: str
    lateness_ms: int
    length_ms: int = 0
    gap_ms: int = 0
    idle_ms: int = 0  # 0: time does not go on without rows

    @property
    def is_session(self) -> bool:
        return self.gap_ms > 0

    @property
    def label(self) -> str:
        """A part of stage names: another length has another state."""
        if self.is_session:
            return f"sessions-{short_duration(self.gap_ms)}"
        return f"tumbling-{short_duration(self.length_ms)}"

    def spec(
        self,
        gathers: Any,
        schema: Schema,
        key: tuple[Field, ...],
        merge: Callable[[Any, Any], Any] | None,
        merge_version: str,
    ) -> TumblingWindow | SessionWindow:
        """The step that gathers in them."""
        if self.is_session:
            return SessionWindow(
                gathers,
                self.on,
                schema,
                key,
                self.lateness_ms,
                idle_ms=self.idle_ms,
                gap_ms=self.gap_ms,
                merge=merge,
                merge_version=merge_version,
            )
        return TumblingWindow(
            gathers,
            self.on,
            schema,
            key,
            self.lateness_ms,
            idle_ms=self.idle_ms,
            length_ms=self.length_ms,
        )
