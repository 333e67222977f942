"""DescribeConfigs: types, where values come from, and what may be changed."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.wire import NODE_ID

_TOPIC, _BROKER = 2, 4
_TOPIC_SETTINGS = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
]
_BROKER_SETTINGS = [
    "advertised.listeners",
    "auto.create.topics.enable",
    "broker.id",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "listeners",
    "log.cleanup.policy",
    "log.dir",
    "log.dirs",
    "log.index.interval.bytes",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "max.connections",
    "max.connections.per.ip",
    "message.max.bytes",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "offset.metadata.max.bytes",
    "producer.id.expiration.ms",
    "queued.max.request.bytes",
    "socket.request.max.bytes",
    "unclean.leader.election.enable",
]


def _ask(
    wire: Wire,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> Any:
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = wire.ask(
        "describe_configs",
        version,
        resources=[asked],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    return answer.results[0]


def _each(result: Any, *wanted: str) -> object:
    entries = sorted(result.configs, key=lambda one: one.name)
    return {one.name: tuple(plain(getattr(one, what)) for what in wanted) for one in entries}


@case()
def types_of_a_topic(wire: Wire) -> object:
    return _each(_ask(wire, _TOPIC, wire.new_topic(), _TOPIC_SETTINGS), "config_type", "is_sensitive")


@case()
def types_of_the_broker(wire: Wire) -> object:
    return _each(_ask(wire, _BROKER, str(NODE_ID), _BROKER_SETTINGS), "config_type", "is_sensitive")


@case()
def values_and_sources_of_a_topic(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000", segment_bytes="1048576", cleanup_policy="delete")
    return _each(_ask(wire, _TOPIC, topic, _TOPIC_SETTINGS), "value", "config_source")


@case()
def settings_that_semel_only_keeps(wire: Wire) -> object:
    """What each is by itself, what becomes of it in CreateTopics, and which values are refused."""
    given = {
        "file.delete.delay.ms": ("1000", "-1"),
        "flush.messages": ("10", "0"),
        "flush.ms": ("1000", "-1"),
        "follower.replication.throttled.replicas": ("0:1", "x"),
        "leader.replication.throttled.replicas": ("*", "0:1,x"),
        "local.retention.bytes": ("-2", "-3"),
        "local.retention.ms": ("-2", "-3"),
        "preallocate": ("true", "maybe"),
        "remote.log.copy.disable": ("false", "maybe"),
        "remote.log.delete.on.disable": ("false", "maybe"),
        "remote.storage.enable": ("false", "true"),
        "segment.index.bytes": ("4096", "3"),
        "segment.jitter.ms": ("100", "-1"),
        "unclean.leader.election.enable": ("true", "maybe"),
        "message.timestamp.before.max.ms": ("1000", "-1"),
    }
    names = list(given)
    bare = _ask(wire, _TOPIC, wire.new_topic(), names)
    topic = wire.new_topic(**{name.replace(".", "_"): good for name, (good, _) in given.items()})
    refused = {}
    for name, (_, bad) in given.items():
        one = {
            "name": wire.name(), "num_partitions": 1, "replication_factor": 1, "assignments": [],
            "configs": [{"name": name, "value": bad}],
        }  # fmt: skip
        answer = wire.ask("create_topics", 7, topics=[one], timeout=10_000, validate_only=True)
        refused[name] = answer.topics[0].error_code.name
    what = ("value", "config_source", "config_type", "read_only")
    return _each(bare, *what[:3]), _each(_ask(wire, _TOPIC, topic, names), *what[:3]), refused


@case()
def values_and_sources_of_the_broker(wire: Wire) -> object:
    wanted = ["broker.id", "node.id", "num.partitions", "message.max.bytes", "auto.create.topics.enable"]
    return _each(_ask(wire, _BROKER, str(NODE_ID), wanted), "value")


@case()
def synonyms_of_a_topic(wire: Wire) -> object:
    topic = wire.new_topic(segment_bytes="1048576", max_message_bytes="2000000")
    wanted = ["segment.bytes", "max.message.bytes", "index.interval.bytes", "retention.bytes"]
    return _each(_ask(wire, _TOPIC, topic, wanted, synonyms=True), "synonyms")


@case()
def no_synonyms_unless_asked(wire: Wire) -> object:
    return _each(_ask(wire, _TOPIC, wire.new_topic(), ["segment.bytes"]), "synonyms", "documentation")


@case()
def synonyms_of_the_broker(wire: Wire) -> object:
    wanted = ["message.max.bytes", "log.segment.bytes"]
    return _each(_ask(wire, _BROKER, str(NODE_ID), wanted, synonyms=True), "synonyms")


@case()
def documentation(wire: Wire) -> object:
    topic = wire.new_topic()
    found = {}
    for kind, name, wanted in ((_TOPIC, topic, _TOPIC_SETTINGS), (_BROKER, str(NODE_ID), _BROKER_SETTINGS)):
        entries = _ask(wire, kind, name, wanted, documentation=True).configs
        found[kind] = {one.name: bool(one.documentation) for one in sorted(entries, key=lambda one: one.name)}
    return found


@case()
def read_only_settings_of_a_topic(wire: Wire) -> object:
    settable = ["max.message.bytes", "retention.bytes", "retention.ms", "segment.bytes", "segment.ms"]
    return _each(_ask(wire, _TOPIC, wire.new_topic(), settable), "read_only")


@case()
def read_only_settings_of_the_broker(wire: Wire) -> object:
    fixed = ["broker.id", "log.dirs", "node.id", "queued.max.request.bytes", "socket.request.max.bytes"]
    return _each(_ask(wire, _BROKER, str(NODE_ID), fixed), "read_only")


@case()
def every_version(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000")
    return {
        version: plain(_ask(wire, _TOPIC, topic, ["retention.ms"], version=version))
        for version in (1, 2, 3, 4)
    }


@case()
def names_that_there_are_not(wire: Wire) -> object:
    topic = wire.new_topic()
    return [
        plain(_ask(wire, kind, name, ["no.such.setting"]))
        for kind, name in ((_TOPIC, topic), (_BROKER, str(NODE_ID)))
    ]


@case()
def no_names_are_all_names(wire: Wire) -> object:
    return len(_ask(wire, _TOPIC, wire.new_topic(), []).configs) > 5


@case()
def of_what_is_not_there(wire: Wire) -> object:
    asked = [
        (_TOPIC, wire.name()),
        (_TOPIC, "not a/name"),
        (_TOPIC, ""),
        (_BROKER, "77"),
        (_BROKER, "x"),
        (3, "x"),
    ]
    return [plain(_ask(wire, kind, name), "error_message") for kind, name in asked]


@case(
    because="Apache Kafka has set min.insync.replicas for all brokers when it was formatted (KIP-966)",
    semel=({"min.insync.replicas": ("1", 5, 3)}, {}),
    kafka=({"min.insync.replicas": ("1", 3, 3)}, {"min.insync.replicas": ("1", 3, 3)}),
)
def defaults_of_all_brokers(wire: Wire) -> object:
    shown = ("value", "config_source", "config_type")
    of_a_topic = _each(_ask(wire, _TOPIC, wire.new_topic(), ["min.insync.replicas"]), *shown)
    return of_a_topic, _each(_ask(wire, _BROKER, ""), *shown)


@case(
    because="Apache Kafka's default is in log.retention.hours, which it leaves out here",
    semel={"retention.ms": ([{"name": "log.retention.ms", "value": "604800000", "source": 5}],)},
    kafka={"retention.ms": ([],)},
)
def synonyms_of_retention(wire: Wire) -> object:
    return _each(_ask(wire, _TOPIC, wire.new_topic(), ["retention.ms"], synonyms=True), "synonyms")


@case(
    because="semel's settings that have one value only cannot be set to another",
    semel={"cleanup.policy": (False,), "min.insync.replicas": (True,)},
    kafka={"cleanup.policy": (False,), "min.insync.replicas": (False,)},
)
def settings_of_one_value(wire: Wire) -> object:
    return _each(_ask(wire, _TOPIC, wire.new_topic(), ["cleanup.policy", "min.insync.replicas"]), "read_only")


@case()
def settings_that_change_while_it_runs(wire: Wire) -> object:
    wanted = ["log.retention.ms", "message.max.bytes"]
    return _each(_ask(wire, _BROKER, str(NODE_ID), wanted), "read_only")


@case(
    because="what has its default's value counts as not set in semel, and what is null in Apache Kafka is told",
    semel={"log.retention.ms": ("604800000", 5), "log.roll.ms": ("604800000", 5), "num.partitions": ("1", 5)},
    kafka={"log.retention.ms": (None, 5), "log.roll.ms": (None, 5), "num.partitions": ("1", 4)},
)
def sources_of_the_broker(wire: Wire) -> object:
    wanted = ["log.retention.ms", "log.roll.ms", "num.partitions"]
    return _each(_ask(wire, _BROKER, str(NODE_ID), wanted), "value", "config_source")


@case()
def names_that_tools_look_for(wire: Wire) -> object:
    wanted = ["advertised.listeners", "listeners", "log.dirs"]
    entries = {one.name: one for one in _ask(wire, _BROKER, str(NODE_ID), wanted).configs}
    listeners = entries["listeners"].value.split(",")[0]
    return {
        "listens where it says": listeners == entries["advertised.listeners"].value,
        "plaintext": listeners.startswith("PLAINTEXT://127.0.0.1:"),
        "folder": entries["log.dirs"].value.startswith("/"),
        "types": [entries[name].config_type for name in wanted],
        "sources": [entries[name].config_source for name in ("listeners", "log.dirs")],
    }
