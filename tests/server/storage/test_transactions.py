"""Transactions on a partition: what may be written, up to where readers read, and what was aborted, over any crash."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.core.log.admission import AppendOrigin
from semel.core.log.config import LogConfig
from semel.core.log.transactions import ABORTED_ENTRY
from semel.core.log.watermarks import FetchIsolation
from semel.core.producer_state.entry import NO_TRANSACTION
from semel.core.producer_state.state import OpenTransaction
from semel.core.producer_state.table import TABLE, Batch, Marker, Row, Sent
from semel.core.producer_state.verdict import Append, Duplicate, InvalidProducerEpoch, InvalidTxnState
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch, scan_batches
from semel.record.control import encode_abort_marker, encode_commit_marker
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import AppendOutcome, Incoming, Slice
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
COMMITTED = FetchIsolation.TXN_COMMITTED


def append(partition: Partition, batch: bytearray, origin: AppendOrigin) -> AppendOutcome:
    return partition.append_all([Incoming(memoryview(batch), [decode_header(batch)], origin)], NOW_MS)[0]


def data(
    partition: Partition,
    producer_id: int,
    base_sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    transactional: bool = True,
    origin: AppendOrigin = AppendOrigin.TRANSACTION,
) -> AppendOutcome:
    batch = encode_batch(
        [Record(n, NOW_MS, b"k", b"v") for n in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    return append(partition, batch, origin)


def marker(partition: Partition, producer_id: int, epoch: int = 0, *, commit: bool = False) -> AppendOutcome:
    encode = encode_commit_marker if commit else encode_abort_marker
    return append(partition, encode(producer_id, epoch, 3, NOW_MS), AppendOrigin.COORDINATOR)


@pytest.fixture
def partition(open_storage) -> Partition:
    storage = open_storage(segment_bytes=2_000)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    found = storage.partition("t", 0)
    assert found is not None
    return found


def send(partition: Partition, sent: Sent) -> AppendOutcome:
    if isinstance(sent, Marker):
        return marker(partition, 7, sent.producer_epoch)
    assert isinstance(sent, Batch)
    return data(
        partition,
        7,
        sent.base_sequence,
        sent.record_count,
        epoch=sent.producer_epoch,
        transactional=sent.is_transactional,
    )


@pytest.mark.parametrize("row", [row for row in TABLE if row.needs_coordinator], ids=lambda row: row.scenario)
def test_the_table_is_what_a_partition_says(row: Row, partition: Partition) -> None:
    for sent in row.before:
        assert send(partition, sent).error_code is ErrorCode.NONE
    outcome = send(partition, row.sent)
    assert type(outcome.verdict) is row.outcome.verdict
    assert outcome.error_code is row.outcome.code
    if row.base_offset is not None:
        assert outcome.base_offset == row.base_offset


def test_readers_of_what_is_committed_stop_at_the_first_open_transaction(partition: Partition) -> None:
    data(partition, 1, 0, 3)
    data(partition, 2, 0, 2)
    data(partition, 1, 3, 1)
    assert (partition.high_watermark, partition.last_stable_offset) == (0, 0)
    partition.sync()
    assert (partition.high_watermark, partition.last_stable_offset) == (6, 0)
    assert partition.open_transactions() == [OpenTransaction(1, 0, 0), OpenTransaction(2, 0, 3)]
    marker(partition, 1, commit=True)
    assert partition.last_stable_offset == 0, "a power cut could take the marker"
    partition.sync()
    assert (partition.high_watermark, partition.last_stable_offset) == (7, 3)
    piece = partition.read(0, 10**6, COMMITTED)
    assert isinstance(piece, Slice)
    assert [header.base_offset for _, header in scan_batches(piece.read())] == [0]
    marker(partition, 2)
    partition.sync()
    assert (partition.last_stable_offset, partition.open_transactions()) == (8, [])
    for from_offset, expected in ((0, [(2, 3)]), (7, [(2, 3)]), (8, [])):
        piece = partition.read(from_offset, 10**6, COMMITTED)
        assert isinstance(piece, Slice)
        assert partition.aborted_in(from_offset, piece) == expected
    first = partition.read(0, 1, COMMITTED)
    assert isinstance(first, Slice)
    assert partition.aborted_in(0, first) == [], "it begins behind what was fetched"


def test_a_fence_without_a_transaction_holds_nobody_back_and_aborts_nothing(partition: Partition) -> None:
    data(partition, 1, 0, transactional=False)
    assert isinstance(marker(partition, 1, 5).verdict, Append)
    assert isinstance(marker(partition, 1, 5).verdict, Duplicate)
    assert isinstance(marker(partition, 1, 4).verdict, InvalidProducerEpoch)
    partition.sync()
    assert partition.last_stable_offset == partition.high_watermark == 2
    piece = partition.read(0, 10**6, COMMITTED)
    assert isinstance(piece, Slice)
    assert partition.aborted_in(0, piece) == []


def test_the_servers_own_batch_in_a_transaction_has_no_sequence(partition: Partition) -> None:
    """As Kafka writes TxnOffsetCommit."""
    for _ in range(2):
        assert data(partition, 1, -1, epoch=4, origin=AppendOrigin.COORDINATOR).error_code is ErrorCode.NONE
    ((_, entry),) = partition.producers()
    assert (entry.producer_epoch, entry.window, entry.current_txn_first_offset) == (4, (), 0)
    older = data(partition, 1, -1, epoch=3, origin=AppendOrigin.COORDINATOR)
    assert older.verdict == InvalidProducerEpoch(4, 3)
    outside = data(partition, 1, 0, epoch=4, transactional=False)
    assert outside.verdict == InvalidTxnState(0)
    assert data(partition, 1, 0, epoch=4).error_code is ErrorCode.NONE, "the first sequence is still to come"
    marker(partition, 1, 4, commit=True)
    partition.sync()
    assert partition.last_stable_offset == 4


def test_a_write_that_fails_begins_and_ends_nothing(partition: Partition, monkeypatch) -> None:
    data(partition, 1, 0)
    before = partition.producers()
    log = partition._log
    segment = log.segments.all[-1]

    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(type(segment), "write", full)
        assert marker(partition, 1).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert data(partition, 2, 0).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.producers() == before
    assert partition.open_transactions() == [OpenTransaction(1, 0, 0)]
    partition.sync()
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)


def test_nobody_in_a_transaction_is_forgotten(partition: Partition) -> None:
    data(partition, 1, 0)
    data(partition, 2, 0, transactional=False)
    assert sum(partition.expire_producers(NOW_MS + 1)) == 1
    assert [producer_id for producer_id, _ in partition.producers()] == [1]
    marker(partition, 1)
    assert sum(partition.expire_producers(NOW_MS + 1)) == 1


def test_a_transaction_that_began_before_the_logs_start_holds_nobody_back_behind_it(
    partition: Partition,
) -> None:
    data(partition, 1, 0, 3)
    data(partition, 2, 0, 3, transactional=False)
    partition.sync()
    assert at_once(partition.delete_records(4)) is ErrorCode.NONE
    assert partition.last_stable_offset == 4
    marker(partition, 1)
    partition.sync()
    assert partition.last_stable_offset == partition.high_watermark == 7


class Txn(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    aborted: bool


class Story(NamedTuple):
    """What a log holds up to an end: the naive model, kept for each batch."""

    end_offset: int
    sequences: dict[int, tuple[int, int]]  # epoch and next sequence
    open: dict[int, int]
    ended: tuple[Txn, ...]


class AnyTransactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="semel-test-"))
        self.starts = 0
        self.stories = [Story(0, {}, {}, ())]
        self.folder = self.root / "0"
        self.settings = StorageSettings(default_config=LogConfig(segment_bytes=700, index_interval_bytes=150))
        self.storage = Storage.open(self.folder, None, self.settings, now_ms=NOW_MS)
        self.storage.note_recovered()  # a coordinator looks first what it has lost
        at_once(self.storage.create_topic("t", now_ms=NOW_MS))
        self.stable_to = 0

    @property
    def partition(self) -> Partition:
        found = self.storage.partition("t", 0)
        assert found is not None
        return found

    @property
    def story(self) -> Story:
        return self.stories[-1]

    @rule(producer_id=st.integers(1, 4), count=st.integers(1, 3), transactional=st.booleans())
    def write(self, producer_id: int, count: int, transactional: bool) -> None:
        epoch, sequence = self.story.sequences.get(producer_id, (0, 0))
        outcome = data(self.partition, producer_id, sequence, count, epoch=epoch, transactional=transactional)
        end, opened = self.story.end_offset, dict(self.story.open)
        if not transactional and producer_id in opened:
            assert outcome.verdict == InvalidTxnState(opened[producer_id])
            return
        assert outcome.error_code is ErrorCode.NONE
        if transactional:
            opened.setdefault(producer_id, end)
        sequences = {**self.story.sequences, producer_id: (epoch, sequence + count)}
        self.stories.append(Story(end + count, sequences, opened, self.story.ended))

    @rule(producer_id=st.integers(1, 4))
    def write_without_a_sequence(self, producer_id: int) -> None:
        epoch, sequence = self.story.sequences.get(producer_id, (0, 0))
        outcome = data(self.partition, producer_id, -1, epoch=epoch, origin=AppendOrigin.COORDINATOR)
        assert outcome.error_code is ErrorCode.NONE
        end = self.story.end_offset
        self.stories.append(
            Story(
                end + 1,
                {**self.story.sequences, producer_id: (epoch, sequence)},
                {producer_id: end, **self.story.open},
                self.story.ended,
            )
        )

    @rule(producer_id=st.integers(1, 4), commit=st.booleans(), higher=st.integers(0, 1))
    def end(self, producer_id: int, commit: bool, higher: int) -> None:
        known = self.story.sequences.get(producer_id)
        epoch, sequence = known or (0, 0)
        outcome = marker(self.partition, producer_id, epoch + higher, commit=commit)
        end, opened = self.story.end_offset, dict(self.story.open)
        first_offset = opened.pop(producer_id, None)
        if known is not None and first_offset is None and not higher:
            assert isinstance(outcome.verdict, Duplicate)
            return
        assert isinstance(outcome.verdict, Append)
        ended = self.story.ended
        if first_offset is not None:
            ended = (*ended, Txn(producer_id, first_offset, end, not commit))
        sequences = {**self.story.sequences, producer_id: (epoch + higher, 0 if higher else sequence)}
        self.stories.append(Story(end + 1, sequences, opened, ended))

    @rule()
    def sync(self) -> None:
        self.partition.sync()

    @rule()
    def roll(self) -> None:
        self.partition.roll(NOW_MS)

    @rule()
    def stop(self) -> None:
        before = self.files()
        assert self.storage.close(now_ms=NOW_MS)
        self.storage = Storage.open(self.folder, None, self.settings, now_ms=NOW_MS)
        self.storage.note_recovered()  # a coordinator looks first what it has lost
        assert self.storage.was_clean
        assert set(before.items()) <= set(self.files().items()), "what was full has changed"

    @rule(damage=st.sampled_from([None, "lost", "torn", "other"]))
    def kill(self, damage: str | None) -> None:
        """And the index of the last segment, or a damaged one, is made anew."""

        def harm(folder: Path) -> None:
            for index in sorted((folder / "t-0").glob("*.txnindex")):
                if damage == "torn":
                    index.write_bytes(index.read_bytes()[:-1])
                elif damage == "other":
                    index.write_bytes(b"\1" + index.read_bytes()[1:])
                elif damage == "lost":
                    index.unlink()
                    index.with_suffix(".index").unlink()  # else the segment is believed, as it is by Kafka

        self.open_copy(harm)
        assert self.partition.log_end_offset == self.story.end_offset

    @precondition(lambda self: self.partition.needs_sync)
    @rule(part=st.floats(0, 1))
    def lose_a_part_of_what_was_not_synced(self, part: float) -> None:
        synced = self.partition.synced_offset
        base = self.partition.segment_base_offsets[-1]

        def harm(folder: Path) -> None:
            log = folder / "t-0" / f"{base:020d}.log"
            content = log.read_bytes()
            safe = sum(len(batch) for batch, header in scan_batches(content) if header.last_offset < synced)
            log.write_bytes(content[: safe + int(part * (len(content) - safe))])

        self.open_copy(harm)
        end = self.partition.log_end_offset
        assert synced <= end
        while self.story.end_offset > end:
            self.stories.pop()
        assert self.story.end_offset == end

    def open_copy(self, harm: Callable[[Path], None]) -> None:
        self.starts += 1
        folder = self.root / str(self.starts)
        shutil.copytree(self.folder, folder)
        harm(folder)
        shutil.rmtree(self.folder)
        self.folder = folder
        self.storage = Storage.open(folder, None, self.settings, now_ms=NOW_MS)

    def files(self) -> dict[str, bytes]:
        """The indexes of full segments."""
        last = self.partition.segment_base_offsets[-1]
        found = (self.folder / "t-0").glob("*.txnindex")
        return {one.name: one.read_bytes() for one in found if int(one.stem) < last}

    @invariant()
    def what_is_open_is_known(self) -> None:
        expected = [
            OpenTransaction(producer_id, self.story.sequences[producer_id][0], first_offset)
            for producer_id, first_offset in sorted(self.story.open.items(), key=lambda item: item[1])
        ]
        assert self.partition.open_transactions() == expected
        for producer_id, entry in self.partition.producers():
            assert entry.producer_epoch == self.story.sequences[producer_id][0]
            assert entry.last_sequence + 1 == self.story.sequences[producer_id][1]
            first_offset = self.story.open.get(producer_id, NO_TRANSACTION)
            assert entry.current_txn_first_offset == first_offset

    @invariant()
    def readers_stop_where_they_should(self) -> None:
        partition = self.partition
        mark = partition.high_watermark
        unseen = [one.first_offset for one in self.story.ended if one.marker_offset >= mark]
        expected = min([mark, *self.story.open.values(), *unseen])
        assert partition.last_stable_offset == expected >= self.stable_to
        self.stable_to = expected

    @invariant()
    def what_was_aborted_is_told(self) -> None:
        partition = self.partition
        for from_offset in range(0, partition.last_stable_offset, 3):
            for bytes_max in (1, 400):
                piece = partition.read(from_offset, bytes_max, COMMITTED)
                assert isinstance(piece, Slice)
                end = max(header.last_offset for _, header in scan_batches(piece.read())) + 1
                assert partition.aborted_in(from_offset, piece) == [
                    (one.producer_id, one.first_offset)
                    for one in self.story.ended
                    if one.aborted and one.marker_offset >= from_offset and one.first_offset < end
                ]

    @invariant()
    def the_files_hold_each_abort_once(self) -> None:
        bases = self.partition.segment_base_offsets
        for name, content in self.files().items():
            end = min(base for base in bases if base > int(Path(name).stem))
            assert [
                (producer_id, first, last)
                for _, producer_id, first, last, _ in ABORTED_ENTRY.iter_unpack(content)
            ] == [
                one[:3]
                for one in self.story.ended
                if one.aborted and int(Path(name).stem) <= one.marker_offset < end
            ]

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestAnyTransactions = pytest.mark.slow(AnyTransactions.TestCase)
TestAnyTransactions.settings = settings(
    max_examples=settings().max_examples * 3 // 10, stateful_step_count=25
)
