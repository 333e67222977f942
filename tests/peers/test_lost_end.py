"""Reading on from an Apache Kafka that has lost its log's end; semel: tests/client/test_partition_reader.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.peers.apache_kafka import ApacheKafka, JavaTool

import semel
from semel.errors import DataLoss
from semel.spark.offsets import EARLIEST
from semel.spark.options import Position, source_options
from semel.spark.stream_ranges import StreamRanges, tables
from semel.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]
TIMEOUT_S = 60


@pytest.fixture
def kafka(java_tool: JavaTool, tmp_path: Path) -> Iterator[ApacheKafka]:
    settings = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with ApacheKafka(java_tool.java, java_tool.jars, tmp_path / "kafka", settings=settings) as node:
        yield node


def test_rows_that_stand_where_others_were_read_are_not_taken_for_the_next(kafka: ApacheKafka) -> None:
    tp = TopicPartition("t", 0)

    def write(*values: str) -> None:
        with semel.Producer(kafka.bootstrap, linger_ms=0) as producer:
            for value in values:
                producer.send("t", value).result(TIMEOUT_S)

    write("a", "b", "c")
    options = source_options({"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t"}, streaming=True)
    stream = StreamRanges(replace(options, start=Position(default=EARLIEST)))
    planned = stream.next_end(stream.initial())
    with (
        semel.Consumer(kafka.bootstrap) as assigned,
        semel.Consumer(kafka.bootstrap, group_id="g") as member,
    ):
        assigned.assign({tp: "earliest"})
        member.subscribe(["t"])
        for consumer in (assigned, member):
            values: list[bytes | None] = []
            while len(values) < 3:
                values += [row.value for row in consumer.poll(TIMEOUT_S)]
            assert values == [b"a", b"b", b"c"]
        member.commit()
        kafka.crash()
        (path,) = (kafka.data_dir / "t-0").glob("*.log")
        with path.open("r+b") as file:  # as a power cut may leave what was not synced
            file.truncate(path.stat().st_size - 1)
        kafka.restart()
        write("x", "y")
        with pytest.raises(DataLoss, match="all offsets from 2 on") as loss:
            assigned.poll(TIMEOUT_S)
        (range_behind,) = stream.ranges(planned, stream.next_end(planned))
        with pytest.raises(DataLoss, match="all offsets from 2 on"):
            list(tables(options, range_behind))
        assigned.seek(tp, loss.value.lost_to_end)
        assert assigned.poll(TIMEOUT_S)[0].value == b"x"
    with semel.Consumer(kafka.bootstrap, group_id="g") as member:
        member.subscribe(["t"])
        with pytest.raises(DataLoss, match="all offsets from 2 on"):
            member.poll(TIMEOUT_S)
