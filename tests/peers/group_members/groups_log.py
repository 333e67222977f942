"""What lies in ``__consumer_offsets``, of semel or of Apache Kafka, which have the same records in it."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

from semel.core.group.records import GroupKey, Key, StoredGroup, decode_group, decode_key

TIMEOUT_S = 60.0


def groups_log(bootstrap: str) -> list[tuple[Key | None, bytes | None]]:
    """Every record that there is by now, in the order of the log; of one partition, as both have here."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    partition = TopicPartition("__consumer_offsets", 0, 0)
    _, end = reader.get_watermark_offsets(partition, TIMEOUT_S)
    reader.assign([partition])
    found: list[tuple[Key | None, bytes | None]] = []
    give_up_s = time.monotonic() + TIMEOUT_S
    while True:  # of a log that grows no end is told
        message = reader.poll(0.1)
        if message is None:
            assert time.monotonic() < give_up_s, "the groups' log cannot be read to its end"
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        found.append((decode_key(message.key()), message.value()))
        if message.offset() + 1 >= end:
            break
    reader.close()
    return found


def generations(bootstrap: str, group: str) -> list[StoredGroup]:
    """The group as of each of its assignments, and of each change of a static member between two of them."""
    return [
        decode_group(value)
        for key, value in groups_log(bootstrap)
        if isinstance(key, GroupKey) and key.group_id == group and value is not None
    ]
