"""A flow on real Spark whose parts are killed: its driver, its processes of Python, the server; on a cluster also
executors and workers.

All rounds are one flow's life. A round adds rows and kills one part: at a numbered step, which is a request that
changes something, before it comes to the server or after its effect; or at a random moment. The driver is started
again only where it was killed, or has ended; else it has to go on by itself. Behind each round what the flow has
decided equals a replay of what it has recorded. One of fifteen waits for the request that makes the changelog short.
Every tenth, and the last one, runs the flow to the end of its input, where each name has each of its rows once. Now
and then the folder of large state is deleted while no driver runs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tests.flow.flowing import put, rows
from tests.loops.flow import INPUT, NAMES, OUTPUT, name_of, sums
from tests.loops.rounds import RoundResult, create_topic
from tests.loops.turnstile import Step, Turnstile
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars
from tests.peers.spark_cluster import SparkCluster, processes_below

import semel
from semel.errors import SemelError
from semel.flow.recorded import recorded
from semel.flow.replay import replay
from semel.spark.options import Connection
from semel.spark.session import session
from semel.wire.api import ApiKey

ROWS_A_ROUND: Final = 6_000
PARTITIONS: Final = 3
ROUNDS_TO_AN_END: Final = 10
ROUNDS_TO_A_TRIM: Final = 15  # the sixth, and so on: none of those that come to a step
ROWS_TO_A_TRIM: Final = 26_000  # in entries so small that a snapshot is due behind them
CUTS_TO_A_TRIM: Final = (100_000, 5, 300)
STEPS: Final = 34  # a driver's first ones, or the next of one that runs: 51 rounds come to each of them
STEP_STRIDE: Final = 7  # and the first few rounds to early and late ones
TARGETS: Final = ("driver", "python", "server")
TARGETS_OF_A_CLUSTER: Final = ("driver", "python", "server", "executor", "worker")
STEP_OF_A_START_S_MAX: Final = 90.0
STEP_S_MAX: Final = 20.0  # of a flow that runs, which may have no such step left
DECIDES_S_MAX: Final = 180.0
END_S_MAX: Final = 400.0
OF_THE_REPLAY: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
}
# What may end a flow whose surroundings are killed; started again, it goes on. All else is a breach.
PASSING: Final = (
    "ConnectionLost: ",
    "BrokerError: ",
    "SinkFenced: ",
    "ReplayDiffers: ",
    "Spark lost one of its processes: ",
)


class Server(Protocol):
    """What is killed and started again under one address."""

    @property
    def bootstrap(self) -> str: ...

    def crash(self) -> None: ...
    def restart(self) -> None: ...


class FlowLife:
    """One log, one flow, and with ``is_cluster`` a standalone cluster of two workers."""

    def __init__(self, server: str = "semel", *, is_cluster: bool = False) -> None:
        self._server_kind, self._is_cluster = server, is_cluster
        self._stack = ExitStack()
        self._cluster: SparkCluster | None = None
        self._driver: subprocess.Popen[str] | None = None
        self._connection = Connection("")
        self._plan = sums.plan()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-flow-")))
            (self._folder / "tmp").mkdir()
            self._turnstile = stack.enter_context(closing(Turnstile()))
            self._server: Server = stack.enter_context(self._served())
            self._turnstile.target = self._server.bootstrap
            self._bootstrap = self._turnstile.address
            self._connection = Connection(self._bootstrap)
            if self._is_cluster:
                (self._folder / "cluster").mkdir()
                self._cluster = stack.enter_context(SparkCluster(self._folder / "cluster", workers=2))
            stack.callback(self._end_driver)
            create_topic(self._bootstrap, INPUT, PARTITIONS)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _served(self) -> AbstractContextManager[Any]:
        if self._server_kind == "semel":
            return semel.LocalLog(self._folder / "log", advertised=self._turnstile.address)
        java, jars = find_java(), find_kafka_jars()
        assert not isinstance(java, Missing) and not isinstance(jars, Missing), f"{java} {jars}"
        settings = {"advertised.listeners": f"PLAINTEXT://{self._turnstile.address}"}
        return ApacheKafka(java, jars, self._folder / "kafka", settings=settings)

    # -- rounds ---------------------------------------------------------------------------------------------

    def round(self, number: int, dice: random.Random, *, is_last: bool = False) -> RoundResult:
        """More input, a kill, and what the log has to say to it."""
        breaches: list[str] = []
        is_trim = number % ROUNDS_TO_A_TRIM == 5
        if is_trim:
            self._end_driver()
        self._feed(dice, ROWS_TO_A_TRIM if is_trim else ROWS_A_ROUND)
        told = [] if self._driver is None else self._go_on(breaches)
        step = self._step(number, dice, is_trim=is_trim) if is_trim or number % 3 < 2 else None
        if step is not None:
            self._turnstile.stop_at(step)
        step_s_max = STEP_S_MAX
        if self._driver is None:
            self._start_driver(dice, cuts=CUTS_TO_A_TRIM if is_trim else None)
            told.append("started")
            step_s_max = STEP_OF_A_START_S_MAX
        told.append(self._await_moment(step, step_s_max, dice))
        target = dice.choice(TARGETS_OF_A_CLUSTER if self._is_cluster else TARGETS)
        killed = self._kill(target, dice)
        self._turnstile.let_go()
        told.append(f"killed {killed}")
        if self._driver is not None:
            with suppress(subprocess.TimeoutExpired):
                self._driver.wait(dice.uniform(0, 4))
        told += self._judge_end(breaches)
        breaches += self._differences()
        if is_last or number % ROUNDS_TO_AN_END == ROUNDS_TO_AN_END - 1:
            breaches += self._run_to_the_end(dice)
            told.append("run to the end")
        if is_last:
            spark = session("tests-loops-replay", "local[2]", OF_THE_REPLAY)
            breaches += self._differences(is_end=True, spark=spark)
            told.append("replayed with Spark's steps")
        return RoundResult(self._read_count(), 1, tuple(breaches), ", ".join(told))

    def _feed(self, dice: random.Random, count: int) -> None:
        given = [{"name": name_of(dice.randrange(NAMES)), "n": dice.randrange(-1, 100)} for _ in range(count)]
        put(self._bootstrap, INPUT, *given)

    def _step(self, number: int, dice: random.Random, *, is_trim: bool) -> Step:
        """One after the other, or that by which the changelog is made short, which is rare."""
        is_sent = bool(dice.randrange(2))
        if is_trim:
            return Step(0, is_sent, (ApiKey.DELETE_RECORDS,))
        return Step((number // 3 * 2 + number % 3) * STEP_STRIDE % STEPS, is_sent)

    def _await_moment(self, step: Step | None, step_s_max: float, dice: random.Random) -> str:
        """The step, or a random one."""
        begun_s = time.monotonic()
        if step is None:
            if dice.random() < 0.5:
                self._await_decision()
            time.sleep(dice.uniform(0, 4))  # the random moment itself
        else:
            while not step.reached.wait(0.1):
                if self._has_ended() or time.monotonic() > begun_s + step_s_max:
                    break
        after = f"after {time.monotonic() - begun_s:.1f} s"
        if step is None:
            return after
        if not step.reached.is_set():
            return f"{after} without a step {step.number}"
        return f"{after} {'behind' if step.is_sent else 'in front of'} step {step.number} ({step.what})"

    def _go_on(self, breaches: list[str]) -> list[str]:
        """It has new rows, and was not killed: it has to decide something by itself, or to end with words."""
        if self._await_decision():
            return ["went on"]
        told = self._judge_end(breaches)
        if self._driver is not None:
            breaches.append(f"the flow does not go on within {DECIDES_S_MAX} s: {self._errors()[-6000:]}")
            self._end_driver()
        return told

    def _run_to_the_end(self, dice: random.Random) -> list[str]:
        self._end_driver()
        self._start_driver(dice, "--once")
        assert self._driver is not None
        try:
            code = self._driver.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            code = -1
        errors = self._errors()
        self._end_driver()
        if code:
            return [f"the flow does not come to its end: {errors[-4000:]}"]
        return [*self._differences(is_end=True), *self._wrong_sums()]

    # -- parts ----------------------------------------------------------------------------------------------

    def _start_driver(
        self, dice: random.Random, *rest: str, cuts: tuple[int, int, int] | None = None
    ) -> None:
        if dice.random() < 0.3:
            shutil.rmtree(self._folder / "store", ignore_errors=True)
        random_cuts = dice.choice([500, 2_000, 100_000]), dice.choice([1, 3, 64]), dice.choice([300, 65_536])
        local = dice.choice(["local[2]", "local[2,4]"])  # the second tries a task again
        master = local if self._cluster is None else self._cluster.master
        command = [sys.executable, "-m", "tests.loops.flow", self._bootstrap, master]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(self._folder / "tmp")}
        with (self._folder / "driver.err").open("w") as errors:
            self._driver = subprocess.Popen(
                [*command, str(self._folder / "store"), *map(str, cuts or random_cuts), *rest],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=environment,
            )
        assert self._driver.stdout is not None
        assert self._driver.stdout.readline() == "running\n", self._errors()[-4000:]

    def _has_ended(self) -> bool:
        return self._driver is None or self._driver.poll() is not None

    def _judge_end(self, breaches: list[str]) -> list[str]:
        """Of a driver that has ended by itself, what it said; started again, it has to go on."""
        if self._driver is None or self._driver.poll() is None:
            return []
        errors = self._errors()
        self._end_driver()
        # Of no stage where it was still looking at its topics.
        said = [line.strip() for line in errors.splitlines() if line.startswith("semel.errors.")]
        why = (said or errors.strip().splitlines() or ["without a word"])[-1]
        if not said or not any(words in why for words in PASSING):
            breaches.append(f"the flow ended by itself: {errors[-6000:]}")
        return [f"and the flow ended: {why}"]

    def _await_decision(self) -> bool:
        before, deadline_s = self._decisions(), time.monotonic() + DECIDES_S_MAX
        while self._decisions() == before:
            if self._has_ended() or time.monotonic() > deadline_s:
                return False
            time.sleep(0.2)
        return True

    def _decisions(self) -> int:
        return sum(recorded(self._connection, stage.sink_id).decision_count for stage in self._plan.stages)

    def _kill(self, target: str, dice: random.Random) -> str:
        """What was killed: where there is none of it yet, the driver."""
        found = {"python": self._pythons, "executor": self._executors}.get(target, dict)()
        if target in ("python", "executor") and not found:
            target = "driver"
        if target == "driver":
            self._end_driver()
        elif target == "server":
            self._server.crash()
            time.sleep(dice.uniform(0, 0.5))
            self._server.restart()
        elif target == "worker":
            assert self._cluster is not None
            number = dice.randrange(2)
            self._cluster.kill_worker(number)
            time.sleep(dice.uniform(0, 1))
            self._cluster.start_worker(number)
        else:
            process = dice.choice(sorted(found))
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            return f"{target} {found[process]}".rstrip()
        return target

    def _executors(self) -> dict[int, str]:
        assert self._cluster is not None
        return dict.fromkeys(self._cluster.executors(), "")

    def _pythons(self) -> dict[int, str]:
        """Spark's processes of Python, with where they are."""
        found: dict[int, str] = {}
        if self._driver is not None:
            below = processes_below({self._driver.pid}, _is_python_of_spark)
            found |= dict.fromkeys(below, "of the driver")
        if self._cluster is not None:
            found |= dict.fromkeys(self._cluster.python_workers(), "of an executor")
        return found

    def _end_driver(self) -> None:
        if self._driver is None:
            return
        for process in (self._driver.pid, *_session_of(self._driver.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._driver.wait()
        assert self._driver.stdout is not None
        self._driver.stdout.close()
        self._driver = None

    def _errors(self) -> str:
        return (self._folder / "driver.err").read_text(errors="replace")

    # -- what came of it ------------------------------------------------------------------------------------

    def _differences(self, *, is_end: bool = False, spark: Any = None) -> list[str]:
        """Beside a replay; of the stage with a step of Spark's only with ``spark``."""
        try:
            found = replay(self._plan, self._bootstrap, spark=spark)
        except SemelError as error:
            return [f"no replay: {error}"]
        wrong = [f"{stage.stage}: {each}" for stage in found.stages for each in stage.differences]
        return [*wrong, f"not at its end: {found.text()}"] if is_end and not found.is_at_rest else wrong

    def _read_count(self) -> int:
        return len(rows(self._bootstrap, INPUT))

    def _wrong_sums(self) -> list[str]:
        """What stands in the output beside what plain Python makes of the input."""
        counts: Counter[str] = Counter()
        totals: Counter[str] = Counter()
        for row in rows(self._bootstrap, INPUT):
            if row["n"] >= 0:
                counts[row["name"]] += 1
                totals[row["name"]] += row["n"]
        told: dict[str, list[tuple[int, int]]] = {}
        for row in rows(self._bootstrap, OUTPUT):
            told.setdefault(row["name"], []).append((row["count"], row["total"]))
        wrong = [
            f"{name}: {told.get(name, [])[-3:]} instead of {counts[name]} rows with the sum {totals[name]}"
            for name in counts
            if [count for count, _ in told.get(name, [])] != list(range(1, counts[name] + 1))
            or told[name][-1][1] != totals[name]
        ]
        if told.keys() - counts.keys():
            wrong.append(f"{len(told.keys() - counts.keys())} names that nobody has written")
        return [f"{len(wrong)} names are wrong: {json.dumps(wrong[:3])}"] if wrong else []


def _is_python_of_spark(words: list[str]) -> bool:
    return "java" not in words[0] and any("pyspark" in word for word in words)


def _session_of(leader: int) -> list[int]:
    """The other processes of a session: Spark's workers have a process group of their own in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            session = int((process / "stat").read_text().rsplit(")", 1)[1].split()[3])
            if session == leader and int(process.name) != leader:
                found.append(int(process.name))
    return found
