"""One generator process: ``python -m bench.load BOOTSTRAP LOAD-AS-JSON CONNECTION-NUMBERS``.

It says "ready" once it is connected, begins at the next line on its standard input, and prints one JSON object.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from bench.load import Load, Measured
from bench.load.connections import PATIENCE_S, FetchConnection, ProduceConnection


def drive(connections: Sequence[ProduceConnection | FetchConnection], seconds: float) -> Measured:
    """Drive all connections from this thread until the time is over and every request is answered."""
    poller = select.epoll()
    by_descriptor = {each.sock.fileno(): each for each in connections}
    waits_to_send = dict.fromkeys(by_descriptor, False)
    for descriptor in by_descriptor:
        poller.register(descriptor, select.EPOLLIN)
    busy_since_s = time.process_time()
    started_s = time.perf_counter()
    end_s = started_s + seconds if seconds else float("inf")
    for each in connections:
        each.send()
    while not all(each.finished for each in connections):
        ready = poller.poll(PATIENCE_S)
        if not ready:
            raise TimeoutError("no answer")
        if time.perf_counter() >= end_s:
            end_s = float("inf")
            for each in connections:
                each.stop()
        for descriptor, events in ready:
            connection = by_descriptor[descriptor]
            if events & ~select.EPOLLOUT:
                connection.receive()
            connection.send()
            if connection.blocked != waits_to_send[descriptor]:
                waits_to_send[descriptor] = connection.blocked
                wanted = select.EPOLLIN | (select.EPOLLOUT if connection.blocked else 0)
                poller.modify(descriptor, wanted)
    took_s = time.perf_counter() - started_s
    busy_s = time.process_time() - busy_since_s
    latencies_s = sorted(latency for each in connections for latency in each.latencies_s)
    requests = sum(each.answered for each in connections)
    return Measured(
        requests=requests,
        records=sum(each.answered * each.records_per_request for each in connections),
        payload_bytes=sum(each.payload_bytes for each in connections),
        seconds=took_s,
        p50_ms=1e3 * latencies_s[len(latencies_s) // 2],
        p99_ms=1e3 * latencies_s[len(latencies_s) * 99 // 100],
        busy=busy_s / took_s,
    )


def main() -> None:
    bootstrap, load_json, numbers = sys.argv[1:]
    load = Load(**json.loads(load_json))
    kind = ProduceConnection if load.mode == "produce" else FetchConnection
    connections = [kind(bootstrap, load, int(number)) for number in numbers.split(",")]
    print("ready", flush=True)
    sys.stdin.readline()
    json.dump(asdict(drive(connections, load.seconds)), sys.stdout)


if __name__ == "__main__":
    main()
