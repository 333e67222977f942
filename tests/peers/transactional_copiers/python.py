"""A transactional copier, to be killed: ``python -m tests.peers.transactional_copiers.python CLIENT …``.

    … BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID HOW

It reads SOURCE as a member of GROUP and writes each row to the same partition of TARGET, a few rows a transaction,
with the offsets behind them in the transaction. It prints ``{"ready": true}`` when whoever had the transactional id
before is fenced, ``{"held": n}`` where it waits for a line to go on, and how each transaction came out:
``{"committed": n, "rows": 5}``, ``{"aborted": n, "why": …}``. ``{"fenced": why}`` and ``{"failed": why}`` are its last
words: an error that another producer under the same id may well not have.

Where an abort was not asked for, it begins again behind what the group has committed, as whoever starts does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

SESSION_MS: Final = 1_500
HEARTBEAT_MS: Final = 200
POLL_INTERVAL_MAX_MS: Final = 3_000  # whoever holds on for longer is out of its group
TRANSACTION_TIMEOUT_MS: Final = (
    30_000  # nothing waits for it: the next one under the same id ends what is open
)
_POLL_MS: Final = 100
_WHOLE_JOIN_MS: Final = 5_000  # kafka-python 3.0 may hang where a poll ends while it joins
_CALL_S: Final = 20.0  # longer than a server is away


class Row(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes


class AbortFirst(Exception):
    """The transaction is lost, and the producer is not."""


class Fenced(Exception):
    """Somebody else has the transactional id."""


Ends: TypeAlias = Mapping[int, int]  # the offset behind what was copied, by partition
How: TypeAlias = Mapping[str, Any]  # of copier.How


class Client(Protocol):
    """Rows come of the group, and go with a transaction."""

    def poll(self, rows_max: int) -> Sequence[Row]: ...
    def write(self, rows: Sequence[Row]) -> None:
        """Begin, write, and wait until all is acknowledged."""

    def send_offsets(self, ends: Ends) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def rewind(self) -> None:
        """To what the group has committed."""


Open: TypeAlias = Callable[[str, str, str, str, str], Client]


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def copy(client: Client, how: How) -> NoReturn:
    number = 0

    def hold(before: str) -> None:
        if number == how["hold_at"] and before == how["hold_before"]:
            tell(held=number)
            sys.stdin.readline()

    while True:
        rows = client.poll(how["rows"])
        if not rows:
            continue
        number += 1
        try:
            client.write(rows)
            hold("offsets")
            client.send_offsets({row.partition: row.offset + 1 for row in rows})
            hold("commit")
            if how["abort_every"] and number % how["abort_every"] == 0:
                raise AbortFirst("asked for")
            client.commit()
        except AbortFirst as why:
            client.abort()
            client.rewind()
            tell(aborted=number, why=str(why))
        else:
            tell(committed=number, rows=len(rows))


class ConfluentKafka:
    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        import confluent_kafka

        self._kafka, self._target = confluent_kafka, target
        common = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            # Else it waits for ever for a coordinator that went and came back (librdkafka#5511, #5456).
            "metadata.recovery.strategy": "none",
        }
        self._producer = confluent_kafka.Producer(
            common
            | {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
            }
        )
        self._call(self._producer.init_transactions)
        self._consumer = confluent_kafka.Consumer(
            common
            | {
                "group.id": group,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "max.poll.interval.ms": POLL_INTERVAL_MAX_MS,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([source])

    def poll(self, rows_max: int) -> Sequence[Row]:
        polled = [one for one in self._consumer.consume(rows_max, _POLL_MS / 1000) if one.error() is None]
        return [Row(one.partition(), one.offset(), one.key(), one.value()) for one in polled]

    def write(self, rows: Sequence[Row]) -> None:
        self.write_to([(self._target, row) for row in rows])

    def write_to(self, rows: Sequence[tuple[str, Row]]) -> None:
        """Into topics of their own. Of a row that fails the next call tells."""
        self._call(self._producer.begin_transaction)
        for topic, row in rows:
            self._producer.produce(topic, row.value, row.key, partition=row.partition)
        left = self._call(lambda: self._producer.flush(_CALL_S))
        if left:
            raise AbortFirst(f"{left} rows are not acknowledged")

    def send_offsets(self, ends: Ends) -> None:
        (source, *_) = {one.topic for one in self._consumer.assignment()} or [""]
        if not source:
            raise AbortFirst("it has no partitions any more")
        offsets = [self._kafka.TopicPartition(source, number, end) for number, end in ends.items()]
        metadata = self._consumer.consumer_group_metadata()
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, _CALL_S))

    def commit(self) -> None:
        self._call(lambda: self._producer.commit_transaction(_CALL_S))

    def abort(self) -> None:
        self._call(lambda: self._producer.abort_transaction(_CALL_S))

    def rewind(self) -> None:
        assigned = self._consumer.assignment()
        if not assigned:
            return
        for one in self._call(lambda: self._consumer.committed(assigned, _CALL_S)):
            one.offset = max(one.offset, 0)  # where nothing is committed, the first row is next
            self._consumer.seek(one)

    def _call(self, call: Callable[[], Any]) -> Any:
        give_up_s = time.monotonic() + _CALL_S
        while True:
            try:
                return call()
            except self._kafka.KafkaException as error:
                told = error.args[0]
                self._judge(told, or_else=error if time.monotonic() > give_up_s else None)

    def _judge(self, told: Any, or_else: Exception | None = None) -> None:
        """Return where the same call may come out otherwise the next time."""
        fenced = (self._kafka.KafkaError._FENCED, self._kafka.KafkaError.PRODUCER_FENCED)
        if told.code() in (*fenced, self._kafka.KafkaError.INVALID_PRODUCER_EPOCH):
            raise Fenced(told.str())
        if told.txn_requires_abort():
            raise AbortFirst(told.str())
        if or_else is not None or not told.retriable():
            raise or_else or self._kafka.KafkaException(told)


class KafkaPython:
    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            import kafka
            import kafka.errors

        self._kafka, self._errors = kafka, kafka.errors
        self._source, self._target = source, target
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=0,
        )
        self._call(self._producer.init_transactions)
        self._consumer = kafka.KafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )

    def poll(self, rows_max: int) -> Sequence[Row]:
        try:
            polled = self._consumer.poll(_WHOLE_JOIN_MS, max_records=rows_max)
        except self._errors.KafkaError:  # nobody is there to be connected to: whoever polls again goes on
            return []
        return [
            Row(one.partition, one.offset, one.key, one.value) for rows in polled.values() for one in rows
        ]

    def write(self, rows: Sequence[Row]) -> None:
        self._call(self._producer.begin_transaction)
        sent = [
            self._producer.send(self._target, row.value, row.key, partition=row.partition) for row in rows
        ]
        self._producer.flush(_CALL_S)
        for one in sent:
            self._call(lambda one=one: one.get(_CALL_S))

    def send_offsets(self, ends: Ends) -> None:
        offsets = {
            self._kafka.TopicPartition(self._source, number): self._kafka.OffsetAndMetadata(end, "", -1)
            for number, end in ends.items()
        }
        metadata = self._consumer.group_metadata()
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, metadata))

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def rewind(self) -> None:
        for one in self._consumer.assignment():
            self._consumer.seek(one, self._call(lambda one=one: self._consumer.committed(one)) or 0)

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._errors.ProducerFencedError, self._errors.InvalidProducerEpochError) as error:
            raise Fenced(str(error)) from error
        except self._errors.KafkaError as error:
            if self._producer._transaction_manager.has_abortable_error():
                raise AbortFirst(str(error)) from error
            raise


class Aiokafka:
    """Its group divides partitions anew in the background, so a transaction keeps it from that while it is open."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        import aiokafka
        import aiokafka.errors

        self._kafka, self._errors = aiokafka, aiokafka.errors
        self._source, self._target, self._group = source, target, group
        self._runner = asyncio.Runner()
        self._transaction = asyncio.Lock()
        self._run(self._open(bootstrap, transactional_id))

    async def _open(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = self._kafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await self._producer.start()
        transaction = self._transaction

        class Listener(self._kafka.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]
            async def on_partitions_revoked(self, revoked: object) -> None:
                async with transaction:
                    pass

            async def on_partitions_assigned(self, assigned: object) -> None:
                pass

        self._consumer = self._kafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        self._consumer.subscribe([self._source], listener=Listener())
        await self._consumer.start()

    def poll(self, rows_max: int) -> Sequence[Row]:
        polled = self._run(self._poll(rows_max))
        return [
            Row(one.partition, one.offset, one.key, one.value) for rows in polled.values() for one in rows
        ]

    async def _poll(self, rows_max: int) -> Any:
        polled = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=rows_max)
        if polled:
            await self._transaction.acquire()
        return polled

    def write(self, rows: Sequence[Row]) -> None:
        async def write() -> None:
            await self._producer.begin_transaction()
            sent = [
                await self._producer.send(self._target, row.value, row.key, row.partition) for row in rows
            ]
            await asyncio.gather(*sent)

        self._run(write())

    def send_offsets(self, ends: Ends) -> None:
        offsets = {self._kafka.TopicPartition(self._source, number): end for number, end in ends.items()}
        self._run(self._producer.send_offsets_to_transaction(offsets, self._group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())
        self._transaction.release()

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def rewind(self) -> None:
        async def rewind() -> None:
            for one in self._consumer.assignment():
                self._consumer.seek(one, await self._consumer.committed(one) or 0)

        self._run(rewind())
        self._transaction.release()

    def _run(self, what: Any) -> Any:
        try:
            return self._runner.run(asyncio.wait_for(what, _CALL_S))
        except self._errors.ProducerFenced as error:
            raise Fenced(str(error)) from error


class Semel:
    """Whose transaction is a block, here in parts."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        import semel
        from semel import errors

        self._errors, self._target = errors, target
        self._block: Any = None
        self._producer = semel.Producer(
            bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=0,
        )
        self._consumer = semel.Consumer(
            bootstrap,
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._consumer.subscribe(source)

    def poll(self, rows_max: int) -> Sequence[Row]:
        try:
            polled = self._consumer.poll(_POLL_MS / 1000, max_records=rows_max)
        except (self._errors.ConnectionLost, self._errors.BrokerError):  # whoever polls again goes on
            return []
        return [Row(one.partition, one.offset, one.key, one.value or b"") for one in polled]

    def write(self, rows: Sequence[Row]) -> None:
        self.write_to([(self._target, row) for row in rows])

    def write_to(self, rows: Sequence[tuple[str, Row]]) -> None:
        """Into topics of their own."""
        self._block = self._producer.transaction()
        self._transaction = self._block.__enter__()
        sent = [
            self._producer.send(topic, row.value, key=row.key, partition=row.partition) for topic, row in rows
        ]
        for one in sent:
            self._call(lambda one=one: one.result(_CALL_S))

    def send_offsets(self, ends: Ends) -> None:
        del ends  # those of the consumer, which are the same
        self._call(lambda: self._transaction.commit_offsets(self._consumer))

    def commit(self) -> None:
        self._leave(None)

    def abort(self) -> None:
        if self._block is not None:
            self._leave(AbortFirst("asked for"))

    def rewind(self) -> None:
        self._consumer.rewind()

    def _leave(self, error: AbortFirst | None) -> None:
        """The block; what comes of it, it says by what it raises."""
        block, self._block = self._block, None
        self._call(lambda: block.__exit__(error and AbortFirst, error, None))

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._errors.FencedNotStored, self._errors.FencedInDoubt) as error:
            raise Fenced(str(error)) from error
        except self._errors.TransactionAborted as error:
            raise AbortFirst(str(error)) from error


CLIENTS: Final[dict[str, Open]] = {
    "semel": Semel,
    "confluent_kafka": ConfluentKafka,
    "kafka_python": KafkaPython,
    "aiokafka": Aiokafka,
}


def main() -> NoReturn:
    client, *where, how = sys.argv[1:]
    try:
        opened = CLIENTS[client](*where)
        tell(ready=True)
        copy(opened, json.loads(how))
    except Fenced as why:
        tell(fenced=str(why))
    except Exception as error:
        tell(failed=f"{type(error).__name__}: {error}")
    os._exit(1)  # a client's threads may wait for what is gone


if __name__ == "__main__":
    main()
