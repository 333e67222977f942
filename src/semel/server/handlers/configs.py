"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.

A topic's settings can be changed while the server runs; the server's own are read-only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

from semel.core.log.config import FIXED, describe_config
from semel.core.log.described import TOPIC_SETTINGS, ConfigType
from semel.core.log.names import topic_name_error
from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.broker_settings import BrokerSetting, broker_settings
from semel.server.handlers.pieces import in_pieces, refusal_of
from semel.server.handlers.schema import Large, once
from semel.server.operation import InTurn, Steps
from semel.server.outcome import Call
from semel.server.storage.aside import aside
from semel.wire.messages import Fields, field_of


class ResourceType(IntEnum):
    """``ConfigResource.Type``: what may have settings. Of loggers, client metrics and groups there are none."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """``DescribeConfigsResponse.ConfigSource``: who set a value."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


_SET, _DELETE, _APPEND, _SUBTRACT = range(4)  # AlterConfigOp.OpType
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
        case ResourceType.BROKER if not name:
            return iter(())  # what was set for all brokers at once, while they ran: nothing
        case ResourceType.GROUP if name:
            return iter(())  # those of Kafka's are of groups by protocols that are not there
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
        synonyms = [] if server_name is None else _synonyms(settings[server_name])
        if name in topic.settings:
            synonyms.insert(0, _synonym(name, value, Source.TOPIC))
        source = synonyms[0]["source"] if synonyms else Source.DEFAULT
        yield _entry(name, value, config_type, source, synonyms, meaning, read_only=name in FIXED)


def _broker_entry(setting: BrokerSetting) -> dict[str, Any]:
    name, value, _, config_type, meaning = setting
    synonyms = _synonyms(setting)
    source = Source.DEFAULT if setting.is_default else Source.STATIC_BROKER
    return _entry(name, value, config_type, source, synonyms, meaning, read_only=True)


def _synonyms(setting: BrokerSetting) -> list[dict[str, Any]]:
    """From what a setting of the server has its value, the strongest first."""
    found = []
    if not setting.is_default:
        found.append(_synonym(setting.name, setting.value, Source.STATIC_BROKER))
    if setting.default is not None:
        found.append(_synonym(setting.name, setting.default, Source.DEFAULT))
    return found


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


async def _alter_each(
    broker: Broker,
    call: Call,
    request: Any,
    asked: Callable[[Topic, Any], dict[str, str | None] | Refused],
    *,
    replaces: bool,
) -> Fields:
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
    asked: Callable[[Topic, Any], dict[str, str | None] | Refused],
    times: int,
    replaces: bool,
) -> object:
    if _is_nothing(broker, item):
        return None
    if times > 1:
        return Refused(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
    changes = _asked_of_topic(broker, item, asked)
    if isinstance(changes, Refused):
        return changes
    return await broker.alter_config(
        item.resource_name, changes, call.now_ms, replaces=replaces, validate_only=request.validate_only
    )


def _is_nothing(broker: Broker, item: Any) -> bool:
    """Whether only what was set while the broker ran is to be taken back: nothing ever is.

    Kafka's kafka-reassign-partitions ends with that, for throttles that there may have been.
    """
    names = ("", str(broker.settings.broker_id))
    return (
        item.resource_type == ResourceType.BROKER
        and item.resource_name in names
        and all(field_of(config, "config_operation") == _DELETE for config in item.configs)
    )


def _asked_of_topic(
    broker: Broker, item: Any, asked: Callable[[Topic, Any], dict[str, str | None] | Refused]
) -> dict[str, str | None] | Refused:
    if item.resource_type == ResourceType.GROUP and item.resource_name:
        return Refused(ErrorCode.INVALID_CONFIG, "groups have no settings: their members say how they live")
    if item.resource_type != ResourceType.TOPIC:
        return Refused(ErrorCode.INVALID_REQUEST, "only topics can be altered while the server runs")
    topic = _find_topic(broker, item.resource_name)
    if isinstance(topic, Refused):
        return topic
    twice = [name for name, count in Counter(one.name for one in item.configs).items() if count > 1]
    if twice:
        return Refused(ErrorCode.INVALID_REQUEST, f"{twice[0]} is given twice")
    return asked(topic, item)


def _replacements(topic: Topic, item: Any) -> dict[str, str | None] | Refused:
    for config in item.configs:
        if config.value is None:
            return _no_value(config)
    return {config.name: config.value for config in item.configs}


def _changes(topic: Topic, item: Any) -> dict[str, str | None] | Refused:
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
        elif name not in TOPIC_SETTINGS or TOPIC_SETTINGS[name].config_type is not ConfigType.LIST:
            return Refused(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
        else:
            now = list(filter(None, describe_config(topic.config, topic.settings)[name].split(",")))
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
    return {
        "error_code": ErrorCode.NONE,
        "config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in named],
    }
