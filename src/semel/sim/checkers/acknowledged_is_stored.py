"""``acknowledged_is_stored``: a record whose producer was told "stored" is in the log, where it was told."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.history import History, Logs, Promise


class AcknowledgedIsStored(Checker):
    """Judged after every recovery too, so that a loss is found beside its cause."""

    name: ClassVar[str] = "acknowledged_is_stored"

    def logs(self, history: History, logs: Logs) -> None:
        stored = {
            (tp, value): batch.header.base_offset + place
            for tp, batches in logs.items()
            for batch in batches
            for place, value in enumerate(batch.values)
        }
        for record in history.promised(Promise.STORED):
            record_offset = stored.get((record.tp, record.value))
            if record_offset is None:
                raise self.violated(f"{record.value!r} was acknowledged and is not in {record.tp}")
            if record.record_offset not in (None, record_offset):
                raise self.violated(
                    f"{record.value!r} was acknowledged at {record.record_offset} of {record.tp}, "
                    f"lies at {record_offset}"
                )
