"""What a stock client makes of a refusal: one producer, four rows, the answer to the second one struck.

``first`` is stored and acknowledged. Then ``struck`` and ``behind`` are sent at once, a batch each, and the
answer to ``struck`` is the case's; ``behind`` is in flight by then if the client sends without waiting, and
the log itself judges it. ``after`` is sent once the application has been told of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from tests.peers.stock_clients.clients import StockClient, Stored, Told
from tests.peers.stock_clients.proxy import Attempt, Proxy, Strike

import semel
from semel.errors import ErrorCode
from semel.types import LATEST_TIMESTAMP, TopicPartition

ROWS: Final = ("first", "struck", "behind", "after")
ROW_BYTES: Final = 100  # Java's producer sizes a batch generously: two short rows would share one
PADDING: Final = "."

EXPIRATION_MS: Final = 3_000  # long enough for a client's answer to a refusal, on a busy machine too
UPKEEP_MS: Final = 100
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Case:
    """The answer to ``struck``; ``by_the_log``: nobody but the log says so, having forgotten the producer."""

    error_code: ErrorCode
    stored: bool
    by_the_log: bool = False


CASES: Final = (
    Case(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, stored=True),
    Case(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, stored=False),
    Case(ErrorCode.UNKNOWN_PRODUCER_ID, stored=True),
    Case(ErrorCode.UNKNOWN_PRODUCER_ID, stored=False),
    Case(ErrorCode.UNKNOWN_PRODUCER_ID, stored=True, by_the_log=True),
    Case(ErrorCode.UNKNOWN_PRODUCER_ID, stored=False, by_the_log=True),
    Case(ErrorCode.INVALID_RECORD, stored=True),
    Case(ErrorCode.INVALID_RECORD, stored=False),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the application was told of each row, what the client sent, and the rows as they lie in the log."""

    told: dict[str, Told]
    attempts: list[Attempt]
    stored: list[str]


@dataclass(frozen=True, slots=True)
class Stage:
    """A log, and the proxy that every client of it goes through."""

    log: semel.LocalLog
    proxy: Proxy


@dataclass(frozen=True, slots=True)
class Stages:
    """A log with a good memory, and one that forgets."""

    lasting: Stage
    forgetful: Stage


@contextmanager
def stages() -> Iterator[Stages]:
    with ExitStack() as stack:

        def stage(**settings: int) -> Stage:
            proxy = stack.enter_context(Proxy())
            log = stack.enter_context(semel.LocalLog(advertised=proxy.address, **settings))
            proxy.forward_to(log.bootstrap)
            return Stage(log, proxy)

        forgetful = stage(producer_id_expiration_ms=EXPIRATION_MS, log_retention_check_interval_ms=UPKEEP_MS)
        yield Stages(stage(), forgetful)


def drive_all(client: StockClient, on: Stages) -> list[Outcome]:
    """All cases, in their order; those that wait for the log to forget do so beside the others."""
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda case: drive(client, case, on), CASES))


def drive(client: StockClient, case: Case, on: Stages) -> Outcome:
    """One case: a topic and a producer of its own."""
    stage = on.forgetful if case.by_the_log else on.lasting
    topic = f"{client.name}-{case.error_code.value}-{case.stored}-{case.by_the_log}".lower()
    together = min(client.in_flight, 2)
    with semel.Admin(stage.log.bootstrap) as admin:
        admin.create_topic(topic, 1)
        if not case.by_the_log:
            strike = Strike(2, together, case.error_code, forwarded=case.stored)
        elif case.stored:
            strike = Strike(2, together, lost=True, before_more=lambda: _await_forgotten(admin, topic))
        else:
            strike = Strike(2, together)
        stage.proxy.strike(topic, strike)
        with client.open(stage.proxy.address, topic) as send:
            first, *pair, last = [row.ljust(ROW_BYTES, PADDING) for row in ROWS]
            told = send([first])
            assert told == [Stored(0)], told
            if case.by_the_log and not case.stored:
                _await_forgotten(admin, topic)
            told += send(pair)
            told += send([last])
        stored = _read(stage.log.bootstrap, admin, topic)
    return Outcome(dict(zip(ROWS, told, strict=True)), stage.proxy.attempts(topic), stored)


def row_of(value: bytes | None) -> str:
    """The row that was sent as ``value``."""
    return (value or b"").decode().rstrip(PADDING)


def _await_forgotten(admin: semel.Admin, topic: str) -> None:
    """Until the log knows nothing of the one producer that has written to the topic."""
    partition = TopicPartition(topic, 0)
    give_up_s = time.monotonic() + TIMEOUT_S
    while admin.describe_producers([partition])[partition]:
        assert time.monotonic() < give_up_s, f"the producer of {topic} is still known"
        time.sleep(UPKEEP_MS / 1_000)


def _read(bootstrap: str, admin: semel.Admin, topic: str) -> list[str]:
    partition = TopicPartition(topic, 0)
    end = admin.list_offsets({partition: LATEST_TIMESTAMP})[partition].offset
    values: list[str] = []
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign({partition: "earliest"})
        while len(values) < end:
            records = consumer.poll(TIMEOUT_S)
            assert records, f"{len(values)} of {end} records of {topic}"
            values += [row_of(record.value) for record in records]
    return values
