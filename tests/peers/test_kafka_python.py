"""kafka-python: a pure-Python client with its own codec, so its own misreadings of the protocol."""

from __future__ import annotations

import itertools
import warnings

import pytest

with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TIMEOUT_MS = 30_000


@pytest.mark.parametrize("codec", [None, "gzip"])  # the others need packages of their own
def test_an_idempotent_producer_is_read_back_in_order(bootstrap: str, topic: str, codec: str | None) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 2, 1)])
    assert topic in admin.list_topics()
    admin.close()

    values = [b"%d" % number for number in range(500)]
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, compression_type=codec, linger_ms=2
    )
    sent = [producer.send(topic, value, key=b"k", partition=1, headers=[("h", b"x")]) for value in values]
    producer.flush(TIMEOUT_MS / 1_000)
    assert [future.get(0).offset for future in sent] == list(range(500))
    producer.close()

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=TIMEOUT_MS)
    partition = TopicPartition(topic, 1)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records = list(itertools.islice(consumer, len(values)))
    assert [record.value for record in records] == values
    assert records[-1].headers == [("h", b"x")]
    assert consumer.end_offsets([partition]) == {partition: 500}
    consumer.close()
