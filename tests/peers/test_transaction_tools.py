"""Kafka's own Java tools for transactions: asking of one, ending one, and reading what is recorded of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.apache_kafka import JavaTool
from tests.peers.transactional_copiers.readers import confluent_kafka as read

from semel.local import LocalLog

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


TRANSACTIONS: Final = "org.apache.kafka.tools.TransactionsCommand"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER: Final = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
DUMP_LOG: Final = "kafka.tools.DumpLogSegments"
API_VERSIONS: Final = "org.apache.kafka.tools.BrokerApiVersionsCommand"
TIMEOUT_S: Final = 30.0
TIMEOUT_MS: Final = 50_000  # of a transaction
AN_HOUR_AGO_MS: Final = int((time.time() - 3_600) * 1_000)
# As a transaction's records have them.
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


class Log(Protocol):
    @property
    def bootstrap(self) -> str: ...
    @property
    def data_dir(self) -> Path: ...


@pytest.fixture(params=["semel", "apache-kafka"])
def log(request: pytest.FixtureRequest) -> Log:
    found: Log = request.getfixturevalue("shared_log" if request.param == "semel" else "apache_kafka")
    return found


@pytest.fixture
def transactional_id(log: Log, topic: str) -> str:
    """Named like a topic of one partition that only it writes to."""
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    return topic


@pytest.fixture
def producer(log: Log, transactional_id: str) -> Producer:
    """One aborted transaction is behind it, of one row."""
    producer = Producer(
        {
            "bootstrap.servers": log.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    begin(producer, transactional_id)
    producer.abort_transaction(TIMEOUT_S)
    return producer


def begin(producer: Producer, topic: str) -> None:
    """A transaction of one row, which is in the log."""
    producer.begin_transaction()
    producer.produce(topic, b"row", timestamp=AN_HOUR_AGO_MS)
    assert producer.flush(TIMEOUT_S) == 0


def asked(java_tool: JavaTool, log: Log, *arguments: str) -> list[dict[str, str]]:
    """What the tool tells, by the columns that its table has."""
    printed = java_tool.output(TRANSACTIONS, "--bootstrap-server", log.bootstrap, *arguments)
    lines = [[cell.strip() for cell in line.split("\t")] for line in printed.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def test_an_operator_looks_at_a_transaction(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    described = ("describe", "--transactional-id", transactional_id)
    of_partition = ("describe-producers", "--topic", transactional_id, "--partition", "0")
    began_ms = time.time() * 1_000
    begin(producer, transactional_id)

    listed = {one["TransactionalId"]: one["TransactionState"] for one in asked(java_tool, log, "list")}
    assert listed[transactional_id] == "Ongoing"
    (told,) = asked(java_tool, log, *described)
    assert (told["TransactionState"], told["TopicPartitions"]) == ("Ongoing", f"{transactional_id}-0")
    assert (told["TransactionTimeoutMs"], told["ProducerEpoch"]) == (str(TIMEOUT_MS), "0")
    assert began_ms <= int(told["CurrentTransactionStartTimeMs"]) <= time.time() * 1_000
    assert int(told["TransactionDurationMs"]) < time.time() * 1_000 - began_ms
    (state,) = asked(java_tool, log, *of_partition)
    assert (state["ProducerId"], state["ProducerEpoch"]) == (told["ProducerId"], "0")
    assert (state["LastSequence"], state["LastTimestamp"]) == ("1", str(AN_HOUR_AGO_MS))
    assert state["CurrentTransactionStartOffset"] == "2", "behind a row and a marker"

    producer.commit_transaction(TIMEOUT_S)
    (told,) = asked(java_tool, log, *described)
    assert (told["TransactionState"], told["TopicPartitions"]) == ("CompleteCommit", "")
    (state,) = asked(java_tool, log, *of_partition)
    assert state["CurrentTransactionStartOffset"] == "None"
    assert int(state["LatestCoordinatorEpoch"]) >= 0


def test_transactions_are_listed_by_duration_and_by_name(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    begin(producer, transactional_id)

    def listed(*arguments: str) -> bool:
        return transactional_id in {
            one["TransactionalId"] for one in asked(java_tool, log, "list", *arguments)
        }

    assert listed("--duration-filter", "1")
    assert not listed("--duration-filter", "3600000")
    assert listed("--transactional-id-pattern", f".*{transactional_id[-3:]}")
    assert not listed("--transactional-id-pattern", "of-nobody-.*")
    producer.abort_transaction(TIMEOUT_S)


def test_what_a_coordinator_knows_of_does_not_hang(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    """By the times of its rows it is older than any transaction may be."""
    begin(producer, transactional_id)
    broker = re.search(
        r"\(id: (\d+) rack", java_tool.output(API_VERSIONS, "--bootstrap-server", log.bootstrap)
    )
    assert broker
    where = ("--broker-id", broker[1], "--max-transaction-timeout", "0")
    assert asked(java_tool, log, "find-hanging", *where) == []
    one = ("--topic", transactional_id, "--partition", "0", "--max-transaction-timeout", "0")
    assert asked(java_tool, log, "find-hanging", *one) == []
    producer.abort_transaction(TIMEOUT_S)


def test_a_transaction_is_ended_by_force(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    begin(producer, transactional_id)
    asked(java_tool, log, "forceTerminateTransaction", "--transactionalId", transactional_id)
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal(), caught.value
    (told,) = asked(java_tool, log, "describe", "--transactional-id", transactional_id)
    # The tool takes the transactional id over, as a producer does that begins with it.
    assert told["TransactionState"] == "Empty"
    assert int(told["ProducerEpoch"]) > 0
    assert read(log.bootstrap, transactional_id, 1, True) == {0: []}
    assert read(log.bootstrap, transactional_id, 1, False) == {0: [(0, "row"), (2, "row")]}


def test_a_transaction_is_ended_in_one_partition_by_hand(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    """For one that hangs: a marker is written into the partition, and the coordinator hears nothing of it.

    semel refuses that for one that its coordinator has under way: the rest of it could be committed.
    """
    begin(producer, transactional_id)
    where = ("--topic", transactional_id, "--partition", "0", "--start-offset", "2")
    if isinstance(log, LocalLog):
        done = java_tool.run(TRANSACTIONS, "--bootstrap-server", log.bootstrap, "abort", *where)
        assert "in an invalid state" in done.stderr, done
        producer.commit_transaction(TIMEOUT_S)
        assert read(log.bootstrap, transactional_id, 1, True) == {0: [(2, "row")]}
        return
    asked(java_tool, log, "abort", *where)
    of_partition = ("describe-producers", "--topic", transactional_id, "--partition", "0")
    (state,) = asked(java_tool, log, *of_partition)
    assert state["CurrentTransactionStartOffset"] == "None"
    (told,) = asked(java_tool, log, "describe", "--transactional-id", transactional_id)
    assert told["TransactionState"] == "Ongoing"
    producer.commit_transaction(TIMEOUT_S)
    assert read(log.bootstrap, transactional_id, 1, True) == {0: []}


# What lies in files, while the server goes on.


def in_files(log: Log, pattern: str) -> str:
    """Such files that have anything in them, as the tool wants to be told them."""
    found = sorted(one for one in log.data_dir.glob(pattern) if one.stat().st_size)
    assert found, f"there is no {pattern}"
    return ",".join(map(str, found))


def statuses(records: list[tuple[Any, Any]], transactional_id: str) -> list[tuple[int, list[Any] | None]]:
    """Its states and their partitions, in the order of the log."""
    return [
        (value["transactionStatus"], value["transactionPartitions"])
        for key, value in records
        if key["transactionalId"] == transactional_id
    ]


@contextmanager
def committed(producer: Producer, transactional_id: str) -> Iterator[list[tuple[int, list[Any] | None]]]:
    """One more transaction, committed; the states that its id has gone through by then."""
    begin(producer, transactional_id)
    producer.commit_transaction(TIMEOUT_S)
    partitions = [{"topic": transactional_id, "partitionIds": [0]}]
    yield [
        (EMPTY, None),
        (ONGOING, partitions),
        (PREPARE_ABORT, partitions),
        (COMPLETE_ABORT, []),
        (ONGOING, partitions),
        (PREPARE_COMMIT, partitions),
        (COMPLETE_COMMIT, []),
    ]


def test_the_transactions_log_is_dumped(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    with committed(producer, transactional_id) as wanted:
        files = in_files(log, "__transaction_state-*/*.log")
        told = java_tool.output(DUMP_LOG, "--transaction-log-decoder", "--files", files)
    assert "isvalid: false" not in told
    found = re.findall(r" key: ({.*?}) payload: ({.*}|<DELETE>)$", told, re.MULTILINE)
    pairs = [(json.loads(key)["data"], json.loads(value)["data"]) for key, value in found if value[0] == "{"]
    assert statuses(pairs, transactional_id) == wanted


def test_the_console_consumer_formats_transactions(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    with committed(producer, transactional_id) as wanted:
        done = java_tool.run(  # whose end is that nothing comes any more, which it calls an error
            CONSOLE_CONSUMER,
            *("--bootstrap-server", log.bootstrap, "--topic", "__transaction_state", "--from-beginning"),
            *("--timeout-ms", "5000", "--formatter", FORMATTER),
        )
    found = [json.loads(f"{each}}}") for each in re.split(r"}(?={\"key\")|}$", done.stdout) if each.strip()]
    pairs = [(one["key"]["data"], one["value"]["data"]) for one in found if one["value"]]
    assert statuses(pairs, transactional_id) == wanted


def test_markers_and_indexes_of_aborted_transactions_are_dumped(
    java_tool: JavaTool, log: Log, transactional_id: str, producer: Producer
) -> None:
    with committed(producer, transactional_id):
        begin(producer, transactional_id)
        producer.abort_transaction(TIMEOUT_S)
    folder = f"{transactional_id}-0"
    told = java_tool.output(DUMP_LOG, "--print-data-log", "--files", in_files(log, f"{folder}/*.log"))
    assert "isvalid: false" not in told
    markers = re.findall(r"\| offset: (\d+) .*endTxnMarker: (\w+) coordinatorEpoch: (\d+)", told)
    assert [(offset, what) for offset, what, _ in markers] == [
        ("1", "ABORT"),
        ("3", "COMMIT"),
        ("5", "ABORT"),
    ]
    batches = re.findall(r"baseOffset: (\d+) .*isTransactional: (\w+) isControl: (\w+)", told)
    assert [(kind, control) for _, kind, control in batches] == [("true", "false"), ("true", "true")] * 3
    if isinstance(log, LocalLog):  # the index of the last segment is in memory until then
        log.stop()
    told = java_tool.output(DUMP_LOG, "--files", in_files(log, f"{folder}/*.txnindex"))
    if isinstance(log, LocalLog):
        log.start()
    entries = re.findall(
        r"producerId: \d+ firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", told
    )
    assert entries == [("0", "1", "2"), ("4", "5", "6")]
