"""What lies in a log, and what its readers see."""

from __future__ import annotations

from collections.abc import Sequence

from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import LogWatcher
from semel.sim.world.history import History, LoggedBatch, Logs, Promise, lineage_of
from semel.types import TopicPartition


class DenseOffsets(Checker, LogWatcher):
    """``dense_offsets``: every offset from the log's start to its end is there once.

    Judged by the headers; the record offsets inside a batch are deltas and cannot differ from them. Of a compacted log
    what stands for records that are gone is empty, and there.
    """

    def __init__(self) -> None:
        self._compacted: set[TopicPartition] = set()

    def is_compacted(self, tp: TopicPartition) -> None:
        self._compacted.add(tp)

    def compacted(
        self,
        history: History,
        tp: TopicPartition,
        appended: Sequence[LoggedBatch],
        found: Sequence[LoggedBatch],
    ) -> None:
        self._check(tp, found)

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
            is_whole = header.is_control or len(batch.values) == header.last_offset_delta + 1
            if not is_whole and tp not in self._compacted:
                raise self.violated(f"{len(batch.values)} records in {batch} of {tp}")
            expected = header.last_offset + 1


class Order(Checker, LogWatcher):
    """``order``: the records of one producer on one partition lie in the order in which it sent them.

    Three parts. Under one producer id: all records, acknowledged or not. Across the ids that one producer had one after
    another: the acknowledged ones; a record in doubt may still be under way when its producer goes on with another id,
    and can come late. Of one producer id the epochs rise: what an older epoch sends after a newer one has written is
    shut out. Judged by the numbers in the values, and by the headers' epochs.
    """

    def logs(self, history: History, logs: Logs) -> None:
        for tp, batches in logs.items():
            newest: dict[tuple[str, int | None], int] = {}
            newest_epoch: dict[int, int] = {}
            for batch in batches:
                header = batch.header
                known_epoch = newest_epoch.get(header.producer_id, -1)
                if header.producer_epoch < known_epoch:
                    raise self.violated(
                        f"epoch {header.producer_epoch} of producer {header.producer_id} lies at offset "
                        f"{header.base_offset} of {tp}, behind its epoch {known_epoch}"
                    )
                newest_epoch[header.producer_id] = header.producer_epoch
                self._check_values(history, batch, newest)

    def _check_values(
        self, history: History, batch: LoggedBatch, newest: dict[tuple[str, int | None], int]
    ) -> None:
        for value in batch.values:
            lineage, number = lineage_of(value)
            record = history.records.get(value)
            lines: list[tuple[str, int | None]] = [(lineage, batch.header.producer_id)]
            if record is not None and record.promise is Promise.STORED:
                lines.append((lineage, None))
            for line in lines:
                if number <= newest.get(line, -1):
                    raise self.violated(f"{value!r} lies behind number {newest[line]}: {batch}")
                newest[line] = number


class NothingTwice(Checker, LogWatcher):
    """``nothing_twice``: no record is in the log twice, whatever was sent again, by whom, how late.

    Judged by value: every record's value is its own. What was trimmed is remembered.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[TopicPartition, int]] = {}

    def logs(self, history: History, logs: Logs) -> None:
        starts = history.log_starts
        seen = {value: (tp, at) for value, (tp, at) in self._seen.items() if at < starts.get(tp, 0)}
        for tp, batches in logs.items():
            for batch in batches:
                for record_offset, value in batch.placed:
                    here = (tp, record_offset)
                    if value in seen and seen[value] != here:
                        raise self.violated(f"{value!r} lies at {_name(seen[value])} and at {_name(here)}")
                    seen[value] = here
                    if value not in history.records:
                        raise self.violated(f"{value!r} at {_name(here)} was never sent")
        self._seen = seen


def _name(place: tuple[TopicPartition, int]) -> str:
    return f"offset {place[1]} of {place[0]}"


class OneValuePerOffset(Checker, LogWatcher):
    """``one_value_per_offset``: what was once readable at an offset is there for ever, and nothing else is.

    Nobody may be shown what a power cut can still take back, so this holds across crashes too. Judged by every read,
    and by the whole logs, against the first reading of the same offset.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, int], bytes] = {}

    def read(self, tp: TopicPartition, batches: Sequence[LoggedBatch], high_watermark: int) -> None:
        for batch in batches:
            for record_offset, value in batch.placed:
                first = self._seen.setdefault((tp, record_offset), value)
                if first != value:
                    raise self.violated(f"offset {record_offset} of {tp} was {first!r} and now is {value!r}")

    def logs(self, history: History, logs: Logs) -> None:
        for tp, batches in logs.items():
            start = history.log_starts.get(tp, 0)
            values = {offset: value for batch in batches for offset, value in batch.placed}
            for (seen_tp, record_offset), value in self._seen.items():
                now = values.get(record_offset)
                if seen_tp == tp and record_offset >= start and now != value:
                    raise self.violated(
                        f"offset {record_offset} of {tp} was read as {value!r} and now is {now!r}"
                    )


class HighWatermarkRises(Checker, LogWatcher):
    """``high_watermark_rises``: the high watermark that somebody was shown never falls, nor passes the log's end.

    Across crashes as well: what was below it is synced. Judged at every answer and after every recovery.
    """

    def __init__(self) -> None:
        self._highest: dict[TopicPartition, int] = {}

    def watermark(self, tp: TopicPartition, high_watermark: int, log_end_offset: int) -> None:
        if high_watermark > log_end_offset:
            raise self.violated(f"{tp}: high watermark {high_watermark} beyond the end {log_end_offset}")
        if high_watermark < self._highest.get(tp, 0):
            raise self.violated(f"{tp}: high watermark fell from {self._highest[tp]} to {high_watermark}")
        self._highest[tp] = high_watermark


class LogStartRises(Checker, LogWatcher):
    """``log_start_rises``: what somebody was told to be deleted stays deleted: the log's start never falls.

    Judged at every answer to a trim, after every retention and after every recovery.
    """

    def __init__(self) -> None:
        self._highest: dict[TopicPartition, int] = {}

    def log_start(self, tp: TopicPartition, log_start_offset: int) -> None:
        if log_start_offset < self._highest.get(tp, 0):
            raise self.violated(f"{tp}: log start fell from {self._highest[tp]} to {log_start_offset}")
        self._highest[tp] = log_start_offset
