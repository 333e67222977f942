"""kafka-python's admin client: the calls of a cluster's keeper, in requests that it writes by itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, NewTopic, OffsetSpec
    from kafka.errors import (
        ElectionNotNeededError,
        GroupSubscribedToTopicError,
        NoError,
        NoReassignmentInProgressError,
        UnknownMemberIdError,
    )

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TIMEOUT_S = 30.0


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def made(admin: Any, topic: str) -> str:
    admin.create_topics([NewTopic(topic, 3, 1)])
    admin.wait_for_topics([topic])
    return topic


def test_what_may_be_done_is_told(admin: Any, made: str) -> None:
    assert "ALTER_CONFIGS" in admin.describe_cluster()["authorized_operations"]
    (described,) = admin.describe_topics([made])
    assert {"READ", "WRITE", "DELETE"} <= set(described["authorized_operations"])


def test_partitions_are_described_page_by_page(admin: Any, made: str) -> None:
    found: list[int] = []
    cursor = None
    while True:
        answer = admin.describe_topic_partitions([made], response_partition_limit=2, cursor=cursor)
        (described,) = answer["topics"]
        found += [one["partition_index"] for one in described["partitions"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert found == [0, 1, 2]


def test_settings_are_changed_replaced_and_typed(admin: Any, made: str) -> None:
    def is_set() -> dict[str, tuple[str, str]]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, made)])["topic"][made]
        return {name: (entry["value"], entry["config_type"]) for name, entry in found.items()}

    retention, segment = {"retention.ms": ("1000", "LONG")}, {"segment.bytes": ("1048576", "INT")}
    changes = (retention, True, retention), (segment, False, retention | segment)
    for change, incremental, wanted in changes:  # when the request replaces all, it names what it finds set
        configs = {name: value for name, (value, _) in change.items()}
        admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, made, configs)], incremental=incremental
        )
        give_up_s = time.monotonic() + TIMEOUT_S
        while not wanted.items() <= is_set().items():  # Apache Kafka answers before it obeys
            assert time.monotonic() < give_up_s, is_set()
    listed = admin.list_config_resources(["TOPIC", "BROKER"])
    assert made in listed["topic"]
    assert len(listed["broker"]) == 1


def test_folders_elections_and_reassignments(admin: Any, made: str) -> None:
    give_up_s = time.monotonic() + TIMEOUT_S
    found: list[int] = []
    while found != [0, 1, 2]:  # Apache Kafka makes the folders once it has answered
        assert time.monotonic() < give_up_s, found
        (broker,) = admin.describe_log_dirs({made: [0, 1, 2]})
        (folder,) = broker["log_dirs"]
        found = sorted(one["partition_index"] for named in folder["topics"] for one in named["partitions"])
    assert 0 < folder["usable_bytes"] < folder["total_bytes"]
    elected = admin.elect_leaders(0, {made: [0]}, raise_errors=False)
    (result,) = elected.replica_election_results
    assert [one.error_code for one in result.partition_result] == [ElectionNotNeededError.errno]
    (error,) = admin.alter_partition_reassignments({TopicPartition(made, 0): None}).values()
    assert error is NoReassignmentInProgressError
    assert admin.list_partition_reassignments() == {}


@pytest.fixture
def member(bootstrap: str, made: str) -> Iterator[Any]:
    """A static member of a stable group that has all of the topic."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=f"group-of-{made}",
        group_instance_id="one",
        enable_auto_commit=False,
        # a request for metadata that is made while another is under way may be forgotten until this age
        metadata_max_age_ms=1_000,
    )
    give_up_s = time.monotonic() + TIMEOUT_S
    while (
        consumer.partitions_for_topic(made) is None
    ):  # who leads a group without it assigns nothing, and rests
        assert time.monotonic() < give_up_s
    consumer.subscribe([made])
    while len(consumer.assignment()) < 3:
        assert time.monotonic() < give_up_s, consumer.assignment()
        consumer.poll(50)
    yield consumer
    consumer.close(autocommit=False)


def test_a_group_is_kept(admin: Any, made: str, member: Any) -> None:
    group, zero, one = f"group-of-{made}", TopicPartition(made, 0), TopicPartition(made, 1)
    member.commit({zero: OffsetAndMetadata(3, "", -1), one: OffsetAndMetadata(4, "", -1)})
    (listed,) = [each for each in admin.list_groups(states_filter=["Stable"]) if each["group_id"] == group]
    assert (listed["protocol_type"], listed["group_type"]) == ("consumer", "classic")

    (described,) = admin.describe_groups([group]).values()
    (told,) = described["members"]
    assert (described["group_state"], told["group_instance_id"]) == ("Stable", "one")
    assert told["client_host"] == "/127.0.0.1"
    assert admin.delete_group_offsets(group, [zero]) == {zero: GroupSubscribedToTopicError}
    altered = {zero: OffsetAndMetadata(1, "by hand", -1)}
    assert admin.alter_group_offsets(group, altered) == {zero: UnknownMemberIdError}

    (removed,) = admin.remove_group_members(group, [MemberToRemove(group_instance_id="one")]).values()
    assert removed is NoError
    assert admin.alter_group_offsets(group, altered) == {zero: NoError}
    admin.reset_group_offsets(group, {one: OffsetSpec.EARLIEST})
    found = {place: kept.offset for place, kept in admin.list_group_offsets(group)[group].items()}
    assert found == {zero: 1, one: 0}
    assert admin.delete_group_offsets(group, [zero]) == {zero: NoError}
    assert set(admin.list_group_offsets(group)[group]) == {one}
    assert admin.delete_groups([group]) == {group: "OK"}
