"""Consume, transform, produce in transactions, killed and started again: every row is there once, in its order."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.client.transactional import values
from tests.peers.apache_kafka import ApacheKafka

import semel
from semel.types import LATEST_TIMESTAMP, TopicPartition

ROUNDS = 5


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.exactly_once", *arguments], env=dict(os.environ)
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def lag_of(bootstrap: str, group: str) -> int | None:
    with semel.Admin(bootstrap) as admin, contextlib.suppress(semel.errors.SemelError):
        found = [item.lag for item in admin.group_lag(group)]
        if found and None not in found:
            return sum(lag or 0 for lag in found)
    return None


def is_open(admin: semel.Admin, topic: str) -> bool:
    """Whether rows of a transaction lie in it that neither count nor are aborted."""
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    latest = dict.fromkeys(tps, LATEST_TIMESTAMP)
    ends = admin.list_offsets(latest, "read_uncommitted")
    return any(at.offset < ends[tp].offset for tp, at in admin.list_offsets(latest).items())


def kill_in_a_transaction(admin: semel.Admin, topic: str, process: subprocess.Popen[bytes]) -> None:
    """Stop it, see that something is open still, and kill it; else let it go on, and try again."""
    give_up_s = time.monotonic() + 60
    while True:
        assert time.monotonic() < give_up_s
        assert process.poll() is None
        if is_open(admin, topic):
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)  # for what had left, and for markers
            if is_open(admin, topic):
                process.kill()
                process.wait()
                return
            process.send_signal(signal.SIGCONT)


@pytest.mark.kafka
@pytest.mark.loops
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_in_its_transactions_and_started_again_it_writes_each_row_once(
    apache_kafka: ApacheKafka,
) -> None:
    bootstrap, source = apache_kafka.bootstrap, f"clicks-{uuid.uuid4().hex[:8]}"
    target, group = f"{source}-out", f"{source}-to-{source}-out"
    is_over = threading.Event()
    fed: list[bytes] = []

    def feed() -> None:
        with semel.Producer(bootstrap, linger_ms=1) as producer:
            while not is_over.is_set():
                fed.append(b"row %d" % len(fed))
                producer.send(source, fed[-1], key=b"%d" % (len(fed) % 7))
                if len(fed) % 20 == 0:
                    time.sleep(0.02)

    feeder = threading.Thread(target=feed, daemon=True)
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(source, 2)
        admin.create_topic(target, 2)
        feeder.start()
        try:
            for _ in range(ROUNDS):
                with running(bootstrap, source, target) as process:
                    kill_in_a_transaction(admin, target, process)
        finally:
            is_over.set()
            feeder.join()
    with running(bootstrap, source, target) as process:
        give_up_s = time.monotonic() + 120
        while lag_of(bootstrap, group) != 0:
            assert time.monotonic() < give_up_s
            assert process.poll() is None
            time.sleep(0.2)
        # A second copy takes over: the older one is told, and ends.
        with running(bootstrap, source, target):
            assert process.wait(60) == 1
    written = values(bootstrap, target)
    assert len(written) == len(fed)
    assert set(written) == {row.upper() for row in fed}
    last: dict[int, int] = {}
    for value in written:
        row = int(value.split()[1])
        assert last.get(row % 7, -1) < row
        last[row % 7] = row
    assert len(values(bootstrap, target, "read_uncommitted")) > len(fed)
