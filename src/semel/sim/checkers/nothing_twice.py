"""``nothing_twice``: no record is in the log twice, whatever was sent again, by whom, how late."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, Logs
from semel.types import TopicPartition


class NothingTwice(Checker):
    """By value: every record's value is its own. What was trimmed is remembered."""

    name: ClassVar[str] = "nothing_twice"

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[TopicPartition, int]] = {}

    def logs(self, history: History, logs: Logs) -> None:
        starts = history.log_starts
        seen = {value: place for value, place in self._seen.items() if place[1] < starts.get(place[0], 0)}
        for tp, batches in logs.items():
            for batch in batches:
                for place, value in enumerate(batch.values):
                    here = (tp, batch.header.base_offset + place)
                    if value in seen and seen[value] != here:
                        raise self.violated(f"{value!r} lies at {_name(seen[value])} and at {_name(here)}")
                    seen[value] = here
                    if value not in history.records:
                        raise self.violated(f"{value!r} at {_name(here)} was never sent")
        self._seen = seen


def _name(place: tuple[TopicPartition, int]) -> str:
    return f"offset {place[1]} of {place[0]}"
