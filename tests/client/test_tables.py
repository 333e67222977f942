"""Tables go out by column, and land where the same rows sent one by one would."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

import semel
from semel import aio
from semel.errors import CannotKnow, ConfigError, NotStored, TransactionAborted
from semel.types import TopicPartition

ROWS = pa.table(
    {
        "key": [None if row % 4 == 0 else f"key-{row % 11}" for row in range(100_000)],
        "value": [f"{row}" for row in range(100_000)],
    }
)


def values_by_partition(
    bootstrap: str, topic: str, partition_count: int = 3
) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {partition: [] for partition in range(partition_count)}
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in found])
        while (table := consumer.fetch_table(0.3)).num_rows:
            for partition, value in zip(
                table["partition"].to_pylist(), table["value"].to_pylist(), strict=True
            ):
                found[partition].append(value)
    return found


def test_a_table_lands_like_its_rows(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin, semel.Producer(semel_server.bootstrap) as producer:
        for topic in ("table", "rows"):
            admin.create_topic(topic, 3)
        # Without an identity turns count the rows without a key only, row by row; keyed rows go by key.
        keyed = ROWS.filter(pa.compute.is_valid(ROWS["key"]))
        sent = producer.send_table("table", keyed)
        for row in keyed.to_pylist():
            producer.send("rows", row["value"], row["key"])
        producer.flush()
        ranges = sent.result(0)
    for partition, values in values_by_partition(semel_server.bootstrap, "table").items():
        next_offset = 0
        for stored in ranges:
            if stored.partition == partition:
                assert stored.base_offset == stored.base_sequence == next_offset
                next_offset += stored.row_count
        assert next_offset == len(values)
    assert sum(stored.row_count for stored in ranges) == sent.row_count == keyed.num_rows
    assert values_by_partition(semel_server.bootstrap, "table") == values_by_partition(
        semel_server.bootstrap, "rows"
    )


@pytest.mark.thorough
def test_a_table_resumes_in_its_middle(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    identity = tmp_path / "identity"
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("out", 3)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send_table("out", ROWS.slice(0, 61_234), position="first try")
        before = identity.read_bytes()
    identity.write_bytes(before)  # as if killed before the position was saved
    with semel.Producer(semel_server.bootstrap, identity_store=identity, compression="zstd") as producer:
        for position, table in producer.resume(lambda _: [("all", ROWS)]):
            producer.send_table("out", table, position=position)
        assert producer.rows_dropped == 61_234
    found = values_by_partition(semel_server.bootstrap, "out")
    assert sorted(int(value or b"") for values in found.values() for value in values) == list(range(100_000))


def test_a_table_with_other_columns_is_refused(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer, pytest.raises(ConfigError, match="columns"):
        producer.send_table("out", pa.table({"payload": ["x"]}))


def test_a_table_goes_in_pieces_that_the_topic_takes(semel_server: semel.LocalLog) -> None:
    """Its batches are as large as topics take by default; a topic that takes less has them split."""
    rows = pa.table({"value": [f"{row:08}" for row in range(10_000)]})
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("out", 1, {"max.message.bytes": "20000"})
    with semel.Producer(semel_server.bootstrap) as producer:
        ranges = producer.send_table("out", rows).result(30)
    assert len(ranges) > 5
    ends = [0, *(each.base_offset + each.row_count for each in ranges if each.base_offset is not None)]
    assert [each.base_offset for each in ranges] == ends[:-1]
    assert ends[-1] == rows.num_rows
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([TopicPartition("out", 0)])
        values = []
        while (table := consumer.fetch_table(0.3)).num_rows:
            values += table["value"].to_pylist()
    assert values == [value.encode() for value in rows["value"].to_pylist()]


# Of this the buffer takes a piece or two; while the server stands still, no more.
LARGE = pa.table({"value": [b"%05d" % row + b"x" * 1_000 for row in range(3_000)]})


def producer_with_little_room(log: semel.LocalLog, max_block_ms: int = 200, **more: Any) -> semel.Producer:
    return semel.Producer(
        log.bootstrap, buffer_bytes=200_000, batch_bytes=50_000, max_block_ms=max_block_ms, **more
    )


@contextmanager
def standing_still(log: semel.LocalLog) -> Iterator[None]:
    assert log.process_id is not None
    os.kill(log.process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(log.process_id, signal.SIGCONT)


def test_a_table_that_was_taken_in_part_is_not_told_as_not_stored(semel_server: semel.LocalLog) -> None:
    with producer_with_little_room(semel_server) as producer:
        producer.send("out", b"first").result(10)
        with (
            standing_still(semel_server),
            pytest.raises(CannotKnow, match="rows of the table's 3000 may or may not be stored, the others"),
        ):
            producer.send_table("out", LARGE)
    assert 1 < len(values_by_partition(semel_server.bootstrap, "out", 1)[0]) < 3_000


def test_so_it_is_with_await(semel_server: semel.LocalLog) -> None:
    async def sent() -> None:
        async with aio.Producer(semel_server.bootstrap, buffer_bytes=200_000, max_block_ms=200) as producer:
            await (await producer.send("out", b"first"))
            with (
                standing_still(semel_server),
                pytest.raises(CannotKnow, match="rows of the table's 3000 may or may not be stored"),
            ):
                await producer.send_table("out", LARGE)

    asyncio.run(sent())


def test_a_table_of_which_nothing_was_taken_is_not_stored(semel_server: semel.LocalLog) -> None:
    with producer_with_little_room(semel_server) as producer:
        producer.send("out", b"first").result(10)
        with standing_still(semel_server):
            producer.send("out", b"x" * 150_000)
            with pytest.raises(NotStored, match="buffer stayed full"):
                producer.send_table("out", LARGE)
    assert len(values_by_partition(semel_server.bootstrap, "out", 1)[0]) == 2


def test_rows_that_cannot_be_sent_in_the_middle_of_a_table_say_what_went(
    semel_server: semel.LocalLog,
) -> None:
    times = pa.array([1] * 2_999 + [None], pa.int64())
    with (
        semel.Producer(semel_server.bootstrap, buffer_bytes=1_000_000) as producer,
        pytest.raises(ValueError, match="must not be null") as told,
    ):
        producer.send_table("out", LARGE.append_column("timestamp", times))
    assert "of the table's 3000 may or may not be stored" in told.value.__notes__[0]


def test_a_transaction_with_a_part_of_a_table_cannot_be_committed(semel_server: semel.LocalLog) -> None:
    """Whatever the program makes of the error."""
    times = pa.array([1] * 2_999 + [None], pa.int64())
    with producer_with_little_room(semel_server, 3_000, transactional_id="tables") as producer:
        with pytest.raises(TransactionAborted, match="of a table only"), producer.transaction():
            producer.send("out", b"first").result(10)
            with (
                standing_still(semel_server),
                pytest.raises(TransactionAborted, match=r"of a table only .* of 3,000 rows were taken"),
            ):
                producer.send_table("out", LARGE)
        with (
            pytest.raises(TransactionAborted, match="must not be null"),
            producer.transaction(),
            pytest.raises(ValueError, match="must not be null"),
        ):
            producer.send_table("out", LARGE.append_column("timestamp", times))
        with producer.transaction():
            producer.send("out", b"next")
    assert values_by_partition(semel_server.bootstrap, "out", 1) == {0: [b"next"]}
