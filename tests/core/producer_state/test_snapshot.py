from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.core.producer_state.kafka_snapshot import decode_kafka_snapshot, encode_kafka_snapshot
from semel.core.producer_state.snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from semel.core.producer_state.state import ProducerState
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
)
states = st.builds(
    lambda known, end: ProducerState(known, end_offset=end),
    st.dictionaries(st.integers(0, 2**62), entries, max_size=8),
    offsets,
)


@given(states)
def test_a_snapshot_holds_everything(state: ProducerState) -> None:
    decoded = decode_snapshot(encode_snapshot(state), now_ms=0)
    assert isinstance(decoded, ProducerState)
    assert dict(decoded) == dict(state)
    assert decoded.end_offset == state.end_offset
    assert encode_snapshot(decoded) == encode_snapshot(state)


@given(states)
def test_kafkas_snapshot_holds_the_last_batch(state: ProducerState) -> None:
    decoded = decode_kafka_snapshot(encode_kafka_snapshot(state), end_offset=state.end_offset, now_ms=0)
    assert isinstance(decoded, ProducerState)
    assert dict(decoded) == {key: entry._replace(window=entry.window[-1:]) for key, entry in state}


@given(states, st.data())
def test_a_snapshot_with_one_wrong_bit_is_refused(state: ProducerState, data: st.DataObject) -> None:
    for encoded in (encode_snapshot(state), encode_kafka_snapshot(state)):
        content = bytearray(encoded)
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        ours = decode_snapshot(bytes(content), now_ms=0)
        kafkas = decode_kafka_snapshot(bytes(content), end_offset=0, now_ms=0)
        assert isinstance(ours, CorruptSnapshot)
        assert isinstance(kafkas, CorruptSnapshot)


@given(states, st.data())
def test_a_torn_snapshot_is_refused(state: ProducerState, data: st.DataObject) -> None:
    content = encode_snapshot(state)
    torn = content[: data.draw(st.integers(0, len(content) - 1))]
    assert isinstance(decode_snapshot(torn, now_ms=0), CorruptSnapshot)
    assert isinstance(decode_snapshot(content + b"\0", now_ms=0), CorruptSnapshot)


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(content: bytes) -> None:
    decode_snapshot(content, now_ms=0)
    decode_kafka_snapshot(content, end_offset=0, now_ms=0)
