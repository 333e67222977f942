"""Frames patched many at a time are those that a careful writer would build one by one."""

from __future__ import annotations

import struct

import pytest
from bench.load import ONE_RECORD
from bench.load.frames import (
    CROWD_IDS_FROM,
    NOBODY,
    CrowdRing,
    FrameRing,
    NobodysRing,
    batch_of,
    fetch_reply_head,
    fetch_request,
    init_producer_id_request,
    produce_reply,
)
from hypothesis import given
from hypothesis import strategies as st

from semel.record.batch import decode_records, validate_batch
from semel.sequence import SEQUENCE_MODULUS
from semel.types import ProducerGrant
from semel.wire import fetch, produce
from semel.wire.api import ApiKey
from semel.wire.frames import decode_request_header

GRANT = ProducerGrant(4711, 3)


def frames_of(ring: FrameRing) -> list[memoryview]:
    """The frames in the ring, each without its length prefix, which has to be right."""
    frames, position = [], 0
    while position < len(ring.view):
        (size,) = struct.unpack_from(">i", ring.view, position)
        frames.append(ring.view[position + 4 : position + 4 + size])
        position += 4 + size
    assert position == len(ring.view)
    return frames


@pytest.mark.parametrize("batch_bytes", [ONE_RECORD, 64 * 1024, 1_000_000])
def test_a_batch_is_about_as_large_as_asked_for(batch_bytes: int) -> None:
    batch = batch_of(batch_bytes, GRANT)
    records = decode_records(batch.encoded)
    assert len(records) == batch.records
    assert all(len(each.key or b"") == 8 and len(each.value or b"") == 100 for each in records)
    assert batch_bytes == ONE_RECORD or 0.9 * batch_bytes < len(batch.encoded) <= batch_bytes + 1024


@given(first_request=st.integers(0, 2**33), batch_bytes=st.sampled_from([ONE_RECORD, 8192]))
def test_every_frame_of_a_lap_is_a_valid_request_with_the_next_sequence(
    first_request: int, batch_bytes: int
) -> None:
    batch = batch_of(batch_bytes, GRANT)
    ring = FrameRing("orders", 2, batch, in_flight=5)
    ring.refill(first_request)
    frames = frames_of(ring)
    assert len(frames) == ring.slots
    for number in (0, 1, len(frames) // 2, len(frames) - 1):
        request = first_request + number
        header, body_at = decode_request_header(frames[number])
        assert (header.api_key, header.correlation_id) == (ApiKey.PRODUCE, request & 0x7FFFFFFF)
        sent = produce.decode_request(header.api_version, frames[number][body_at:])
        assert sent.acks == -1
        (partition,) = sent.partitions
        assert (partition.topic, partition.partition) == ("orders", 2)
        assert partition.records is not None
        written = validate_batch(partition.records)  # the checksum, too
        assert (written.producer_id, written.producer_epoch) == (GRANT.producer_id, GRANT.producer_epoch)
        assert written.base_sequence == request * batch.records % SEQUENCE_MODULUS


def test_without_a_producer_id_there_is_no_sequence_either() -> None:
    ring = NobodysRing("orders", 2, batch_of(ONE_RECORD, NOBODY), in_flight=5)
    ring.refill(4711)
    for number, frame in enumerate(frames_of(ring)):
        header, body_at = decode_request_header(frame)
        assert header.correlation_id == 4711 + number
        (partition,) = produce.decode_request(header.api_version, frame[body_at:]).partitions
        assert partition.records is not None
        written = validate_batch(partition.records)
        assert (written.producer_id, written.producer_epoch, written.base_sequence) == (-1, -1, -1)


def test_a_crowd_takes_turns_on_all_partitions() -> None:
    batch, pairs = batch_of(ONE_RECORD, ProducerGrant(CROWD_IDS_FROM, 0)), range(1, 1500, 2)
    ring = CrowdRing("orders", 10, batch, pairs, turns_before=3)
    seen: dict[tuple[int, int], list[int]] = {}
    for first_request in (0, ring.slots):
        ring.refill(first_request)
        for frame in frames_of(ring):
            header, body_at = decode_request_header(frame)
            (partition,) = produce.decode_request(header.api_version, frame[body_at:]).partitions
            assert partition.records is not None
            written = validate_batch(partition.records)  # the checksum, too
            producer = written.producer_id - CROWD_IDS_FROM
            seen.setdefault((producer, partition.partition), []).append(written.base_sequence)
    assert sorted(seen) == sorted(divmod(pair, 10) for pair in pairs)
    assert all(sequences == list(range(3, 3 + len(sequences))) for sequences in seen.values())
    assert {len(sequences) for sequences in seen.values()} == {2, 3}


def test_a_produce_reply_is_a_good_one_with_its_error_code_where_it_is_said_to_be() -> None:
    reply, error_at = produce_reply("orders")
    (size,) = struct.unpack_from(">i", reply)
    assert size == len(reply) - 4
    (produced,), _ = produce.decode_response(7, reply[8:])
    assert (produced.topic, produced.error_code) == ("orders", 0)
    broken = bytearray(reply)
    struct.pack_into(">h", broken, error_at, 45)
    (produced,), _ = produce.decode_response(7, broken[8:])
    assert produced.error_code == 45


def test_a_fetch_request_asks_for_the_offset_written_into_it() -> None:
    request, offset_at = fetch_request("orders", 2, 65_536)
    struct.pack_into(">q", request, offset_at, 1234)
    header, body_at = decode_request_header(request[4:])
    asked = fetch.decode_request(header.api_version, request[4 + body_at :])
    (partition,) = asked.partitions
    assert (partition.topic, partition.partition) == ("orders", 2)
    assert (partition.fetch_offset, partition.partition_max_bytes) == (1234, 65_536)
    assert asked.max_wait_ms == 0


def test_a_fetch_reply_is_a_good_one() -> None:
    records = batch_of(8192, GRANT).encoded
    reply = fetch_reply_head("orders", 99, len(records)) + records
    (size,) = struct.unpack_from(">i", reply)
    assert size == len(reply) - 4
    (fetched,) = fetch.decode_response(4, reply[8:]).partitions
    assert (fetched.error_code, fetched.high_watermark, bytes(fetched.records or b"")) == (0, 99, records)


def test_the_request_for_a_producer_id_is_a_whole_frame() -> None:
    request = init_producer_id_request()
    assert struct.unpack_from(">i", request)[0] == len(request) - 4
    header, _ = decode_request_header(request[4:])
    assert header.api_key == ApiKey.INIT_PRODUCER_ID
