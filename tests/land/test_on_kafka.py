"""Landing from a real Apache Kafka: transactions, a topic made anew, rows once."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.land.landed import land, offsets, read
from tests.peers.apache_kafka import ApacheKafka

from semel.errors import DataLoss
from semel.land.formats import TableFormat

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_committed_rows_are_landed_once(
    apache_kafka: ApacheKafka, table: Path, table_format: TableFormat
) -> None:
    topic, bootstrap = f"land-{table_format.value}", apache_kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for turn in range(4):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%d" % (turn * 10 + number), partition=number % 2)
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)(30)
        land(bootstrap, table, table_format, topic, rows=3)
    rows = read(table, table_format)
    wanted = sorted([*range(10), *range(20, 30)])
    assert sorted(int(value) for value in rows.column("_value").to_pylist()) == wanted
    assert all(len(its) == len(set(its)) == 10 for its in offsets(rows).values())

    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=30).topics:
        pass
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    with pytest.raises(DataLoss, match="made anew"):
        land(bootstrap, table, table_format, topic)
