"""``nothing_twice``: no record is in the log twice, whatever was sent again, by whom, how late."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.history import History, Logs
from semel.types import TopicPartition


class NothingTwice(Checker):
    """By value: every record's value is its own."""

    name: ClassVar[str] = "nothing_twice"

    def logs(self, history: History, logs: Logs) -> None:
        seen: dict[bytes, tuple[TopicPartition, int]] = {}
        for tp, batches in logs.items():
            for batch in batches:
                for place, value in enumerate(batch.values):
                    here = (tp, batch.header.base_offset + place)
                    if value in seen:
                        raise self.violated(f"{value!r} lies at {_name(seen[value])} and at {_name(here)}")
                    seen[value] = here
                    if value not in history.records:
                        raise self.violated(f"{value!r} at {_name(here)} was never sent")


def _name(place: tuple[TopicPartition, int]) -> str:
    return f"offset {place[1]} of {place[0]}"
