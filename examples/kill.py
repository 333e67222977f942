"""Kills a flow at random moments, with kill -9, and shows that it came to what it should.

    python -m examples.kill word_count --rounds 5 --seed 1 --random-cuts

A server of its own, on the loopback; the example's input is written while the flow runs. In each round something is
killed: the flow's process with all that it started, one of Spark's workers, or the server. Then the flow is started
again: with other micro-batch cuts (--random-cuts), another number of cores, on Spark or in one process without it.
At the end it runs to the end of its input. Then each stage has to equal a replay of its recorded inputs, and the
output what plain Python, or pandas, makes of the input. Exit code 1 where anything was lost, doubled, put in another
order, or stopped for good.

The same --seed throws the same dice; what is killed in the middle of what is up to the machine.

--delete-checkpoint deletes all that a run leaves on disk before the next one. There is no checkpoint among it that
could be lost: each run has one of its own that it throws away. What goes is the folder of large state, and Spark's
temporary files.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import semel
from examples import topics
from examples.cases import NAMES, Case, case
from semel.errors import SemelError
from semel.flow.files import load_flows
from semel.flow.plan import Plan
from semel.flow.recorded import recorded
from semel.flow.replay import Replay, replay
from semel.spark.options import Connection
from semel.wording import counted

PLACES = ("driver", "worker", "server")
START_S_MAX = 120.0
RUN_S = {"here": 5.0, "spark": 20.0}
DECIDES_S_MAX = 90.0  # in every other round, until it has decided something  # a round lasts up to so long
END_S_MAX = 900.0
# What may stop a flow when something is killed; started again, it goes on. All else is a breach.
BROKEN = (
    "NonDeterministicReplay",
    "ReplayUnprovable",
    "DataLoss",
    "PlanNotSupported",
    "StepFailed",
    "AssertionError",
)
PASSING = (
    "ConnectionLost",
    "BrokerError",
    "SinkFenced",
    "ReplayDiffers",
    "Spark lost one of its processes",
    "failed to connect back",  # before the flow had begun: a worker on a busy machine, in Spark's ten seconds
)
Tell = Callable[[str], None]


class Server(Protocol):
    """What is killed and started again under one address."""

    @property
    def bootstrap(self) -> str: ...

    def crash(self) -> None: ...
    def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says."""

    name: str
    rounds: int = 5
    seed: int = 1
    where: str = "both"  # here, spark, or now the one and now the other
    delete_checkpoint: bool = False
    random_cuts: bool = False
    server: str = "semel"


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    breaches: list[str] = field(default_factory=list)
    replay: Replay | None = None

    @property
    def holds(self) -> bool:
        return not self.breaches


class Life:
    """All rounds of one flow."""

    def __init__(self, settings: Settings, server: Server, folder: Path, tell: Tell) -> None:
        self.settings, self.server, self.folder, self.tell = settings, server, folder, tell
        self.case: Case = case(settings.name)
        self.plan: Plan = load_flows(Path(__file__).with_name(f"{settings.name}.py")).flow().plan()
        self.dice = random.Random(f"{settings.seed}/{settings.name}")
        self.outcome = Outcome()
        self._runs = 0

    def run(self) -> Outcome:
        """All of it; the server is there already, and empty."""
        topics.create(self.server.bootstrap, self.case.topics)
        topics.put(self.server.bootstrap, self.case.first())
        for number in range(self.settings.rounds):
            self._round(number)
        topics.put(self.server.bootstrap, self.case.last())
        self._end()
        return self.outcome

    # -- one round -----------------------------------------------------------------------------------------

    def _round(self, number: int) -> None:
        dice = random.Random(f"{self.settings.seed}/{self.settings.name}/{number}")
        where = self._where(dice)
        target = dice.choice([place for place in PLACES if place != "worker" or where == "spark"])
        rows = self.case.rows(dice, number)
        before = dice.randrange(
            len(rows)
        )  # so many are there when the flow starts, the rest comes while it runs
        after_s = dice.uniform(0, RUN_S[where])
        command, told = self._command(dice, where)
        topics.put(self.server.bootstrap, rows[:before])
        with self._started(command) as flow, self._feeding(rows[before:], after_s):
            begun_s = time.monotonic()
            if dice.random() < 0.5:
                self._await_decision(flow)
                after_s /= 4
            time.sleep(after_s)  # the random moment itself
            after_s = time.monotonic() - begun_s
            killed = self._kill(target, flow, dice)
            time.sleep(dice.uniform(0, 1))
            ended = flow.poll() is not None and killed != "driver"
        self.tell(
            f"round {number + 1}/{self.settings.rounds}: {told}; {len(rows)} rows; killed the {killed} after "
            f"{after_s:.1f} s{', and the flow ended: ' + self._judge_end(f'round {number + 1}') if ended else ''}"
        )
        found = self._replay(f"round {number + 1}")
        if found is not None:
            decisions = sum(stage.decisions for stage in found.stages)
            undecided = sum(stage.undecided for stage in found.stages)
            self.tell(
                f"  {counted(decisions, 'decision')} by now, and {counted(undecided, 'row')} left undecided"
            )

    def _where(self, dice: random.Random) -> str:
        if self.plan.needs_spark:
            return "spark"
        both = dice.choice(["here", "spark"])
        return both if self.settings.where == "both" else self.settings.where

    def _command(self, dice: random.Random, where: str) -> tuple[list[str], str]:
        rows_max, entries_max = 1_000_000, 64
        if self.settings.random_cuts:
            rows_max, entries_max = dice.choice([50, 300, 2_000, 100_000]), dice.choice([1, 2, 5, 64])
        cores = dice.choice([1, 2])
        if self.settings.delete_checkpoint:
            self._runs += 1
        folder = self.folder / f"disk-{self._runs}"
        if self.settings.delete_checkpoint and self._runs > 1:
            shutil.rmtree(self.folder / f"disk-{self._runs - 1}", ignore_errors=True)
        folder.mkdir(exist_ok=True)
        told = f"on Spark with local[{cores}]" if where == "spark" else "in one process"
        told += (
            f", at most {rows_max:,} rows or {entries_max} entries at once"
            if self.settings.random_cuts
            else ""
        )
        numbers = [str(number) for number in (rows_max, entries_max, cores)]
        command = [sys.executable, "-m", "examples.running", self.settings.name, self.server.bootstrap]
        return [*command, str(folder), where, *numbers], told

    @contextmanager
    def _started(self, command: list[str], *rest: str) -> Iterator[subprocess.Popen[bytes]]:
        """In a session of its own, so that what it starts is known, and ends with it."""
        with (self.folder / "errors").open("wb") as errors:
            flow = subprocess.Popen(
                [*command, *rest],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env=os.environ | {"TMPDIR": command[5]},
            )
        try:
            self._await_start(flow)
            yield flow
        finally:
            _kill_all(flow)
            assert flow.stdout is not None
            flow.stdout.close()

    def _await_start(self, flow: subprocess.Popen[bytes]) -> None:
        assert flow.stdout is not None
        if flow.stdout.readline() != b"running\n":
            raise SemelError(f"the flow did not start:\n{self._errors()[-4000:]}")

    def _await_decision(self, flow: subprocess.Popen[bytes]) -> None:
        before, deadline_s = self._decision_count(), time.monotonic() + DECIDES_S_MAX
        while self._decision_count() == before and flow.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.2)

    def _decision_count(self) -> int:
        connection = Connection(self.server.bootstrap)
        return sum(recorded(connection, stage.sink_id).decision_count for stage in self.plan.stages)

    @contextmanager
    def _feeding(self, rows: Any, within_s: float) -> Iterator[None]:
        """The rest of the input, bit by bit. A server that is killed meanwhile may cost rows, or double them: what is
        expected is what then stands in the topics."""
        stop = threading.Event()

        def feed() -> None:
            size = max(1, len(rows) // 12)
            for start in range(0, len(rows), size):
                with contextlib.suppress(SemelError, OSError):
                    topics.put(self.server.bootstrap, rows[start : start + size])
                stop.wait(within_s / 12)

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            yield
        finally:
            stop.set()
            feeding.join()

    def _kill(self, target: str, flow: subprocess.Popen[bytes], dice: random.Random) -> str:
        """Returns what was killed: where there is no worker, it is the driver."""
        if target == "worker":
            workers = _workers_of(flow)
            if workers:
                os.kill(dice.choice(workers), signal.SIGKILL)
            else:
                target = "driver"
        if target == "driver" and dice.random() < 0.5:
            _kill_all(flow)
        elif target == "driver":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(flow.pid, signal.SIGKILL)  # workers may live on for a moment, and write
        if target == "server":
            self.server.crash()
            time.sleep(dice.uniform(0, 0.5))
            self.server.restart()
        self.outcome.kills[target] += 1
        return target

    # -- what came of it -----------------------------------------------------------------------------------

    def _end(self) -> None:
        where = self._where(self.dice)
        command, told = self._command(self.dice, where)
        with self._started(command, "--once") as flow:
            try:
                ended = flow.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                ended = -1
        self.tell(f"to the end of its input, {told}")
        if ended:
            self.outcome.breaches.append(f"the flow does not come to its end: {self._errors()[-3000:]}")
            return
        spark = None
        if self.plan.needs_spark:
            from semel.spark import session

            spark = session("examples-replay", master="local[2]")
        found = self.outcome.replay = self._replay("the end", spark)
        if found is not None:
            self.tell(found.text())
            if not found.is_complete or not found.is_at_rest:
                self.outcome.breaches.append("the replay is not complete, or the flow is not at its end")
        wrong = self.case.wrong(self.server.bootstrap)
        self.tell("\n".join(wrong) or "the output is what plain Python makes of the input")
        self.outcome.breaches += wrong

    def _replay(self, when: str, spark: Any = None) -> Replay | None:
        try:
            found = replay(self.plan, self.server.bootstrap, spark=spark)
        except SemelError as error:
            self.outcome.breaches.append(f"{when}: no replay: {error}")
            return None
        self.outcome.breaches += [
            f"{when}, {stage.stage}: {each}" for stage in found.stages for each in stage.differences
        ]
        return found

    def _errors(self) -> str:
        return (self.folder / "errors").read_text(errors="replace")

    def _judge_end(self, when: str) -> str:
        """What is to be said of a flow that ended by itself."""
        errors = self._errors()
        said = [line.strip() for line in errors.splitlines() if "semel.errors." in line]
        why = (said or errors.strip().splitlines() or ["without a word"])[-1][:400]
        broken = [name for name in BROKEN if name in errors]
        if broken or not any(name in errors for name in PASSING):
            self.outcome.breaches.append(f"{when}: the flow ended by itself ({', '.join(broken)}): {errors}")
        return why


def _kill_all(flow: subprocess.Popen[bytes]) -> None:
    """The flow, and all that it has started."""
    for process in (flow.pid, *_started_by(flow)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    flow.wait()


def _started_by(flow: subprocess.Popen[bytes]) -> dict[int, list[bytes]]:
    """The processes of its session, with their commands. Spark's workers have a process group of their own in it."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            session = int((process / "stat").read_text().rsplit(")", 1)[1].split()[3])
            if session == flow.pid and int(process.name) != flow.pid:
                found[int(process.name)] = (process / "cmdline").read_bytes().split(b"\0")
    return found


def _workers_of(flow: subprocess.Popen[bytes]) -> list[int]:
    """Spark's processes of Python."""
    return sorted(
        process
        for process, (program, *rest) in _started_by(flow).items()
        if b"java" not in program and any(b"pyspark" in each for each in rest)
    )


@contextmanager
def served(kind: str, folder: Path) -> Iterator[Server]:
    """A server of one's own, on the loopback."""
    if kind == "semel":
        with semel.LocalLog(folder / "log") as log:
            yield log
        return
    from tests.peers.apache_kafka import ApacheKafka
    from tests.peers.parts import Missing, find_java, find_kafka_jars

    java, jars = find_java(), find_kafka_jars()
    if isinstance(java, Missing) or isinstance(jars, Missing):
        raise SemelError(str(java if isinstance(java, Missing) else jars))
    with ApacheKafka(java, jars, folder / "kafka") as node:
        yield node


def play(settings: Settings, tell: Tell) -> Outcome:
    """One flow's life, with a server and a folder that are gone behind it."""
    with (
        tempfile.TemporaryDirectory(prefix="semel-kill-") as scratch,
        served(settings.server, Path(scratch)) as server,
    ):
        return Life(settings, server, Path(scratch), tell).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    places = parser.add_mutually_exclusive_group()
    places.add_argument("--here", action="store_true", help="in one process only, without Spark")
    places.add_argument("--spark", action="store_true", help="on Spark only")
    parser.add_argument("--delete-checkpoint", action="store_true")
    parser.add_argument("--random-cuts", action="store_true")
    parser.add_argument("--server", choices=("semel", "kafka"), default="semel")
    given = parser.parse_args()
    where = "here" if given.here else "spark" if given.spark else "both"
    settings = Settings(
        given.name, given.rounds, given.seed, where, given.delete_checkpoint, given.random_cuts, given.server
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that every `finally` is run
    began_s = time.monotonic()

    def tell(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {line}\n")
        sys.stdout.flush()

    outcome = play(settings, tell)
    kills = ", ".join(f"{count} of the {place}" for place, count in outcome.kills.items() if count)
    tell(f"kills: {kills}")
    for breach in outcome.breaches:
        tell(f"BREACH {breach}")
    tell(
        "nothing was lost, doubled or put in another order"
        if outcome.holds
        else f"NOT exactly once (seed {settings.seed})"
    )
    return 0 if outcome.holds else 1


if __name__ == "__main__":
    sys.exit(main())
