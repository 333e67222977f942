"""A disk that is full: told in the log at once and in the metrics, named by the producer, and over when there is room.

The disk is as full as the server's process may make it (``RLIMIT_FSIZE``), which needs no mount and can be taken back
while it runs.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.peers.metrics import metrics_of

import semel
from semel.demo.verdicts import free_address
from semel.errors import DeliveryError, SemelError
from semel.server.free_space import FreeSpace
from semel.types import TopicPartition

MIB = 1 << 20


def fill_disk(server: Any, *, file_bytes_max: int) -> None:
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (file_bytes_max, hard))


def make_room(server: Any) -> None:
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


def lines(server: Any, *words: str) -> list[str]:
    return [line for line in server.log.splitlines() if all(word in line for word in words)]


def wait_for(met: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + 20
    while not met():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)


def values_of(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        while len(values) < count:
            values += [record.value for record in consumer.poll(10, max_records=1000)]
        assert not consumer.poll(0.2)
        return values


@pytest.mark.thorough
def test_until_it_is_full_and_on_when_there_is_room(start_server: Any) -> None:
    metrics = free_address()
    server = start_server(f"--metrics={metrics}")
    settings = {"linger_ms": 0, "delivery_timeout_ms": 1_500, "request_timeout_ms": 1_000}
    stored = []
    with semel.Producer(server.bootstrap, **settings) as producer:
        producer.send("events", "first").result(30)
        stored.append(b"first")
        assert metrics_of(metrics)["semel_partitions_full"] == 0
        fill_disk(server, file_bytes_max=200_000)
        refused: list[DeliveryError] = []
        for n in range(12):
            value = f"{n:05}" * 4_000
            try:
                producer.send("events", value).result(30)
            except DeliveryError as error:
                refused.append(error)
                if len(refused) == 2:
                    break
            else:
                stored.append(value.encode())
        assert len(refused) == 2 and len(stored) > 5
        for error in refused:
            assert "KAFKA_STORAGE_ERROR" in str(error), error
            assert "File too large" in str(error), error
        (told,) = lines(server, "ERROR", "events-0 cannot be written")
        assert "File too large" in told and "make room" in told
        now = metrics_of(metrics)
        assert now["semel_partitions_full"] == 1
        assert now['semel_partition_online{partition="0",topic="events"}'] == 1
        assert now['semel_append_errors_total{error="KAFKA_STORAGE_ERROR"}'] > 1
        assert now["semel_data_dir_free_bytes"] > 0
        assert values_of(server.bootstrap, "events", len(stored)) == stored

        make_room(server)
        producer.send("events", "last").result(30)
        stored.append(b"last")
    wait_for(lambda: bool(lines(server, "INFO", "events-0 is written again")), server.log)
    assert metrics_of(metrics)["semel_partitions_full"] == 0
    assert values_of(server.bootstrap, "events", len(stored)) == stored
    assert server.stop() == 0
    assert lines(server, "left out", "lines like", "events-0 cannot be written")
    assert "Traceback" not in server.log


@pytest.mark.thorough
def test_a_topic_that_finds_no_room_is_told_too(start_server: Any) -> None:
    server = start_server()
    with semel.Admin(server.bootstrap) as admin:
        fill_disk(server, file_bytes_max=6_000)  # the server's log is a file as well
        with pytest.raises(SemelError, match="KAFKA_STORAGE_ERROR"):
            for n in range(200):
                admin.create_topic(f"topic-{n}")
        assert lines(server, "ERROR", "a topic could not be changed", "File too large")
        make_room(server)
        admin.create_topic("after")
        with semel.Producer(server.bootstrap) as producer:
            producer.send("after", "row").result(30)


@pytest.mark.thorough
def test_a_warning_comes_before(start_server: Any) -> None:
    server = start_server("-X", f"data.dir.free.bytes.low={10**18}")
    wait_for(lambda: bool(lines(server, "WARNING", "MiB left", "data.dir.free.bytes.low")), server.log)


def test_each_crossing_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="semel.server.free_space")
    left = [500, 101, 99, 50, 99, 105, 99, 109, 110, 99, 300]
    levels = iter([mib * MIB for mib in left])
    space = FreeSpace(tmp_path, 100 * MIB, lambda folder: next(levels))
    told = []
    for mib in left:
        before = len(caplog.messages)
        space.look()
        assert space.free_bytes == mib * MIB
        told += [(mib, message.split()[-1]) for message in caplog.messages[before:]]
    assert [mib for mib, _ in told] == [99, 110, 99, 300]


def test_a_bound_of_0_never_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    FreeSpace(tmp_path, 0, lambda folder: 0).look()
    assert not caplog.messages


def test_a_folder_that_cannot_be_asked_is_unknown(tmp_path: Path) -> None:
    space = FreeSpace(tmp_path / "gone", 1)
    space.look()
    assert space.free_bytes is None and not space.is_low
