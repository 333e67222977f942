"""Reading a range: what is said of what cannot be read."""

from __future__ import annotations

import pytest

import semel
from semel.client.blocking import Cluster
from semel.errors import DataLoss, UnreadableBatch
from semel.spark.options import source_options
from semel.spark.reading import read_range
from semel.spark.source import SemelReader
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")
ROWS = TopicPartition("rows", 0)


@pytest.fixture
def three_batches(semel_server: semel.LocalLog) -> semel.LocalLog:
    with semel.Producer(semel_server.bootstrap) as producer:
        for number in range(3):
            producer.send("rows", f"row {number}").result(10)
    return semel_server


def test_a_damaged_batch_is_named(three_batches):
    (segment,) = three_batches.data_dir.rglob("rows-0/*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"row 1", b"RAW 1"))
    with Cluster(three_batches.bootstrap) as cluster, pytest.raises(UnreadableBatch, match=r"rows.*offset 1"):
        list(read_range(cluster, ROWS, 0, 3))


def test_offsets_behind_the_end_were_not_taken_by_retention(three_batches):
    given = {"kafka.bootstrap.servers": three_batches.bootstrap, "subscribe": "rows"}
    options = source_options(
        given | {"startingOffsets": '{"rows": {"0": 7}}', "endingOffsets": '{"rows": {"0": 9}}'},
        streaming=False,
    )
    with pytest.raises(DataLoss, match="the log ends at offset 3") as told:
        SemelReader(options, ("value",)).partitions()
    assert "retention" not in str(told.value)
