"""The hand-written answer against kio's, with the tag that kio does not know, and against garbage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.types import LEASED_IDS_FROM, ProducerDescription, TopicPartition
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.describe_producers import (
    DescribedPartition,
    EncodedPartition,
    decode_response,
    encode_producers,
    encode_response,
)
from semel.wire.frames import MalformedMessage

STOCK = ProducerDescription(7, 3, 99, 1_700_000_000_000, -1, -1)
LEASED = ProducerDescription(LEASED_IDS_FROM + 7, 9_000, -1, -1, 2, -1, lease_remaining_ms=5_000)
PARTITIONS = [
    DescribedPartition(TopicPartition("a", 1), 0, None, [STOCK, LEASED]),
    DescribedPartition(TopicPartition("a", 0), 3, "no such partition", []),
    DescribedPartition(TopicPartition("b", 0), 0, None, [LEASED]),
]


def test_there_and_back() -> None:
    assert decode_response(encode_response(PARTITIONS)) == PARTITIONS


def test_what_is_encoded_in_parts_is_the_same() -> None:
    parts = [encode_producers([STOCK]), encode_producers([LEASED])]
    in_parts = [EncodedPartition(PARTITIONS[0].tp, 2, parts), *PARTITIONS[1:]]
    assert encode_response(in_parts) == encode_response(PARTITIONS)


def test_who_does_not_know_the_tag_reads_all_the_rest() -> None:
    seen = messages.decode_response(ApiKey.DESCRIBE_PRODUCERS, 0, encode_response(PARTITIONS))
    read = [
        DescribedPartition(
            TopicPartition(topic.name, int(one.partition_index)),
            int(one.error_code),
            one.error_message,
            [
                ProducerDescription(
                    int(of.producer_id),
                    int(of.producer_epoch),
                    int(of.last_sequence),
                    int(of.last_timestamp),
                    int(of.coordinator_epoch),
                    int(of.current_txn_start_offset),
                    LEASED.lease_remaining_ms if of.producer_id == LEASED.producer_id else None,
                )
                for of in one.active_producers
            ],
        )
        for topic in seen.topics
        for one in topic.partitions
    ]
    assert read == PARTITIONS


def test_what_kio_writes_is_read() -> None:
    fields = {
        "topics": [
            {
                "name": "a",
                "partitions": [
                    {"partition_index": 1, "error_code": 0, "error_message": None, "active_producers": []}
                ],
            }
        ]
    }
    data = messages.encode_response(ApiKey.DESCRIBE_PRODUCERS, 0, fields)
    assert decode_response(data) == [DescribedPartition(TopicPartition("a", 1), 0, None, [])]


@given(st.binary(max_size=120), st.booleans())
def test_garbage_raises_one_exception_only(garbage: bytes, behind_a_head: bool) -> None:
    head = bytes(encode_response(PARTITIONS))[:24] if behind_a_head else b""
    try:
        decode_response(head + garbage)
    except MalformedMessage:
        pass
