"""Kafka's own Java tools, those that need no consumer group: an operator's day against the log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.peers.apache_kafka import JavaTool

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"


@pytest.fixture
def bootstrap(bootstrap_of_tools: str) -> str:
    return bootstrap_of_tools


def test_topics_are_made_described_altered_and_deleted(
    java_tool: JavaTool, bootstrap: str, topic: str
) -> None:
    topics = (TOPICS, "--bootstrap-server", bootstrap)
    retention = ("--config", "retention.ms=86400000")
    java_tool.output(*topics, "--create", "--topic", topic, "--partitions", "3", *retention)
    described = java_tool.output(*topics, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=86400000" in described
    assert re.search(r"Partition: 2\s+Leader: \d+", described)
    java_tool.output(*topics, "--alter", "--topic", topic, "--partitions", "4")
    assert topic in java_tool.output(*topics, "--list").split()
    java_tool.output(*topics, "--delete", "--topic", topic)
    assert topic not in java_tool.output(*topics, "--list").split()


def test_topic_configs_are_altered_and_described(java_tool: JavaTool, bootstrap: str, topic: str) -> None:
    java_tool.output(TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    configs = (CONFIGS, "--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
    java_tool.output(*configs, "--alter", "--add-config", "retention.ms=3600000,segment.bytes=2097152")
    described = java_tool.output(*configs, "--describe")
    assert "retention.ms=3600000" in described
    assert "segment.bytes=2097152" in described
    java_tool.output(*configs, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in java_tool.output(*configs, "--describe")


@pytest.mark.everyday
def test_console_lines_offsets_and_trim(
    java_tool: JavaTool, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    lines = "".join(f"k{number}\tvalue {number}\n" for number in range(50))
    keyed = ("--property", "parse.key=true")
    java_tool.output(CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, *keyed, stdin=lines)

    offsets = (GET_OFFSETS, "--bootstrap-server", bootstrap, "--topic", topic)
    assert java_tool.output(*offsets, "--time", "latest").split() == [f"{topic}:0:50"]

    trim = tmp_path / "trim.json"
    trim.write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 40}], "version": 1})
    )
    deleted = java_tool.output(
        DELETE_RECORDS, "--bootstrap-server", bootstrap, "--offset-json-file", str(trim)
    )
    assert "low_watermark: 40" in deleted
    assert java_tool.output(*offsets, "--time", "earliest").split() == [f"{topic}:0:40"]

    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "45")
    shown = ("--property", "print.key=true", "--max-messages", "5", "--timeout-ms", "20000")
    read = java_tool.output(CONSOLE_CONSUMER, *where, *shown)
    assert read.splitlines() == [f"k{number}\tvalue {number}" for number in range(45, 50)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_java_producer_writes_idempotently(
    java_tool: JavaTool, bootstrap: str, topic: str, codec: str
) -> None:
    sent = java_tool.output(
        PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        "--producer-props",
        *(f"bootstrap.servers={bootstrap}", "acks=all", "enable.idempotence=true"),
        f"compression.type={codec}",
    )
    assert "20000 records sent" in sent
    offsets = (GET_OFFSETS, "--bootstrap-server", bootstrap, "--topic", topic)
    assert java_tool.output(*offsets).split() == [f"{topic}:0:20000"]


def test_every_record_of_the_verifiable_producer_is_acknowledged(
    java_tool: JavaTool, bootstrap: str, topic: str
) -> None:
    where = ("--bootstrap-server", bootstrap, "--topic", topic)
    printed = java_tool.output(VERIFIABLE_PRODUCER, *where, "--max-messages", "500", "--acks", "-1")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    acknowledged = sorted(each["offset"] for each in events if each["name"] == "producer_send_success")
    assert acknowledged == list(range(500))


def test_producers_are_described(java_tool: JavaTool, bootstrap: str, topic: str) -> None:
    java_tool.output(CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, stdin="a\nb\n")
    where = ("--bootstrap-server", bootstrap, "describe-producers", "--topic", topic, "--partition", "0")
    header, row = java_tool.output(TRANSACTIONS, *where).splitlines()
    described = dict(zip(header.split(), row.split(), strict=True))
    assert (described["ProducerEpoch"], described["LastSequence"]) == ("0", "1")
    assert described["CurrentTransactionStartOffset"] == "None"


def test_the_broker_tells_its_apis(java_tool: JavaTool, bootstrap: str) -> None:
    told = java_tool.output(API_VERSIONS, "--bootstrap-server", bootstrap)
    assert re.search(r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", told)
    assert re.search(r"Fetch\(1\): \d+ to \d+ \[usable: \d+\]", told)
