"""The source at batches that nobody can read, and at a damaged one: it stops, and with deadLetterTopic it does not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests import poison

import semel
from semel.errors import UnreadableBatch
from semel.spark.options import source_options
from semel.spark.source import COLUMNS, SemelReader, SemelStreamReader
from semel.types import TopicPartition

KINDS = list(poison.UNREADABLE.values())


def options(log: semel.LocalLog, streaming: bool, **given: str):
    named = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": "t", "startingOffsets": "earliest"}
    return source_options(named | given, streaming=streaming)


def values(log: semel.LocalLog, *, streaming: bool, **given: str) -> list[bytes | None]:
    """Of all tasks, in their order."""
    if streaming:
        stream = SemelStreamReader(options(log, streaming, **given), tuple(COLUMNS))
        start = stream.initialOffset()
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        reader, pieces = stream, stream.partitions(start, end)
    else:
        reader = SemelReader(options(log, streaming, **given), tuple(COLUMNS))
        pieces = reader.partitions()
    batches: list[pa.RecordBatch] = [batch for piece in pieces for batch in reader.batches(piece.value)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def letters(log: semel.LocalLog) -> list[tuple[bytes | None, bool]]:
    """Where each stood, and whether it is all there."""
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign([TopicPartition("dead", 0)])
        return [(dict(row.headers)["semel-at"], bool(row.value)) for row in consumer.poll(10)]


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
def test_it_goes_past_what_was_produced_so_only_where_it_is_told_to(semel_server, streaming):
    batches = poison.good(b"a"), KINDS[1], poison.timeless(), KINDS[3], poison.good(b"b")
    poison.produce(semel_server.bootstrap, TopicPartition("t", 0), *batches)
    with pytest.raises(UnreadableBatch, match=r"offset 1 .* deadLetterTopic"):
        values(semel_server, streaming=streaming)
    for splits in ("1", "4"):  # a batch may be cut by the tasks' ranges
        given = {"deadLetterTopic": "dead", "minPartitions": splits}
        found = values(semel_server, streaming=streaming, **given)
        assert found == [b"a", b"old", b"older", b"b"]
    assert letters(semel_server) == [(b"t/0/1", True), (b"t/0/5", True)]


def test_a_damaged_batch_goes_there_too(semel_server):
    rows = [poison.good(value) for value in (b"a", b"row b", b"c")]
    poison.produce(semel_server.bootstrap, TopicPartition("t", 0), *rows)
    (segment,) = Path(semel_server.data_dir).rglob("t-0/*.log")
    segment.write_bytes(segment.read_bytes().replace(b"row b", b"RAW b"))
    with pytest.raises(UnreadableBatch, match="damaged on the server's disk"):
        values(semel_server, streaming=False)
    assert values(semel_server, streaming=False, deadLetterTopic="dead") == [b"a", b"c"]
    assert letters(semel_server) == [(b"t/0/1", True)]
