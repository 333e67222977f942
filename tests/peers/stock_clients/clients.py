"""The four stock clients behind one face: rows in, what the application is told out.

Each is idempotent, with its settings at their defaults but for the batches: a row is a batch of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

import confluent_kafka
from aiokafka import AIOKafkaProducer
from tests.peers.apache_kafka import JavaTool

with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

DELIVERY_TIMEOUT_S: Final = 40.0
JAVA_PROGRAM: Final = Path(__file__).with_name("SendRows.java")


@dataclass(frozen=True, slots=True)
class Stored:
    """Success, at this offset; None: the client knows none."""

    offset: int | None


@dataclass(frozen=True, slots=True)
class Failed:
    """An error, by the client's own name for it."""

    error: str


Told: TypeAlias = Stored | Failed
Send: TypeAlias = Callable[[Sequence[str]], list[Told]]  # all rows at once; returns when all fates are told
Opener: TypeAlias = Callable[[str, str], AbstractContextManager[Send]]  # of (bootstrap, topic)


@dataclass(frozen=True, slots=True)
class StockClient:
    """``open(bootstrap, topic)`` is a producer that writes to partition 0 of the topic.

    Its client id is the topic's name. ``in_flight``: batches of one partition that it sends before the first
    one is answered, at most.
    """

    name: str
    version: str
    in_flight: int
    open: Opener


def _stored(offset: int | None) -> Stored:
    return Stored(None if offset == -1 else offset)


@contextmanager
def _librdkafka(bootstrap: str, topic: str) -> Iterator[Send]:
    settings = {"bootstrap.servers": bootstrap, "client.id": topic, "enable.idempotence": True}
    producer = confluent_kafka.Producer({**settings, "batch.num.messages": 1, "log_level": 0})

    def send(rows: Sequence[str]) -> list[Told]:
        told: dict[str, Told] = {}

        def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            fate = _stored(message.offset()) if error is None else Failed(error.name())
            told[message.value().decode()] = fate

        for row in rows:
            try:
                producer.produce(topic, row.encode(), partition=0, on_delivery=on_delivery)
            except confluent_kafka.KafkaException as refused:
                told[row] = Failed(refused.args[0].name())
        give_up_s = time.monotonic() + DELIVERY_TIMEOUT_S
        while len(told) < len(rows):  # flush() would run callbacks while the exception of a fatal error pends
            assert time.monotonic() < give_up_s, f"only {told} of {rows}"
            with suppress(confluent_kafka.KafkaException):
                producer.poll(0.1)
        return [told[row] for row in rows]

    yield send


@contextmanager
def _aiokafka(bootstrap: str, topic: str) -> Iterator[Send]:
    async def send(rows: Sequence[str]) -> list[Told]:
        async def one(row: str) -> Told:
            try:
                sent = await producer.send(topic, row.encode(), partition=0)
                return _stored((await asyncio.wait_for(sent, DELIVERY_TIMEOUT_S)).offset)
            except Exception as error:
                return Failed(type(error).__name__)

        return await asyncio.gather(*map(one, rows))

    async def start() -> AIOKafkaProducer:
        settings = {"bootstrap_servers": bootstrap, "client_id": topic, "enable_idempotence": True}
        started = AIOKafkaProducer(**settings, max_batch_size=1)
        await started.start()
        return started

    with asyncio.Runner() as runner:
        producer = runner.run(start())
        try:
            yield lambda rows: runner.run(send(rows))
        finally:
            runner.run(producer.stop())


@contextmanager
def _kafka_python(bootstrap: str, topic: str) -> Iterator[Send]:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, client_id=topic, enable_idempotence=True, batch_size=0
    )

    def send(rows: Sequence[str]) -> list[Told]:
        sent: list[Any] = []
        for row in rows:
            try:
                sent.append(producer.send(topic, row.encode(), partition=0))
            except Exception as refused:
                sent.append(refused)
        return [_fate(each) for each in sent]

    def _fate(sent: Any) -> Told:
        try:
            if isinstance(sent, Exception):
                raise sent
            return _stored(sent.get(DELIVERY_TIMEOUT_S).offset)
        except Exception as error:
            return Failed(type(error).__name__)

    try:
        yield send
    finally:
        producer.close(5)


LIBRDKAFKA: Final = StockClient(
    "librdkafka",
    f"{confluent_kafka.libversion()[0]}, by confluent-kafka {version('confluent-kafka')}",
    5,
    _librdkafka,
)
AIOKAFKA: Final = StockClient("aiokafka", version("aiokafka"), 1, _aiokafka)
KAFKA_PYTHON: Final = StockClient("kafka-python", version("kafka-python"), 1, _kafka_python)


@contextmanager
def java_client(java_tool: JavaTool, log_path: Path) -> Iterator[StockClient]:
    """Kafka's own producer: one JVM, which takes one command at a time."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = [str(java_tool.java), "-Xmx256m", quiet, "-cp", f"{java_tool.jars}/*", str(JAVA_PROGRAM)]
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
        )
    turn = threading.Lock()

    def ask(*words: str) -> str:
        assert process.stdin is not None and process.stdout is not None
        with turn:
            watchdog = threading.Timer(DELIVERY_TIMEOUT_S, process.kill)
            watchdog.start()
            try:
                process.stdin.write(" ".join(words) + "\n")
                line = process.stdout.readline()
            finally:
                watchdog.cancel()
        assert line, f"the Java producer ended at {words}:\n{log_path.read_text()[-4_000:]}"
        return line.rstrip("\n")

    def told(answer: str) -> Told:
        fate, detail = answer.split(" ")
        return _stored(int(detail)) if fate == "stored" else Failed(detail)

    @contextmanager
    def producer(bootstrap: str, topic: str) -> Iterator[Send]:
        ask("open", topic, bootstrap)
        try:
            yield lambda rows: [told(answer) for answer in ask("send", topic, *rows).split("\t")]
        finally:
            ask("close", topic)

    try:
        yield StockClient("Java", ask("version"), 5, producer)
    finally:
        assert process.stdin is not None and process.stdout is not None
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
