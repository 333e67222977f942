"""What a field holds that the writer of a value did not know: its default, as a value that was read would be.

A schema's JSON has bytes as a text of their numbers, at any depth, and of a record perhaps not all fields. fastavro
hands a default out as it stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.errors import ConfigError


def settle_defaults(schema: Any, named: Mapping[str, Any], where: str) -> None:
    """In place, for all fields of a parsed schema; ``named`` has its named types."""
    if isinstance(schema, list):
        for each in schema:
            settle_defaults(each, named, where)
    elif isinstance(schema, dict):
        for part in ("items", "values"):
            settle_defaults(schema.get(part), named, where)
        for field in schema.get("fields", ()):
            settle_defaults(field["type"], named, where)
            if "default" in field:
                its = f"{where}, field {field['name']}"
                field["default"] = _settled(field["type"], field["default"], named, its)


def _settled(type_: Any, default: Any, named: Mapping[str, Any], where: str) -> Any:
    if isinstance(type_, list):
        return default if default is None else _settled(type_[0], default, named, where)
    if isinstance(type_, str) and type_ in named:
        type_ = named[type_]
    kind = type_["type"] if isinstance(type_, dict) else type_
    if kind in ("bytes", "fixed"):
        return default.encode("latin-1") if isinstance(default, str) else default
    if kind == "array" and isinstance(default, list):
        return [_settled(type_["items"], each, named, where) for each in default]
    if kind == "map" and isinstance(default, dict):
        return {key: _settled(type_["values"], each, named, where) for key, each in default.items()}
    if kind in ("record", "error") and isinstance(default, dict):
        return {
            field["name"]: _settled(field["type"], _of_field(field, default, where), named, where)
            for field in type_["fields"]
        }
    return default


def _of_field(field: Mapping[str, Any], default: Mapping[str, Any], where: str) -> Any:
    if field["name"] in default:
        return default[field["name"]]
    if "default" not in field:
        raise ConfigError(f"{where}: its default says nothing of {field['name']}, which has none of its own")
    return field["default"]
