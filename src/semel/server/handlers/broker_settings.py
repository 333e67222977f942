"""The server's settings as DescribeConfigs tells them: its own, and the same under Kafka's names.

Whoever asks for ``log.dirs`` or ``advertised.listeners`` gets what is in force, with Kafka's types, so that a tool
which was written for Kafka finds what it looks for. What changes while the server runs comes from
:mod:`semel.core.dynamic_config.broker`; all else is read when it starts, and read-only.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Final, NamedTuple

from semel.config import Address, ServerSettings
from semel.core.dynamic_config.broker import CHANGEABLE, KEPT, THROTTLES
from semel.core.dynamic_config.resources import ALL_BROKERS, Kind
from semel.core.log.described import ConfigType
from semel.server.broker import Broker
from semel.server.outcome import Call

# What is a number of 32 bits in Kafka (``KafkaConfig``); all others are LONG.
_INTS: Final = frozenset(
    (
        "broker.id",
        "fetch.max.bytes",
        "log.index.interval.bytes",
        "log.segment.bytes",
        "max.connections",
        "max.connections.per.ip",
        "message.max.bytes",
        "num.partitions",
        "offset.metadata.max.bytes",
        "producer.id.expiration.ms",
        "socket.request.max.bytes",
        "zookeeper.session.timeout.ms",
    )
)
_LISTS: Final = frozenset(("log.cleanup.policy",))


class Source(IntEnum):
    """``DescribeConfigsResponse.ConfigSource``: who set a value."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class BrokerSetting(NamedTuple):
    """One setting; a value of None is one that is not set.

    ``started_with`` is its value but for what was changed while the server ran: of that one broker, or of all.
    """

    name: str
    value: str | None
    started_with: str | None
    default: str | None
    config_type: ConfigType
    meaning: str
    of_broker: str | None = None
    of_all_brokers: str | None = None
    is_read_only: bool = True

    def layers(self) -> list[tuple[str | None, Source]]:
        """From what the value comes, the strongest first."""
        found: list[tuple[str | None, Source]] = []
        if self.of_broker is not None:
            found.append((self.of_broker, Source.DYNAMIC_BROKER))
        if self.of_all_brokers is not None:
            found.append((self.of_all_brokers, Source.DYNAMIC_DEFAULT_BROKER))
        if self.started_with != self.default:
            found.append((self.started_with, Source.STATIC_BROKER))
        if self.default is not None:
            found.append((self.default, Source.DEFAULT))
        return found


def _same_for_all(name: str, value: str | None, config_type: ConfigType, meaning: str) -> BrokerSetting:
    return BrokerSetting(name, value, value, value, config_type, meaning)


# Settings of Kafka's that no server is started with.
_GIVEN: Final = (
    *(
        _same_for_all(name, value, config_type, meaning)
        for name, value, config_type, meaning in (
            ("compression.gzip.level", "-1", ConfigType.INT, "how hard a topic's gzip tries by default"),
            ("compression.lz4.level", "9", ConfigType.INT, "how hard a topic's lz4 tries by default"),
            ("compression.zstd.level", "3", ConfigType.INT, "how hard a topic's zstd tries by default"),
            ("compression.type", "producer", ConfigType.STRING, "how a topic's log compresses by default"),
            ("default.replication.factor", "1", ConfigType.INT, "there is one broker"),
            ("delete.topic.enable", "true", ConfigType.BOOLEAN, "topics can be deleted"),
        )
    ),
    *(_same_for_all(name, one.default, one.config_type, one.meaning) for name, one in KEPT.items()),
)


def broker_settings(broker: Broker, call: Call) -> dict[str, BrokerSetting]:
    """Every setting of the server by its name."""
    own = [_own(broker, item) for item in dataclasses.fields(ServerSettings)]
    found = {setting.name: setting for setting in (*_GIVEN, *own)}
    resources = broker.storage.resources
    of_broker = resources.get(Kind.BROKER, str(broker.started_with.broker_id))
    of_all_brokers = resources.get(Kind.BROKER, ALL_BROKERS)
    for name, one in THROTTLES.items():
        if name in of_broker or name in of_all_brokers:
            found[name] = _same_for_all(name, one.default, one.config_type, one.meaning)
    for name in (*CHANGEABLE, *KEPT):
        found[name] = found[name]._replace(is_read_only=False)
    ours = {setting.name for setting in own}  # their values are in force already
    for name, text in {**of_all_brokers, **of_broker}.items():
        if name in found:  # else an earlier semel knew it
            same = found[name] if name in ours else found[name]._replace(value=text)
            found[name] = same._replace(
                of_broker=of_broker.get(name), of_all_brokers=of_all_brokers.get(name)
            )
    listen = broker.started_with.listen
    if listen.port == 0:  # the system has chosen one, and whoever asks has dialled it
        listen = Address(listen.host, call.dialled.port)
    folder = str(broker.storage.data_dir.absolute())
    for name, as_ours, value in (
        ("listeners", "listen", _listener(listen)),
        ("advertised.listeners", "advertised", _listener(broker.advertised(call))),
        ("log.dir", "data.dir", folder),
        ("log.dirs", "data.dir", folder),
        ("node.id", "broker.id", found["broker.id"].value),
    ):
        same = found[as_ours]
        default = value if same.started_with == same.default else same.default
        found[name] = same._replace(name=name, value=value, started_with=value, default=default)
    return found


def _own(broker: Broker, item: dataclasses.Field[object]) -> BrokerSetting:
    name, value = item.metadata["name"], getattr(broker.settings, item.name)
    started_with = _text(getattr(broker.started_with, item.name))
    config_type = _type_of(name, value)
    return BrokerSetting(
        name, _text(value), started_with, _text(item.default), config_type, item.metadata["doc"]
    )


def _type_of(name: str, value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    if isinstance(value, float):
        return ConfigType.DOUBLE
    if name in _LISTS:
        return ConfigType.LIST
    if isinstance(value, int):
        return ConfigType.INT if name in _INTS else ConfigType.LONG
    return ConfigType.STRING


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listener(address: Address) -> str:
    return f"PLAINTEXT://{address}"
