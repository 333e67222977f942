"""The server is killed while producers write, and comes back on the same folder and the same address.

Even rounds write with our producer, odd ones with librdkafka: both retry with the same sequences, so a batch
that was stored before the kill, but not acknowledged, must be turned away when it comes again.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import confluent_kafka
from tests.loops.rounds import RoundResult, breaches, create_topic, read_back

import semel

TOPIC = "rows"
PARTITIONS = 2
KILLS_MAX = 3
ROUND_WRITES_S = (1.0, 3.0)
DELIVERY_TIMEOUT_S = 60.0


WriterClass = Callable[[str, random.Random], "Writer"]


class Writer(Protocol):
    """Sends numbered rows and remembers what was acknowledged: partition -> offset -> row."""

    acknowledged: dict[int, dict[int, int]]

    def send(self, row: int) -> None: ...
    def finish(self) -> None: ...


class SemelWriter:
    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.acknowledged: dict[int, dict[int, int]] = {partition: {} for partition in range(PARTITIONS)}
        self._producer = semel.Producer(
            bootstrap,
            linger_ms=dice.choice([0, 1, 5]),
            compression=dice.choice(["none", "lz4"]),
            delivery_timeout_ms=int(DELIVERY_TIMEOUT_S * 1_000),
        )
        self._pending: list[tuple[int, semel.Delivery]] = []

    def send(self, row: int) -> None:
        delivery = self._producer.send(TOPIC, b"%d" % row, partition=row % PARTITIONS)
        self._pending.append((row, delivery))

    def finish(self) -> None:
        self._producer.flush(DELIVERY_TIMEOUT_S)
        for row, delivery in self._pending:
            report = delivery.result(DELIVERY_TIMEOUT_S)
            self.acknowledged[report.partition][report.offset] = row
        self._producer.close()


class LibrdkafkaWriter:
    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.acknowledged: dict[int, dict[int, int]] = {partition: {} for partition in range(PARTITIONS)}
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": dice.choice([0, 1, 5]),
                "compression.type": dice.choice(["none", "zstd"]),
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 2,
            }
        )

    def send(self, row: int) -> None:
        def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self.acknowledged[message.partition()][message.offset()] = row

        partition = row % PARTITIONS
        while True:
            try:
                self._producer.produce(TOPIC, b"%d" % row, partition=partition, on_delivery=on_delivery)
                break
            except BufferError:  # its queue is full, as it must be while the server is down
                self._producer.poll(0.05)
        self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        assert left == 0, f"{left} rows still undelivered {DELIVERY_TIMEOUT_S} s after the last kill"


def server_round(dice: random.Random, *, writer_class: WriterClass) -> RoundResult:
    """One life of a log: writes, 1 to 3 kills at random moments, and the audit."""
    kills = dice.randint(1, KILLS_MAX)
    writes_s = dice.uniform(*ROUND_WRITES_S)
    kill_at_s = sorted(dice.uniform(0.05, writes_s) for _ in range(kills))
    with tempfile.TemporaryDirectory() as folder, semel.LocalLog(Path(folder)) as log:
        create_topic(log.bootstrap, TOPIC, PARTITIONS)
        writer: Writer = writer_class(log.bootstrap, dice)
        stop = threading.Event()

        def kill_on_time() -> None:
            started_s = time.monotonic()
            for moment_s in kill_at_s:
                stop.wait(max(0.0, started_s + moment_s - time.monotonic()))
                log.crash()
                log.restart()
            stop.wait(max(0.0, started_s + writes_s - time.monotonic()))
            stop.set()

        killer = threading.Thread(target=kill_on_time, name="killer")
        killer.start()
        row = 0
        try:
            while not stop.is_set():
                for _ in range(200):
                    writer.send(row)
                    row += 1
                stop.wait(0.002)  # the law is under test, not the speed
        finally:
            stop.set()
            killer.join()
        writer.finish()
        expected = {partition: range(partition, row, PARTITIONS) for partition in range(PARTITIONS)}
        stored = read_back(log.bootstrap, TOPIC, PARTITIONS)
    found = breaches(stored, acknowledged=writer.acknowledged, expected=expected)
    return RoundResult(rows=row, kills=kills, breaches=found)
