"""Any history of a compacted log: appends, fences, trims, passes that are left half-way, kills and power cuts inside of
any file operation, against a list of what was written.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.server.storage.test_cleaning import newest, records_of

from semel.core.log.admission import AppendOrigin
from semel.core.log.config import LogConfig
from semel.core.producer_state.entry import ProducerEntry
from semel.core.producer_state.verdict import Duplicate
from semel.errors import ErrorCode
from semel.record.batch import Compression, Record, decode_header, encode_batch
from semel.record.control import encode_abort_marker
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk, Killed, PowerCut, ProcessEnd
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace

NOW_MS = 1_000_000
HOUR_MS = 3_600_000
SETTINGS = StorageSettings(
    default_config=LogConfig(
        segment_bytes=500,
        index_interval_bytes=100,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.1,
        delete_retention_ms=HOUR_MS,
    ),
    cleaner_map_bytes=24 * 40,
)
_keys = st.sampled_from([b"a", b"b", b"c", b"d" * 70])
_values = st.one_of(st.none(), st.binary(min_size=1, max_size=60))


class AnyCompactedHistory(RuleBasedStateMachine):
    """``ends``: after each append the end of the log, and what is known of the producers then."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
        self.written: list[Record] = []
        self.start_offset = 0
        self.now_ms = NOW_MS
        self.open()
        at_once(self.storage.create_topic("t", now_ms=NOW_MS))
        self.ends: list[tuple[int, list[tuple[int, ProducerEntry]]]] = [(0, [])]

    def open(self) -> None:
        self.mount = self.disk.mount()
        self.storage = Storage.open(Path("/data"), self.mount, SETTINGS, now_ms=NOW_MS)

    @property
    def partition(self):
        partition = self.storage.partition("t", 0)
        assert partition is not None
        return partition

    def next_of(self, producer_id: int) -> tuple[int, int]:
        entry = dict(self.ends[-1][1]).get(producer_id, ProducerEntry(producer_epoch=0))
        return entry.producer_epoch, entry.last_sequence + 1

    def appended(self) -> None:
        self.ends.append((self.partition.log_end_offset, self.partition.producers()))

    @rule(
        producer_id=st.integers(1, 3),
        pairs=st.lists(st.tuples(_keys, _values), min_size=1, max_size=5),
        compression=st.sampled_from([Compression.NONE, Compression.LZ4]),
        later_ms=st.integers(1, 20),
    )
    def write(self, producer_id: int, pairs, compression: Compression, later_ms: int) -> None:
        epoch, sequence = self.next_of(producer_id)
        records = [Record(n, NOW_MS + later_ms + n % 3, *pair) for n, pair in enumerate(pairs)]
        batch = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            compression=compression,
        )
        outcome = self.partition.append(memoryview(batch), [decode_header(batch)], NOW_MS)
        assert outcome.error_code is ErrorCode.NONE
        self.written += [one._replace(offset=outcome.base_offset + n) for n, one in enumerate(records)]
        self.appended()

    @rule(producer_id=st.integers(1, 3))
    def fence(self, producer_id: int) -> None:
        epoch = self.next_of(producer_id)[0] + 1
        marker = encode_abort_marker(producer_id, epoch, epoch, NOW_MS)
        incoming = Incoming(memoryview(marker), [decode_header(marker)], AppendOrigin.COORDINATOR)
        assert self.partition.append_all([incoming], NOW_MS)[0].error_code is ErrorCode.NONE
        self.appended()

    @rule(producer_id=st.integers(1, 3), back=st.integers(1, 8))
    def send_again(self, producer_id: int, back: int) -> None:
        epoch, sequence = self.next_of(producer_id)
        if sequence >= back:
            batch = encode_batch(
                [Record(0, NOW_MS, b"again", b"")],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence - back,
            )
            outcome = self.partition.append(memoryview(batch), [decode_header(batch)], NOW_MS)
            assert isinstance(outcome.verdict, Duplicate)

    @rule()
    def sync(self) -> None:
        self.partition.sync()

    @rule()
    def roll(self) -> None:
        self.partition.roll(NOW_MS)

    @rule(part=st.floats(0, 1))
    def trim(self, part: float) -> None:
        target = int(part * self.partition.high_watermark)
        assert at_once(self.partition.delete_records(target)) is ErrorCode.NONE
        self.start_offset = max(self.start_offset, target)

    @rule(later_ms=st.sampled_from([0, HOUR_MS]))
    def clean(self, later_ms: int) -> None:
        self.now_ms += later_ms
        for begin in self.partition.clean(self.now_ms):
            at_once(begin())

    @rule(parts=st.integers(0, 4), meanwhile=st.sampled_from(["write", "trim", "nothing"]))
    def clean_while_others_come(self, parts: int, meanwhile: str) -> None:
        for n, begin in enumerate(self.partition.clean(self.now_ms)):
            at_once(begin())
            if n == parts and meanwhile == "write":
                self.write(1, [(b"a", b"x" * 50)] * 4, Compression.NONE, 9)
            elif n == parts and meanwhile == "trim":
                self.trim(0.7)

    @rule(steps=st.integers(0, 30), end=st.sampled_from([Killed, PowerCut]))
    def end_inside_a_pass(self, steps: int, end: type[ProcessEnd]) -> None:
        self.mount.end_inside_step(steps, end)
        try:
            for begin in self.partition.clean(self.now_ms):
                at_once(begin())
        except end:
            self.come_back(end)
        else:
            self.mount.end_inside_step(-1)

    @rule(loses_snapshots=st.booleans(), end=st.sampled_from([Killed, PowerCut]))
    def end(self, loses_snapshots: bool, end: type[ProcessEnd]) -> None:
        if loses_snapshots and not self.start_offset:
            for name in self.mount.listdir(Path("/data/t-0")):
                if name.endswith((".producers", ".snapshot")):
                    self.mount.unlink(Path("/data/t-0") / name)
        self.come_back(end)

    def come_back(self, end: type[ProcessEnd]) -> None:
        synced = self.partition.synced_offset
        if end is PowerCut:
            self.disk.power_cut()
        self.open()
        end_offset = self.partition.log_end_offset
        assert end_offset >= (synced if end is PowerCut else self.ends[-1][0])
        while self.ends[-1][0] > end_offset:
            self.ends.pop()
        assert self.ends[-1][0] == end_offset, "not cut between two batches"
        self.written = [one for one in self.written if one.offset < end_offset]

    @rule()
    def stop(self) -> None:
        assert self.storage.close(now_ms=NOW_MS)
        self.open()
        assert self.storage.was_clean

    @invariant()
    def of_each_key_the_newest_is_there_and_none_that_is_older_than_it_came_back(self) -> None:
        partition = self.partition
        assert partition.is_online, partition.offline_reason
        assert partition.log_start_offset == self.start_offset
        assert partition.log_end_offset == self.ends[-1][0]
        all_ = [one for one in self.written if one.offset >= self.start_offset]
        left = records_of(partition)
        assert set(left) <= set(all_)
        expected, found = newest(all_), newest(left)
        assert {key: one for key, one in expected.items() if one.value is not None} == {
            key: one for key, one in found.items() if one.value is not None
        }
        assert all(expected[key] == one for key, one in found.items())

    @invariant()
    def records_are_found_by_their_time(self) -> None:
        partition = self.partition
        left = [one for one in records_of(partition) if one.offset < partition.high_watermark]
        if left:  # a marker is older than all of them
            newest_ms = max(one.timestamp_ms for one in left)
            first = next(one for one in left if one.timestamp_ms == newest_ms)
            found = at_once(partition.newest_record())
            assert found is not None
            assert found[:2] == (first.offset, newest_ms)
            found = partition.offset_for_timestamp(newest_ms)
            assert found is not None
            assert found[:2] == (first.offset, newest_ms)

    @invariant()
    def the_producers_stand_where_they_should(self) -> None:
        assert self.partition.producers() == self.ends[-1][1]


TestAnyCompactedHistory = pytest.mark.slow(AnyCompactedHistory.TestCase)
TestAnyCompactedHistory.settings = settings(
    max_examples=settings().max_examples * 3 // 10, stateful_step_count=40
)
