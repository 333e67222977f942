"""The plain form against the full codec: the same request read, the same answer written, or None."""

from __future__ import annotations

from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from semel.types import NO_TIMESTAMP
from semel.wire import plain_produce, produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.frames import (
    MalformedMessage,
    decode_request_header,
    encode_request_header,
    encode_response_header,
    frame_of,
)
from semel.wire.produce import ProducedPartition, ProducePartition, ProduceRequest

SERVED_PRODUCE = SERVED[ApiKey.PRODUCE]
VERSIONS = st.integers(SERVED_PRODUCE.version_min, SERVED_PRODUCE.version_max)
INT32S = st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(min_size=1, max_size=249).filter(lambda name: len(name.encode()) < 1000)
CLIENT_IDS = st.none() | st.text(max_size=40)
RECORDS = st.none() | st.binary(max_size=300)

TOPICS = st.tuples(NAMES, st.uuids())


def topic_in(version: int, topic: tuple[str, UUID]) -> str | UUID:
    return topic[version >= 13]


@st.composite
def versions_and_requests(draw: st.DrawFn) -> tuple[int, ProduceRequest]:
    version = draw(VERSIONS)
    topics = TOPICS.map(lambda topic: topic_in(version, topic))
    partitions = st.builds(ProducePartition, topics, INT32S, RECORDS)
    return version, ProduceRequest(
        draw(st.none() | st.text(max_size=3)),
        draw(st.sampled_from([-1, -1, -1, 0, 1, 7])),
        draw(INT32S),
        draw(st.lists(partitions, min_size=1, max_size=1) | st.lists(partitions, max_size=3)),
    )


def frame_with(version: int, correlation_id: int, client_id: str | None, request: ProduceRequest) -> bytes:
    head = encode_request_header(ApiKey.PRODUCE, version, correlation_id, client_id)
    return b"".join((head, *produce.encode_request(version, request)))


def is_plain(version: int, request: ProduceRequest) -> bool:
    """What the plain codec promises to take; anything else it may leave to the full one."""
    if request.transactional_id is not None or request.acks != -1 or len(request.partitions) != 1:
        return False
    (item,) = request.partitions
    if isinstance(item.topic, UUID):
        return bool(item.records)
    name_bytes = len(item.topic.encode())
    return bool(item.records) and 0 < name_bytes < (127 if version >= 9 else 400)


@given(versions_and_requests(), INT32S, CLIENT_IDS)
def test_it_reads_what_the_full_codec_reads_or_leaves_it_alone(
    asked: tuple[int, ProduceRequest], correlation_id: int, client_id: str | None
) -> None:
    version, request = asked
    frame = memoryview(bytearray(frame_with(version, correlation_id, client_id, request)))
    found = plain_produce.decode(frame)
    assert (found is not None) == is_plain(version, request)
    if found is not None:
        form, its_correlation_id, records = found
        (item,) = request.partitions
        assert (form.version, its_correlation_id) == (version, correlation_id)
        assert form.partition == (item.topic, item.partition)
        assert bytes(records) == item.records
        records[0] ^= 0xFF  # in place: the log writes its offsets there
        assert frame.tobytes().endswith(bytes(records) + (b"\0\0\0" if version >= 9 else b""))


@given(st.data(), VERSIONS, CLIENT_IDS, TOPICS, st.binary(min_size=1, max_size=200))
def test_a_damaged_frame_is_read_as_the_full_codec_reads_it(
    data: st.DataObject, version: int, client_id: str | None, topic: tuple[str, UUID], records: bytes
) -> None:
    partition = ProducePartition(topic_in(version, topic), 3, memoryview(records))
    request = ProduceRequest(None, -1, 30_000, [partition])
    frame = bytearray(frame_with(version, 5, client_id, request))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(0, len(frame)) | st.just(len(frame))) :]
    found = plain_produce.decode(memoryview(frame))
    if found is None:
        return
    form, correlation_id, its_records = found
    try:
        header, body_at = decode_request_header(frame)
        again = produce.decode_request(header.api_version, memoryview(frame)[body_at:])
    except MalformedMessage as error:  # the client id is never looked at, as nobody asks for it
        assert "not UTF-8" in str(error)
        return
    assert (header.api_key, header.api_version) == (ApiKey.PRODUCE, form.version)
    assert header.correlation_id == correlation_id
    assert (again.transactional_id, again.acks) == (None, -1)
    assert again.partitions == [ProducePartition(*form.partition, its_records)]


@given(
    VERSIONS,
    INT32S,
    TOPICS.filter(lambda topic: len(topic[0].encode()) < 127),
    INT32S,
    OFFSETS,
    OFFSETS,
    OFFSETS,
)
@example(12, 1, ("t", UUID(int=1)), -0x01010102, 7, NO_TIMESTAMP, 0)  # a partition like the mark of a hole
@example(13, 1, ("t", UUID(bytes=b"\xfe" * 16)), -0x01010102, 7, NO_TIMESTAMP, 0)  # and a topic's id
def test_it_answers_as_the_full_codec_does(
    version: int,
    correlation_id: int,
    topic: tuple[str, UUID],
    partition: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> None:
    named = topic_in(version, topic)
    request = ProduceRequest(None, -1, 30_000, [ProducePartition(named, partition, memoryview(b"r"))])
    found = plain_produce.decode(memoryview(frame_with(version, correlation_id, "c", request)))
    assert found is not None
    answer = found[0].encode_success(correlation_id, base_offset, log_append_time_ms, log_start_offset)
    result = ProducedPartition(named, partition, 0, base_offset, log_append_time_ms, log_start_offset)
    head = encode_response_header(ApiKey.PRODUCE, version, correlation_id)
    assert answer == b"".join(frame_of(head, produce.encode_response(version, [result])))


@given(st.binary(max_size=80))
def test_no_bytes_make_it_fail(junk: bytes) -> None:
    plain_produce.decode(memoryview(junk))
