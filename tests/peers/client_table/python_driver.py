"""Drives a client by lines of JSON: ``python -m tests.peers.client_table.python_driver CLIENT BOOTSTRAP``.

``{"do": "consume", "topic": "t", "count": 3}`` is answered ``{"done": …}``, ``{"failed": "what the client says"}``,
or ``{"absent": true}`` where the client has no such feature: what a driver does not define, or says so by
:class:`Absent`. The drivers of other languages speak the same. A row is a value, with a key, headers and a time
where they are given; all of it lies in partition 0.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.peers.apache_kafka import JavaTool, table_of

TIMEOUT_S: Final = 20.0
LINGER_MS: Final = 20  # so that several rows are in a batch
_KCAT_READS_BYTES: Final = 4_096  # at a time, and waits for as many

Row: TypeAlias = dict[str, Any]


class Absent(Exception):
    """The client has no such feature."""


def _row(
    offset: int,
    value: bytes | str | None,
    key: bytes | str | None,
    headers: Sequence[tuple[str, bytes | str]] | None,
    timestamp_ms: int,
) -> Row:
    """As a driver tells what it has read."""
    return {
        "offset": offset,
        "value": _text(value),
        "key": _text(key),
        "headers": [[name, _text(content)] for name, content in headers or ()],
        "timestamp_ms": timestamp_ms,
    }


def _isolation(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data


def _headers(row: Row) -> list[tuple[str, bytes]]:
    return [(name, content.encode()) for name, content in row.get("headers", ())]


def _key(row: Row) -> bytes | None:
    return row["key"].encode() if "key" in row else None


class ConfluentKafka:
    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._settings)

    def version(self) -> str:
        import confluent_kafka

        return f"{confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}"

    def produce(self, topic: str, rows: list[Row], idempotent: bool, codec: str) -> list[int]:
        from confluent_kafka import KafkaException, Producer

        given = {"enable.idempotence": idempotent, "compression.type": codec, "linger.ms": LINGER_MS}
        producer = Producer(self._settings | given)
        offsets = []

        def told(error: Any, message: Any) -> None:
            if error is not None:
                raise KafkaException(error)
            offsets.append(message.offset())

        for row in rows:
            producer.produce(
                topic,
                row["value"].encode(),
                _key(row),
                partition=0,
                headers=_headers(row),
                timestamp=row.get("timestamp_ms", 0),
                on_delivery=told,
            )
        producer.flush(TIMEOUT_S)
        return offsets

    def consume(self, topic: str, count: int, committed: bool = False) -> list[Row]:
        from confluent_kafka import KafkaException, TopicPartition

        consumer = self._consumer(**{"isolation.level": _isolation(committed)})
        consumer.assign([TopicPartition(topic, 0, 0)])
        rows: list[Row] = []
        give_up_s = time.monotonic() + TIMEOUT_S
        while len(rows) < count and time.monotonic() < give_up_s:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            stamp_ms = message.timestamp()[1]
            rows.append(_row(message.offset(), message.value(), message.key(), message.headers(), stamp_ms))
        consumer.close()
        return rows

    def ends(self, topic: str) -> list[int]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        found = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
        consumer.close()
        return list(found)

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], TIMEOUT_S)
        consumer.close()
        return int(found.offset)

    def _consumer(self, **settings: str) -> Any:
        from confluent_kafka import Consumer

        return Consumer(self._settings | {"group.id": "none", "enable.auto.commit": False} | settings)

    def begin_transaction(self, topic: str, rows: list[Row], transactional_id: str, timeout_ms: int) -> None:
        from confluent_kafka import Producer

        given = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._open = Producer(self._settings | given)
        self._open.init_transactions(TIMEOUT_S)
        self._open.begin_transaction()
        for row in rows:
            self._open.produce(topic, row["value"].encode(), partition=0)
        self._open.flush(TIMEOUT_S)

    def end_transaction(self, commit: bool) -> None:
        if commit:
            self._open.commit_transaction(TIMEOUT_S)
        else:
            self._open.abort_transaction(TIMEOUT_S)

    def create_topic(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        from confluent_kafka.admin import NewTopic

        self._admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(TIMEOUT_S)

    def list_topics(self) -> list[str]:
        return list(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def add_partitions(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)

    def topic_setting(self, topic: str, name: str) -> str:
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(self._admin.describe_configs([resource])[resource].result(TIMEOUT_S)[name].value)

    def set_topic_setting(self, topic: str, name: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def delete_records(self, topic: str, before: int) -> None:
        from confluent_kafka import TopicPartition

        (deleted,) = self._admin.delete_records([TopicPartition(topic, 0, before)]).values()
        deleted.result(TIMEOUT_S)

    def list_groups(self) -> list[str]:
        listed = self._admin.list_consumer_groups().result(TIMEOUT_S)
        return [one.group_id for one in listed.valid]

    def describe_group(self, group: str) -> dict[str, Any]:
        found = self._admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assigned = [len(one.assignment.topic_partitions) for one in found.members]
        return {"state": found.state.name, "partitions": assigned}

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = ConsumerGroupTopicPartitions(group)
        found = self._admin.list_consumer_group_offsets([asked])[group].result(TIMEOUT_S)
        return {one.partition: one.offset for one in found.topic_partitions if one.topic == topic}

    def set_group_offset(self, group: str, topic: str, offset: int) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
        done = self._admin.alter_consumer_group_offsets([asked])[group].result(TIMEOUT_S)
        for one in done.topic_partitions:
            if one.error is not None:
                raise KafkaException(one.error)

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            import kafka
            import kafka.admin

        self._kafka, self._of_admin, self._bootstrap = kafka, kafka.admin, bootstrap
        self._known_admin: Any = None

    @property
    def _admin(self) -> Any:
        if self._known_admin is None:
            self._known_admin = self._kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        return self._known_admin

    def version(self) -> str:
        return version("kafka-python")

    def produce(self, topic: str, rows: list[Row], idempotent: bool, codec: str) -> list[int]:
        producer = self._kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec,
            linger_ms=LINGER_MS,
        )
        sent = [
            producer.send(
                topic,
                row["value"].encode(),
                _key(row),
                headers=_headers(row),
                partition=0,
                timestamp_ms=row.get("timestamp_ms"),
            )
            for row in rows
        ]
        offsets = [each.get(TIMEOUT_S).offset for each in sent]
        producer.close()
        return offsets

    def consume(self, topic: str, count: int, committed: bool = False) -> list[Row]:
        consumer = self._consumer(isolation_level=_isolation(committed))
        partition = self._kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        rows: list[Row] = []
        give_up_s = time.monotonic() + TIMEOUT_S
        while len(rows) < count and time.monotonic() < give_up_s:
            for polled in consumer.poll(500).values():
                rows += [_row(one.offset, one.value, one.key, one.headers, one.timestamp) for one in polled]
        consumer.close()
        return rows

    def ends(self, topic: str) -> list[int]:
        consumer, partition = self._consumer(), self._kafka.TopicPartition(topic, 0)
        found = [consumer.beginning_offsets([partition]), consumer.end_offsets([partition])]
        consumer.close()
        return [each[partition] for each in found]

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int:
        consumer, partition = self._consumer(), self._kafka.TopicPartition(topic, 0)
        found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        consumer.close()
        return int(found.offset)

    def _consumer(self, **settings: str) -> Any:
        return self._kafka.KafkaConsumer(bootstrap_servers=self._bootstrap, **settings)

    def begin_transaction(self, topic: str, rows: list[Row], transactional_id: str, timeout_ms: int) -> None:
        self._open = self._kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._open.init_transactions()
        self._open.begin_transaction()
        sent = [self._open.send(topic, row["value"].encode(), partition=0) for row in rows]
        for each in sent:
            each.get(TIMEOUT_S)

    def end_transaction(self, commit: bool) -> None:
        try:
            if commit:
                self._open.commit_transaction()
            else:
                self._open.abort_transaction()
        finally:
            self._open.close(TIMEOUT_S)

    def create_topic(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        new = self._of_admin.NewTopic(topic, partitions, 1, topic_configs=settings)
        self._admin.create_topics([new])

    def list_topics(self) -> list[str]:
        return list(self._admin.list_topics())

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions({topic: self._of_admin.NewPartitions(partitions)})

    def topic_setting(self, topic: str, name: str) -> str:
        resource = self._of_admin.ConfigResource(self._of_admin.ConfigResourceType.TOPIC, topic)
        return str(self._admin.describe_configs([resource])["topic"][topic][name]["value"])

    def set_topic_setting(self, topic: str, name: str, value: str) -> None:
        kind = self._of_admin.ConfigResourceType.TOPIC
        self._admin.alter_configs([self._of_admin.ConfigResource(kind, topic, {name: value})])

    def delete_records(self, topic: str, before: int) -> None:
        self._admin.delete_records({self._kafka.TopicPartition(topic, 0): before})

    def list_groups(self) -> list[str]:
        return [one["group_id"] for one in self._admin.list_groups()]

    def describe_group(self, group: str) -> dict[str, Any]:
        (found,) = self._admin.describe_groups([group]).values()
        assigned = [
            sum(len(topic["partitions"]) for topic in one["member_assignment"]["assigned_partitions"])
            for one in found["members"]
        ]
        return {"state": found["group_state"], "partitions": assigned}

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        found = self._admin.list_group_offsets(group)[group]
        return {place.partition: one.offset for place, one in found.items() if place.topic == topic}

    def set_group_offset(self, group: str, topic: str, offset: int) -> None:
        place = self._kafka.TopicPartition(topic, 0)
        given = self._kafka.OffsetAndMetadata(offset, "", -1)
        (error,) = self._admin.alter_group_offsets(group, {place: given}).values()
        if error.errno:
            raise error

    def delete_group(self, group: str) -> None:
        (told,) = self._admin.delete_groups([group]).values()
        assert told == "OK", told


class Aiokafka:
    def __init__(self, bootstrap: str) -> None:
        import aiokafka
        import aiokafka.admin

        self._aiokafka, self._of_admin, self._bootstrap = aiokafka, aiokafka.admin, bootstrap
        self._runner = asyncio.Runner()

    def version(self) -> str:
        return version("aiokafka")

    def produce(self, topic: str, rows: list[Row], idempotent: bool, codec: str) -> list[int]:
        async def produce() -> list[int]:
            async with self._aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                enable_idempotence=idempotent,
                compression_type=None if codec == "none" else codec,
                linger_ms=LINGER_MS,
            ) as producer:
                sent = [
                    await producer.send(
                        topic,
                        row["value"].encode(),
                        _key(row),
                        0,
                        row.get("timestamp_ms"),
                        headers=_headers(row),
                    )
                    for row in rows
                ]
                return [(await each).offset for each in sent]

        return self._run(produce())

    def consume(self, topic: str, count: int, committed: bool = False) -> list[Row]:
        async def consume(consumer: Any, partition: Any) -> list[Row]:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            read = [await consumer.getone() for _ in range(count)]
            return [_row(one.offset, one.value, one.key, one.headers, one.timestamp) for one in read]

        return self._with_consumer(topic, consume, isolation_level=_isolation(committed))

    def ends(self, topic: str) -> list[int]:
        async def ends(consumer: Any, partition: Any) -> list[int]:
            found = [
                await consumer.beginning_offsets([partition]),
                await consumer.end_offsets([partition]),
            ]
            return [each[partition] for each in found]

        return self._with_consumer(topic, ends)

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int:
        async def find(consumer: Any, partition: Any) -> int:
            return int((await consumer.offsets_for_times({partition: timestamp_ms}))[partition].offset)

        return self._with_consumer(topic, find)

    def create_topic(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        new = self._of_admin.NewTopic(topic, partitions, 1, topic_configs=settings)
        answer = self._with_admin(lambda admin: admin.create_topics([new]))
        self._check(code for _, code, *_ in answer.topic_errors)

    def list_topics(self) -> list[str]:
        return list(self._with_admin(lambda admin: admin.list_topics()))

    def delete_topic(self, topic: str) -> None:
        answer = self._with_admin(lambda admin: admin.delete_topics([topic]))
        self._check(code for _, code, *_ in answer.topic_error_codes)

    def add_partitions(self, topic: str, partitions: int) -> None:
        new = self._of_admin.NewPartitions(partitions)
        answer = self._with_admin(lambda admin: admin.create_partitions({topic: new}))
        self._check(code for _, code, *_ in answer.topic_errors)

    def topic_setting(self, topic: str, name: str) -> str:
        asked = self._topic_resource(topic)
        (answer,) = self._with_admin(lambda admin: admin.describe_configs([asked]))
        ((code, _, _, _, entries),) = answer.resources
        self._check([code])
        (found,) = [value for entry_name, value, *_ in entries if entry_name == name]
        return str(found)

    def set_topic_setting(self, topic: str, name: str, value: str) -> None:
        asked = self._topic_resource(topic, {name: value})
        (answer,) = self._with_admin(lambda admin: admin.alter_configs([asked]))
        self._check(code for code, *_ in answer.resources)

    def _topic_resource(self, topic: str, configs: dict[str, str] | None = None) -> Any:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        return ConfigResource(ConfigResourceType.TOPIC, topic, configs)

    def delete_records(self, topic: str, before: int) -> None:
        asked = {self._aiokafka.TopicPartition(topic, 0): self._of_admin.RecordsToDelete(before)}
        self._with_admin(lambda admin: admin.delete_records(asked))

    def list_groups(self) -> list[str]:
        return [name for name, *_ in self._with_admin(lambda admin: admin.list_consumer_groups())]

    def describe_group(self, group: str) -> dict[str, Any]:
        from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

        (answer,) = self._with_admin(lambda admin: admin.describe_consumer_groups([group]))
        ((code, _, state, _, _, members, *_),) = answer.groups
        self._check([code])
        given = [ConsumerProtocolMemberAssignment.decode(member[-1]).assignment for member in members]
        return {"state": state, "partitions": [sum(len(each) for _, each in one) for one in given]}

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        found = self._with_admin(lambda admin: admin.list_consumer_group_offsets(group))
        return {place.partition: one.offset for place, one in found.items() if place.topic == topic}

    def begin_transaction(self, topic: str, rows: list[Row], transactional_id: str, timeout_ms: int) -> None:
        async def begin() -> None:
            self._open = self._aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await self._open.start()
            await self._open.begin_transaction()
            sent = [await self._open.send(topic, row["value"].encode(), partition=0) for row in rows]
            await asyncio.gather(*sent)

        self._run(begin())

    def end_transaction(self, commit: bool) -> None:
        async def end() -> None:
            try:
                await (self._open.commit_transaction() if commit else self._open.abort_transaction())
            finally:
                with suppress(Exception):  # where it has failed it fails again
                    await self._open.stop()

        self._run(end())

    def _with_consumer(self, topic: str, use: Any, **settings: str) -> Any:
        async def run() -> Any:
            consumer = self._aiokafka.AIOKafkaConsumer(bootstrap_servers=self._bootstrap, **settings)
            await consumer.start()
            try:
                return await use(consumer, self._aiokafka.TopicPartition(topic, 0))
            finally:
                await consumer.stop()

        return self._run(run())

    def _with_admin(self, use: Any) -> Any:
        async def run() -> Any:
            admin = self._of_admin.AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await use(admin)
            finally:
                await admin.close()

        return self._run(run())

    def _run(self, what: Any) -> Any:
        return self._runner.run(asyncio.wait_for(what, TIMEOUT_S))

    @staticmethod
    def _check(codes: Any) -> None:
        from aiokafka.errors import for_code

        for code in codes:
            if code:
                raise for_code(code)


class Semel:
    def __init__(self, bootstrap: str) -> None:
        import semel

        self._semel, self._bootstrap = semel, bootstrap
        self._admin = semel.Admin(bootstrap)

    def version(self) -> str:
        return version("semel")

    def produce(self, topic: str, rows: list[Row], idempotent: bool, codec: str) -> list[int]:
        del idempotent  # it always is
        with self._semel.Producer(self._bootstrap, compression=codec, linger_ms=LINGER_MS) as producer:
            sent = [
                producer.send(
                    topic,
                    row["value"],
                    row.get("key"),
                    partition=0,
                    timestamp_ms=row.get("timestamp_ms"),
                    headers=_headers(row),
                )
                for row in rows
            ]
            return [each.result(TIMEOUT_S).offset for each in sent]

    def begin_transaction(self, topic: str, rows: list[Row], transactional_id: str, timeout_ms: int) -> None:
        self._open = self._semel.Producer(
            self._bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._transaction = self._open.transaction()
        self._transaction.__enter__()
        for each in [self._open.send(topic, row["value"], partition=0) for row in rows]:
            each.result(TIMEOUT_S)

    def end_transaction(self, commit: bool) -> None:
        try:
            if commit:
                self._transaction.__exit__(None, None, None)
            else:
                asked = Absent("an error within it aborts it")
                self._transaction.__exit__(Absent, asked, None)
        finally:
            self._open.close()

    def consume(self, topic: str, count: int, committed: bool = False) -> list[Row]:
        rows: list[Row] = []
        give_up_s = time.monotonic() + TIMEOUT_S
        with self._semel.Consumer(self._bootstrap, isolation_level=_isolation(committed)) as consumer:
            consumer.assign({self._place(topic): 0})
            while len(rows) < count and time.monotonic() < give_up_s:
                polled = consumer.poll(0.5)
                rows += [
                    _row(one.offset, one.value, one.key, one.headers, one.timestamp_ms) for one in polled
                ]
        return rows

    def ends(self, topic: str) -> list[int]:
        from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

        return [self.offset_for_time(topic, each) for each in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)]

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int:
        place = self._place(topic)
        return int(self._admin.list_offsets({place: timestamp_ms})[place].offset)

    def create_topic(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        self._admin.create_topic(topic, partitions, settings)

    def list_topics(self) -> list[str]:
        return self._admin.list_topics()

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topic(topic)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._admin.add_partitions(topic, partitions)

    def topic_setting(self, topic: str, name: str) -> str:
        return str(self._admin.describe_configs(topic)[name].value)

    def set_topic_setting(self, topic: str, name: str, value: str) -> None:
        self._admin.alter_configs(topic, {name: value})

    def delete_records(self, topic: str, before: int) -> None:
        self._admin.delete_records({self._place(topic): before})

    def list_groups(self) -> list[str]:
        return [one.group for one in self._admin.groups()]

    def describe_group(self, group: str) -> dict[str, Any]:
        found = self._admin.describe_groups([group])[group]
        return {"state": found.state, "partitions": [len(one.assigned) for one in found.members]}

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        found = self._admin.group_offsets(group)
        return {place.partition: one.offset for place, one in found.items() if place.topic == topic}

    def set_group_offset(self, group: str, topic: str, offset: int) -> None:
        self._admin.alter_group_offsets(group, {self._place(topic): offset})

    def delete_group(self, group: str) -> None:
        self._admin.delete_groups([group])

    def _place(self, topic: str) -> Any:
        return self._semel.TopicPartition(topic, 0)


class Kcat:
    """It has no admin calls."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def version(self) -> str:
        told = self._run("-V")
        found = re.search(r"Version ([\d.]+) .*librdkafka ([\d.]+)", told)
        assert found, told
        return f"{found[1]}, librdkafka {found[2]}"

    def produce(self, topic: str, rows: list[Row], idempotent: bool, codec: str) -> None:
        if any("timestamp_ms" in row for row in rows):
            raise Absent
        given = ["-P", "-t", topic, "-p", "0", "-z", codec, "-X", f"linger.ms={LINGER_MS}"]
        given += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        given += [
            word for name, content in rows[0].get("headers", ()) for word in ("-H", f"{name}={content}")
        ]
        if "key" in rows[0]:
            given += ["-K", "\t"]
        lines = ["\t".join(filter(None, (row.get("key"), row["value"]))) for row in rows]
        self._run(*given, stdin="".join(f"{line}\n" for line in lines))

    def consume(self, topic: str, count: int, committed: bool = False) -> list[Row]:
        given = ["-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-q", "-J"]
        read = self._run("-C", *given, "-X", f"isolation.level={_isolation(committed)}")
        rows = []
        for told in map(json.loads, read.splitlines()):
            flat = told.get("headers", [])
            headers = list(zip(flat[::2], flat[1::2], strict=True))
            rows.append(_row(told["offset"], told["payload"], told["key"], headers, told["ts"]))
        return rows

    def begin_transaction(self, topic: str, rows: list[Row], transactional_id: str, timeout_ms: int) -> None:
        """It begins with its input, commits at the end of it, and aborts when it is stopped before."""
        given = [f"transactional.id={transactional_id}", f"transaction.timeout.ms={timeout_ms}"]
        self._open = subprocess.Popen(
            [os.environ["KCAT"], "-b", self._bootstrap, "-P", "-t", topic, "-p", "0"]
            + [word for each in given for word in ("-X", each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._open.stdin is not None
        lines = "".join(f"{row['value']}\n" for row in rows)
        lines += "\n" * (-len(lines) % _KCAT_READS_BYTES)  # it leaves out what is empty
        self._open.stdin.write(lines)
        self._open.stdin.flush()

    def end_transaction(self, commit: bool) -> None:
        if not commit:
            self._open.send_signal(signal.SIGINT)
        told = self._open.communicate(timeout=TIMEOUT_S)[1]
        if self._open.returncode:
            raise RuntimeError(told.strip().splitlines()[-1])

    def ends(self, topic: str) -> list[int]:
        return [self.offset_for_time(topic, each) for each in (-2, -1)]

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int:
        return int(self._run("-Q", "-t", f"{topic}:0:{timestamp_ms}").split()[-1])

    def list_topics(self) -> list[str]:
        return [one["topic"] for one in json.loads(self._run("-L", "-J"))["topics"]]

    def _run(self, *arguments: str, stdin: str = "") -> str:
        command = [os.environ["KCAT"], "-b", self._bootstrap, *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return done.stdout


class KafkasTools:
    """What Kafka's own scripts run, each time in a JVM of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._tool = JavaTool(Path(os.environ["JAVA"]), Path(os.environ["KAFKA_JARS"]))
        self._where = ("--bootstrap-server", bootstrap)

    def version(self) -> str:
        return self._run(_TOPICS, "--version").split()[0]

    def produce(self, topic: str, rows: list[Row], idempotent: bool, codec: str) -> None:
        if any("timestamp_ms" in row for row in rows):
            raise Absent
        given = ["--topic", topic, "--compression-codec", codec, "--timeout", str(LINGER_MS)]
        given += ["--producer-property", f"enable.idempotence={str(idempotent).lower()}"]
        for what in ("key", "headers"):
            if what in rows[0]:
                given += ["--property", f"parse.{what}=true"]
        lines = []
        for row in rows:
            headers = ",".join(f"{name}:{content}" for name, content in row.get("headers", ()))
            lines.append("\t".join(filter(None, (headers, row.get("key"), row["value"]))) + "\n")
        self._run(f"{_TOOLS}.ConsoleProducer", *given, stdin="".join(lines))

    def consume(self, topic: str, count: int, committed: bool = False) -> list[Row]:
        given = ["--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(count)]
        given += ["--timeout-ms", str(int(TIMEOUT_S * 1_000)), "--isolation-level", _isolation(committed)]
        for what in ("timestamp", "offset", "headers", "key"):
            given += ["--property", f"print.{what}=true"]
        rows = []
        for line in self._run(f"{_TOOLS}.consumer.ConsoleConsumer", *given).splitlines():
            stamp, offset, headers, key, value = line.split("\t")
            named = [] if headers == "NO_HEADERS" else [one.split(":") for one in headers.split(",")]
            rows.append(
                _row(
                    int(offset.removeprefix("Offset:")),
                    value,
                    None if key == "null" else key,
                    [(name, content) for name, content in named],
                    int(stamp.removeprefix("CreateTime:")),
                )
            )
        return rows

    def ends(self, topic: str) -> list[int]:
        return [self._offset(topic, each) for each in ("earliest", "latest")]

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int:
        return self._offset(topic, str(timestamp_ms))

    def _offset(self, topic: str, when: str) -> int:
        told = self._run(f"{_TOOLS}.GetOffsetShell", "--topic", topic, "--time", when)
        return int(told.strip().split(":")[-1])

    def create_topic(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        given = [word for name, value in settings.items() for word in ("--config", f"{name}={value}")]
        self._run(_TOPICS, "--create", "--topic", topic, "--partitions", str(partitions), *given)

    def list_topics(self) -> list[str]:
        return self._run(_TOPICS, "--list").split()

    def delete_topic(self, topic: str) -> None:
        self._run(_TOPICS, "--delete", "--topic", topic)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._run(_TOPICS, "--alter", "--topic", topic, "--partitions", str(partitions))

    def topic_setting(self, topic: str, name: str) -> str:
        told = self._run(_CONFIGS, "--entity-type", "topics", "--entity-name", topic, "--describe", "--all")
        found = re.search(rf"^\s*{re.escape(name)}=(\S*) ", told, re.MULTILINE)
        assert found, told
        return found[1]

    def set_topic_setting(self, topic: str, name: str, value: str) -> None:
        given = ("--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config")
        self._run(_CONFIGS, *given, f"{name}={value}")

    def delete_records(self, topic: str, before: int) -> None:
        asked = {"partitions": [{"topic": topic, "partition": 0, "offset": before}], "version": 1}
        self._run(
            f"{_TOOLS}.DeleteRecordsCommand", "--offset-json-file", "/dev/stdin", stdin=json.dumps(asked)
        )

    def list_groups(self) -> list[str]:
        return self._run(_GROUPS, "--list").split()

    def describe_group(self, group: str) -> dict[str, Any]:
        (state,) = self._table("--describe", "--group", group, "--state")
        members = self._table("--describe", "--group", group, "--members")
        return {"state": state["STATE"], "partitions": [int(one["#PARTITIONS"]) for one in members]}

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        return {
            int(one["PARTITION"]): int(one["CURRENT-OFFSET"])
            for one in self._table("--describe", "--group", group)
            if one["TOPIC"] == topic
        }

    def set_group_offset(self, group: str, topic: str, offset: int) -> None:
        given = ("--topic", f"{topic}:0", "--to-offset", str(offset), "--execute")
        self._run(_GROUPS, "--group", group, "--reset-offsets", *given)

    def delete_group(self, group: str) -> None:
        self._run(_GROUPS, "--delete", "--group", group)

    def _table(self, *arguments: str) -> list[Mapping[str, str]]:
        return table_of(self._run(_GROUPS, *arguments))

    def _run(self, main_class: str, *arguments: str, stdin: str = "") -> str:
        return self._tool.output(main_class, *self._where, *arguments, stdin=stdin)


_TOOLS: Final = "org.apache.kafka.tools"
_TOPICS: Final = f"{_TOOLS}.TopicCommand"
_CONFIGS: Final = "kafka.admin.ConfigCommand"
_GROUPS: Final = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"

CLIENTS: Final = {
    one.__name__: one for one in (ConfluentKafka, KafkaPython, Aiokafka, Semel, Kcat, KafkasTools)
}


def _answer(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    do = getattr(client, request.pop("do"), None)
    if do is None:
        return {"absent": True}
    try:
        return {"done": do(**request)}
    except Absent:
        return {"absent": True}
    except Exception as error:
        kind, told = type(error).__name__, str(error)
        return {"failed": told if told.startswith(kind) else f"{kind}: {told}"}


def main() -> None:
    name, bootstrap = sys.argv[1:]
    client = CLIENTS[name](bootstrap)
    for line in sys.stdin:
        print(json.dumps(_answer(client, json.loads(line))), flush=True)
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    os._exit(0)  # a client's threads may wait for what is gone


if __name__ == "__main__":
    main()
