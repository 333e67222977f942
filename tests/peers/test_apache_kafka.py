"""The harness itself: a node comes up, its tools reach it."""

from __future__ import annotations

import pytest
from tests.peers.apache_kafka import ApacheKafka, JavaTool

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_topic_made_with_kafkas_tool_is_listed(apache_kafka: ApacheKafka, java_tool: JavaTool) -> None:
    topics = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", apache_kafka.bootstrap)
    java_tool.output(*topics, "--create", "--topic", "harness", "--partitions", "2")
    assert "harness" in java_tool.output(*topics, "--list").split()
