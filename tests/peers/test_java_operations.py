"""Kafka's own Java tools for whoever keeps a cluster: settings, folders, elections, reassignments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.peers.apache_kafka import JavaTool

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"


@pytest.fixture
def bootstrap(bootstrap_of_tools: str) -> str:
    return bootstrap_of_tools


@pytest.fixture
def made(java_tool: JavaTool, bootstrap: str, topic: str) -> str:
    """A topic of two partitions."""
    java_tool.output(
        TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "2"
    )
    return topic


@pytest.fixture
def broker_id(java_tool: JavaTool, bootstrap: str) -> str:
    """The id of the one broker, as its tools tell it."""
    told = java_tool.output(API_VERSIONS, "--bootstrap-server", bootstrap)
    found = re.search(r"\(id: (\d+) rack", told)
    assert found, told
    return found[1]


def test_settings_are_shown_with_where_they_come_from(java_tool: JavaTool, bootstrap: str, made: str) -> None:
    configs = (CONFIGS, "--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", made)
    java_tool.output(*configs, "--alter", "--add-config", "segment.bytes=2097152")
    shown = java_tool.output(*configs, "--describe", "--all").splitlines()
    (line,) = [one.strip() for one in shown if one.strip().startswith("segment.bytes=")]
    assert line == (
        "segment.bytes=2097152 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=2097152, "
        "DEFAULT_CONFIG:log.segment.bytes=1073741824}"
    )


def test_the_brokers_settings_have_kafkas_names(java_tool: JavaTool, bootstrap: str, broker_id: str) -> None:
    brokers = (CONFIGS, "--bootstrap-server", bootstrap, "--entity-type", "brokers")
    shown = java_tool.output(*brokers, "--entity-name", broker_id, "--describe", "--all")
    told = dict(re.findall(r"^\s+([a-z.]+)=(\S*) sensitive=", shown, re.MULTILINE))
    assert told["advertised.listeners"] == f"PLAINTEXT://{bootstrap}"
    assert bootstrap in told["listeners"]
    assert Path(told["log.dirs"]).is_dir()
    assert told["node.id"] == broker_id
    java_tool.output(*brokers, "--entity-default", "--describe")


def test_folders_are_described(java_tool: JavaTool, bootstrap: str, made: str, broker_id: str) -> None:
    told = java_tool.output(
        LOG_DIRS, "--bootstrap-server", bootstrap, "--describe", "--topic-list", made
    ).splitlines()
    (found,) = [json.loads(line) for line in told if line.startswith("{")]
    (broker,) = found["brokers"]
    (folder,) = broker["logDirs"]
    assert (str(broker["broker"]), folder["error"]) == (broker_id, None)
    assert sorted((one["partition"], one["isFuture"]) for one in folder["partitions"]) == [
        (f"{made}-0", False),
        (f"{made}-1", False),
    ]


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_an_election_finds_the_leader_in_place(
    java_tool: JavaTool, bootstrap: str, made: str, kind: str
) -> None:
    elect = (ELECTION, "--bootstrap-server", bootstrap, "--election-type", kind)
    assert f"{made}-1" in java_tool.output(*elect, "--topic", made, "--partition", "1")
    java_tool.output(*elect, "--all-topic-partitions")
    missing = java_tool.run(*elect, "--topic", made, "--partition", "7")
    assert missing.returncode != 0
    assert "UnknownTopicOrPartition" in missing.stdout + missing.stderr


def test_nothing_is_reassigned_but_to_where_it_is(
    java_tool: JavaTool, bootstrap: str, made: str, broker_id: str, tmp_path: Path
) -> None:
    reassign = (REASSIGN, "--bootstrap-server", bootstrap)
    assert "No partition reassignments found." in java_tool.output(*reassign, "--list")

    def plan(broker: int) -> str:
        partitions = [{"topic": made, "partition": 0, "replicas": [broker], "log_dirs": ["any"]}]
        file = tmp_path / f"to-{broker}.json"
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(file)

    here, elsewhere = plan(int(broker_id)), plan(int(broker_id) + 1)
    done = java_tool.output(*reassign, "--execute", "--reassignment-json-file", here)
    assert f"Successfully started partition reassignment for {made}-0" in done
    verified = java_tool.output(*reassign, "--verify", "--reassignment-json-file", here)
    assert f"Reassignment of partition {made}-0 is completed." in verified
    refused = java_tool.run(*reassign, "--execute", "--reassignment-json-file", elsewhere)
    assert refused.returncode != 0


def test_there_are_no_client_metrics(java_tool: JavaTool, bootstrap: str) -> None:
    assert java_tool.output(CLIENT_METRICS, "--bootstrap-server", bootstrap, "--list").strip() == ""
