"""Kafka's names of its APIs are those of its own schemas."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import kio.schema
import pytest

from semel.wire.api import ApiKey
from semel.wire.api_names import name_of


def test_every_api_that_has_a_schema_has_its_name() -> None:
    named = 0
    for api in pkgutil.iter_modules(kio.schema.__path__):
        for version in pkgutil.iter_modules([f"{kio.schema.__path__[0]}/{api.name}"]):
            try:
                messages = import_module(f"kio.schema.{api.name}.{version.name}.request")
            except ModuleNotFoundError:
                continue
            keys = {one.__api_key__ for one in vars(messages).values() if hasattr(one, "__api_key__")}
            assert {name_of(int(key)) for key in keys} == {api.name.upper()}
            named += 1
            break
    assert named > 80


@pytest.mark.parametrize("api_key", ApiKey)
def test_ours_have_the_same_names(api_key: ApiKey) -> None:
    assert name_of(api_key) == api_key.name


@pytest.mark.parametrize("api_key", [-1, 93, 32767])
def test_what_kafka_does_not_have_is_a_number(api_key: int) -> None:
    assert name_of(api_key) == f"API {api_key}"
