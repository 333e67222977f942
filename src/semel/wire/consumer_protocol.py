"""What members of a consumer group tell each other through their coordinator, which does not read it.

Kafka's ``ConsumerProtocol``: an int16 version, then the fields in order, each version adding to the end, so that
whoever knows an older one reads what it knows and leaves the rest:

    subscription   0: [topic], nullable bytes user_data; 1: [owned: topic, [int32 partition]] (KIP-429);
                   2: int32 generation_id (KIP-792); 3: nullable string rack_id (KIP-881)
    assignment     0: [topic, [int32 partition]], nullable bytes user_data; 1 to 3: the same

The user data is the strategy's own: Kafka's ``StickyAssignor`` writes ``[topic, [int32 partition]], int32
generation_id``, its ``CooperativeStickyAssignor`` the generation alone (librdkafka both, for both). Nothing of it is
flexible. A member is no trusted source: whatever is malformed raises :class:`~semel.wire.frames.MalformedMessage`,
but for user data, without which a member only counts as new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from semel.types import TopicPartition
from semel.wire.frames import (
    INT16,
    INT32,
    Buffer,
    MalformedMessage,
    Reader,
    write_bytes_length,
    write_count,
    write_string,
)

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
_VERSION: Final = 3
_OWNED_FROM, _GENERATION_FROM, _RACK_FROM = 1, 2, 3
_TOPIC_BYTES_MIN: Final = 2
_PARTITION_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """``user_data`` is None where there is none; ``generation_id`` -1 where the writer's version has none."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    user_data: bytes | None = None


def encode_subscription(data: SubscriptionData, version: int = _VERSION) -> bytes:
    out = bytearray(INT16.pack(version))
    write_count(out, len(data.topics), flexible=False)
    for topic in data.topics:
        write_string(out, topic, flexible=False)
    _write_user_data(out, data.user_data)
    if version >= _OWNED_FROM:
        _write_partitions(out, data.owned)
    if version >= _GENERATION_FROM:
        out += INT32.pack(data.generation_id)
    if version >= _RACK_FROM:
        write_string(out, data.rack_id, flexible=False)
    return bytes(out)


def decode_subscription(body: Buffer) -> SubscriptionData:
    reader = Reader(body)
    version = _version(reader)
    topics = tuple(
        reader.string(flexible=False)
        for _ in range(reader.count(flexible=False, item_bytes_min=_TOPIC_BYTES_MIN))
    )
    user_data = _user_data(reader)
    owned = _partitions(reader) if version >= _OWNED_FROM else ()
    generation_id = reader.int32() if version >= _GENERATION_FROM else NO_GENERATION
    rack_id = reader.nullable_string(flexible=False) if version >= _RACK_FROM else None
    return SubscriptionData(topics, owned, generation_id, rack_id, user_data)


def encode_assignment(tps: Iterable[TopicPartition], version: int = _VERSION) -> bytes:
    out = bytearray(INT16.pack(version))
    _write_partitions(out, tps)
    _write_user_data(out, None)
    return bytes(out)


def decode_assignment(body: Buffer) -> tuple[TopicPartition, ...]:
    """In their order; an empty body, which a coordinator gives to whom the leader has left out, is none."""
    if not len(body):
        return ()
    reader = Reader(body)
    _version(reader)
    tps = _partitions(reader)
    _user_data(reader)
    return tps


def encode_sticky_data(owned: Iterable[TopicPartition], generation_id: int) -> bytes:
    """Kafka's ``StickyAssignor.STICKY_ASSIGNOR_USER_DATA_V1``."""
    out = bytearray()
    _write_partitions(out, owned)
    return bytes(out + INT32.pack(generation_id))


def decode_sticky_data(user_data: Buffer | None) -> tuple[tuple[TopicPartition, ...], int]:
    """What a member had last, and in which generation; nothing where it does not say, or not as a form that is known.

    The V0 of ``StickyAssignor`` has no generation; ``CooperativeStickyAssignor`` has nothing else.
    """
    if user_data is None:
        return (), NO_GENERATION
    if len(user_data) == INT32.size:
        return (), Reader(user_data).int32()
    try:
        reader = Reader(user_data)
        owned = _partitions(reader)
        return owned, reader.int32() if reader.remaining_bytes else NO_GENERATION
    except MalformedMessage:
        return (), NO_GENERATION


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise MalformedMessage(f"version {version} of the consumer protocol")
    return min(version, _VERSION)


def _write_user_data(out: bytearray, user_data: bytes | None) -> None:
    write_bytes_length(out, -1 if user_data is None else len(user_data), flexible=False)
    out += user_data or b""


def _user_data(reader: Reader) -> bytes | None:
    found = reader.nullable_bytes(flexible=False)
    return None if found is None else bytes(found)


def _write_partitions(out: bytearray, tps: Iterable[TopicPartition]) -> None:
    by_topic: dict[str, list[int]] = {}
    for tp in tps:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    write_count(out, len(by_topic), flexible=False)
    for topic, numbers in by_topic.items():
        write_string(out, topic, flexible=False)
        write_count(out, len(numbers), flexible=False)
        for number in numbers:
            out += INT32.pack(number)


def _partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    found = []
    for _ in range(reader.count(flexible=False, item_bytes_min=_TOPIC_BYTES_MIN + _PARTITION_BYTES)):
        topic = reader.string(flexible=False)
        for _ in range(reader.count(flexible=False, item_bytes_min=_PARTITION_BYTES)):
            found.append(TopicPartition(topic, reader.int32()))
    return tuple(found)
