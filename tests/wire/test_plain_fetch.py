"""The plain form against the full codec: the same request read, the same answer written, or None."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from semel.types import NO_LEADER_EPOCH
from semel.wire import fetch, plain_fetch
from semel.wire.api import SERVED, ApiKey
from semel.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from semel.wire.frames import (
    MalformedMessage,
    decode_request_header,
    encode_request_header,
    encode_response_header,
    frame_of,
)
from semel.wire.plain_fetch import Asked, Found, partition_of

SERVED_FETCH = SERVED[ApiKey.FETCH]
VERSIONS = st.integers(SERVED_FETCH.version_min, SERVED_FETCH.version_max)
INT32S = st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(min_size=1, max_size=100).filter(lambda name: len(name.encode()) < 120)
TOPICS = st.tuples(NAMES, st.uuids())
CLIENT_IDS = st.none() | st.text(max_size=40)
ASKED = st.lists(st.builds(Asked, INT32S, INT32S, OFFSETS, INT32S, INT32S), min_size=1, max_size=5)
LIMITS = st.tuples(INT32S, INT32S, INT32S, st.sampled_from([0, 1]))


def topic_in(version: int, topic: tuple[str, UUID]) -> str | UUID:
    return topic[version >= 13]


def frame_with(version: int, correlation_id: int, client_id: str | None, request: FetchRequest) -> bytes:
    head = encode_request_header(ApiKey.FETCH, version, correlation_id, client_id)
    return bytes(head + fetch.encode_request(version, request))


def request_for(
    version: int, topic: tuple[str, UUID], limits: tuple[int, int, int, int], asked: list[Asked]
) -> FetchRequest:
    name = topic_in(version, topic)
    return FetchRequest(*limits, [partition_of(name, one) for one in asked])


@given(VERSIONS, INT32S, CLIENT_IDS, TOPICS, LIMITS, ASKED)
def test_it_reads_what_the_full_codec_reads(
    version: int,
    correlation_id: int,
    client_id: str | None,
    topic: tuple[str, UUID],
    limits: tuple[int, int, int, int],
    asked: list[Asked],
) -> None:
    request = request_for(version, topic, limits, asked)
    found = plain_fetch.decode(memoryview(frame_with(version, correlation_id, client_id, request)))
    assert found is not None
    form, its_correlation_id, its_asked = found
    assert (form.version, form.topic, its_correlation_id) == (
        version,
        topic_in(version, topic),
        correlation_id,
    )
    assert (form.max_wait_ms, form.min_bytes, form.max_bytes) == limits[:3]
    if version < 9:
        asked = [one._replace(current_leader_epoch=NO_LEADER_EPOCH) for one in asked]
    if version < 12:
        asked = [one._replace(last_fetched_epoch=NO_LEADER_EPOCH) for one in asked]
    assert its_asked == asked


@given(
    VERSIONS,
    TOPICS,
    TOPICS,
    st.tuples(st.sampled_from([0, 1, -1]), st.sampled_from([-1, -1, 0, 1, -2])),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_sessions_and_several_topics_are_left_to_the_full_codec(
    version: int,
    topic: tuple[str, UUID],
    other: tuple[str, UUID],
    session: tuple[int, int],
    one: int,
    two: int,
) -> None:
    partitions = [FetchPartition(topic_in(version, topic), n, 0, 1) for n in range(one)]
    partitions += [FetchPartition(topic_in(version, other), n, 0, 1) for n in range(two)]
    request = FetchRequest(1, 1, 1, 0, partitions, *session)
    found = plain_fetch.decode(memoryview(frame_with(version, 1, "c", request)))
    is_plain = len({item.topic for item in partitions}) == 1 and (session[1] in (-1, 0) or version < 7)
    assert (found is not None) == is_plain


@given(st.data(), VERSIONS, CLIENT_IDS, TOPICS, st.integers(1, 3))
def test_a_damaged_frame_is_read_as_the_full_codec_reads_it(
    data: st.DataObject, version: int, client_id: str | None, topic: tuple[str, UUID], count: int
) -> None:
    asked = [Asked(n, 3, 2**40 + n, 2, 2**20) for n in range(count)]
    frame = bytearray(
        frame_with(version, 5, client_id, request_for(version, topic, (500, 1, 2**25, 0), asked))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(0, len(frame)) | st.just(len(frame))) :]
    found = plain_fetch.decode(memoryview(frame))
    if found is None:
        return
    form, correlation_id, its_asked = found
    try:
        header, body_at = decode_request_header(frame)
        again = fetch.decode_request(header.api_version, memoryview(frame)[body_at:])
    except MalformedMessage as error:  # the client id is never looked at, as nobody asks for it
        assert "not UTF-8" in str(error)
        return
    assert (header.api_key, header.api_version) == (ApiKey.FETCH, form.version)
    assert header.correlation_id == correlation_id
    assert (again.max_wait_ms, again.min_bytes, again.max_bytes) == (
        form.max_wait_ms,
        form.min_bytes,
        form.max_bytes,
    )
    assert again.session_epoch in (-1, 0)
    assert again.partitions == [partition_of(form.topic, one) for one in its_asked]


@given(
    VERSIONS,
    INT32S,
    TOPICS,
    st.lists(
        st.builds(Found, INT32S, OFFSETS, OFFSETS, OFFSETS, st.binary(max_size=300)), min_size=1, max_size=4
    ),
)
def test_it_answers_as_the_full_codec_does(
    version: int, correlation_id: int, topic: tuple[str, UUID], found: list[Found[bytes]]
) -> None:
    asked = [Asked(one.partition, -1, 0, -1, 1) for one in found]
    request = request_for(version, topic, (0, 1, 1, 0), asked)
    plain = plain_fetch.decode(memoryview(frame_with(version, correlation_id, "c", request)))
    assert plain is not None
    results = [
        FetchedPartition(
            topic_in(version, topic),
            one.partition,
            0,
            one.high_watermark,
            one.last_stable_offset,
            one.log_start_offset,
            one.records,
        )
        for one in found
    ]
    head = encode_response_header(ApiKey.FETCH, version, correlation_id)
    expected = b"".join(frame_of(head, *fetch.encode_response(version, FetchResponse(results))))
    assert b"".join(plain[0].encode_answer(correlation_id, found)) == expected


@given(st.binary(max_size=80))
def test_no_bytes_make_it_fail(junk: bytes) -> None:
    plain_fetch.decode(memoryview(b"\0\1\0\4" + junk))
