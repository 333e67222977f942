"""The offset grammar of Spark's Kafka connector: JSON of topic, partition, offset.

``{"flights": {"0": 23, "1": -2}}``, where -2 is the earliest and -1 the latest offset; a topic may also carry
``"earliest"`` or ``"latest"`` for all of its partitions. The same JSON is the stream's offset in Spark's
checkpoint, as the connector's is; there each topic has its id next to its partitions, under ``topic_id``, and the
leader epochs of its partitions, under ``leader_epochs``: those under which the log had all rows up to the offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from semel.errors import ConfigError
from semel.types import NO_LEADER_EPOCH, TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
_NAMES: Final = {"earliest": EARLIEST, "latest": LATEST}

Offsets = dict[TopicPartition, int]
TopicIds = dict[str, str]  # by topic: the UUID that Kafka gave it
LeaderEpochs = dict[TopicPartition, int]
Json = dict[str, Any]  # a stream offset
_TOPIC_ID: Final = "topic_id"
_LEADER_EPOCHS: Final = "leader_epochs"


def parse_offsets(text: str, option: str, *, sentinels: tuple[int, ...] = (EARLIEST, LATEST)) -> Offsets:
    """The offsets of a JSON option; a topic-level name is kept under partition -1 (all partitions)."""
    offsets: Offsets = {}
    for topic, partitions in _json_object(text, option).items():
        if isinstance(partitions, str) and partitions.lower() in _NAMES:
            partitions = {"-1": _NAMES[partitions.lower()]}
        if not isinstance(partitions, dict):
            raise ConfigError(f"option {option}: topic {topic!r} needs an object of partition: offset")
        for number, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int) or not _is_int(number):
                raise ConfigError(
                    f"option {option}: {topic!r}: {{{number!r}: {offset!r}}} is not partition: offset"
                )
            if offset < 0 and offset not in sentinels:
                raise ConfigError(f"option {option}: offset {offset} of {topic}-{number} is not allowed here")
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def parse_assignment(text: str) -> list[TopicPartition]:
    """The ``assign`` option: ``{"flights": [0, 1]}``."""
    assigned = []
    for topic, partitions in _json_object(text, "assign").items():
        if not isinstance(partitions, list) or not all(
            isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in partitions
        ):
            raise ConfigError(f"option assign: topic {topic!r} needs a list of partitions")
        assigned += [TopicPartition(topic, number) for number in partitions]
    if not assigned:
        raise ConfigError("option assign names no partition")
    return sorted(set(assigned))


def to_json(
    offsets: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str] | None = None,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> Json:
    """A stream offset, as Spark keeps it in the checkpoint; with the ids of its topics and the leader epochs of its
    partitions, where they are known.
    """
    nested: Json = {}
    for tp, offset in sorted(offsets.items()):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = offset
    for topic in nested.keys() & (topic_ids or {}).keys():
        nested[topic][_TOPIC_ID] = (topic_ids or {})[topic]
    for tp, leader_epoch in sorted((leader_epochs or {}).items()):
        if tp in offsets and leader_epoch != NO_LEADER_EPOCH:
            nested[tp.topic].setdefault(_LEADER_EPOCHS, {})[str(tp.partition)] = leader_epoch
    return nested


def from_json(nested: Json) -> Offsets:
    """The inverse of :func:`to_json`, without ids and leader epochs."""
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, partitions in nested.items()
        for number, offset in partitions.items()
        if number not in (_TOPIC_ID, _LEADER_EPOCHS)
    }


def ids_from_json(nested: Json) -> TopicIds:
    """The ids of a stream offset's topics; a checkpoint of an older semel has none."""
    return {
        topic: str(partitions[_TOPIC_ID]) for topic, partitions in nested.items() if _TOPIC_ID in partitions
    }


def epochs_from_json(nested: Json) -> LeaderEpochs:
    """The leader epochs of a stream offset's partitions; a checkpoint of an older semel, or of Spark's connector, has
    none.
    """
    return {
        TopicPartition(topic, int(number)): int(leader_epoch)
        for topic, partitions in nested.items()
        for number, leader_epoch in partitions.get(_LEADER_EPOCHS, {}).items()
    }


def _json_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as bad:
        raise ConfigError(f"option {option} is not JSON: {bad}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"option {option} has to be a JSON object of topics")
    return value


def _is_int(text: str) -> bool:
    return text.lstrip("-").isdigit()
