"""``what_is_left_is_a_prefix``: a power cut takes a log's end, and nothing in front of what it leaves.

This is all that holds where the page cache was trusted: acknowledged records may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import LoggedBatch
from semel.types import TopicPartition


class WhatIsLeftIsAPrefix(Checker):
    """Batch by batch, with who wrote it: a batch of markers has no values to know it by."""

    name: ClassVar[str] = "what_is_left_is_a_prefix"

    def left_by_power_cut(
        self, tp: TopicPartition, was: Sequence[LoggedBatch], found: Sequence[LoggedBatch]
    ) -> None:
        for before, batch in zip(was, found, strict=False):
            if batch != before:
                raise self.violated(f"{tp}: {batch} lies where {before} was")
        if len(found) > len(was):
            raise self.violated(f"{tp}: {found[len(was)]} was never there")
