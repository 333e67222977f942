"""Batch reads: rows, columns, positions, splits, losses."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def values(frame):
    return sorted(bytes(row.value) for row in frame.select("value").collect())


@pytest.mark.everyday
def test_rows_have_the_connectors_columns(log, source):
    topic = log.topic("t", partitions=2)
    log.write(topic, [b"a", b"b"], keys=[b"k", None], timestamp_ms=1_700_000_000_123)
    log.write(topic, [b"c"], partition=1)
    frame = source(topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.orderBy("partition", "offset").collect()
    assert [(r.key and bytes(r.key), bytes(r.value), r.topic, r.partition, r.offset) for r in rows] == [
        (b"k", b"a", topic, 0, 0),
        (None, b"b", topic, 0, 1),
        (None, b"c", topic, 1, 0),
    ]
    assert rows[0].timestamp.microsecond == 123_000
    assert [(h.key, bytes(h.value)) for h in rows[0].headers] == [("h", b"x")]


def test_positions(log, source):
    topic = log.topic("t")
    log.write(topic, [b"0", b"1"], timestamp_ms=1000)
    log.write(topic, [b"2", b"3"], timestamp_ms=2000)
    at = f'{{"{topic}": {{"0": %d}}}}'
    assert values(source(topic, startingOffsets=at % 1)) == [b"1", b"2", b"3"]
    assert values(source(topic, endingOffsets=at % 1)) == [b"0"]
    assert values(source(topic, startingTimestamp="1500")) == [b"2", b"3"]
    assert values(source(topic, startingOffsetsByTimestamp=at % 1500)) == [b"2", b"3"]
    assert values(source(topic, endingTimestamp="1500")) == [b"0", b"1"]


def test_patterns_assignment_and_splits(log, source, spark):
    one, two = log.topic("pat"), log.topic("pat")
    log.write(one, [b"%d" % n for n in range(50)])
    log.write(two, [b"x"])
    prefix = one[:4]
    assert len(values(source(one, minPartitions="4"))) == 50
    assert source(one, minPartitions="4").rdd.getNumPartitions() == 4
    reader = spark.read.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
    assert reader.option("subscribePattern", f"{prefix}.*").load().count() == 51
    reader = spark.read.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
    assert reader.option("assign", f'{{"{two}": [0]}}').load().count() == 1


def test_lost_offsets_are_named(log, source):
    from semel.types import TopicPartition

    topic = log.topic("t")
    log.write(topic, [b"0"])
    log.write(topic, [b"1"])
    log.cluster.delete_records({TopicPartition(topic, 0): 1})
    start = f'{{"{topic}": {{"0": 0}}}}'
    with pytest.raises(Exception, match=f"offsets 0 to 0 of topic '{topic}', partition 0 are gone"):
        source(topic, startingOffsets=start).collect()
    assert values(source(topic, startingOffsets=start, failOnDataLoss="false")) == [b"1"]


@pytest.mark.everyday
def test_a_wrong_option_is_an_error_that_names_it(source):
    with pytest.raises(Exception, match="minOffsetsPerTrigger is for streaming queries"):
        source("t", minOffsetsPerTrigger="3").collect()


def test_a_schema_with_fewer_columns(log, spark):
    topic = log.topic("t")
    log.write(topic, [b"a", b"b"])
    reader = spark.read.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
    frame = reader.option("subscribe", topic).schema("offset bigint, value binary").load()
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [(0, b"a"), (1, b"b")]
    strange = reader.schema("value string").load()
    with pytest.raises(Exception, match="no column 'value' of type string"):
        strange.collect()
