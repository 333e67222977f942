"""How long a killed producer is away."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict

from bench.results import Row, Section
from bench.sections import Bench
from bench.servers import SEMEL, semel
from semel import Consumer, TopicPartition

_TOPIC = "resumed"
_ROWS_BETWEEN = 100  # that a run has stored when it is killed
_KILLS_A_START = 4
_BACK, _BEGUN = "kill -9 to the first new row acknowledged", "of that, until Python runs the program"


def resuming(bench: Bench) -> Section:
    """The program is killed in the middle of its rows and started again, over and over."""
    samples: dict[str, list[float]] = defaultdict(list)
    kills = _KILLS_A_START * bench.plan.starts
    with semel(bench.folder / "semel", durable=True, alone=False) as server:
        server.create(_TOPIC, 1)
        command = [
            sys.executable,
            "-m",
            "bench.resumer",
            server.bootstrap,
            str(bench.folder / "loader.id"),
            _TOPIC,
        ]
        killed_at_s = 0.0
        for number in range(kills + 1):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
                assert program.stdout is not None
                try:
                    times_s = [_time_s(program.stdout.readline()) for _ in range(1 + _ROWS_BETWEEN)]
                finally:
                    killed_before_s, killed_at_s = killed_at_s, time.monotonic()
                    program.kill()
                    program.stdout.read()
            if number:
                samples[_BACK].append(times_s[1] - killed_before_s)
                samples[_BEGUN].append(times_s[0] - killed_before_s)
                bench.tell(f"{_BACK}: {samples[_BACK][-1]:.2f} s")
        _check(server.bootstrap, (kills + 1) * _ROWS_BETWEEN)
    return Section(
        "From kill to resumed producer",
        f"A Python program with an `identity_store` sends rows to a durable server and waits for each; {kills} times "
        "it is killed with `kill -9` after a hundred and started again at once. It takes its identity up again, "
        "fences the copy that was killed, and goes on behind the last row that is stored. In the end each row is "
        "in the topic once, and in order. Client and server on all cores.",
        tuple(Row(work, "s", {SEMEL: values}, less_is_better=True) for work, values in samples.items()),
        beside=(SEMEL,),
    )


def _time_s(line: str) -> float:
    if not line:
        raise RuntimeError("the program ended before it was killed")
    return float(line)


def _check(bootstrap: str, rows_min: int) -> None:
    """Every row once, and in order."""
    with Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(_TOPIC, 0)])
        rows: list[int] = []
        while records := consumer.poll(timeout=5):
            rows += [int(record.value or b"-1") for record in records]
    if len(rows) < rows_min or rows != list(range(len(rows))):
        raise RuntimeError(f"the topic does not hold each row once, in order: {len(rows)} rows")
