"""``log_start_rises``: what somebody was told to be deleted stays deleted: the log's start never falls."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition


class LogStartRises(Checker):
    """At every answer to a trim, after every retention and after every recovery."""

    name: ClassVar[str] = "log_start_rises"

    def __init__(self) -> None:
        self._highest: dict[TopicPartition, int] = {}

    def log_start(self, tp: TopicPartition, log_start_offset: int) -> None:
        if log_start_offset < self._highest.get(tp, 0):
            raise self.violated(f"{tp}: log start fell from {self._highest[tp]} to {log_start_offset}")
        self._highest[tp] = log_start_offset
