from __future__ import annotations

import pytest

from semel.core.producer_state.verdict import Duplicate, OutOfOrderSequence
from semel.errors import ErrorCode
from semel.record.batch import (
    Record,
    assemble_batch,
    decode_header,
    decode_records,
    encode_batch,
    scan_batches,
)
from semel.record.control import encode_abort_marker
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming, OffsetOutOfRange, Slice
from semel.server.storage.partition import Partition

NOW_MS = 1_000_000


@pytest.fixture
def partition(open_storage) -> Partition:
    storage = open_storage(segment_bytes=2000, index_interval_bytes=200, retention_ms=-1)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    return storage.partition("t", 0)


def offsets(partition: Partition, from_offset: int, max_bytes: int = 1 << 30) -> list[int]:
    piece = partition.read(from_offset, max_bytes)
    assert isinstance(piece, Slice)
    return [record.offset for batch, _ in scan_batches(piece.read()) for record in decode_records(batch)]


def test_readers_see_only_what_is_synced(partition, make_batch) -> None:
    outcome = partition.append(*make_batch(0, 3), NOW_MS)
    assert (outcome.error_code, outcome.base_offset, outcome.sync_offset) == (ErrorCode.NONE, 0, 3)
    assert (partition.high_watermark, partition.log_end_offset) == (0, 3)
    assert offsets(partition, 0) == []
    assert partition.needs_sync
    partition.sync()
    assert partition.high_watermark == 3
    assert not partition.needs_sync
    assert offsets(partition, 0) == [0, 1, 2]


def test_in_page_cache_mode_readers_see_all(open_storage, make_batch) -> None:
    storage = open_storage(durable=False)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 3), NOW_MS)
    assert offsets(partition, 0) == [0, 1, 2]


def test_a_duplicate_is_answered_with_its_offset_and_not_stored(partition, make_batch) -> None:
    for n in range(7):
        partition.append(*make_batch(n), NOW_MS)
    again = partition.append(*make_batch(5), NOW_MS)
    assert (again.error_code, again.base_offset, again.verdict) == (ErrorCode.NONE, 5, Duplicate(5))
    assert again.sync_offset == 7, "it is no more durable than the first copy"
    older = partition.append(*make_batch(0), NOW_MS)
    assert (older.error_code, older.base_offset) == (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)
    assert partition.log_end_offset == 7


def test_one_refused_batch_refuses_its_request(partition, make_batch) -> None:
    first, first_headers = make_batch(0)
    gap, gap_headers = make_batch(5)
    both = memoryview(bytearray(first) + bytearray(gap))
    outcome = partition.append(both, [*first_headers, *gap_headers], NOW_MS)
    assert outcome.verdict == OutOfOrderSequence(1, 5)
    assert partition.log_end_offset == 0
    assert partition.producers() == []
    assert partition.append(*make_batch(0), NOW_MS).base_offset == 0


def test_several_requests_are_judged_in_order(partition, make_batch) -> None:
    requests = [Incoming(*make_batch(n)) for n in (0, 1, 1, 3, 2)]
    outcomes = partition.append_all(requests, NOW_MS)
    assert [outcome.error_code for outcome in outcomes] == [0, 0, 0, 45, 0]
    assert [outcome.base_offset for outcome in outcomes] == [0, 1, 1, -1, 2]
    partition.sync()
    assert offsets(partition, 0) == [0, 1, 2]


def test_reads_end_with_a_whole_batch(partition, make_batch) -> None:
    for _ in range(20):
        partition.append(*make_batch(count=2), NOW_MS)
    partition.sync()
    size = make_batch(count=2)[1][0].size_bytes
    assert offsets(partition, 4, 2 * size) == [4, 5, 6, 7]
    assert offsets(partition, 4, 3 * size - 1) == [4, 5, 6, 7]
    assert offsets(partition, 5, 1) == [4, 5], "at least one, from the batch that holds the offset"
    small = partition.read(4, size - 1, at_least_one=False)
    assert isinstance(small, Slice)
    assert small.length == 0
    assert offsets(partition, 40) == []
    assert partition.read(41, 100) == OffsetOutOfRange(41, 0, 40)


def test_every_offset_is_found_over_all_segments(partition, make_batch) -> None:
    for n in range(150):
        partition.append(*make_batch(count=1 + n % 4, value_bytes=1 + n % 30), NOW_MS)
    partition.sync()
    assert len(partition.segment_base_offsets) > 3
    for offset in range(partition.log_end_offset):
        assert offset in offsets(partition, offset, 1)


def test_a_reader_stops_at_the_watermark_within_a_segment(partition, make_batch) -> None:
    partition.append(*make_batch(), NOW_MS)
    partition.sync()
    partition.append(*make_batch(), NOW_MS)
    assert offsets(partition, 0) == [0]
    assert offsets(partition, 1) == []


def test_the_first_record_at_or_after_a_time(partition, make_batch) -> None:
    for n in range(60):
        partition.append(*make_batch(count=2, timestamp_ms=1000 + 10 * n), NOW_MS)
    partition.sync()
    for n in range(60):
        found = partition.offset_for_timestamp(1000 + 10 * n)
        assert (found.offset, found.timestamp_ms) == (2 * n, 1000 + 10 * n)
    assert partition.offset_for_timestamp(1001).offset == 1
    assert partition.offset_for_timestamp(0).offset == 0
    assert partition.offset_for_timestamp(5000) is None


def test_the_log_can_stamp_its_own_time(open_storage, make_batch) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", settings={"message.timestamp.type": "LogAppendTime"}, now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    outcome = partition.append(*make_batch(timestamp_ms=5), NOW_MS)
    assert outcome.log_append_time_ms == NOW_MS
    partition.sync()
    assert partition.offset_for_timestamp(NOW_MS).offset == 0


def test_too_large_a_batch_is_refused(open_storage, make_batch) -> None:
    storage = open_storage(max_message_bytes=200)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    outcome = storage.partition("t", 0).append(*make_batch(value_bytes=300), NOW_MS)
    assert outcome.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in outcome.error_message


def test_a_marker_fences_older_epochs(partition, make_batch, fence) -> None:
    partition.append(*make_batch(0, producer_id=7, epoch=0), NOW_MS)
    assert fence(partition, 7, 2, 3).error_code is ErrorCode.NONE
    assert fence(partition, 7, 2, 3).sync_offset == 2, "done already, and as durable as the first"
    assert fence(partition, 7, 1, 3).error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    stale = partition.append(*make_batch(1, producer_id=7, epoch=0), NOW_MS)
    assert stale.error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.append(*make_batch(0, producer_id=7, epoch=2), NOW_MS).base_offset == 2
    ((producer_id, entry),) = partition.producers()
    assert (producer_id, entry.producer_epoch, entry.coordinator_epoch) == (7, 2, 3)


def test_clients_cannot_write_markers(partition) -> None:
    marker = encode_abort_marker(7, 2, 3, NOW_MS)
    outcome = partition.append(memoryview(marker), [decode_header(marker)], NOW_MS)
    assert outcome.error_code is ErrorCode.INVALID_RECORD


def test_trimming_moves_the_start_and_frees_segments(partition, make_batch) -> None:
    for _ in range(100):
        partition.append(*make_batch(), NOW_MS)
    partition.sync()
    before = partition.segment_base_offsets
    assert at_once(partition.delete_records(before[2] + 1)) is ErrorCode.NONE
    assert partition.log_start_offset == before[2] + 1
    assert partition.segment_base_offsets == before[2:]
    assert isinstance(partition.read(before[2], 100), OffsetOutOfRange)
    assert at_once(partition.delete_records(101)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert at_once(partition.delete_records(-1)) is ErrorCode.NONE
    assert partition.log_start_offset == 100


def test_a_reader_keeps_what_retention_removes(open_storage, make_batch) -> None:
    storage = open_storage(segment_bytes=1024, retention_ms=100)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for _ in range(30):
        partition.append(*make_batch(), NOW_MS)
    partition.sync()
    piece = partition.read(0, 1 << 20)
    content = piece.read()
    assert at_once(partition.apply_retention(NOW_MS + 200)) > 1
    assert partition.log_start_offset == 30, "also the segment that was being written"
    assert piece.read() == content


def test_after_retention_the_producers_are_still_known(open_storage, make_batch) -> None:
    storage = open_storage(segment_bytes=1024, retention_ms=100)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for n in range(30):
        partition.append(*make_batch(n), NOW_MS)
    partition.sync()
    at_once(partition.apply_retention(NOW_MS + 200))
    assert partition.append(*make_batch(29), NOW_MS).verdict == Duplicate(29)


def test_a_search_by_time_goes_on_behind_a_batch_that_was_trimmed_in_its_middle(partition) -> None:
    newest_first = [Record(0, 5000, None, b"a"), Record(1, 10, None, b"b"), Record(2, 20, None, b"c")]
    for records in (newest_first, [Record(0, 6000, None, b"d")]):
        batch = encode_batch(records)
        partition.append(memoryview(batch), [decode_header(batch)], NOW_MS)
    partition.sync()
    assert partition.offset_for_timestamp(4000).offset == 0
    at_once(partition.delete_records(1))
    assert partition.offset_for_timestamp(4000)[:2] == (3, 6000)


def test_a_search_by_time_survives_records_that_nobody_can_read(partition, make_batch) -> None:
    """The CRC is right, the records are rubbish: the producer's doing, and no reader may suffer for it."""
    partition.append(*make_batch(timestamp_ms=1000), NOW_MS)
    rubbish = assemble_batch(
        b"\xff" * 40, record_count=2, last_offset_delta=1, base_timestamp=2000, max_timestamp=2000
    )
    partition.append(memoryview(rubbish), [decode_header(rubbish)], NOW_MS)
    partition.sync()
    assert partition.offset_for_timestamp(1500)[:2] == (1, 2000)
