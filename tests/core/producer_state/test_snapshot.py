from __future__ import annotations

import struct
from itertools import cycle

import crc32c
from hypothesis import given
from hypothesis import strategies as st

from semel.core.producer_state.entry import NO_TRANSACTION, BatchSpan, ProducerEntry
from semel.core.producer_state.kafka_snapshot import decode_kafka_snapshot, encode_kafka_snapshot
from semel.core.producer_state.row import ROW_BYTES, encode_row
from semel.core.producer_state.snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot, rows_of
from semel.core.producer_state.state import ProducerState
from semel.record.batch import BatchHeader
from semel.sequence import SEQUENCE_MAX, advance

offsets = st.integers(0, 2**62)
spans = st.builds(
    lambda base, count, offset: BatchSpan(base, advance(base, count - 1), offset, offset + count - 1),
    st.integers(0, SEQUENCE_MAX),
    st.integers(1, 2**20),
    offsets,
)
entries = st.builds(
    ProducerEntry,
    st.integers(0, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**62),
    st.lists(spans, max_size=5).map(tuple),
    st.just(NO_TRANSACTION) | offsets,
)
states = st.builds(
    lambda known, end: ProducerState(known, end_offset=end),
    st.dictionaries(st.integers(0, 2**62), entries, max_size=8),
    offsets,
)


def encoded(state: ProducerState) -> bytes:
    return bytes(encode_snapshot(state.freeze()))


def encoded_for_kafka(state: ProducerState) -> bytes:
    return bytes(encode_kafka_snapshot(rows_of(encode_snapshot(state.freeze()))))


@st.composite
def many(draw: st.DrawFn) -> ProducerState:
    """So many that numpy is used: a few different entries, over and over, with ids in any order."""
    some = draw(st.lists(entries, min_size=1, max_size=5))
    count = draw(st.sampled_from([256, 257, 1000]))
    ids = [n * 2**61 // count for n in range(count)]
    draw(st.randoms(use_true_random=False)).shuffle(ids)
    return ProducerState(dict(zip(ids, cycle(some), strict=False)), end_offset=draw(offsets))


@given(states | many())
def test_a_snapshot_holds_everything(state: ProducerState) -> None:
    decoded = decode_snapshot(encoded(state), now_ms=0)
    assert isinstance(decoded, ProducerState)
    assert dict(decoded) == dict(state)
    assert decoded.end_offset == state.end_offset
    assert encoded(decoded) == encoded(state)


@given(states | many())
def test_kafkas_snapshot_holds_the_last_batch(state: ProducerState) -> None:
    decoded = decode_kafka_snapshot(encoded_for_kafka(state), end_offset=state.end_offset, now_ms=0)
    assert isinstance(decoded, ProducerState)
    assert dict(decoded) == {key: entry._replace(window=entry.window[-1:]) for key, entry in state}


@given(states, st.data())
def test_a_snapshot_with_one_wrong_bit_is_refused(state: ProducerState, data: st.DataObject) -> None:
    for good in (encoded(state), encoded_for_kafka(state)):
        content = bytearray(good)
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        ours = decode_snapshot(bytes(content), now_ms=0)
        kafkas = decode_kafka_snapshot(bytes(content), end_offset=0, now_ms=0)
        assert isinstance(ours, CorruptSnapshot)
        assert isinstance(kafkas, CorruptSnapshot)


@given(states, st.data())
def test_a_torn_snapshot_is_refused(state: ProducerState, data: st.DataObject) -> None:
    content = encoded(state)
    torn = content[: data.draw(st.integers(0, len(content) - 1))]
    assert isinstance(decode_snapshot(torn, now_ms=0), CorruptSnapshot)
    assert isinstance(decode_snapshot(content + b"\0", now_ms=0), CorruptSnapshot)


@given(states | many())
def test_a_snapshot_is_its_rows_in_the_order_of_ids(state: ProducerState) -> None:
    expected = b"".join(encode_row(producer_id, entry) for producer_id, entry in sorted(state))
    assert bytes(rows_of(memoryview(encoded(state)))) == expected


@given(states | many(), st.data())
def test_what_was_not_written_by_this_program_is_refused(state: ProducerState, data: st.DataObject) -> None:
    """Bytes with a good CRC, but others: either they are what some other state is written as, or corrupt."""
    content = bytearray(encoded(state))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(14, len(content) - 1))] = data.draw(st.integers(0, 255))
    content[10:14] = crc32c.crc32c(content[14:]).to_bytes(4, "big")
    decoded = decode_snapshot(bytes(content), now_ms=0)
    assert isinstance(decoded, CorruptSnapshot) or encoded(decoded) == content


def without_transactions(state: ProducerState) -> ProducerState:
    entries = {
        producer_id: entry._replace(current_txn_first_offset=NO_TRANSACTION) for producer_id, entry in state
    }
    return ProducerState(entries, end_offset=state.end_offset)


@given((states | many()).map(without_transactions), st.booleans())
def test_version_2_is_still_read(state: ProducerState, is_damaged: bool) -> None:
    """Its rows had nothing behind the id."""
    rows = bytes(rows_of(memoryview(encoded(state))))
    body = struct.pack(">qI", state.end_offset, len(state))
    for at in range(0, len(rows), ROW_BYTES):
        body += rows[at : at + 8] + rows[at + 16 : at + ROW_BYTES]
    content = struct.pack(">8sHI", b"semelPS\0", 2, crc32c.crc32c(body)) + body
    decoded = decode_snapshot(content[: len(content) - is_damaged], now_ms=0)
    if is_damaged:
        assert isinstance(decoded, CorruptSnapshot)
    else:
        assert isinstance(decoded, ProducerState)
        assert encoded(decoded) == encoded(state)


@given(states.map(without_transactions))
def test_version_1_is_still_read(state: ProducerState) -> None:
    body = struct.pack(">qI", state.end_offset, len(state))
    for producer_id, (producer_epoch, coordinator_epoch, timestamp_ms, window, _) in sorted(state):
        body += struct.pack(
            ">qhiqB", producer_id, producer_epoch, coordinator_epoch, timestamp_ms, len(window)
        )
        body += b"".join(struct.pack(">iiqq", *span) for span in window)
    content = struct.pack(">8sHI", b"semelPS\0", 1, crc32c.crc32c(body)) + body
    decoded = decode_snapshot(content, now_ms=0)
    assert isinstance(decoded, ProducerState)
    assert dict(decoded) == dict(state)
    assert isinstance(decode_snapshot(content[:-1], now_ms=0), CorruptSnapshot)


def test_a_snapshot_shows_what_was_known_when_it_was_frozen() -> None:
    state = ProducerState(dict.fromkeys(range(10), ProducerEntry(1)), end_offset=5)
    frozen, before = state.freeze(), encoded(state)
    state.apply(BatchHeader(0, 100, -1, 2, 0, 0, 0, 0, 5, 3, 1, 0, 1), 5, now_ms=0)
    assert bytes(encode_snapshot(frozen)) == before
    assert encoded(state) != before


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(content: bytes) -> None:
    decode_snapshot(content, now_ms=0)
    decode_kafka_snapshot(content, end_offset=0, now_ms=0)
