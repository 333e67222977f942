"""Kafka's own Java tools for consumer groups: what an operator asks of one, and what reads its records."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.peers.apache_kafka import ApacheKafka, JavaTool, table_of
from tests.peers.group_members.stable import member

from semel.core.group.records import GroupKey, decode_group, decode_key, encode_group, encode_key
from semel.local import LocalLog

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
DUMP_LOG = "kafka.tools.DumpLogSegments"
TIMEOUT_S = 30.0
PARTITIONS = 2
RECORDS = 12  # in the groups' log of the server below


def test_an_operators_day_with_a_group(java_tool: JavaTool, bootstrap: str, topic: str) -> None:
    group = f"group-of-{topic}"
    asked = (GROUPS, "--bootstrap-server", bootstrap)
    of_group = ("--group", group)

    def run(*arguments: str) -> str:
        done = java_tool.run(*asked, *arguments)
        return done.stdout + done.stderr

    with member(bootstrap, topic, group):
        listed = java_tool.output(*asked, "--list", "--state", "stable")
        assert {"GROUP": group, "STATE": "Stable"} in table_of(listed)

        offsets = table_of(java_tool.output(*asked, "--describe", *of_group))
        assert sorted((one["TOPIC"], one["PARTITION"], one["CURRENT-OFFSET"]) for one in offsets) == [
            (topic, "0", "3"),
            (topic, "1", "4"),
        ]
        assert {one["CLIENT-ID"] for one in offsets} == {"rdkafka"}
        assert {one["HOST"] for one in offsets} == {"/127.0.0.1"}

        (told,) = table_of(java_tool.output(*asked, "--describe", *of_group, "--members", "--verbose"))
        assert f"{topic}:0,1" in told.values()

        (state,) = table_of(java_tool.output(*asked, "--describe", *of_group, "--state"))
        assert state["GROUP"] == group and "range" in state.values() and "Stable" in state.values()

        to_the_end = ("--reset-offsets", *of_group, "--topic", topic, "--to-latest", "--execute")
        assert "the current state is Stable" in run(*to_the_end)
    java_tool.output(*asked, *to_the_end)
    java_tool.output(*asked, "--delete-offsets", *of_group, "--topic", f"{topic}:0")
    (kept,) = table_of(java_tool.output(*asked, "--describe", *of_group))
    assert (kept["PARTITION"], kept["CURRENT-OFFSET"]) == ("1", "0")
    assert "was successful" in java_tool.output(*asked, "--delete", *of_group)


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    """A server with a stable group that has committed offsets, and one that has gone."""
    with LocalLog(tmp_path_factory.mktemp("group-records")) as log:
        with member(log.bootstrap, "read", "gone"):
            pass
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        admin.delete_consumer_groups(["gone"])["gone"].result(TIMEOUT_S)
        with member(log.bootstrap, "also-read", "readers", **{"group.instance.id": "one"}):
            yield log


def test_a_groups_records_are_apache_kafkas_byte_for_byte(apache_kafka: ApacheKafka, topic: str) -> None:
    """But for the values of offsets, to which version 4.1 adds the topic's id."""
    group = f"group-of-{topic}"
    with member(apache_kafka.bootstrap, topic, group, **{"group.instance.id": "one"}) as consumer:
        settings = {"bootstrap.servers": apache_kafka.bootstrap, "group.id": "reader"}
        reader = Consumer({**settings, "enable.partition.eof": True})
        reader.assign([TopicPartition("__consumer_offsets", 0, 0)])
        values: list[bytes] = []
        keys = 0
        give_up_s = time.monotonic() + TIMEOUT_S
        while True:
            assert time.monotonic() < give_up_s
            message = reader.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                break
            key = decode_key(message.key())
            if key is None or key.group_id != group:
                continue
            keys += 1
            assert encode_key(key) == message.key()
            if isinstance(key, GroupKey):
                values.append(message.value())
        reader.close()
        stored = [decode_group(value) for value in values]
        assert [encode_group(one) for one in stored] == values
        assert keys == len(values) + PARTITIONS
        assert [one.instance_id for one in stored[-1].members] == ["one"]
        assert stored[-1].leader == consumer.memberid()


def offsets_of(group: str, topic: str) -> list[tuple[dict[str, object], tuple[int, str]]]:
    """What its member has committed, by key."""
    return [
        ({"group": group, "topic": topic, "partition": number}, (3 + number, ""))
        for number in range(PARTITIONS)
    ]


def is_stable_group(group: dict[str, Any]) -> bool:
    (one,) = group["members"]
    assert one["groupInstanceId"] == "one" and one["memberId"] == group["leader"]
    assert (one["clientId"], one["clientHost"]) == ("rdkafka", "/127.0.0.1")
    return (group["protocolType"], group["protocol"], group["generation"]) == ("consumer", "range", 1)


def test_the_dump_tool_decodes_the_groups_records(java_tool: JavaTool, stable: LocalLog) -> None:
    """Keys, values, and what the consumers themselves have said, with what deletes both."""
    segments = sorted((stable.data_dir / "__consumer_offsets-0").glob("*.log"))
    told = java_tool.output(DUMP_LOG, "--offsets-decoder", "--files", ",".join(map(str, segments)))
    assert "isvalid: false" not in told
    pairs = re.findall(r" key: ({.*?}) payload: ({.*}|<DELETE>)$", told, re.MULTILINE)
    assert len(pairs) == RECORDS
    newest = {key: None if value == "<DELETE>" else json.loads(value)["data"] for key, value in pairs}
    kept = [(json.loads(key)["data"], value) for key, value in newest.items() if value is not None]
    (group,) = [value for key, value in kept if "topic" not in key]
    assert is_stable_group(group)
    (one,) = group["members"]
    assert one["subscription"]["topics"] == ["also-read"]
    assert one["assignment"]["assignedPartitions"] == [{"topic": "also-read", "partitions": [0, 1]}]
    offsets = [(key, (value["offset"], value["metadata"])) for key, value in kept if "topic" in key]
    assert offsets == offsets_of("readers", "also-read")


def formatted(java_tool: JavaTool, log: LocalLog, formatter: str) -> list[tuple[dict[str, Any], Any]]:
    """What the console consumer prints of the groups' topic: data of key and value."""
    printed = java_tool.output(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", log.bootstrap, "--topic", "__consumer_offsets", "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(RECORDS), "--timeout-ms", "20000"),
        *("--formatter", f"{FORMATTERS}.{formatter}"),
    )
    found = [json.loads(f"{each}}}") for each in re.split(r"}(?={\"key\")|}$", printed) if each]
    return [(one["key"]["data"], one["value"] and one["value"]["data"]) for one in found]


def test_the_console_consumer_formats_committed_offsets(java_tool: JavaTool, stable: LocalLog) -> None:
    found = formatted(java_tool, stable, "OffsetsMessageFormatter")
    told = [(key, value and (value["offset"], value["metadata"])) for key, value in found]
    gone = offsets_of("gone", "read")
    assert told == [*gone, *((key, None) for key, _ in gone), *offsets_of("readers", "also-read")]


def test_the_console_consumer_formats_groups(java_tool: JavaTool, stable: LocalLog) -> None:
    found = formatted(java_tool, stable, "GroupMetadataMessageFormatter")
    assert [
        (key["group"], value and (value["generation"], len(value["members"]))) for key, value in found
    ] == [
        ("gone", (0, 0)),
        ("gone", (1, 1)),
        ("gone", (2, 0)),
        ("gone", None),
        ("readers", (0, 0)),
        ("readers", (1, 1)),
    ]
    assert is_stable_group(found[-1][1])


def consumed(java_tool: JavaTool, log: LocalLog, *properties: str) -> tuple[list[str], str]:
    """What the console consumer prints of a topic of three rows, and what it complains of."""
    done = java_tool.run(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", log.bootstrap, "--topic", "three-rows", "--from-beginning"),
        *("--group", f"three-of-{'-'.join(properties)}", "--max-messages", "3", "--timeout-ms", "20000"),
        *(word for one in properties for word in ("--consumer-property", one)),
    )
    return done.stdout.split(), done.stderr


def test_javas_consumer_is_a_member_by_the_classic_protocol_only(
    java_tool: JavaTool, shared_log: LocalLog
) -> None:
    producer = Producer({"bootstrap.servers": shared_log.bootstrap})
    for value in ("a", "b", "c"):
        producer.produce("three-rows", value)
    assert producer.flush(TIMEOUT_S) == 0
    assert consumed(java_tool, shared_log)[0] == ["a", "b", "c"]
    assert consumed(java_tool, shared_log, "group.protocol=classic")[0] == ["a", "b", "c"]
    read, complaint = consumed(java_tool, shared_log, "group.protocol=consumer")
    assert not read
    assert "does not support the new CONSUMER group protocol. Set group.protocol=classic" in complaint
