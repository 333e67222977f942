"""aiokafka: the asyncio client, idempotent, with a partition of its own choosing."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

TIMEOUT_S = 30.0


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_an_idempotent_producer_is_read_back_in_order(bootstrap: str, topic: str, codec: str | None) -> None:
    values = [b"%d" % number for number in range(500)]

    async def scenario() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, compression_type=codec, linger_ms=2
        ) as producer:
            sent = [await producer.send(topic, value, key=b"k", partition=0) for value in values]
            assert [(await report).offset for report in sent] == list(range(500))

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            read = [(await consumer.getone()).value for _ in values]
            assert read == values
            assert await consumer.end_offsets([partition]) == {partition: 500}
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))
