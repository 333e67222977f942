"""``damage_is_not_cut``: no start makes a log shorter to get rid of damage in what was synced.

It may refuse the partition; what it serves still ends where it ended.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition


class DamageIsNotCut(Checker):
    """At the start behind each damage."""

    name: ClassVar[str] = "damage_is_not_cut"

    def opened_damaged(self, tp: TopicPartition, synced_to: int, log_end_offset: int | None) -> None:
        if log_end_offset is not None and log_end_offset < synced_to:
            raise self.violated(f"{tp} ended at {synced_to}, synced, and now at {log_end_offset}")
