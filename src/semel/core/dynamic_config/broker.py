"""Which settings of a broker change while it runs, and what is refused.

Three kinds:

- What semel acts on: those of :mod:`semel.config` that are marked there as dynamic, and how a topic's log compresses.
- :data:`KEPT`: Apache Kafka knows them as dynamic, and semel makes nothing of them. They are checked, kept and
  described, with what semel does instead, so that a tool which sets them goes on.
- All others are refused: those that a server reads when it starts, those that would secure nothing, and unknown ones.
  Apache Kafka takes unknown names, for its plugins; semel has none, and ignores no setting in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from semel.config import dynamic_setting_names, parse_setting, setting_aliases, setting_names
from semel.core.dynamic_config.kafkas_read_only import KAFKAS_READ_ONLY
from semel.core.log.config import BadConfig, LogConfig, parse_config
from semel.core.log.described import TOPIC_SETTINGS, ConfigType
from semel.core.log.kept import boolean, whole
from semel.errors import ConfigError, ErrorCode

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_ADDRESS_BOUNDS: Final = re.compile(r"\s*[^\s:,]+\s*:\s*\d+\s*")  # host:connections

COMPRESSION: Final = frozenset(
    ("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
)
"""Settings that a topic falls back to, and that no server is started with."""


class KeptSetting(NamedTuple):
    """``refusal``: what is wrong with a value, or None. ``of_one_broker``: not for all brokers at once."""

    config_type: ConfigType
    default: str | None
    refusal: Callable[[str], str | None]
    meaning: str
    of_one_broker: bool = False


class Wrong(NamedTuple):
    """Why a setting cannot have a value."""

    error_code: ErrorCode
    reason: str


def _any(text: str) -> str | None:
    return None


def _number(low: float, high: float) -> Callable[[str], str | None]:
    def refusal(text: str) -> str | None:
        try:
            value = float(text)
        except ValueError:
            return f"{text!r} is not a number"
        return None if low <= value <= high else f"{text} is not within {low:g} to {high:g}"

    return refusal


def _address_bounds(text: str) -> str | None:
    given = [one for one in text.split(",") if one.strip()]
    return (
        None
        if all(_ADDRESS_BOUNDS.fullmatch(one) for one in given)
        else f"{text!r} is no list of host:connections"
    )


def _only_one(text: str) -> str | None:
    return None if text.strip() == "1" else f"only '1' is supported, not {text!r}: there is one broker"


def _threads(default: str, meaning: str) -> KeptSetting:
    return KeptSetting(ConfigType.INT, default, whole(1, _INT32_MAX), meaning)


def _int(default: str, low: int, meaning: str) -> KeptSetting:
    return KeptSetting(ConfigType.INT, default, whole(low, _INT32_MAX), meaning)


def _long(default: str | None, low: int, meaning: str) -> KeptSetting:
    return KeptSetting(ConfigType.LONG, default, whole(low, _INT64_MAX), meaning)


def _flag(default: str, meaning: str) -> KeptSetting:
    return KeptSetting(ConfigType.BOOLEAN, default, boolean, meaning)


def _of_sasl(
    config_type: ConfigType, default: str | None, refusal: Callable[[str], str | None], what: str
) -> KeptSetting:
    return KeptSetting(
        config_type, default, refusal, f"{what}: kept; there is no SASL here", of_one_broker=True
    )


_NO_REMOTE: Final = "kept; nothing is stored elsewhere"
KEPT: Final[Mapping[str, KeptSetting]] = {
    "background.threads": _threads("10", "threads of the upkeep: kept; it runs step by step on one"),
    "log.cleaner.io.buffer.load.factor": KeptSetting(
        ConfigType.DOUBLE,
        "0.9",
        _number(0, 1.8e308),
        "how full compaction's map may be: kept; it may be full",
    ),
    "log.cleaner.io.buffer.size": _int("524288", 0, "memory of compaction: kept; it reads 4 MiB at a time"),
    "log.cleaner.io.max.bytes.per.second": KeptSetting(
        ConfigType.DOUBLE,
        "1.7976931348623157E308",
        _number(0, 1.8e308),
        "how fast compaction reads and writes: kept; it is not slowed, and lets requests go first",
    ),
    "log.cleaner.threads": _int("1", 0, "threads of compaction: kept; one log is compacted at a time"),
    "log.flush.interval.messages": _long(
        str(_INT64_MAX), 1, "records after which a log is synced: kept; `durability` says when it is"
    ),
    "log.flush.interval.ms": _long(
        None, 0, "time after which a log is synced: kept; `durability` says when it is"
    ),
    "log.index.size.max.bytes": _int(
        "10485760", 4, "size of a segment's index: kept; it has the size that it needs"
    ),
    "log.local.retention.bytes": _long(
        "-2", -2, "size kept here of what is elsewhere too: kept; everything is here"
    ),
    "log.local.retention.ms": _long(
        "-2", -2, "age kept here of what is elsewhere too: kept; everything is here"
    ),
    "log.preallocate": _flag("false", "whether a segment's file has its size from the start: kept; it grows"),
    "log.roll.jitter.ms": _long(
        None, 0, "spread of the times at which segments are rolled: kept; there is none"
    ),
    "log.segment.delete.delay.ms": _long(
        "60000", 0, "wait before a file is deleted: kept; a file goes once nobody reads it any more"
    ),
    "max.connection.creation.rate": _int(
        str(_INT32_MAX), 0, "connections that may come in a second: kept; only their number is bounded"
    ),
    "max.connections.per.ip.overrides": KeptSetting(
        ConfigType.STRING,
        "",
        _address_bounds,
        "other bounds for some addresses: kept; `max.connections.per.ip` is that of all",
    ),
    "min.insync.replicas": KeptSetting(
        ConfigType.INT, "1", _only_one, "replicas that must have a batch of acks=all; there is one broker"
    ),
    "num.io.threads": _threads("8", "threads that answer requests: kept; one does"),
    "num.network.threads": _threads("3", "threads that read requests: kept; one does"),
    "num.recovery.threads.per.data.dir": _threads(
        "2", "threads that check logs at a start: kept; one does, and as many as there are cores sync"
    ),
    "num.replica.fetchers": _int("1", 0, "threads that replicate: kept; there is one broker"),
    "remote.fetch.max.wait.ms": _int("500", 1, f"wait for a fetch from elsewhere: {_NO_REMOTE}"),
    "remote.list.offsets.request.timeout.ms": _long(
        "30000", 1, f"wait for offsets from elsewhere: {_NO_REMOTE}"
    ),
    "remote.log.index.file.cache.total.size.bytes": _long(
        "1073741824", 1, f"disk for indexes from elsewhere: {_NO_REMOTE}"
    ),
    "remote.log.manager.copier.thread.pool.size": _threads("10", f"threads that copy there: {_NO_REMOTE}"),
    "remote.log.manager.copy.max.bytes.per.second": _long(
        str(_INT64_MAX), 1, f"how fast is copied there: {_NO_REMOTE}"
    ),
    "remote.log.manager.expiration.thread.pool.size": _threads(
        "10", f"threads that delete there: {_NO_REMOTE}"
    ),
    "remote.log.manager.fetch.max.bytes.per.second": _long(
        str(_INT64_MAX), 1, f"how fast is read there: {_NO_REMOTE}"
    ),
    "remote.log.reader.threads": _threads("10", f"threads that read there: {_NO_REMOTE}"),
    "sasl.kerberos.kinit.cmd": _of_sasl(ConfigType.STRING, "/usr/bin/kinit", _any, "path of kinit"),
    "sasl.kerberos.min.time.before.relogin": _of_sasl(
        ConfigType.LONG, "60000", whole(-_INT64_MAX - 1, _INT64_MAX), "wait between two logins"
    ),
    "sasl.kerberos.principal.to.local.rules": _of_sasl(
        ConfigType.LIST, "DEFAULT", _any, "how principals are shortened"
    ),
    "sasl.kerberos.service.name": _of_sasl(ConfigType.STRING, None, _any, "the server's principal"),
    "sasl.kerberos.ticket.renew.jitter": _of_sasl(
        ConfigType.DOUBLE, "0.05", _number(-1.8e308, 1.8e308), "spread of renewals"
    ),
    "sasl.kerberos.ticket.renew.window.factor": _of_sasl(
        ConfigType.DOUBLE, "0.8", _number(-1.8e308, 1.8e308), "when a ticket is renewed"
    ),
    "sasl.login.refresh.buffer.seconds": _of_sasl(
        ConfigType.SHORT, "300", whole(0, 3600), "when a login is renewed at the latest"
    ),
    "sasl.login.refresh.min.period.seconds": _of_sasl(
        ConfigType.SHORT, "60", whole(0, 900), "wait between two renewals of a login"
    ),
    "sasl.login.refresh.window.factor": _of_sasl(
        ConfigType.DOUBLE, "0.8", _number(0.5, 1), "when a login is renewed"
    ),
    "sasl.login.refresh.window.jitter": _of_sasl(
        ConfigType.DOUBLE, "0.05", _number(0, 0.25), "spread of renewals of a login"
    ),
    "transaction.partition.verification.enable": _flag(
        "true", "whether a row's partition must be part of its transaction: kept; it always must"
    ),
    "unclean.leader.election.enable": _flag(
        "false", "whether a replica that is behind may lead: kept, and there is none"
    ),
}
"""Settings that Apache Kafka changes while it runs and that change nothing here."""

THROTTLES: Final[Mapping[str, KeptSetting]] = {
    name: KeptSetting(ConfigType.LONG, None, whole(0, _INT64_MAX), f"{what}: kept; there is one broker")
    for name, what in (
        ("follower.replication.throttled.rate", "how fast replicas follow"),
        ("leader.replication.throttled.rate", "how fast replicas are led"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "how fast replicas move between folders"),
    )
}
"""As :data:`KEPT`; Apache Kafka describes them only where they are set, and as read-only."""

_OF_SECURITY: Final = ("listener.name.", "sasl.", "ssl.")

CHANGEABLE: Final = dynamic_setting_names() | COMPRESSION
"""Settings that semel acts on as soon as they are changed."""


def wrong_with(name: str, text: str, *, of_all_brokers: bool) -> Wrong | None:
    """Why a broker's setting cannot be ``text``; None if it can."""
    if name in CHANGEABLE:
        reason = _wrong_value(name, text)
        return None if reason is None else Wrong(ErrorCode.INVALID_REQUEST, f"{name}: {reason}")
    kept = KEPT.get(name) or THROTTLES.get(name)
    if kept is not None:
        if of_all_brokers and kept.of_one_broker:
            reason = (
                f"Cannot update these configs at default cluster level, broker id must be specified: {name}"
            )
            return Wrong(ErrorCode.INVALID_REQUEST, reason)
        reason = kept.refusal(text)
        return None if reason is None else Wrong(ErrorCode.INVALID_REQUEST, f"{name}: {reason}")
    if name in KAFKAS_READ_ONLY or name in setting_names() or name in setting_aliases():
        reason = f"Cannot update these configs dynamically: {name}; a server reads it when it starts"
        return Wrong(ErrorCode.INVALID_REQUEST, reason)
    if name.startswith(_OF_SECURITY):
        reason = f"{name} would secure nothing: there is no TLS and no SASL here"
        return Wrong(ErrorCode.INVALID_REQUEST, reason)
    return Wrong(ErrorCode.INVALID_CONFIG, f"{name}: unknown or not supported")


def _wrong_value(name: str, text: str) -> str | None:
    if name in COMPRESSION:
        config = parse_config({name: text}, LogConfig())
        return config.reason if isinstance(config, BadConfig) else None
    try:
        parse_setting(name, text)
    except ConfigError as error:
        return str(error)
    return None


def log_config(settings: Mapping[str, str], started_with: LogConfig) -> LogConfig | BadConfig:
    """What topics fall back to under a broker's ``settings`` that were changed since it was started."""
    of_topics = {
        name: settings[described.server_name]
        for name, described in TOPIC_SETTINGS.items()
        if described.server_name is not None and described.server_name in settings
    }
    return parse_config(of_topics, started_with)
