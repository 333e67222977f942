"""The consumer of assigned partitions."""

from __future__ import annotations

import semel


def test_a_plain_pair_names_a_partition(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("numbers", value="1").result(10)
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign({("numbers", 0): "earliest"})  # type: ignore[dict-item]
        assert [record.value for record in consumer.poll(5)] == [b"1"]
        assert consumer.assignment() == [semel.TopicPartition("numbers", 0)]
