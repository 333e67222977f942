"""A setting of the wrong kind is refused before anything is sent, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_type_hints

import pytest

import semel
from semel.client.settings import ProducerChoices, ProducerSettings
from semel.errors import ConfigError


@pytest.mark.parametrize(
    "settings",
    [
        {"lease": "no"},
        {"linger_ms": "5"},
        {"linger_ms": -1},
        {"max_block_ms": 1.5},
        {"retry_backoff_ms": True},
        {"delivery_timeout_ms": 0},
        {"in_flight_max": None},
    ],
)
def test_what_is_no_whole_number_or_no_boolean_is_refused_by_name(settings: dict[str, object]) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=f"^{name}="):
        semel.Producer("127.0.0.1:1", **settings)


def test_no_waiting_at_all_is_a_choice() -> None:
    semel.Producer("127.0.0.1:1", linger_ms=0, max_block_ms=0, retry_backoff_ms=0, save_interval_ms=0).close()


def test_a_type_checker_sees_the_settings_that_there_are() -> None:
    assert get_type_hints(ProducerChoices) == get_type_hints(ProducerSettings)


CLIENTS = [semel.Producer, semel.aio.Producer, semel.Consumer, semel.aio.Consumer, semel.Admin]


@pytest.mark.parametrize("make", CLIENTS)
def test_a_keyword_that_is_no_setting_is_told_with_the_one_that_was_meant(
    make: Callable[..., object],
) -> None:
    with pytest.raises(ConfigError, match=r"^client_it is no setting: did you mean client_id\?$"):
        make("127.0.0.1:1", client_it="me")
    with pytest.raises(ConfigError, match=r"^xyz is no setting: there are .*client_id"):
        make("127.0.0.1:1", xyz=1)


@pytest.mark.parametrize("make", CLIENTS)
def test_other_clients_name_for_the_address_is_told_with_ours(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match=r"^bootstrap_servers is no setting: did you mean bootstrap\?$"):
        make(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(TypeError, match="bootstrap"):
        make()


def test_a_topic_is_not_made_by_halves_of_what_was_asked(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        with pytest.raises(ConfigError, match=r"^num_partitions is no argument: did you mean partitions\?$"):
            admin.create_topic("t", num_partitions=3)
        assert admin.list_topics() == []


@pytest.mark.parametrize("other", [{"lease": True}, {"identity_store": "loader.id"}])
def test_a_producer_is_exactly_once_in_one_way(other: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="three ways to be exactly once"):
        semel.Producer("127.0.0.1:1", transactional_id="loader", **other)
    with pytest.raises(ConfigError, match=r"^transactional_id="):
        semel.Producer("127.0.0.1:1", transactional_id="")
    with pytest.raises(ConfigError, match=r"^transaction_timeout_ms="):
        semel.Producer("127.0.0.1:1", transactional_id="loader", transaction_timeout_ms=0)
