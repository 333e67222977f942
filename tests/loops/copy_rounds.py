"""``semel copy`` between two logs, and kill -9 of it and of both of them, at numbered requests and at random.

The law: partition by partition the destination has the rows of the source, each once and in their order, with their
keys, values, headers and timestamps; of two copies of the job the older one stops and says so. In some rounds the
folder of one end is put back from an older copy of it: that is told, and nothing is doubled or lost in silence.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer
from tests.loops.flow_rounds import Server
from tests.loops.rounds import RoundResult
from tests.loops.turnstile import Step, Turnstile
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars

import semel
from semel.client.blocking import Cluster
from semel.record.columnar import decode_table
from semel.spark.reading import read_range
from semel.types import LATEST_TIMESTAMP, TopicPartition

TOPICS: Final = {"rows": 3, "events": 1}
STEPS: Final = 14  # requests of a copy that starts, goes on and rests
STEP_S_MAX: Final = 8.0
END_S_MAX: Final = 120.0
FENCED_S_MAX: Final = 60.0
LOST: Final = "has lost its end"
_Rows = list[dict[str, Any]]


class CopyLife:
    """One job over many rounds, between two logs that live as long."""

    def __init__(self, source: str = "semel", destination: str = "semel") -> None:
        self._kinds = {"source": source, "destination": destination}
        self._row = 0
        self._job = 0  # raised where one is not to be gone on with

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-copy-")))
            self._turnstile = stack.enter_context(closing(Turnstile()))
            self._servers: dict[str, Server] = {
                end: stack.enter_context(self._served(end, kind)) for end, kind in self._kinds.items()
            }
            self._turnstile.target = self._servers["destination"].bootstrap
            with semel.Admin(self._servers["source"].bootstrap) as admin:
                for topic, count in TOPICS.items():
                    admin.create_topic(topic, count, {"retention.ms": "-1"})  # rows of long ago, too
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _served(self, end: str, kind: str) -> AbstractContextManager[Any]:
        advertised = self._turnstile.address if end == "destination" else None
        if kind == "semel":
            settings = {} if advertised is None else {"advertised": advertised}
            return semel.LocalLog(self._folder / end, **settings)
        settings = {} if advertised is None else {"advertised.listeners": f"PLAINTEXT://{advertised}"}
        java, jars = find_java(), find_kafka_jars()
        assert not isinstance(java, Missing) and not isinstance(jars, Missing), f"{java} {jars}"
        return ApacheKafka(java, jars, self._folder / end, settings=settings)

    def round(self, number: int, dice: random.Random) -> RoundResult:
        """Rows come, something is killed at some moment, and a copy that is started again goes on to the end."""
        self._feed(dice)
        copy = self._start()
        told, kills = "", 0
        twin: subprocess.Popen[str] | None = None
        breaches: list[str] = []
        ends = [end for end, kind in self._kinds.items() if kind == "semel"]
        is_put_back = number % 3 == 1 and bool(ends)
        try:
            for _ in range(1 if is_put_back else dice.randint(1, 3)):
                told += self._await_moment(number, dice)
                what = dice.choice(["copy", "copy", "source", "destination", "twin"])
                told += f", {what}; "
                if what == "twin" and twin is None:
                    twin, copy = copy, self._start()
                elif what in self._servers:
                    self._servers[what].crash()
                    self._turnstile.let_go()
                    self._servers[what].restart()
                    kills += 1
                elif what == "copy":
                    _end(copy)
                    self._turnstile.let_go()
                    kills += 1
                    copy = self._start()
                self._turnstile.let_go()
                self._feed(dice)
            if twin is not None:
                breaches += self._judge_fenced([copy, twin])
        finally:
            for process in filter(None, (copy, twin)):
                _end(process)
        self._turnstile.let_go()
        breaches += self._copy_rest()
        breaches += self._differences()
        if is_put_back:
            what, found = self._put_back(ends[number // 3 % len(ends)], dice)
            told, kills, breaches = f"{told}{what}", kills + 2, [*breaches, *found]
        return RoundResult(self._row, kills, tuple(breaches), told)

    def _feed(self, dice: random.Random) -> None:
        """Rows with and without keys, headers and values, in batches of many sizes and codecs."""
        compression = dice.choice(["none", "gzip", "lz4", "zstd", "snappy"])
        producer = Producer(
            {
                "bootstrap.servers": self._servers["source"].bootstrap,
                "enable.idempotence": True,
                "linger.ms": dice.choice([0, 5]),
                "batch.num.messages": dice.choice([10, 1000]),
                "compression.type": compression,
                "log_level": 2,
            }
        )
        for _ in range(dice.randint(200, 3000)):
            topic = dice.choice(list(TOPICS))
            headers = [("n", b"%d" % self._row)] if self._row % 7 == 0 else None
            key = None if self._row % 5 == 0 else b"%d" % (self._row % 23)
            value = None if self._row % 31 == 0 and key is not None else b"%d" % self._row
            producer.produce(topic, value, key, headers=headers, timestamp=1_700_000_000_000 + self._row)
            self._row += 1
            if self._row % 500 == 0:
                producer.poll(0)
        if producer.flush(30):
            raise TimeoutError("the source took no more rows")

    def _start(self, *options: str) -> subprocess.Popen[str]:
        ends = ("--from", self._servers["source"].bootstrap, "--to", self._turnstile.address)
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "semel.cli",
                "copy",
                *ends,
                "--name",
                self._name,
                "--prefix",
                self._prefix,
                *TOPICS,
                "--quiet",
                *options,
            ],
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def _name(self) -> str:
        return f"loop{self._job}"

    @property
    def _prefix(self) -> str:
        return f"{self._job}."

    def _put_back(self, end: str, dice: random.Random) -> tuple[str, list[str]]:
        """The end's folder is put back from a copy that lacks rows which were copied since.

        Of the destination all of it, which goes on from there, or the outputs without the journal, or that without
        them, which is told. Under a copy that goes on, or while there is none; then more rows come to the source, maybe
        as many as it has lost.
        """
        what = end if end == "source" else dice.choice(["destination", "outputs", "journal"])
        server = self._servers[end]
        assert isinstance(server, semel.LocalLog)
        older = self._folder / "older"
        server.crash()
        shutil.copytree(server.data_dir, older)
        server.restart()
        self._feed(dice)
        found = self._copy_rest()
        gave = self._stored("source")
        goes_on = dice.random() < 0.5 and what != "journal"
        copy = self._start() if goes_on else None
        try:
            if goes_on:
                time.sleep(dice.uniform(0.5, 3.0))
            server.crash()
            named = {"outputs": self._prefix, "journal": f"__semel_copy.{self._name}-"}.get(what)
            for folder in [server.data_dir] if named is None else list(server.data_dir.glob(f"{named}*")):
                shutil.rmtree(folder)
                shutil.copytree(older / folder.relative_to(server.data_dir), folder)
            shutil.rmtree(older)
            server.restart()
            told = f"{what} put back" + (" under a copy" if goes_on else "")
            if what != "source" or not goes_on:
                self._feed(dice)
            if copy is not None and what != "destination":
                try:
                    _, errors = copy.communicate(timeout=END_S_MAX)
                except subprocess.TimeoutExpired:
                    errors = "it went on"
                if copy.returncode != 1 or LOST not in errors:
                    found.append(f"{told}: the copy ended with {copy.returncode}: {errors.strip()[-400:]}")
        finally:
            if copy is not None:
                _end(copy)
        if what == "destination":
            return told, found + self._copy_rest() + self._differences()
        found += self._copy_rest(1, LOST)
        stored = self._stored("destination")
        found += [
            f"{told}: {tp} has {len(stored[tp])} rows, which are not those that were copied, once"
            for tp, rows in gave.items()
            if stored[tp] != rows[: len(stored[tp])] or (what != "outputs" and stored[tp] != rows)
        ]
        self._job += 1
        return told, found + self._copy_rest() + self._differences()

    def _copy_rest(self, code: int = 0, says: str = "") -> list[str]:
        """A copy to the end of what is there, which ends with ``code`` and says so."""
        ending = self._start("--until-end")
        try:
            _, errors = ending.communicate(timeout=END_S_MAX)
        finally:
            _end(ending)
        if ending.returncode == code and says in errors:
            return []
        return [f"the copy ended with {ending.returncode}: {errors.strip()[-400:]}"]

    def _await_moment(self, number: int, dice: random.Random) -> str:
        if dice.random() < 0.3:
            pause_s = dice.uniform(0.0, 2.0)
            time.sleep(pause_s)
            return f"after {pause_s:.1f} s"
        step = Step((number * 3 + dice.randrange(3)) % STEPS, bool(dice.randrange(2)))
        self._turnstile.stop_at(step)
        side = "behind" if step.is_sent else "in front of"
        if step.reached.wait(STEP_S_MAX):
            return f"{side} step {step.number} ({step.what})"
        return f"without a step {step.number}"

    def _judge_fenced(self, copies: list[subprocess.Popen[str]]) -> list[str]:
        """One of both ends, whichever came to hold the job first, and says why."""
        deadline_s = time.monotonic() + FENCED_S_MAX
        while (ended := next((each for each in copies if each.poll() is not None), None)) is None:
            if time.monotonic() > deadline_s:
                return [f"two copies of one job run beside each other for {FENCED_S_MAX:.0f} s"]
            time.sleep(0.05)
        assert ended.stderr is not None
        said = ended.stderr.read().strip()
        if ended.returncode == 1 and "was taken over by process" in said:
            return []
        return [f"the older copy ended with {ended.returncode}: {said[-400:]}"]

    def _stored(self, end: str) -> dict[TopicPartition, _Rows]:
        """What the end has, by the source's partitions."""
        prefix = self._prefix if end == "destination" else ""
        return {
            TopicPartition(topic, number): _rows(
                self._servers[end].bootstrap, TopicPartition(prefix + topic, number)
            )
            for topic, count in TOPICS.items()
            for number in range(count)
        }

    def _differences(self) -> list[str]:
        found = []
        its = self._stored("destination")
        for tp, sent in self._stored("source").items():
            stored = its[tp]
            if sent == stored:
                continue
            at = next((i for i, (a, b) in enumerate(zip(sent, stored, strict=False)) if a != b), None)
            found.append(
                f"{tp}: {len(stored)} rows of {len(sent)}"
                + ("" if at is None else f"; row {at} is {stored[at]} and not {sent[at]}")
            )
        return found


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def _rows(bootstrap: str, tp: TopicPartition) -> _Rows:
    rows: _Rows = []
    with Cluster(bootstrap) as cluster:
        end = cluster.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset
        for batches in read_range(cluster, tp, 0, end):
            table = decode_table(
                (batch for batch, _ in batches), topic=tp.topic, partition=tp.partition, include_headers=True
            )
            rows += table.select(["key", "value", "timestamp", "headers"]).to_pylist()
    return rows
