"""Runs the load generator: as many processes as there are cores beside the server's, begun together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from bench.load import Load, Measured, together
from bench.pinning import LOAD_CPUS, SERVER_CPU, pinned

TIMEOUT_S = 180.0


def generate(bootstrap: str, load: Load, at_start: Callable[[], None] = lambda: None) -> Measured:
    """Drive ``load`` against the server at ``bootstrap``; ``at_start`` is called when all are connected."""
    processes = min(load.connections, len(LOAD_CPUS))
    with ExitStack() as stack:
        generators = []
        for number in range(processes):
            mine = ",".join(str(each) for each in range(number, load.connections, processes))
            command = [*pinned(LOAD_CPUS[number]), sys.executable, "-m", "bench.load"]
            command += [bootstrap, json.dumps(asdict(load)), mine]
            generators.append(stack.enter_context(_child(command)))
        for each in generators:
            assert each.stdout is not None
            if each.stdout.readline() != "ready\n":
                raise RuntimeError(f"the load generator failed: {each.communicate()[1]}")
        at_start()
        for each in generators:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        parts = []
        for each in generators:
            answer, errors = each.communicate(timeout=TIMEOUT_S)
            if each.returncode != 0:
                raise RuntimeError(f"the load generator failed on {load}:\n{errors}")
            parts.append(Measured(**json.loads(answer)))
    return together(parts)


@contextmanager
def sink(load: Load) -> Iterator[str]:
    """A server on the servers' core that only answers; its address."""
    command = [*pinned(SERVER_CPU), sys.executable, "-m", "bench.load.sink", json.dumps(asdict(load))]
    with _child(command) as process:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().strip()
        if not bootstrap:
            raise RuntimeError(f"the sink did not start: {process.communicate()[1]}")
        yield bootstrap


@contextmanager
def _child(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
