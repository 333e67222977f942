"""What members tell each other: as Kafka's own schemas have it, in every version, and whatever else comes."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from semel.types import TopicPartition
from semel.wire.consumer_protocol import (
    NO_GENERATION,
    SubscriptionData,
    decode_assignment,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_data,
    encode_subscription,
)
from semel.wire.frames import MalformedMessage

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DATA = SubscriptionData(("a", "b"), (A0, A1, B0), 7, "rack", b"own")


def schema(name: str, version: int) -> Any:
    module = import_module(f"kio.schema.consumer_protocol_{name}.v{version}.data")
    return getattr(module, f"ConsumerProtocol{name.capitalize()}")


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_is_what_kafkas_schema_says(version: int) -> None:
    body = encode_subscription(DATA, version)
    theirs, size = entity_reader(schema("subscription", version))(body, 2)
    assert size == len(body) - 2
    assert (theirs.topics, theirs.user_data) == (("a", "b"), b"own")
    if version >= 1:
        assert [(item.topic, item.partitions) for item in theirs.owned_partitions] == [
            ("a", (0, 1)),
            ("b", (0,)),
        ]
    assert getattr(theirs, "generation_id", 7) == 7
    assert getattr(theirs, "rack_id", "rack") == "rack"
    again = BytesIO()
    entity_writer(schema("subscription", version))(again, theirs)
    assert body[2:] == again.getvalue()


@pytest.mark.parametrize("version", range(4))
def test_what_is_written_is_read(version: int) -> None:
    read = decode_subscription(encode_subscription(DATA, version))
    assert read == SubscriptionData(
        DATA.topics,
        DATA.owned if version >= 1 else (),
        7 if version >= 2 else NO_GENERATION,
        "rack" if version >= 3 else None,
        b"own",
    )
    assert decode_assignment(encode_assignment([A0, B0], version)) == (A0, B0)


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    body = bytearray(encode_subscription(DATA))
    body[:2] = b"\x00\x09"
    assert decode_subscription(bytes(body) + b"what comes later") == DATA


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_what_kafkas_schema_says(version: int) -> None:
    theirs, _ = entity_reader(schema("assignment", version))(encode_assignment([A0, A1, B0], version), 2)
    assert [(item.topic, item.partitions) for item in theirs.assigned_partitions] == [
        ("a", (0, 1)),
        ("b", (0,)),
    ]


def test_no_assignment_is_an_empty_one() -> None:
    assert decode_assignment(b"") == ()


def test_sticky_data_is_read_in_each_of_its_forms() -> None:
    assert decode_sticky_data(encode_sticky_data([A0, B0], 3)) == ((A0, B0), 3)
    assert decode_sticky_data(encode_sticky_data([A0], 3)[:-4]) == ((A0,), NO_GENERATION)
    assert decode_sticky_data(b"\x00\x00\x00\x05") == ((), 5)
    assert decode_sticky_data(None) == ((), NO_GENERATION)
    assert decode_sticky_data(b"\x00\x00\x00\x05???") == ((), NO_GENERATION)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(body)
        except MalformedMessage:
            pass
    decode_sticky_data(body)
