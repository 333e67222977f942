"""Whatever is advertised is in the table of fields, and what the table says is so."""

from __future__ import annotations

import ast
import dataclasses
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.peers.same_as_kafka.comparing import all_cases
from tests.server.fields import FIELDS, Field

from semel.wire.api import SERVED, ApiKey
from semel.wire.messages import schema_of

TESTS = Path(__file__).parents[1]


def fields_of(schema: type[Any], prefix: str = "") -> Iterator[str]:
    """The fields of a request, those of its structs with a dot; an array of structs itself only if it may be null."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        struct = _struct_in(hints[field.name])
        if struct is None or type(None) in typing.get_args(hints[field.name]):
            yield prefix + field.name
        if struct is not None:
            yield from fields_of(struct, f"{prefix}{field.name}.")


def _struct_in(hint: Any) -> type[Any] | None:
    if dataclasses.is_dataclass(hint):
        return typing.cast("type[Any]", hint)
    return next(filter(None, map(_struct_in, typing.get_args(hint))), None)


@pytest.mark.parametrize("api_key", SERVED, ids=lambda api_key: api_key.name)
def test_every_advertised_field_is_in_the_table(api_key: ApiKey) -> None:
    served = SERVED[api_key]
    for version in range(served.version_min, served.version_max + 1):
        lacking = set(fields_of(schema_of(api_key, version, "request"))) - set(FIELDS.get(api_key, {}))
        assert not lacking, f"{api_key.name} {version}: honour {lacking}, or say why they can be ignored"


@pytest.mark.parametrize("api_key", FIELDS, ids=lambda api_key: api_key.name)
def test_the_table_has_no_field_that_kafka_has_not(api_key: ApiKey) -> None:
    """In no version at all; one that is not advertised yet does no harm."""
    package = import_module(f"kio.schema.{api_key.name.lower()}")
    versions = [int(one.name[1:]) for one in Path(package.__path__[0]).glob("v*")]
    known = {name for version in versions for name in fields_of(schema_of(api_key, version, "request"))}
    assert set(FIELDS[api_key]) <= known


@pytest.mark.parametrize(
    ("name", "field"),
    [
        pytest.param(name, field, id=f"{api_key.name}.{name}")
        for api_key, fields in FIELDS.items()
        for name, field in fields.items()
    ],
)
def test_what_is_honoured_is_tested_and_what_is_ignored_has_a_reason(name: str, field: Field) -> None:
    assert (field.by is None) != (field.why is None)
    if field.by is not None:
        assert field.by in {case.name for case in all_cases()} | _tests(), f"nothing shows {name}"


@cache
def _tests() -> frozenset[str]:
    """Every test of the server and of the wire, as ``module.py::test``."""
    files = [*(TESTS / "server").glob("test_*.py"), *(TESTS / "wire").glob("test_*.py")]
    return frozenset(
        f"{file.name}::{node.name}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
