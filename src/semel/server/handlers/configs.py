"""DescribeConfigs and IncrementalAlterConfigs: a topic's settings; the server's own are read-only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from semel.core.log.config import FIXED
from semel.core.topics import Refused
from semel.errors import ErrorCode
from semel.server.handlers.schema import once
from semel.server.outcome import Call
from semel.wire.messages import Fields

if TYPE_CHECKING:
    from semel.server.broker import Broker

_TOPIC: Final = 2
_BROKER: Final = 4
_SOURCE_TOPIC: Final = 1  # DescribeConfigsResponse.ConfigSource
_SOURCE_STATIC_BROKER: Final = 4
_SOURCE_DEFAULT: Final = 5
_TYPE_STRING: Final = 2
_SET: Final = 0
_DELETE: Final = 1


def handle_describe(broker: Broker, call: Call, request: Any) -> Fields:
    return {"results": [_describe(broker, item) for item in once(request.resources, _key)]}


def _key(item: Any) -> tuple[int, str]:
    return item.resource_type, item.resource_name


def _describe(broker: Broker, item: Any) -> Fields:
    resource: dict[str, Any] = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    wanted = item.configuration_keys
    if item.resource_type == _TOPIC:
        topic = broker.storage.topics.get(item.resource_name)
        if topic is None:
            return resource | _refused(
                Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {item.resource_name!r}")
            )
        values = broker.storage.topics.describe_config(topic)
        configs = [
            _entry(
                name,
                value,
                read_only=name in FIXED,
                source=_SOURCE_TOPIC if name in topic.settings else _SOURCE_DEFAULT,
            )
            for name, value in values.items()
            if not wanted or name in wanted
        ]
    elif item.resource_type == _BROKER and item.resource_name in ("", str(broker.settings.broker_id)):
        configs = [
            _entry(name, value, read_only=True, source=_SOURCE_STATIC_BROKER)
            for name, value in _broker_settings(broker).items()
            if not wanted or name in wanted
        ]
    else:
        reason = f"no configuration for resource type {item.resource_type}, {item.resource_name!r}"
        return resource | _refused(Refused(ErrorCode.INVALID_REQUEST, reason))
    return resource | {"error_code": ErrorCode.NONE, "error_message": None, "configs": configs}


def _refused(refused: Refused) -> dict[str, Any]:
    return {"error_code": refused.error_code, "error_message": refused.reason, "configs": []}


def _entry(name: str, value: str, *, read_only: bool, source: int) -> Fields:
    return {
        "name": name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": _TYPE_STRING,
        "documentation": None,
    }


def _broker_settings(broker: Broker) -> Mapping[str, str]:
    return {
        item.metadata["name"]: "" if (value := getattr(broker.settings, item.name)) is None else str(value)
        for item in dataclasses.fields(broker.settings)
    }


async def handle_alter(broker: Broker, call: Call, request: Any) -> Fields:
    responses = []
    for item in once(request.resources, _key):
        refused = await _alter(broker, call, item, request.validate_only)
        responses.append(
            {
                "error_code": ErrorCode.NONE if refused is None else refused.error_code,
                "error_message": None if refused is None else refused.reason,
                "resource_type": item.resource_type,
                "resource_name": item.resource_name,
            }
        )
    return {"responses": responses}


async def _alter(broker: Broker, call: Call, item: Any, validate_only: bool) -> Refused | None:
    if item.resource_type != _TOPIC:
        return Refused(ErrorCode.INVALID_REQUEST, "only topics can be altered while the server runs")
    changes: dict[str, str | None] = {}
    for config in item.configs:
        if config.config_operation not in (_SET, _DELETE):
            return Refused(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list")
        if config.name in changes:
            return Refused(ErrorCode.INVALID_REQUEST, f"{config.name} is given twice")
        changes[config.name] = config.value if config.config_operation == _SET else None
    result = await broker.alter_config(item.resource_name, changes, call.now_ms, validate_only=validate_only)
    return result if isinstance(result, Refused) else None
