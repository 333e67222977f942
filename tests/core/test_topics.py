from __future__ import annotations

from uuid import UUID

from semel.core.log.config import LogConfig
from semel.core.topics import (
    AddPartitions,
    AlterConfig,
    CreateTopic,
    DeleteTopic,
    Refused,
    Request,
    Topic,
    Topics,
)


def run(topics: Topics, request: Request) -> Topic | Refused:
    decision = topics.decide(request, now_ms=0)
    for record in decision.records:
        assert topics.apply(record)
    return decision.response


def test_a_topic_from_its_making_to_its_end() -> None:
    topics = Topics(LogConfig())
    run(topics, CreateTopic("t", 2, {"retention.ms": "5", "segment.bytes": None}, UUID(int=1)))
    run(topics, AddPartitions("t", 4))
    topic = run(topics, AlterConfig("t", {"retention.ms": None, "segment.ms": "7"}))
    assert isinstance(topic, Topic)
    assert (topic.partition_count, topic.settings) == (4, {"segment.ms": "7"})
    assert topic.config == LogConfig(segment_ms=7)
    assert topics.get("t") == topics.by_id(UUID(int=1)) == topic
    again = Topics(LogConfig())
    for record in topics.live_records():
        again.apply(record)
    assert list(again) == list(topics)
    run(topics, DeleteTopic("t"))
    assert len(topics) == 0
    assert topics.by_id(UUID(int=1)) is None


def test_settings_are_changed_or_replaced() -> None:
    topics = Topics(LogConfig())
    run(topics, CreateTopic("t", 1, {"retention.ms": "5", "segment.ms": "7"}, UUID(int=1)))
    changed = run(topics, AlterConfig("t", {"segment.ms": "8"}))
    assert isinstance(changed, Topic)
    assert changed.settings == {"retention.ms": "5", "segment.ms": "8"}
    refused = run(topics, AlterConfig("t", {"retention.ms": "soon"}, replaces=True))
    assert isinstance(refused, Refused)
    assert topics.get("t") == changed
    replaced = run(topics, AlterConfig("t", {"segment.bytes": "2048"}, replaces=True))
    assert isinstance(replaced, Topic)
    assert replaced.config == LogConfig(segment_bytes=2048)


def test_deciding_changes_nothing() -> None:
    topics = Topics(LogConfig())
    topics.decide(CreateTopic("t", 1, {}, UUID(int=1)), 0)
    assert len(topics) == 0


def test_a_new_default_reaches_topics_that_set_nothing() -> None:
    topics = Topics(LogConfig())
    run(topics, CreateTopic("t", 1, {"segment.ms": "7"}, UUID(int=1)))
    later = Topics(LogConfig(retention_ms=5))
    for record in topics.live_records():
        later.apply(record)
    topic = later.get("t")
    assert topic is not None
    assert topic.config == LogConfig(retention_ms=5, segment_ms=7)
