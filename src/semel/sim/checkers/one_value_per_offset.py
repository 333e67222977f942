"""``one_value_per_offset``: what was once readable at an offset is there for ever, and nothing else is.

Nobody may be shown what a power cut can still take back, so this holds across crashes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, LoggedBatch, Logs
from semel.types import TopicPartition


class OneValuePerOffset(Checker):
    """Every read, and at the end the log, against the first reading of the same offset."""

    name: ClassVar[str] = "one_value_per_offset"

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, int], bytes] = {}

    def read(self, tp: TopicPartition, batches: Sequence[LoggedBatch], high_watermark: int) -> None:
        for batch in batches:
            for place, value in enumerate(batch.values):
                record_offset = batch.header.base_offset + place
                first = self._seen.setdefault((tp, record_offset), value)
                if first != value:
                    raise self.violated(f"offset {record_offset} of {tp} was {first!r} and now is {value!r}")

    def logs(self, history: History, logs: Logs) -> None:
        for tp, batches in logs.items():
            start = history.log_starts.get(tp, 0)
            values = {
                batch.header.base_offset + place: value
                for batch in batches
                for place, value in enumerate(batch.values)
            }
            for (seen_tp, record_offset), value in self._seen.items():
                if seen_tp != tp or record_offset < start:
                    continue
                if values.get(record_offset) != value:
                    raise self.violated(
                        f"offset {record_offset} of {tp} was read as {value!r} and now is "
                        f"{values.get(record_offset)!r}"
                    )
