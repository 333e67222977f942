"""The lease's tags: their bytes, any of them there and back, and what a hostile one comes to."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.types import TopicPartition
from semel.wire.frames import MalformedMessage, write_tags, write_unsigned_varint
from semel.wire.init_producer_id import (
    LEASE_TAG,
    InitProducerIdRequest,
    InitProducerIdResponse,
    LeaseAsked,
    LeaseGranted,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

FLEXIBLE = [2, 3, 4, 5]
ASKED = LeaseAsked((TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 7)))
GRANTED = LeaseGranted(5_000, 4_000, {TopicPartition("a", 1): 0, TopicPartition("b", 7): 2**31 - 1})


def request_of(lease: LeaseAsked | None, **tags: bytes) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        None, 60_000, tags={int(tag[1:]): value for tag, value in tags.items()}, lease=lease
    )


@pytest.mark.parametrize("version", FLEXIBLE)
def test_there_and_back(version: int) -> None:
    request = request_of(ASKED, _3=b"other", _10000=b"later")
    assert decode_request(version, encode_request(version, request)) == request
    response = InitProducerIdResponse(0, 2**62, 9, 0, {3: b"other"}, GRANTED)
    assert decode_response(version, encode_response(version, response)) == response


def test_the_bytes() -> None:
    tagged = encode_request(2, request_of(LeaseAsked((TopicPartition("a", 1),))))[5:]
    assert tagged.hex(" ") == "01 a8 46 0a 00 00 02 02 61 02 00 00 00 01"
    told = encode_response(
        2, InitProducerIdResponse(0, 1, 2, 0, {}, LeaseGranted(3, 2, {TopicPartition("a", 1): 4}))
    )
    assert told[16:].hex() == "01a8461e" + "0000" + f"{3:016x}{2:016x}" + "02026102" + "0000000100000004"


def test_versions_without_tags_carry_no_lease() -> None:
    for version in (0, 1):
        assert decode_request(version, encode_request(version, request_of(ASKED))).lease is None
        response = InitProducerIdResponse(0, 1, 2, 0, {}, GRANTED)
        assert decode_response(version, encode_response(version, response)).lease is None


def test_a_partition_asked_for_twice_is_asked_for_once() -> None:
    body = bytes.fromhex("00 0000ea60 01 a846 0e 0000 02 02 61 03 00000001 00000001")
    assert decode_request(2, body).lease == LeaseAsked((TopicPartition("a", 1),))


def test_another_format_is_an_unknown_tag_on_both_sides() -> None:
    later = struct.pack(">h", 1) + b"whatever"
    request = request_of(None, **{f"_{LEASE_TAG}": later})
    assert decode_request(4, encode_request(4, request)) == request
    response = InitProducerIdResponse(0, 1, 2, 0, {LEASE_TAG: later})
    assert decode_response(4, encode_response(4, response)) == response


def _varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    "lease",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0" + _varint(2**31),  # billions of topics
        b"\0\0\x02\x02a" + _varint(2**31),  # billions of partitions
        b"\0\0\x02\x00\x01",  # a topic without a name
        b"\0\0\x02\x02a\x02\xff\xff\xff\xff",  # partition -1
        b"\0\0\x02\x02a\x02\0\0\0\1\0",  # bytes behind it
        b"\0\0\x02\x02\xff\x02\0\0\0\1",  # no UTF-8
        b"\0\0" + _varint(100_002) + b"\x01\x01" * 100_001,  # more topics than a message may name
    ],
)
def test_a_hostile_lease_is_malformed(lease: bytes) -> None:
    body = bytearray(b"\0\0\0\xea\x60")
    write_tags(body, {LEASE_TAG: lease})
    with pytest.raises(MalformedMessage):
        decode_request(2, body)


@pytest.mark.parametrize(
    "lease",
    [
        b"\0\0" + struct.pack(">qq", 5, 6) + b"\x01",  # more remains than there was
        b"\0\0" + struct.pack(">qq", 5, -1) + b"\x01",
        b"\0\0"
        + struct.pack(">qq", 5, 5)
        + b"\x02\x02a\x03"
        + struct.pack(">iiii", 1, 0, 1, 0),  # told twice
        b"\0\0" + struct.pack(">qq", 5, 5) + b"\x02\x02a\x02" + struct.pack(">i", 1),
    ],
)
def test_a_hostile_answer_is_malformed(lease: bytes) -> None:
    body = bytearray(struct.pack(">ihqh", 0, 0, 1, 0))
    write_tags(body, {LEASE_TAG: lease})
    with pytest.raises(MalformedMessage):
        decode_response(2, body)


names = st.text(max_size=8)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
lives = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted)


@given(st.sampled_from(FLEXIBLE), st.lists(partitions, unique=True, max_size=20))
def test_any_request(version: int, asked: list[TopicPartition]) -> None:
    decoded = decode_request(version, encode_request(version, request_of(LeaseAsked(tuple(asked))))).lease
    assert decoded is not None
    assert sorted(decoded.partitions) == sorted(asked)


@given(st.sampled_from(FLEXIBLE), lives, st.dictionaries(partitions, st.integers(0, 2**31 - 1), max_size=20))
def test_any_answer(version: int, life: list[int], first: dict[TopicPartition, int]) -> None:
    response = InitProducerIdResponse(0, 2**62, 1, 0, {}, LeaseGranted(life[1], life[0], first))
    assert decode_response(version, encode_response(version, response)) == response


@given(st.sampled_from(FLEXIBLE), st.binary(max_size=80), st.booleans())
def test_garbage_raises_one_exception_only(version: int, lease: bytes, is_request: bool) -> None:
    head = b"\0\0\0\xea\x60" if is_request else struct.pack(">ihqh", 0, 0, 1, 0)
    body = bytearray(head + (b"\xff" * 8 + b"\xff\xff" if is_request and version >= 3 else b""))
    write_tags(body, {LEASE_TAG: b"\0\0" + lease})
    try:
        (decode_request if is_request else decode_response)(version, body)
    except MalformedMessage:
        pass
