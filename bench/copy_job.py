"""One copy of a topic: ``python -m bench.copy_job semel|confluent FROM TO TOPIC PREFIX ROWS`` prints its seconds."""

from __future__ import annotations

import sys
import time

import confluent_kafka

from semel.copy import CopyPlan, run_copy
from semel.spark.options import Connection

_ROWS_A_TURN = 10_000


def with_semel(source: str, destination: str, topic: str, prefix: str, rows: int) -> None:
    plan = CopyPlan(f"{prefix}job", Connection(source), Connection(destination), (topic,), prefix=prefix)
    copied = run_copy(plan, until_end=True)
    assert copied.rows == rows, copied


def with_confluent(source: str, destination: str, topic: str, prefix: str, rows: int) -> None:
    """What one writes oneself: consume, produce, flush, commit. At least once, as a crash before the commit shows."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": source,
            "group.id": prefix,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": destination,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 0,
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
    done = 0
    while done < rows:
        found = consumer.consume(_ROWS_A_TURN, 1.0)
        for message in found:
            assert message.error() is None, message.error()
            producer.produce(
                prefix + topic,
                message.value(),
                message.key(),
                partition=message.partition(),
                timestamp=message.timestamp()[1],
                headers=message.headers(),
            )
        producer.flush(60)
        if found:
            consumer.commit(asynchronous=False)
        done += len(found)
    consumer.close()


def main() -> None:
    how, source, destination, topic, prefix, rows = sys.argv[1:]
    began_s = time.monotonic()
    copy = with_semel if how == "semel" else with_confluent
    copy(source, destination, topic, prefix, int(rows))
    print(time.monotonic() - began_s)


if __name__ == "__main__":
    main()
