"""Every row of the verdict table, on semel and on Apache Kafka: real batches to servers that run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.peers.apache_kafka import ApacheKafka
from tests.verdicts.carrying_out import LEASE_MS, Stage, encoded

from semel.client.blocking import Cluster
from semel.core.log.names import LOG_SUFFIX
from semel.core.producer_state.table import TABLE, Batch, Row
from semel.errors import ErrorCode
from semel.local import LocalLog
from semel.record.batch import assign_offsets
from semel.types import ProducerGrant, TopicPartition

PAST = ProducerGrant(1 << 40, 0)  # wrote nearly 2^31 rows before the test


def tp_of(row: Row) -> TopicPartition:
    return TopicPartition(row.scenario, 0)


def write_past(data_dir: Path, row: Row) -> None:
    """The row's first batch as the log of a server that does not run: no client may begin so."""
    first = row.before[0]
    assert isinstance(first, Batch)
    batch = encoded(PAST, first)
    assign_offsets(memoryview(batch), 0, 0)
    (data_dir / str(tp_of(row)) / f"{0:020}{LOG_SUFFIX}").write_bytes(batch)


@pytest.fixture(scope="module")
def semel_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Of a server with a topic a row, whose leases are soon over."""
    with LocalLog(tmp_path_factory.mktemp("verdicts") / "data", **{"producer.lease.ms": LEASE_MS}) as log:
        with Cluster(log.bootstrap) as cluster:
            cluster.create_topics(dict.fromkeys((row.scenario for row in TABLE), 1))
        log.stop()
        for row in TABLE:
            if row.begins_in_the_past:
                write_past(log.data_dir, row)
        log.start()
        with Cluster(log.bootstrap) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def kafka_cluster(apache_kafka: ApacheKafka) -> Iterator[Cluster]:
    with Cluster(apache_kafka.bootstrap) as cluster:
        cluster.create_topics(dict.fromkeys((row.scenario for row in TABLE), 1))
        yield cluster


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.scenario)
def test_semel_answers(row: Row, semel_cluster: Cluster) -> None:
    past = PAST if row.begins_in_the_past else None
    answered = Stage(semel_cluster, row, tp_of(row), past).play()
    assert answered.code is row.outcome.code, answered
    assert (answered.message is None) == (answered.code is ErrorCode.NONE or not isinstance(row.sent, Batch))
    if row.base_offset is not None:
        assert answered.base_offset == row.base_offset
    elif answered.code is not ErrorCode.NONE:
        assert answered.base_offset == -1


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.outcome.kafka is not None], ids=lambda row: row.scenario
)
def test_apache_kafka_answers(row: Row, kafka_cluster: Cluster) -> None:
    answered = Stage(kafka_cluster, row, tp_of(row)).play()
    assert answered.code is row.outcome.kafka, answered
    if row.base_offset is not None:
        assert answered.base_offset == row.base_offset
