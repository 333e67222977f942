"""``dense_offsets``: every offset from the log's start to its end is there once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, LoggedBatch, Logs
from semel.types import TopicPartition


class DenseOffsets(Checker):
    """By the headers; the record offsets inside a batch are deltas and cannot differ from them."""

    name: ClassVar[str] = "dense_offsets"

    def read(self, tp: TopicPartition, batches: Sequence[LoggedBatch], high_watermark: int) -> None:
        self._check(tp, batches)
        if batches and batches[-1].header.last_offset >= high_watermark:
            raise self.violated(f"{tp} was read beyond its high watermark {high_watermark}: {batches[-1]}")

    def logs(self, history: History, logs: Logs) -> None:
        for tp, batches in logs.items():
            self._check(tp, batches)

    def _check(self, tp: TopicPartition, batches: Sequence[LoggedBatch]) -> None:
        expected = batches[0].header.base_offset if batches else 0
        for batch in batches:
            header = batch.header
            if header.base_offset != expected:
                raise self.violated(f"{tp} goes on at {header.base_offset} where {expected} is next")
            if not header.is_control and len(batch.values) != header.last_offset_delta + 1:
                raise self.violated(f"{len(batch.values)} records in {batch} of {tp}")
            expected = header.last_offset + 1
