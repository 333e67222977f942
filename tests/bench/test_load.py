"""The load generator against the socket that only answers, and the sums of several generators."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.load import ONE_RECORD, Load, Measured, together
from bench.load.__main__ import drive
from bench.load.connections import ProduceConnection
from bench.load.generate import generate, sink

REQUESTS = 200


def test_several_generators_are_as_slow_as_the_slowest() -> None:
    one = Measured(100, 1000, 10_000_000, 2.0, 1.0, 5.0, 0.5)
    both = together([one, replace(one, seconds=4.0, p50_ms=2.0, p99_ms=3.0, busy=0.25)])
    assert both == Measured(200, 2000, 20_000_000, 4.0, 2.0, 5.0, 0.5)
    assert (both.requests_per_s, both.megabytes_per_s) == (50.0, 5.0)


@pytest.mark.parametrize(
    "load",
    [
        Load("produce", "t", 4, 4, 5, ONE_RECORD, requests=REQUESTS),
        pytest.param(Load("produce", "t", 4, 8, 1, ONE_RECORD, requests=REQUESTS), marks=pytest.mark.slow),
        pytest.param(Load("produce", "t", 4, 4, 5, 65_536, requests=REQUESTS), marks=pytest.mark.slow),
        Load("fetch", "t", 4, 4, 1, 65_536, 1_048_576, requests=REQUESTS),
    ],
    ids=["pipelined", "one at a time", "64 KB", "fetch"],
)
def test_every_request_is_answered_and_counted(load: Load) -> None:
    with sink(load) as bootstrap:
        measured = generate(bootstrap, load)
    assert measured.requests == REQUESTS * load.connections
    assert measured.payload_bytes > 0
    assert measured.records >= measured.requests
    assert 0 < measured.p50_ms <= measured.p99_ms


def test_a_run_of_some_seconds_ends_with_every_request_answered() -> None:
    load = Load("produce", "t", 4, 4, 5, ONE_RECORD, seconds=0.2)
    with sink(load) as bootstrap:
        measured = generate(bootstrap, load)
    assert 0.2 <= measured.seconds < 10
    assert measured.records == measured.requests > 0


def test_a_connection_goes_on_burst_by_burst() -> None:
    load = Load("produce", "t", 1, 1, 5, ONE_RECORD, requests=1)
    with sink(load) as bootstrap:
        connection = ProduceConnection(bootstrap, load, 0)
        for answered in (20, 40):
            connection.allow(20)
            drive([connection], 0)
            assert connection.answered == answered
        connection.sock.close()
