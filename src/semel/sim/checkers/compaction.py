"""What compaction may take of a log, and what it may not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import LogWatcher
from semel.sim.world.history import History, LoggedBatch
from semel.types import NO_PRODUCER_ID, TopicPartition


class NewestOfEachKeySurvives(Checker, LogWatcher):
    """``newest_of_each_key_survives``: of each key the newest record is there, and what is missing is older than what
    is there.

    But for a tombstone, which may go when its time is over, and only once nothing older of its key is left: else what
    was deleted would come back. Judged by every whole log, after each recovery and at the end.
    """

    def compacted(
        self,
        history: History,
        tp: TopicPartition,
        appended: Sequence[LoggedBatch],
        found: Sequence[LoggedBatch],
    ) -> None:
        log_start = history.log_starts.get(tp, 0)
        there = {offset for batch in found for offset, _ in batch.placed}
        of_key: dict[bytes | None, list[tuple[int, bytes]]] = defaultdict(list)
        for batch in appended:
            for (offset, value), key in zip(batch.placed, batch.keys, strict=True):
                if offset >= log_start:
                    of_key[key].append((offset, value))
        for key, records in of_key.items():
            left = [offset in there for offset, _ in records]
            if not left[-1]:
                self._check_newest(history, tp, key, records[-1], is_followed=any(left))
            elif left != sorted(left):
                gone = records[left.index(False, left.index(True))]
                raise self.violated(f"{tp}: {gone[1]!r} at offset {gone[0]} is gone, an older {key!r} is not")

    def _check_newest(
        self,
        history: History,
        tp: TopicPartition,
        key: bytes | None,
        newest: tuple[int, bytes],
        *,
        is_followed: bool,
    ) -> None:
        offset, value = newest
        what = f"{tp}: {value!r} at offset {offset}, the newest {key!r}, is gone"
        tombstones = history.tombstones_of(tp)
        if not tombstones.is_tombstone(value):
            raise self.violated(what)
        if tombstones.keeps_tombstones:
            raise self.violated(f"{what}, a tombstone before its time")
        if is_followed:
            raise self.violated(f"{what}, a tombstone, and what it deletes is there")


class CompactionAddsNothing(Checker, LogWatcher):
    """``compaction_adds_nothing``: what is left of a compacted log was written so: at its offset, under its key and by
    its producer, unless nobody knows that one any more; and the log still ends where it ended.

    Judged as ``newest_of_each_key_survives``.
    """

    def compacted(
        self,
        history: History,
        tp: TopicPartition,
        appended: Sequence[LoggedBatch],
        found: Sequence[LoggedBatch],
    ) -> None:
        written = {
            offset: (value, key, batch.header.producer_id, batch.header.producer_epoch)
            for batch in appended
            for (offset, value), key in zip(batch.placed, batch.keys, strict=True)
        }
        for batch in found:
            header = batch.header
            for (offset, value), key in zip(batch.placed, batch.keys, strict=True):
                if offset not in written and offset < history.log_starts.get(tp, 0):
                    continue
                *said, producer_id, producer_epoch = written.get(offset, (None, None, 0, 0))
                by = header.producer_id, header.producer_epoch
                if [value, key] != said or (by[0] != NO_PRODUCER_ID and by != (producer_id, producer_epoch)):
                    raise self.violated(
                        f"{tp}: at offset {offset} lies {key!r}: {value!r} by {by}, written was {written.get(offset)}"
                    )
        ends = [batches[-1].header.last_offset if batches else None for batches in (appended, found)]
        if ends[0] != ends[1]:
            raise self.violated(f"{tp}: the log ends with offset {ends[1]}, written was up to {ends[0]}")
