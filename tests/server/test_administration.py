"""What tools ask of a server: its bounds, and what a bad disk makes of it.

The answers themselves are held to Apache Kafka's in ``tests/peers/same_as_kafka``.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.carrying_out import carry_out

from semel.config import Address, ServerSettings
from semel.core.log.config import LogConfig
from semel.core.log.described import TOPIC_SETTINGS
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.broker_settings import broker_settings
from semel.server.outcome import Answer, Call
from semel.server.router import handle
from semel.server.storage.aside import at_once
from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.outcome import AppendOutcome
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.wire import messages
from semel.wire.api import ApiKey

NOW_MS = 1_700_000_000_000


class Disk(OsFileSystem):
    """The real file system, which cannot say how much room it has once told so."""

    room_error: OSError | None = None

    def room(self, path: Path) -> tuple[int, int]:
        if self.room_error is not None:
            raise self.room_error
        return super().room(path)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def broker(tmp_path: Path, disk: Disk) -> Iterator[Broker]:
    told = ServerSettings(num_partitions=3, log_segment_bytes=1 << 20)
    settings = StorageSettings(default_config=LogConfig(segment_bytes=told.log_segment_bytes))
    storage = Storage.open(tmp_path / "data", disk, settings, now_ms=NOW_MS)
    broker = Broker(told, storage)
    at_once(broker.create_topic("t", 2, {}, NOW_MS))
    yield broker
    storage.close(now_ms=NOW_MS)


def call(api_key: ApiKey, version: int) -> Call:
    return Call(int(api_key), version, "test", Address("127.0.0.1", 4711), NOW_MS, lambda: 10**7)


def ask(broker: Broker, api_key: ApiKey, version: int, **fields: Any) -> Any:
    body = messages.encode_request(api_key, version, fields)
    outcome = handle(broker, call(api_key, version), body)
    return messages.decode_response(api_key, version, b"".join(map(bytes, carry_out(outcome).answer.parts)))


def described(broker: Broker, kind: int, name: str, *, synonyms: bool = False) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    answer = ask(
        broker,
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[resource],
        include_synonyms=synonyms,
        include_documentation=False,
    )
    return {one.name: one for one in answer.results[0].configs}


def test_what_the_server_was_told_is_no_default(broker: Broker) -> None:
    of_the_broker = described(broker, 4, "0", synonyms=True)
    segment = of_the_broker["log.segment.bytes"]
    assert [(one.name, one.value, one.source) for one in segment.synonyms] == [
        ("log.segment.bytes", "1048576", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert (segment.value, segment.config_source) == ("1048576", 4)
    assert of_the_broker["message.max.bytes"].config_source == 5
    assert described(broker, 2, "t")["segment.bytes"].config_source == 4
    at_once(broker.alter_config("t", {"segment.bytes": "2048"}, NOW_MS))
    mine = described(broker, 2, "t", synonyms=True)["segment.bytes"]
    assert [(one.name, one.value, one.source) for one in mine.synonyms] == [
        ("segment.bytes", "2048", 1),
        ("log.segment.bytes", "1048576", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]


def test_a_topics_making_tells_the_servers_settings(broker: Broker) -> None:
    asked = {"name": "new", "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
    answer = ask(broker, ApiKey.CREATE_TOPICS, 7, topics=[asked], timeout=1, validate_only=False)
    (made,) = answer.topics
    told = {one.name: (one.value, one.config_source, one.read_only) for one in made.configs}
    assert made.num_partitions == 3
    assert told["segment.bytes"] == ("1048576", 4, False)
    assert told["retention.ms"] == ("604800000", 5, False)
    assert told["min.insync.replicas"] == ("1", 5, True)


def test_a_listener_is_told_with_the_port_that_was_dialled(broker: Broker) -> None:
    broker.started_with = ServerSettings(listen=Address("::1", 0))  # type: ignore[misc]
    told = broker_settings(broker, call(ApiKey.DESCRIBE_CONFIGS, 4))
    assert told["listeners"].value == "PLAINTEXT://[::1]:4711"
    assert told["advertised.listeners"].value == "PLAINTEXT://127.0.0.1:4711"


def altered(broker: Broker, kind: int, name: str, **settings: str | None) -> tuple[int, str | None]:
    entries = [
        {"name": key.replace("_", "."), "config_operation": 1 if value is None else 0, "value": value}
        for key, value in settings.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    asked = {"resources": [resource], "validate_only": False}
    (answer,) = ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked).responses
    return int(answer.error_code), answer.error_message


def test_a_setting_of_the_servers_is_told_with_all_that_it_comes_from(broker: Broker) -> None:
    assert altered(broker, 4, "", log_segment_bytes="4096") == (0, None)
    assert altered(broker, 4, "0", log_segment_bytes="8192", max_connections="5") == (0, None)
    segment = described(broker, 4, "0", synonyms=True)["log.segment.bytes"]
    layers = [("8192", 2), ("4096", 3), ("1048576", 4), ("1073741824", 5)]
    assert [(one.value, one.source) for one in segment.synonyms] == layers
    assert (segment.value, segment.config_source, segment.read_only) == ("8192", 2, False)
    topics = described(broker, 2, "t", synonyms=True)["segment.bytes"]
    assert [(one.value, one.source) for one in topics.synonyms] == layers
    assert broker.settings.connections_max == 5
    assert broker.settings.num_partitions == 3, "what it was started with"
    code, reason = altered(broker, 4, "0", num_partitions="5")
    assert code == ErrorCode.INVALID_REQUEST
    assert reason is not None
    assert "Cannot update these configs dynamically: num.partitions" in reason


def test_no_more_connections_are_promised_than_files_may_be_open(broker: Broker) -> None:
    few = Broker(ServerSettings(connections_max=50), broker.storage, connections_fit=100)
    assert altered(few, 4, "0", max_connections="5000") == (0, None)
    told = described(few, 4, "0")["max.connections"]
    assert (few.settings.connections_max, told.value, told.config_source) == (100, "100", 2)


def test_a_setting_that_the_disk_does_not_take_is_not_in_force(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        broker.storage.metadata_log.partition,
        "append_all",
        lambda *_: [AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR)],
    )
    code, _ = altered(broker, 4, "0", log_segment_bytes="4096")
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.settings.log_segment_bytes == 1 << 20


def test_a_topics_settings_fall_back_to_the_servers(broker: Broker) -> None:
    told = broker_settings(broker, call(ApiKey.DESCRIBE_CONFIGS, 4))
    for name, (config_type, server_name, _) in TOPIC_SETTINGS.items():
        if server_name is not None:
            assert told[server_name].config_type is config_type, name


def test_settings_of_many_topics_are_changed_by_one_request(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.server.handlers.pieces.RECORDS_MAX", 6)
    names = ("a", "b", "c", "d")
    for name in names:
        at_once(broker.create_topic(name, 1, {}, NOW_MS))
    resources = [
        {
            "resource_type": 2,
            "resource_name": name,
            "configs": [{"name": "retention.ms", "value": "5", "config_operation": 0}],
        }
        for name in names
    ]
    for api_key, version in ((ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), (ApiKey.ALTER_CONFIGS, 2)):
        answer = ask(broker, api_key, version, resources=resources[:3], validate_only=False)
        assert [int(one.error_code) for one in answer.responses] == [0, 0, 0]
        answer = ask(broker, api_key, version, resources=resources, validate_only=False)
        assert {int(one.error_code) for one in answer.responses} == {ErrorCode.POLICY_VIOLATION}


def test_much_is_described_in_steps(broker: Broker) -> None:
    names = ["t", *(f"missing-{number}" for number in range(119))]
    resources = [
        {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]} for name in names
    ]
    fields = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    body = messages.encode_request(ApiKey.DESCRIBE_CONFIGS, 4, fields)
    told = carry_out(handle(broker, call(ApiKey.DESCRIBE_CONFIGS, 4), body))
    assert told.asides > 3, "others have their turn in between"
    answer = messages.decode_response(ApiKey.DESCRIBE_CONFIGS, 4, b"".join(told.answer.parts))
    assert [one.resource_name for one in answer.results] == names
    assert answer.results[0].configs[0].value == "604800000"
    missing = {int(one.error_code) for one in answer.results[1:]}
    assert missing == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_partition_that_is_offline_gets_no_other_leader(broker: Broker) -> None:
    offline = broker.storage.partition("t", 1)
    assert offline is not None
    offline.abandon("the disk is gone")
    codes = []
    for election in (0, 1):
        asked = [{"topic": "t", "partitions": [0, 1]}]
        answer = ask(
            broker, ApiKey.ELECT_LEADERS, 2, election_type=election, topic_partitions=asked, timeout=1
        )
        results = answer.replica_election_results[0].partition_result
        codes.append([int(one.error_code) for one in results])
    needless = ErrorCode.ELECTION_NOT_NEEDED
    assert codes == [
        [needless, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE],
        [needless, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE],
    ]


def test_a_disk_that_does_not_say_its_room_is_an_error_of_the_folder(broker: Broker, disk: Disk) -> None:
    disk.room_error = OSError(errno.EIO, "no answer")
    (folder,) = ask(broker, ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    assert int(folder.error_code) == ErrorCode.KAFKA_STORAGE_ERROR
    assert folder.usable_bytes == -1


def test_a_long_name_is_not_repeated_for_each_of_its_partitions(broker: Broker) -> None:
    """A small request gets no large answer."""
    name, numbers = "x" * 10_000, list(range(1000))
    asked = [{"topic": name, "partitions": numbers}]
    moved = [{"name": name, "partitions": [{"partition_index": one, "replicas": None} for one in numbers]}]
    for api_key, fields in (
        (ApiKey.ELECT_LEADERS, {"election_type": 0, "topic_partitions": asked, "timeout": 1}),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"timeout": 1, "topics": moved}),
        (ApiKey.DESCRIBE_LOG_DIRS, {"topics": asked}),
    ):
        version = 2 if api_key is ApiKey.ELECT_LEADERS else 1
        outcome = handle(broker, call(api_key, version), messages.encode_request(api_key, version, fields))
        assert isinstance(outcome, Answer)
        assert outcome.size_bytes < 100_000


def test_one_answer_describes_only_so_many_partitions(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.server.handlers.topic_partitions.PARTITIONS_MAX", 4)
    at_once(broker.add_partitions("t", 6, NOW_MS))
    answer = ask(
        broker,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": "t"}],
        response_partition_limit=2**31 - 1,
        cursor=None,
    )
    assert len(answer.topics[0].partitions) == 4
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", 4)
