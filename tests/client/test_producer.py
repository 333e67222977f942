"""The blocking and the async producer against a real server, its crashes included."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

import semel
from semel import aio
from semel.errors import CannotKnow, ConfigError, ErrorCode, NotStored, UnknownTopic
from semel.types import TopicPartition


def values_of(bootstrap: str, topic: str) -> list[bytes | None]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        while records := consumer.poll(0.3, max_records=100_000):
            values += [record.value for record in records]
        return values


def test_a_report_names_the_producer_and_the_sequence(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        first, second = producer.send("out", "a"), producer.send("out", "b")
        reports = first.result(10), second.result(10)
    assert [report.offset for report in reports] == [0, 1]
    assert [report.sequence for report in reports] == [0, 1]
    assert reports[0].producer_id == reports[1].producer_id >= 0
    assert reports[0].producer_epoch == 0


def test_rows_go_on_across_a_server_crash_once_and_in_order(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap, batch_bytes=1_000) as producer:
        producer.send("out", "0").result(10)
        restarter = threading.Timer(0.1, lambda: (semel_server.crash(), semel_server.restart()))
        restarter.start()
        for row in range(1, 20_000):
            producer.send("out", str(row))
        restarter.join()
        for row in range(20_000, 20_100):
            producer.send("out", str(row))
        producer.flush(30)
    assert [int(value or b"") for value in values_of(semel_server.bootstrap, "out")] == list(range(20_100))


def test_close_gives_up_in_time_and_says_what_is_known(semel_server: semel.LocalLog) -> None:
    producer = semel.Producer(semel_server.bootstrap)
    producer.send("out", "0").result(10)
    semel_server.crash()
    delivery = producer.send("out", "1")
    with pytest.raises((NotStored, CannotKnow), match="first row that failed, of 1,"):
        producer.close(timeout=0.3)
    with pytest.raises((NotStored, CannotKnow)):
        delivery.result(1)
    with pytest.raises(NotStored, match="closed"):
        producer.send("out", "2")


def test_a_full_buffer_blocks_and_then_refuses(semel_server: semel.LocalLog) -> None:
    producer = semel.Producer(semel_server.bootstrap, buffer_bytes=10_000, max_block_ms=200)
    producer.send("out", "0").result(10)
    semel_server.crash()
    with pytest.raises(NotStored, match="buffer stayed full"):
        for _ in range(1_000):
            producer.send("out", "x" * 100)
    # What was written before the client saw the end of its connection is in doubt, and is told first.
    with pytest.raises((NotStored, CannotKnow), match="closed before"):
        producer.close(timeout=0)


def test_partitions_that_are_added_are_noticed(semel_server: semel.LocalLog) -> None:
    with (
        semel.Admin(semel_server.bootstrap) as admin,
        semel.Producer(semel_server.bootstrap, metadata_max_age_ms=20) as producer,
    ):
        admin.create_topic("out", 1)
        producer.send("out", "0").result(10)
        admin.add_partitions("out", 3)
        give_up_s = time.monotonic() + 10
        while True:
            try:
                report = producer.send("out", "1", partition=2).result(10)
                break
            except ConfigError:
                assert time.monotonic() < give_up_s
                time.sleep(0.02)
        assert report.partition == 2


def test_a_topic_that_nobody_makes_is_told_by_its_name(
    semel_server_factory: Callable[..., semel.LocalLog],
) -> None:
    log = semel_server_factory(**{"auto.create.topics.enable": "false"})
    with (
        semel.Producer(log.bootstrap, request_timeout_ms=500) as producer,
        pytest.raises(NotStored, match=r"topic 'mistyped': .*semel topic create mistyped") as refused,
    ):
        producer.send("mistyped", "row")
    assert isinstance(refused.value.__cause__, UnknownTopic)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_use_after_fork_is_refused(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("out", "0").result(10)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send("out", "1")
            except ConfigError as error:
                os.write(write_end, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write_end)
        assert b"fork" in os.read(read_end, 1_000)
        os.close(read_end)


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"in_flight_max": 6}, {"compression": "rar"}, {"identity": "loader"}]
)
def test_settings_that_cannot_be_exact_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        semel.Producer("127.0.0.1:1", **settings)


def test_the_async_producer_has_the_same_names(semel_server: semel.LocalLog) -> None:
    async def work() -> None:
        async with aio.Producer(semel_server.bootstrap) as producer:
            reports = [await (await producer.send("out", str(row))) for row in range(3)]
            assert [report.offset for report in reports] == [0, 1, 2]
            (stored,) = await (await producer.send_table("table", pa.table({"value": ["a", "b"]})))
            assert (stored.base_offset, stored.row_count) == (0, 2)
        async with aio.Consumer(semel_server.bootstrap) as consumer:
            await consumer.assign({TopicPartition("out", 0): 1})
            assert [record.value for record in await consumer.poll(5)] == [b"1", b"2"]

    asyncio.run(work())
