"""AlterConfigs, which replaces all settings of a topic, and IncrementalAlterConfigs, which changes some."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.wire import NODE_ID

_TOPIC, _BROKER = 2, 4
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def _replace(
    wire: Wire,
    name: str,
    configs: dict[str, str | None],
    *,
    kind: int = _TOPIC,
    validate_only: bool = False,
    version: int = 2,
) -> Any:
    entries = [{"name": key, "value": value} for key, value in configs.items()]
    asked = {"resource_type": kind, "resource_name": name, "configs": entries}
    return plain(
        wire.ask("alter_configs", version, resources=[asked], validate_only=validate_only).responses[0],
        "error_message",
    )


def _change(
    wire: Wire,
    name: str,
    *configs: tuple[str, int, str | None],
    kind: int = _TOPIC,
    validate_only: bool = False,
) -> Any:
    entries = [{"name": key, "config_operation": what, "value": value} for key, what, value in configs]
    asked = {"resource_type": kind, "resource_name": name, "configs": entries}
    answer = wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=validate_only)
    return plain(answer.responses[0], "error_message")


def _is_set(wire: Wire, topic: str) -> dict[str, str]:
    wire.catch_up()
    asked = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": None}
    answer = wire.ask(
        "describe_configs", 4, resources=[asked], include_synonyms=False, include_documentation=False
    )
    return {one.name: one.value for one in answer.results[0].configs if one.config_source == 1}


@case()
def what_is_not_named_goes_back_to_its_default(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000", segment_bytes="1048576")
    found = []
    for version, value in enumerate(("2000", "3000", "4000")):
        answer = _replace(wire, topic, {"retention.ms": value}, version=version)
        found.append((answer, _is_set(wire, topic)))
    return found


@case()
def none_named_puts_all_back(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000")
    return _replace(wire, topic, {}), _is_set(wire, topic)


@case()
def only_looked_at(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000")
    good = _replace(wire, topic, {"segment.bytes": "1048576"}, validate_only=True)
    bad = _replace(wire, topic, {"segment.bytes": "0"}, validate_only=True)
    return good, bad, _is_set(wire, topic)


@case()
def refused_whole(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000")
    bad: list[dict[str, str | None]] = [
        {"retention.ms": "5", "no.such.setting": "1"},
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
        {"segment.bytes": ""},
        {"message.timestamp.type": "Never"},
        {"retention.ms": None},
    ]
    return [(_replace(wire, topic, configs), _is_set(wire, topic)) for configs in bad]


@case()
def of_what_is_not_there(wire: Wire) -> object:
    asked = [(_TOPIC, wire.name()), (_TOPIC, "not a/name"), (_BROKER, "77"), (_BROKER, "x"), (3, "x")]
    return [_replace(wire, name, {}, kind=kind) for kind, name in asked]


@case()
def several_topics_each_for_itself(wire: Wire) -> object:
    topics = [wire.new_topic(), wire.name(), wire.new_topic()]
    resources = [
        {
            "resource_type": _TOPIC,
            "resource_name": name,
            "configs": [{"name": "retention.ms", "value": value}],
        }
        for name, value in zip(topics, ("1000", "1000", "x"), strict=True)
    ]
    answer = wire.ask("alter_configs", 2, resources=resources, validate_only=False)
    found = sorted((one.resource_name, one.error_code.name) for one in answer.responses)
    return found, _is_set(wire, topics[0]), _is_set(wire, topics[2])


@case()
def one_topic_twice(wire: Wire) -> object:
    """Incrementally; an AlterConfigs of that kind Apache Kafka never answers."""
    topic = wire.new_topic()
    resources = [
        {
            "resource_type": _TOPIC,
            "resource_name": topic,
            "configs": [{"name": "retention.ms", "config_operation": _SET, "value": value}],
        }
        for value in ("1000", "2000")
    ]
    answer = wire.ask("incremental_alter_configs", 1, resources=resources, validate_only=False)
    return sorted({one.error_code.name for one in answer.responses}), _is_set(wire, topic)


@case()
def one_setting_twice(wire: Wire) -> object:
    topic = wire.new_topic()
    entries = [{"name": "retention.ms", "value": value} for value in ("1000", "2000")]
    resources = [{"resource_type": _TOPIC, "resource_name": topic, "configs": entries}]
    answer = wire.ask("alter_configs", 2, resources=resources, validate_only=False)
    return plain(answer, "error_message"), _is_set(wire, topic)


@case()
def some_changed(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000", segment_bytes="1048576")
    done = _change(wire, topic, ("retention.ms", _DELETE, None), ("segment.ms", _SET, "5000"))
    return done, _is_set(wire, topic)


@case()
def some_changes_refused(wire: Wire) -> object:
    topic = wire.new_topic(retention_ms="1000")
    bad = [
        [("retention.ms", _SET, "soon")],
        [("retention.ms", _SET, None)],
        [("retention.ms", _APPEND, "5")],
        [("retention.ms", _SUBTRACT, "5")],
        [("no.such.setting", _SET, "5")],
        [("retention.ms", _SET, "5"), ("retention.ms", _SET, "6")],
        [("retention.ms", _SET, "5"), ("segment.bytes", _SET, "0")],
    ]
    return [(_change(wire, topic, *configs), _is_set(wire, topic)) for configs in bad]


@case()
def some_changes_only_looked_at(wire: Wire) -> object:
    topic = wire.new_topic()
    good = _change(wire, topic, ("retention.ms", _SET, "1000"), validate_only=True)
    return good, _is_set(wire, topic)


@case()
def lists(wire: Wire) -> object:
    topic = wire.new_topic()
    changes = [("cleanup.policy", _APPEND, "delete"), ("cleanup.policy", _SET, "delete")]
    return [_change(wire, topic, change) for change in changes]


@case()
def some_of_what_is_not_there(wire: Wire) -> object:
    asked = [(_TOPIC, wire.name()), (_TOPIC, "not a/name"), (_BROKER, "77"), (_BROKER, "x"), (3, "x")]
    return [_change(wire, name, ("retention.ms", _SET, "1000"), kind=kind) for kind, name in asked]


@case()
def of_the_broker(wire: Wire) -> object:
    """What no server changes while it runs."""
    return [
        _change(wire, str(NODE_ID), ("log.dirs", _SET, "/elsewhere"), kind=_BROKER),
        _replace(wire, str(NODE_ID), {"node.id": "8"}, kind=_BROKER),
    ]


@case()
def back_to_what_the_broker_has(wire: Wire) -> object:
    throttle = ("leader.replication.throttled.rate", _DELETE, None)
    return [
        _change(wire, str(NODE_ID), throttle, kind=_BROKER),
        _change(wire, "", throttle, kind=_BROKER),
        _replace(wire, str(NODE_ID), {}, kind=_BROKER),
        _change(wire, wire.new_topic(), ("leader.replication.throttled.replicas", _DELETE, None)),
    ]
