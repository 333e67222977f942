"""Every row of the verdict table, on semel and on Apache Kafka: real batches to servers that run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.metrics import metrics_of
from tests.peers.same_as_kafka.wire import Wire
from tests.verdicts.carrying_out import LEASE_MS, Answered, Stage, encoded

from semel.client.blocking import Cluster
from semel.core.log.names import LOG_SUFFIX
from semel.core.producer_state.table import TABLE, Batch, Marker, Row, Sent
from semel.demo.verdicts import free_address
from semel.errors import ErrorCode
from semel.local import LocalLog
from semel.record.batch import assign_offsets
from semel.types import ProducerGrant, TopicPartition

PAST = ProducerGrant(1 << 40, 0)  # wrote nearly 2^31 rows before the test


# No client gets these to a partition, where they are carried out (``tests/server/storage/test_transactions.py``): the
# coordinator knows of one epoch at a time, and refuses by itself what is of another one.
REFUSED_BEFORE = {
    "of_a_later_transaction": ErrorCode.INVALID_PRODUCER_EPOCH,
    "marker_of_a_lower_epoch_in_a_transaction": ErrorCode.INVALID_TXN_STATE,
}
ROWS = [row for row in TABLE if row.scenario not in REFUSED_BEFORE]


def tp_of(row: Row) -> TopicPartition:
    return TopicPartition(row.scenario, 0)


def prefix_of(row: Row) -> str:
    """What the names of a row's transactional ids begin with."""
    return f"verdicts-{row.scenario}-"


def write_past(data_dir: Path, row: Row) -> None:
    """The row's first batch as the log of a server that does not run: no client may begin so."""
    first = row.before[0]
    assert isinstance(first, Batch)
    batch = encoded(PAST, first)
    assign_offsets(memoryview(batch), 0, 0)
    (data_dir / str(tp_of(row)) / f"{0:020}{LOG_SUFFIX}").write_bytes(batch)


@pytest.fixture(scope="module")
def metrics_address() -> str:
    return free_address()


@pytest.fixture(scope="module")
def semel_log(tmp_path_factory: pytest.TempPathFactory, metrics_address: str) -> Iterator[LocalLog]:
    """A server with a topic a row, whose leases are soon over."""
    data_dir = tmp_path_factory.mktemp("verdicts") / "data"
    with LocalLog(data_dir, metrics=metrics_address, **{"producer.lease.ms": LEASE_MS}) as log:
        with Cluster(log.bootstrap) as cluster:
            cluster.create_topics(dict.fromkeys((row.scenario for row in TABLE), 1))
        log.stop()
        for row in TABLE:
            if row.begins_in_the_past:
                write_past(log.data_dir, row)
        log.start()
        yield log


@pytest.fixture(scope="module")
def semel_cluster(semel_log: LocalLog) -> Iterator[Cluster]:
    with Cluster(semel_log.bootstrap) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka_cluster(apache_kafka: ApacheKafka) -> Iterator[Cluster]:
    with Cluster(apache_kafka.bootstrap) as cluster:
        cluster.create_topics(dict.fromkeys((row.scenario for row in TABLE), 1))
        yield cluster


class Metered(Stage):
    """Notes what each batch or marker moved in the server's metrics, of which the row's own is the last."""

    def __init__(
        self, metrics_address: str, cluster: Cluster, row: Row, past: ProducerGrant | None, wire: Wire
    ) -> None:
        super().__init__(cluster, row, tp_of(row), past, wire)
        self._address = metrics_address
        self.moved: dict[str, float] = {}

    def _attempt(self, grant: ProducerGrant | None, sent: Sent) -> Answered:
        before = verdict_series(self._address)
        answered = super()._attempt(grant, sent)
        after = verdict_series(self._address)
        self.moved = {
            series: after[series] - count for series, count in before.items() if after[series] != count
        }
        assert after.keys() == before.keys()
        return answered


def verdict_series(address: str) -> dict[str, float]:
    return {
        series: count
        for series, count in metrics_of(address).items()
        if series.startswith("semel_verdicts_total")
    }


def series_of(row: Row) -> str:
    of = "marker" if isinstance(row.sent, Marker) else "batch"
    name, error = row.outcome.verdict.__name__, row.outcome.code.name
    return f'semel_verdicts_total{{error="{error}",of="{of}",verdict="{name}"}}'


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.scenario)
def test_semel_answers_and_counts(
    row: Row, semel_log: LocalLog, semel_cluster: Cluster, metrics_address: str
) -> None:
    past = PAST if row.begins_in_the_past else None
    with Wire(semel_log.bootstrap, prefix_of(row)) as wire:
        stage = Metered(metrics_address, semel_cluster, row, past, wire)
        answered = stage.play()
    assert answered.code is row.outcome.code, answered
    assert (answered.message is None) == (answered.code is ErrorCode.NONE or not isinstance(row.sent, Batch))
    if row.base_offset is not None:
        assert answered.base_offset == row.base_offset
    elif answered.code is not ErrorCode.NONE:
        assert answered.base_offset == -1
    assert stage.moved == {series_of(row): 1}


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.scenario in REFUSED_BEFORE], ids=lambda row: row.scenario
)
def test_the_coordinator_refuses_before_the_log_judges(
    row: Row, semel_log: LocalLog, semel_cluster: Cluster, metrics_address: str
) -> None:
    with Wire(semel_log.bootstrap, prefix_of(row)) as wire:
        stage = Metered(metrics_address, semel_cluster, row, None, wire)
        assert stage.play().code is REFUSED_BEFORE[row.scenario]
    assert stage.moved == {}


@pytest.mark.slow
def test_the_metrics_have_every_verdict_from_the_start() -> None:
    address = free_address()
    with LocalLog(metrics=address):
        assert verdict_series(address) == dict.fromkeys(map(series_of, TABLE), 0)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.outcome.kafka is not None], ids=lambda row: row.scenario
)
def test_apache_kafka_answers(row: Row, apache_kafka: ApacheKafka, kafka_cluster: Cluster) -> None:
    with Wire(apache_kafka.bootstrap, prefix_of(row)) as wire:
        answered = Stage(kafka_cluster, row, tp_of(row), wire=wire).play()
    assert answered.code is row.outcome.kafka, answered
    if row.base_offset is not None:
        assert answered.base_offset == row.base_offset
