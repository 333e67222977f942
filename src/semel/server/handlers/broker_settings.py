"""The server's settings as DescribeConfigs tells them: its own, and the same under Kafka's names.

Whoever asks for ``log.dirs`` or ``advertised.listeners`` gets what is in force, with Kafka's types, so that a tool
which was written for Kafka finds what it looks for. All are read-only: the server reads them when it starts.
"""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from semel.config import Address, ServerSettings
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


class BrokerSetting(NamedTuple):
    """One setting; a value of None is one that is not set."""

    name: str
    value: str | None
    default: str | None
    config_type: ConfigType
    meaning: str

    @property
    def is_default(self) -> bool:
        return self.value == self.default


# Settings of Kafka's that semel has with one value only.
_GIVEN: Final = tuple(
    BrokerSetting(name, value, value, config_type, meaning)
    for name, value, config_type, meaning in (
        ("compression.gzip.level", "-1", ConfigType.INT, "how hard a topic's gzip tries by default"),
        ("compression.lz4.level", "9", ConfigType.INT, "how hard a topic's lz4 tries by default"),
        ("compression.zstd.level", "3", ConfigType.INT, "how hard a topic's zstd tries by default"),
        ("compression.type", "producer", ConfigType.STRING, "how a topic's log compresses by default"),
        ("default.replication.factor", "1", ConfigType.INT, "there is one broker"),
        ("delete.topic.enable", "true", ConfigType.BOOLEAN, "topics can be deleted"),
        ("min.insync.replicas", "1", ConfigType.INT, "there is one broker"),
        ("unclean.leader.election.enable", "false", ConfigType.BOOLEAN, "there is one broker"),
    )
)


def broker_settings(broker: Broker, call: Call) -> dict[str, BrokerSetting]:
    """Every setting of the server by its name."""
    own = [_own(broker.settings, item) for item in dataclasses.fields(ServerSettings)]
    found = {setting.name: setting for setting in (*_GIVEN, *own)}
    listen = broker.settings.listen
    if listen.port == 0:  # the system has chosen one, and whoever asks has dialled it
        listen = Address(listen.host, call.dialled.port)
    folder = str(broker.storage.data_dir.absolute())
    for name, ours, value in (
        ("listeners", "listen", _listener(listen)),
        ("advertised.listeners", "advertised", _listener(broker.advertised(call))),
        ("log.dir", "data.dir", folder),
        ("log.dirs", "data.dir", folder),
        ("node.id", "broker.id", found["broker.id"].value),
    ):
        same = found[ours]
        default = value if same.is_default else same.default
        found[name] = same._replace(name=name, value=value, default=default)
    return found


def _own(settings: ServerSettings, item: dataclasses.Field[object]) -> BrokerSetting:
    name, value = item.metadata["name"], getattr(settings, item.name)
    return BrokerSetting(name, _text(value), _text(item.default), _type_of(name, value), item.metadata["doc"])


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
