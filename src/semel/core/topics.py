"""The topics: names, ids, partition counts and settings. A log-backed core (:mod:`semel.core.decision`).

Invariants:
- A topic's id never changes and is never given twice; a topic made anew under its old name has a new one.
- Partitions are only ever added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from uuid import UUID

from semel.core.decision import Decision, StateRecord
from semel.core.log.config import BadConfig, LogConfig, describe_config, parse_config
from semel.core.log.names import INTERNAL_TOPICS, topic_name_error
from semel.errors import ErrorCode

PARTITIONS_MAX: Final = 10_000  # of one topic
_KEY_PREFIX: Final = b"topic/"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. ``settings`` holds only what was set, by Kafka's names; ``config`` is what is in force."""

    name: str
    topic_id: UUID
    partition_count: int
    settings: Mapping[str, str]
    config: LogConfig
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was changed."""

    error_code: ErrorCode
    reason: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    name: str
    partition_count: int
    settings: Mapping[str, str | None]
    fresh_topic_id: UUID


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    name: str


@dataclass(frozen=True, slots=True)
class AddPartitions:
    name: str
    partition_count: int  # in all, afterwards


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """Set the given settings; ``None`` puts one back to its default, ``replaces`` all those that are not given."""

    name: str
    changes: Mapping[str, str | None]
    replaces: bool = False


Request: TypeAlias = CreateTopic | DeleteTopic | AddPartitions | AlterConfig


class Topics:
    """All topics by name and by id."""

    def __init__(self, default_config: LogConfig) -> None:
        self._default_config = default_config
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        """Every topic, by name."""
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def describe_config(self, topic: Topic) -> dict[str, str]:
        """Every setting of the topic that is in force, by Kafka's names."""
        return describe_config(topic.config, topic.settings)

    def default_config(self) -> LogConfig:
        """What a topic has that says nothing else."""
        return self._default_config

    def refusal_of_default(self, config: LogConfig) -> Refused | None:
        """Why topics cannot fall back to ``config``: one of them could not be read any more."""
        for topic in self._by_name.values():
            bad = None if topic.is_internal else parse_config(topic.settings, config)
            if isinstance(bad, BadConfig):
                reason = f"topic {topic.name!r} could not have it: {bad.name}: {bad.reason}"
                return Refused(ErrorCode.INVALID_REQUEST, reason)
        return None

    def fall_back_to(self, config: LogConfig) -> list[Topic]:
        """From now on topics have what ``config`` says of what they do not; those of which something changes by it."""
        self._default_config = config
        before = [topic for topic in self._by_name.values() if not topic.is_internal]
        for topic in before:
            self.put(replace(topic, config=config))
        after = [self._by_name[topic.name] for topic in before]
        return [new for old, new in zip(before, after, strict=True) if old.config != new.config]

    def decide(self, request: Request, now_ms: int) -> Decision[Topic | Refused]:
        """What becomes of ``request``; the topic as it will be, or as it was when it goes."""
        del now_ms  # no decision about topics depends on the time
        match request:
            case CreateTopic():
                return self._create(request)
            case DeleteTopic(name):
                known = self._known(name)
                if isinstance(known, Refused):
                    return Decision((), known)
                return Decision((StateRecord(_key(name), None),), known)
            case AddPartitions(name, partition_count):
                known = self._known(name)
                if isinstance(known, Refused):
                    return Decision((), known)
                if not known.partition_count < partition_count <= PARTITIONS_MAX:
                    reason = (
                        f"{name!r} has {known.partition_count} partitions; {partition_count} cannot follow"
                    )
                    return Decision((), Refused(ErrorCode.INVALID_PARTITIONS, reason))
                return _put(replace(known, partition_count=partition_count))
            case AlterConfig(name, changes, replaces):
                known = self._known(name)
                if isinstance(known, Refused):
                    return Decision((), known)
                return self._alter(known, changes if replaces else {**known.settings, **changes})

    def apply(self, record: StateRecord) -> bool:
        if not record.key.startswith(_KEY_PREFIX):
            return False
        name = record.key[len(_KEY_PREFIX) :].decode()
        old = self._by_name.pop(name, None)
        if old is not None:
            del self._by_id[old.topic_id]
        if record.value is not None:
            fields = json.loads(record.value)
            self.put(
                Topic(
                    name, UUID(fields["id"]), fields["partitions"], fields["settings"], self._default_config
                )
            )
        return True

    def put(self, topic: Topic) -> None:
        """Take in a topic; settings that cannot be read any more fall back to their defaults."""
        config = parse_config(topic.settings, topic.config)
        topic = topic if isinstance(config, BadConfig) else replace(topic, config=config)
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic

    def live_records(self) -> Iterable[StateRecord]:
        return [_record(topic) for topic in self if not topic.is_internal]

    def _known(self, name: str) -> Topic | Refused:
        topic = self._by_name.get(name)
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        if topic.is_internal:
            return Refused(ErrorCode.INVALID_TOPIC, f"{name!r} is internal")
        return topic

    def _create(self, request: CreateTopic) -> Decision[Topic | Refused]:
        name = request.name
        reason = topic_name_error(name)
        if reason is None and name in INTERNAL_TOPICS:
            reason = f"{name!r} is internal"
        if reason is not None:
            return Decision((), Refused(ErrorCode.INVALID_TOPIC, reason))
        if name in self._by_name:
            return Decision((), Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists"))
        if not 1 <= request.partition_count <= PARTITIONS_MAX:
            reason = f"a topic has 1 to {PARTITIONS_MAX} partitions, not {request.partition_count}"
            return Decision((), Refused(ErrorCode.INVALID_PARTITIONS, reason))
        config = parse_config(request.settings, self._default_config)
        if isinstance(config, BadConfig):
            return Decision((), Refused(ErrorCode.INVALID_CONFIG, f"{config.name}: {config.reason}"))
        settings = {key: value for key, value in request.settings.items() if value is not None}
        return _put(Topic(name, request.fresh_topic_id, request.partition_count, settings, config))

    def _alter(self, topic: Topic, asked: Mapping[str, str | None]) -> Decision[Topic | Refused]:
        settings = {key: value for key, value in asked.items() if value is not None}
        config = parse_config(settings, self._default_config)
        if isinstance(config, BadConfig):
            return Decision((), Refused(ErrorCode.INVALID_CONFIG, f"{config.name}: {config.reason}"))
        return _put(replace(topic, settings=settings, config=config))


def _put(topic: Topic) -> Decision[Topic | Refused]:
    return Decision((_record(topic),), topic)


def _key(name: str) -> bytes:
    return _KEY_PREFIX + name.encode()


def _record(topic: Topic) -> StateRecord:
    fields = {
        "v": _VERSION,
        "id": str(topic.topic_id),
        "partitions": topic.partition_count,
        "settings": dict(sorted(topic.settings.items())),
    }
    return StateRecord(_key(topic.name), json.dumps(fields, separators=(",", ":")).encode())
