"""``high_watermark_rises``: the high watermark that somebody was shown never falls, nor passes the log's end.

Across crashes as well: what was below it is synced.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition


class HighWatermarkRises(Checker):
    """At every answer and after every recovery."""

    name: ClassVar[str] = "high_watermark_rises"

    def __init__(self) -> None:
        self._highest: dict[TopicPartition, int] = {}

    def watermark(self, tp: TopicPartition, high_watermark: int, log_end_offset: int) -> None:
        if high_watermark > log_end_offset:
            raise self.violated(f"{tp}: high watermark {high_watermark} beyond the end {log_end_offset}")
        if high_watermark < self._highest.get(tp, 0):
            raise self.violated(f"{tp}: high watermark fell from {self._highest[tp]} to {high_watermark}")
        self._highest[tp] = high_watermark
