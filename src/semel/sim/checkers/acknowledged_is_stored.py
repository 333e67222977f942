"""``acknowledged_is_stored``: a record whose producer was told "stored" is in the log, where it was told."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, Logs, Promise
from semel.types import TopicPartition


class AcknowledgedIsStored(Checker):
    """Judged after every recovery too, so that a loss is found beside its cause."""

    name: ClassVar[str] = "acknowledged_is_stored"

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, bytes], int] = {}

    def logs(self, history: History, logs: Logs) -> None:
        stored = {
            (tp, value): batch.header.base_offset + place
            for tp, batches in logs.items()
            for batch in batches
            for place, value in enumerate(batch.values)
        }
        self._seen.update(stored)
        for record in history.promised(Promise.STORED):
            if record.tp not in logs:
                continue
            record_offset = stored.get((record.tp, record.value))
            log_start = history.log_starts.get(record.tp, 0)
            if record_offset is None and log_start:
                if record.record_offset is None:
                    record_offset = self._seen.get((record.tp, record.value))
                    if record_offset is None or record_offset < log_start:
                        continue  # trimmed
                elif record.record_offset < log_start:
                    continue
                record_offset = None
            if record_offset is None:
                raise self.violated(f"{record.value!r} was acknowledged and is not in {record.tp}")
            if record.record_offset not in (None, record_offset):
                raise self.violated(
                    f"{record.value!r} was acknowledged at {record.record_offset} of {record.tp}, "
                    f"lies at {record_offset}"
                )
