"""A range is read to its end, each row once; and what is said of what cannot be read."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

import semel
from semel.client.blocking import Cluster
from semel.client.model import Fetched
from semel.errors import CorruptRecordBatch, DataLoss, UnreadableBatch
from semel.record.batch import scan_batches
from semel.spark.options import source_options
from semel.spark.reading import read_range
from semel.spark.source import SemelReader
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")
TP = TopicPartition("t", 0)


@pytest.fixture
def three_batches(semel_server: semel.LocalLog) -> semel.LocalLog:
    with semel.Producer(semel_server.bootstrap, linger_ms=0) as producer:
        for value in ("row a", "row b", "row c"):
            producer.send("t", value).result(10)
    return semel_server


class OnTheWay(Cluster):
    """Real answers of a real server, with offset 0 in their last batch, which no CRC covers."""

    def begin_fetch(self, *args: Any, **settings: Any) -> Future[dict[TopicPartition, Fetched]]:
        answers = super().begin_fetch(*args, **settings).result()
        damaged: Future[dict[TopicPartition, Fetched]] = Future()
        records = bytearray(answers[TP].records)
        last = len(records) - [header for _, header in scan_batches(bytes(records))][-1].size_bytes
        records[last : last + 8] = bytes(8)
        damaged.set_result({TP: replace(answers[TP], records=memoryview(records))})
        return damaged


@pytest.mark.parametrize("from_offset", [0, 2])
def test_offsets_that_go_back_are_damage(three_batches: semel.LocalLog, from_offset: int) -> None:
    rows = 0
    with (
        OnTheWay(three_batches.bootstrap) as cluster,
        pytest.raises(CorruptRecordBatch, match="offset 0"),
    ):
        for batches in read_range(cluster, TP, from_offset, 3):
            rows += len(batches)
            assert rows <= 3, "some came twice"
    assert rows == 0


def test_a_damaged_batch_is_named(three_batches: semel.LocalLog) -> None:
    (segment,) = three_batches.data_dir.rglob("t-0/*.log")
    segment.write_bytes(segment.read_bytes().replace(b"row b", b"RAW b"))
    with Cluster(three_batches.bootstrap) as cluster, pytest.raises(UnreadableBatch, match=r"t.*offset 1"):
        list(read_range(cluster, TP, 0, 3))


def test_offsets_behind_the_end_were_not_taken_by_retention(three_batches: semel.LocalLog) -> None:
    given = {"kafka.bootstrap.servers": three_batches.bootstrap, "subscribe": "t"}
    options = source_options(
        given | {"startingOffsets": '{"t": {"0": 7}}', "endingOffsets": '{"t": {"0": 9}}'}, streaming=False
    )
    with pytest.raises(DataLoss, match="the log ends at offset 3") as told:
        SemelReader(options, ("value",)).partitions()
    assert "retention" not in str(told.value)
