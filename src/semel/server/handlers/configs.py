"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.

What a topic, the server, all servers or a group has can be changed while the server runs; of the server's own
settings those that Kafka changes so (:mod:`semel.core.dynamic_config`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

from semel.core.dynamic_config.group import GROUP_SETTINGS
from semel.core.dynamic_config.resources import ALL_BROKERS, AlterResource, Kind
from semel.core.log.config import FIXED, describe_config
from semel.core.log.described import TOPIC_SETTINGS, ConfigType
from semel.core.log.kept import KEPT
from semel.core.log.names import topic_name_error
from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.broker_settings import BrokerSetting, Source, broker_settings
from semel.server.handlers.pieces import in_pieces, refusal_of
from semel.server.handlers.schema import Large, once
from semel.server.operation import InTurn, Steps
from semel.server.outcome import Call
from semel.server.storage.aside import aside
from semel.wire.messages import Fields, field_of


class ResourceType(IntEnum):
    """``ConfigResource.Type``: what may have settings. Of loggers and client metrics there are none."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_SET, _DELETE, _APPEND, _SUBTRACT = range(4)  # AlterConfigOp.OpType
_LIST: Final = ConfigType.LIST
_AT_ONCE_MAX: Final = 50  # resources whose settings are described in one go, in a few milliseconds
_CLIENT_METRICS_ONLY: Final = 0  # ListConfigResources's version 0 (KIP-714)


# Describe


def handle_describe(broker: Broker, call: Call, request: Any) -> Fields | Steps[Large]:
    """What is asked for at once if it is little, else in steps, and others have their turn in between."""
    settings = broker_settings(broker, call)
    asked = list(once(request.resources, _key))
    if len(asked) <= _AT_ONCE_MAX:
        return {"results": [_describe(broker, settings, request, item) for item in asked]}

    async def describe() -> Large:
        results: list[Fields] = []
        for begin in range(0, len(asked), _AT_ONCE_MAX):
            step = asked[begin : begin + _AT_ONCE_MAX]
            results += [_describe(broker, settings, request, item) for item in step]
            await aside(_nothing)
        return Large({"results": results})

    async def describe_in_turn() -> Large:
        return await InTurn(describe)

    return describe_in_turn()


def _nothing() -> None:
    """Done aside, it gives others their turn on the event loop."""


def _key(item: Any) -> tuple[int, str]:
    return item.resource_type, item.resource_name


def _describe(broker: Broker, settings: Mapping[str, BrokerSetting], request: Any, item: Any) -> Fields:
    found = _entries(broker, settings, item)
    resource = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    if isinstance(found, Refused):
        return resource | {"error_code": found.error_code, "error_message": found.reason, "configs": []}
    configs = list(found)
    if not request.include_synonyms:
        configs = [entry | {"synonyms": []} for entry in configs]
    if not field_of(request, "include_documentation", False):
        configs = [entry | {"documentation": None} for entry in configs]
    return resource | {"error_code": ErrorCode.NONE, "error_message": "", "configs": configs}


def _entries(
    broker: Broker, settings: Mapping[str, BrokerSetting], item: Any
) -> Iterator[dict[str, Any]] | Refused:
    name, wanted = item.resource_name, frozenset(item.configuration_keys or ())
    match item.resource_type:
        case ResourceType.TOPIC:
            topic = _find_topic(broker, name)
            if isinstance(topic, Refused):
                return topic
            return topic_entries(settings, topic, wanted)
        case ResourceType.BROKER if name == str(broker.settings.broker_id):
            return (_broker_entry(one) for key, one in settings.items() if not wanted or key in wanted)
        case ResourceType.BROKER if name == ALL_BROKERS:
            return _entries_of_all_brokers(settings, wanted)
        case ResourceType.GROUP if name:
            return _group_entries(broker.storage.resources.get(Kind.GROUP, name), wanted)
    return _no_settings_of(broker, item)


def _find_topic(broker: Broker, name: str) -> Topic | Refused:
    reason = topic_name_error(name)
    if reason is not None:
        return Refused(ErrorCode.INVALID_TOPIC, reason)
    topic = broker.storage.topics.get(name)
    return topic or Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


def _no_settings_of(broker: Broker, item: Any) -> Refused:
    kind, name = item.resource_type, item.resource_name
    reason = f"no configuration for resource type {kind}, {name!r}"
    if kind == ResourceType.BROKER:
        reason = f"this is broker {broker.settings.broker_id}, not {name!r}"
    return Refused(ErrorCode.INVALID_REQUEST, reason)


def topic_entries(
    settings: Mapping[str, BrokerSetting], topic: Topic, wanted: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """A topic's settings, or those that are ``wanted``, as DescribeConfigs and CreateTopics tell of them."""
    for name, value in describe_config(topic.config, topic.settings).items():
        if wanted and name not in wanted:
            continue
        config_type, server_name, meaning = TOPIC_SETTINGS[name]
        of_server = None if server_name is None else settings[server_name]
        synonyms = [] if of_server is None else _synonyms(of_server)
        is_kept = name in KEPT and name not in topic.settings
        if is_kept and of_server is not None and of_server.value is not None:
            value = of_server.value  # that is kept, too
        if name in topic.settings:
            synonyms.insert(0, _synonym(name, value, Source.TOPIC))
        source = synonyms[0]["source"] if synonyms else Source.DEFAULT
        yield _entry(name, value, config_type, source, synonyms, meaning, read_only=name in FIXED)


def _broker_entry(setting: BrokerSetting) -> dict[str, Any]:
    synonyms = _synonyms(setting)
    source = synonyms[0]["source"] if synonyms else Source.DEFAULT
    return _entry(
        setting.name,
        setting.value,
        setting.config_type,
        source,
        synonyms,
        setting.meaning,
        read_only=setting.is_read_only,
    )


def _entries_of_all_brokers(
    settings: Mapping[str, BrokerSetting], wanted: Collection[str]
) -> Iterator[dict[str, Any]]:
    """What was set for all brokers at once, while they ran."""
    for name, setting in settings.items():
        if setting.of_all_brokers is not None and (not wanted or name in wanted):
            alone = setting._replace(
                value=setting.of_all_brokers, of_broker=None, started_with=None, default=None
            )
            yield _broker_entry(alone)


def _group_entries(given: Mapping[str, str], wanted: Collection[str]) -> Iterator[dict[str, Any]]:
    for name, setting in GROUP_SETTINGS.items():
        if wanted and name not in wanted:
            continue
        value, source = given.get(name, setting.default), Source.GROUP if name in given else Source.DEFAULT
        synonyms = [_synonym(name, value, source)]
        yield _entry(name, value, setting.config_type, source, synonyms, setting.meaning, read_only=False)


def _synonyms(setting: BrokerSetting) -> list[dict[str, Any]]:
    """From what a setting of the server has its value, the strongest first."""
    return [_synonym(setting.name, value, source) for value, source in setting.layers()]


def _synonym(name: str, value: str | None, source: Source) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source}


def _entry(
    name: str,
    value: str | None,
    config_type: ConfigType,
    source: Source,
    synonyms: list[dict[str, Any]],
    meaning: str,
    *,
    read_only: bool,
) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": synonyms,
        "config_type": config_type,
        "documentation": meaning,
    }


# Alter


async def handle_alter(broker: Broker, call: Call, request: Any) -> Fields:
    """IncrementalAlterConfigs (KIP-339): what is not named stays as it is."""
    return await _alter_each(broker, call, request, _changes, replaces=False)


async def handle_replace(broker: Broker, call: Call, request: Any) -> Fields:
    """AlterConfigs: what is not named goes back to its default."""
    return await _alter_each(broker, call, request, _replacements, replaces=True)


_Asked: TypeAlias = Callable[[Any, Mapping[str, str]], dict[str, str | None] | Refused]
"""What an item asks for, from its settings that are lists."""


async def _alter_each(broker: Broker, call: Call, request: Any, asked: _Asked, *, replaces: bool) -> Fields:
    named = Counter(map(_key, request.resources))
    asked_for = list(once(request.resources, _key))
    too_many = refusal_of(sum(1 + len(item.configs) for item in asked_for))

    async def alter(item: Any) -> Fields:
        result = too_many or await _alter(broker, call, request, item, asked, named[_key(item)], replaces)
        refused = result if isinstance(result, Refused) else None
        return {
            "error_code": ErrorCode.NONE if refused is None else refused.error_code,
            "error_message": None if refused is None else refused.reason,
            "resource_type": item.resource_type,
            "resource_name": item.resource_name,
        }

    return {"responses": await in_pieces(asked_for, alter)}


async def _alter(
    broker: Broker,
    call: Call,
    request: Any,
    item: Any,
    asked: _Asked,
    times: int,
    replaces: bool,
) -> object:
    if times > 1:
        return Refused(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
    lists = _lists_of(broker, call, item)
    if isinstance(lists, Refused):
        return lists
    twice = [name for name, count in Counter(one.name for one in item.configs).items() if count > 1]
    if twice:
        return Refused(ErrorCode.INVALID_REQUEST, f"{twice[0]} is given twice")
    changes = asked(item, lists)
    if isinstance(changes, Refused):
        return changes
    name, now_ms, validate_only = item.resource_name, call.now_ms, request.validate_only
    if item.resource_type == ResourceType.TOPIC:
        return await broker.alter_config(
            name, changes, now_ms, replaces=replaces, validate_only=validate_only
        )
    request_of = AlterResource(Kind(item.resource_type), name, changes, replaces)
    return await broker.alter_resource(request_of, now_ms, validate_only=validate_only)


def _lists_of(broker: Broker, call: Call, item: Any) -> Mapping[str, str] | Refused:
    """The settings of what is to be altered that are lists, as they are now; or why it cannot be altered."""
    name = item.resource_name
    match item.resource_type:
        case ResourceType.TOPIC:
            topic = _find_topic(broker, name)
            if isinstance(topic, Refused):
                return topic
            values = describe_config(topic.config, topic.settings)
            return {key: values[key] for key, one in TOPIC_SETTINGS.items() if one.config_type is _LIST}
        case ResourceType.BROKER if name in (ALL_BROKERS, str(broker.settings.broker_id)):
            lists = [one for one in broker_settings(broker, call).values() if one.config_type is _LIST]
            if name != ALL_BROKERS:
                return {one.name: one.value or "" for one in lists}
            return {one.name: one.of_all_brokers or one.started_with or "" for one in lists}
        case ResourceType.GROUP if name:
            return {}
    return _no_settings_of(broker, item)


def _replacements(item: Any, lists: Mapping[str, str]) -> dict[str, str | None] | Refused:
    for config in item.configs:
        if config.value is None:
            return _no_value(config)
    return {config.name: config.value for config in item.configs}


def _changes(item: Any, lists: Mapping[str, str]) -> dict[str, str | None] | Refused:
    changes: dict[str, str | None] = {}
    for config in item.configs:
        operation, name = config.config_operation, config.name
        if operation == _DELETE:
            changes[name] = None
        elif config.value is None:
            return _no_value(config)
        elif operation == _SET:
            changes[name] = config.value
        elif operation not in (_APPEND, _SUBTRACT):
            return Refused(ErrorCode.INVALID_REQUEST, f"there is no operation {operation}")
        elif name not in lists:
            return Refused(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
        else:
            now = list(filter(None, lists[name].split(",")))
            given = config.value.split(",")
            kept = [one for one in now if operation == _APPEND or one not in given]
            added = [one for one in given if operation == _APPEND and one not in now]
            changes[name] = ",".join([*kept, *added])
    return changes


def _no_value(config: Any) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, f"{config.name} has no value; DELETE puts it back")


# List


def handle_list(broker: Broker, call: Call, request: Any) -> Fields:
    """Everything that has settings, of the kinds that are asked for; of all kinds if none is (KIP-1142)."""
    asked = field_of(request, "resource_types", ()) or tuple(ResourceType)
    if call.api_version == _CLIENT_METRICS_ONLY:
        asked = (ResourceType.CLIENT_METRICS,)
    if not set(asked) <= set(ResourceType):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "config_resources": []}
    named: list[tuple[ResourceType, str]] = []
    if ResourceType.TOPIC in asked:
        named += [(ResourceType.TOPIC, topic.name) for topic in broker.storage.topics]
    if ResourceType.BROKER in asked:
        named.append((ResourceType.BROKER, str(broker.settings.broker_id)))
    if ResourceType.GROUP in asked:
        named += [(ResourceType.GROUP, group) for group in broker.storage.resources.names(Kind.GROUP)]
    return {
        "error_code": ErrorCode.NONE,
        "config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in named],
    }
