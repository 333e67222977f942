"""Any history of appends, syncs, rolls, trims, stops and crashes, against a list of what was stored."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.core.log.config import LogConfig
from semel.core.log.watermarks import FetchIsolation
from semel.core.producer_state.verdict import Duplicate, OutOfOrderSequence
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, decode_records, encode_batch, scan_batches
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
SETTINGS = StorageSettings(default_config=LogConfig(segment_bytes=1024, index_interval_bytes=150))


class AnyHistory(RuleBasedStateMachine):
    """``stored[i]`` is the value of offset i; of producer p all below ``sequences[p]`` is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="semel-test-"))
        self.starts = 0
        self.stored: list[bytes] = []
        self.ends: list[tuple[int, dict[int, int]]] = [(0, {})]  # after each append: end, sequences
        self.start_offset = 0
        self.folder = self.root / "0"
        self.storage = Storage.open(self.folder, None, SETTINGS, now_ms=NOW_MS)
        at_once(self.storage.create_topic("t", now_ms=NOW_MS))

    @property
    def partition(self):
        return self.storage.partition("t", 0)

    @property
    def sequences(self) -> dict[int, int]:
        return self.ends[-1][1]

    def send(self, producer_id: int, base_sequence: int, count: int):
        values = [b"%d/%d" % (producer_id, base_sequence + n) for n in range(count)]
        records = [Record(n, NOW_MS, None, value) for n, value in enumerate(values)]
        batch = encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence)
        outcome = self.partition.append(memoryview(batch), [decode_header(batch)], NOW_MS)
        return outcome, values

    @rule(producer_id=st.integers(1, 3), count=st.integers(1, 6))
    def append(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        outcome, values = self.send(producer_id, sequence, count)
        assert (outcome.error_code, outcome.base_offset) == (ErrorCode.NONE, len(self.stored))
        self.stored += values
        self.ends.append((len(self.stored), {**self.sequences, producer_id: sequence + count}))

    @rule(producer_id=st.integers(1, 3), back=st.integers(1, 9))
    def send_again(self, producer_id: int, back: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        if sequence:
            outcome, _ = self.send(producer_id, max(0, sequence - back), 1)
            assert isinstance(outcome.verdict, Duplicate)

    @rule(producer_id=st.integers(1, 3))
    def leave_a_gap(self, producer_id: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        if sequence:
            outcome, _ = self.send(producer_id, sequence + 1, 1)
            assert outcome.verdict == OutOfOrderSequence(sequence, sequence + 1)

    @rule()
    def sync(self) -> None:
        self.partition.sync()
        assert self.partition.high_watermark == len(self.stored)

    @rule()
    def roll(self) -> None:
        self.partition.roll(NOW_MS)

    @rule(part=st.floats(0, 1))
    def trim(self, part: float) -> None:
        target = int(part * self.partition.high_watermark)
        assert at_once(self.partition.delete_records(target)) is ErrorCode.NONE
        self.start_offset = max(self.start_offset, target)

    @rule()
    def stop(self) -> None:
        assert self.storage.close(now_ms=NOW_MS)
        self.storage = Storage.open(self.folder, None, SETTINGS, now_ms=NOW_MS)
        assert self.storage.was_clean

    @rule()
    def kill(self) -> None:
        self._open_copy()
        assert self.partition.log_end_offset == len(self.stored)

    @precondition(lambda self: self.partition.needs_sync)
    @rule(part=st.floats(0, 1), zeroed=st.booleans())
    def lose_a_part_of_what_was_not_synced(self, part: float, zeroed: bool) -> None:
        synced = self.partition.synced_offset
        self._open_copy(lost_part=part, zeroed=zeroed)
        end = self.partition.log_end_offset
        assert synced <= end <= len(self.stored)
        while self.ends[-1][0] > end:
            self.ends.pop()
        assert self.ends[-1][0] == end, "not cut between two batches"
        del self.stored[end:]

    def _open_copy(self, *, lost_part: float | None = None, zeroed: bool = False) -> None:
        self.starts += 1
        folder = self.root / str(self.starts)
        shutil.copytree(self.folder, folder)
        if lost_part is not None:
            base = self.partition.segment_base_offsets[-1]
            log = folder / "t-0" / f"{base:020d}.log"
            content = log.read_bytes()
            synced = self.partition.synced_offset
            safe = 0
            for batch, header in scan_batches(content):
                if header.last_offset < synced:
                    safe += len(batch)
            keep = safe + int(lost_part * (len(content) - safe))
            log.write_bytes(content[:keep] + bytes(len(content) - keep if zeroed else 0))
        shutil.rmtree(self.folder)
        self.folder = folder
        self.storage = Storage.open(folder, None, SETTINGS, now_ms=NOW_MS)

    @invariant()
    def the_log_holds_exactly_what_was_stored(self) -> None:
        partition = self.partition
        assert partition.log_start_offset == self.start_offset
        assert partition.log_end_offset == len(self.stored)
        offset, found = self.start_offset, []
        while offset < partition.log_end_offset:
            piece = partition.read(offset, 300, FetchIsolation.LOG_END)
            assert isinstance(piece, Slice)
            for batch, header in scan_batches(piece.read()):
                found += [record.value for record in decode_records(batch) if record.offset >= offset]
                offset = header.last_offset + 1
        assert found == self.stored[self.start_offset :]

    @invariant()
    def the_producers_stand_where_they_should(self) -> None:
        known = {producer_id: entry.last_sequence + 1 for producer_id, entry in self.partition.producers()}
        assert known == self.sequences

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestAnyHistory = pytest.mark.slow(AnyHistory.TestCase)
TestAnyHistory.settings = settings(max_examples=settings().max_examples * 3 // 10, stateful_step_count=25)
