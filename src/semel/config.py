"""The server's settings: one table, four sources, and no setting that is silently ignored.

A later source wins: defaults, TOML file, ``SEMEL_*`` environment, flags and ``-X name=value``. Names are
Kafka's where Kafka has the setting (``log.segment.bytes``); dots, dashes and underscores mean the same, in
every source, so ``SEMEL_LOG_SEGMENT_BYTES`` and ``log_segment_bytes`` name it too. An unknown name is a
:class:`~semel.errors.ConfigError` that names the nearest known one. Values carry their unit in the name.

The environment is not only ours: Kubernetes and Docker set variables for each service, named after it, and a service of
this server is naturally called ``semel``. So there an unknown name is only warned of (:func:`unknown_in`), and what has
the form of such a link is passed over, without a word: no setting has a name of that form.
"""

# ruff: noqa: RUF009 - the table below is made of calls that build dataclass fields
from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from semel.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "SEMEL_"
# Read by the commands, the tests and the benchmarks, not by the server.
_OTHER_ENVIRONMENT: Final = ("BOOTSTRAP", "CONFIG", "FORMAT")
_OTHER_PREFIXES: Final = ("TEST_", "BENCH_", "DEMO_", "SIM_", "CI_")
# What Kubernetes and Docker say of a service whose name begins with ours, behind the prefix. A port alone may be ours
# one day, so it is a link only with a link's value.
_SERVICE_LINK: Final = re.compile(
    r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?(_(START|END))?|ENV_.+)",
    re.I,
)
_PORT_LINK: Final = re.compile(r"(.+_)?PORT", re.I)
_LINKED_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://", re.I)

_PLAINTEXT: Final = "PLAINTEXT://"  # what Kafka's "listeners" begin with
MIB: Final = 1024 * 1024
UNLIMITED: Final = -1
PORT_DEFAULT: Final = 9092  # Kafka's


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, as in ``127.0.0.1:9092`` or ``[::1]:9092``; port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse_listen(cls, text: str) -> Address:
        """A host alone is at Kafka's port, as after ``-b``; a number alone is no host."""
        bare = text.removeprefix(_PLAINTEXT)
        has_port = ":" in bare and not bare.endswith("]")
        return cls.parse(text if has_port or bare.isdecimal() else f"{text}:{PORT_DEFAULT}")

    @classmethod
    def parse(cls, text: str) -> Address:
        host, separator, port = text.removeprefix(_PLAINTEXT).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if (
            not separator
            or not host
            or "/" in host
            or not port.isascii()
            or not port.isdecimal()
            or int(port) > 65535
        ):
            raise ConfigError(f"{text!r} is not HOST:PORT")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    if text.lower() in ("false", "no", "off", "0"):
        return False
    raise ConfigError(f"{text!r} is neither true nor false")


def _integer(minimum: int, maximum: int = 2**63 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"{text!r} is not a whole number") from None
        if not minimum <= value <= maximum:
            raise ConfigError(f"{value} is not between {minimum} and {maximum}")
        return value

    return parse


def _part(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a number") from None
    if not 0 <= value <= 1:
        raise ConfigError(f"{value} is not between 0 and 1")
    return value


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ConfigError(f"{text!r} is none of {', '.join(choices)}")
        return text.lower()

    return parse


def _zookeeper_connect(text: str) -> str:
    hosts, slash, chroot = text.partition("/")
    for host in hosts.split(","):
        Address.parse(host)
    if slash and not all(part.strip(".") for part in chroot.split("/")):
        raise ConfigError(f"{text!r} does not end in a path: HOST:PORT,…/chroot")
    return text


def _setting(
    name: str, default: Any, parse: Callable[[str], Any], doc: str, *, is_dynamic: bool = False
) -> Any:
    """``is_dynamic``: it can be changed while the server runs, at once, and Kafka's can."""
    metadata = {"name": name, "parse": parse, "doc": doc, "is_dynamic": is_dynamic}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Every setting of ``semel serve``, with its default."""

    listen: Address = _setting(
        "listen",
        Address("127.0.0.1", PORT_DEFAULT),
        Address.parse_listen,
        "address to listen on; port 0 takes a free one",
    )
    advertised: Address | None = _setting(
        "advertised", None, Address.parse, "address told to clients; by default the one that they dialled"
    )
    data_dir: Path = _setting("data.dir", Path("semel-data"), Path, "the data folder")
    durability: str = _setting(
        "durability",
        "fsync",
        _one_of("fsync", "page-cache"),
        "fsync: acks=all and acks=1 are answered once the disk has it; page-cache: once the kernel has it",
    )
    metrics: Address | None = _setting(
        "metrics",
        None,
        Address.parse,
        "serve Prometheus metrics here (`/metrics`), and whether every partition is served (`/healthz`: 200, else 503)",
    )
    log_format: str = _setting("log.format", "plain", _one_of("plain", "json"), "form of the log lines")
    log_level: str = _setting(
        "log.level", "info", _one_of("debug", "info", "warning", "error"), "least severe line to log"
    )
    broker_id: int = _setting("broker.id", 0, _integer(0, 2**31 - 1), "this server's node id")

    auto_create_topics_enable: bool = _setting(
        "auto.create.topics.enable", True, _boolean, "create a topic that a client asks for by name"
    )
    num_partitions: int = _setting(
        "num.partitions", 1, _integer(1, 1000), "partitions of a topic that did not say how many"
    )
    partitions_max: int = _setting(
        "max.partitions", 20_000, _integer(1), "partitions of all topics together, at most"
    )

    message_max_bytes: int = _setting(
        "message.max.bytes",
        1_048_588,
        _integer(1024, 2**31 - 1),
        "largest record batch, headers included",
        is_dynamic=True,
    )
    log_segment_bytes: int = _setting(
        "log.segment.bytes",
        1024 * MIB,
        _integer(1024, 2**31 - 1),
        "size at which a segment file is rolled",
        is_dynamic=True,
    )
    log_roll_ms: int = _setting(
        "log.roll.ms",
        7 * 24 * 3600 * 1000,
        _integer(1),
        "age at which a segment file is rolled",
        is_dynamic=True,
    )
    log_index_interval_bytes: int = _setting(
        "log.index.interval.bytes",
        4096,
        _integer(1),
        "bytes of log between two entries of the offset index",
        is_dynamic=True,
    )
    log_retention_ms: int = _setting(
        "log.retention.ms",
        7 * 24 * 3600 * 1000,
        _integer(UNLIMITED),
        "age at which data goes; -1: never",
        is_dynamic=True,
    )
    log_retention_bytes: int = _setting(
        "log.retention.bytes",
        UNLIMITED,
        _integer(UNLIMITED),
        "size a partition is kept below; -1: no bound",
        is_dynamic=True,
    )
    log_retention_check_interval_ms: int = _setting(
        "log.retention.check.interval.ms", 300_000, _integer(10), "time between two rounds of retention"
    )
    log_cleanup_policy: str = _setting(
        "log.cleanup.policy",
        "delete",
        lambda text: _one_of("delete", "compact", "compact,delete", "delete,compact")(text.replace(" ", "")),
        "what becomes of old records: delete (by age and size), compact (the newest of each key stays), or both",
        is_dynamic=True,
    )
    log_cleaner_min_cleanable_ratio: float = _setting(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        _part,
        "part of a log that must not have been compacted yet, so that it is",
        is_dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = _setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        _integer(0),
        "age below which no record is compacted",
        is_dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = _setting(
        "log.cleaner.max.compaction.lag.ms",
        2**63 - 1,
        _integer(1),
        "age at which a record is compacted, however little there is to compact",
        is_dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = _setting(
        "log.cleaner.delete.retention.ms",
        24 * 3600 * 1000,
        _integer(0),
        "how long compaction keeps a tombstone, from when it first came by it",
        is_dynamic=True,
    )
    log_cleaner_backoff_ms: int = _setting(
        "log.cleaner.backoff.ms",
        15_000,
        _integer(10),
        "time between two looks for logs to compact",
        is_dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = _setting(
        "log.cleaner.dedupe.buffer.size",
        16 * MIB,
        _integer(1024),
        "bytes in which compaction knows keys, 24 for each; a log with more new keys takes several rounds",
        is_dynamic=True,
    )
    log_message_timestamp_type: str = _setting(
        "log.message.timestamp.type",
        "CreateTime",
        lambda text: {"createtime": "CreateTime", "logappendtime": "LogAppendTime"}[
            _one_of("createtime", "logappendtime")(text)
        ],
        "whose clock stamps a record: the producer's or the server's",
        is_dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = _setting(
        "log.message.timestamp.before.max.ms",
        2**63 - 1,
        _integer(0),
        "how old a record may be; with a bound each record is looked at",
        is_dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = _setting(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        _integer(0),
        "how far a record's timestamp may lie in the future: such a record would outlive its retention",
        is_dynamic=True,
    )
    producer_id_expiration_ms: int = _setting(
        "producer.id.expiration.ms",
        24 * 3600 * 1000,
        _integer(1),
        "how long a partition remembers a silent producer, by the server's clock",
        is_dynamic=True,
    )
    producer_lease_ms: int = _setting(
        "producer.lease.ms",
        24 * 3600 * 1000,
        _integer(1),
        "how long a leased producer id lives; kept with the cluster, another value must wait until no lease lives; "
        "the same for all servers of one ZooKeeper",
    )
    producers_max: int = _setting(
        "max.producers",
        1_000_000,
        _integer(1),
        "producers that all partitions together remember; at the bound new ones are told to come again",
    )
    fetch_max_bytes: int = _setting(
        "fetch.max.bytes", 55 * MIB, _integer(1024, 2**31 - 1), "largest answer to a fetch"
    )
    data_dir_free_bytes_low: int = _setting(
        "data.dir.free.bytes.low",
        1024 * MIB,
        _integer(0),
        "free space of the data folder's file system below which the log warns; 0: never",
    )
    zookeeper_connect: str | None = _setting(
        "zookeeper.connect",
        None,
        _zookeeper_connect,
        "HOST:PORT,…/chroot of a ZooKeeper from which several servers take producer ids that none of them shares",
    )
    zookeeper_session_timeout_ms: int = _setting(
        "zookeeper.session.timeout.ms",
        18_000,
        _integer(1000, 2**31 - 1),
        "silence after which a connection to ZooKeeper counts as lost",
    )
    offset_metadata_max_bytes: int = _setting(
        "offset.metadata.max.bytes", 4096, _integer(0, 32767), "longest text beside a committed offset"
    )
    offsets_retention_minutes: int = _setting(
        "offsets.retention.minutes",
        7 * 24 * 60,
        _integer(1, 2**31 - 1),
        "how long committed offsets stay: after their group's last member has gone, or else after the commit",
    )
    group_initial_rebalance_delay_ms: int = _setting(
        "group.initial.rebalance.delay.ms",
        0,
        _integer(0, 2**31 - 1),
        "how long a group without members waits for others when the first one joins",
    )
    group_min_session_timeout_ms: int = _setting(
        "group.min.session.timeout.ms", 6_000, _integer(1, 2**31 - 1), "shortest session of a group's member"
    )
    group_max_session_timeout_ms: int = _setting(
        "group.max.session.timeout.ms",
        1_800_000,
        _integer(1, 2**31 - 1),
        "longest session of a group's member",
    )
    group_max_size: int = _setting(
        "group.max.size", 2**31 - 1, _integer(1, 2**31 - 1), "members of one group, at most"
    )

    transaction_max_timeout_ms: int = _setting(
        "transaction.max.timeout.ms",
        900_000,
        _integer(1, 2**31 - 1),
        "longest time-out that a transactional producer may ask for",
    )
    transactional_id_expiration_ms: int = _setting(
        "transactional.id.expiration.ms",
        7 * 24 * 3600 * 1000,
        _integer(1),
        "rest after which a transactional id is forgotten, when nothing of it is open",
    )

    socket_request_max_bytes: int = _setting(
        "socket.request.max.bytes", 100 * MIB, _integer(1024, 2**31 - 1), "largest request"
    )
    first_request_max_bytes: int = _setting(
        "first.request.max.bytes",
        64 * 1024,
        _integer(1024, 2**31 - 1),
        "largest request of a connection before its first good one",
    )
    connections_max: int = _setting(
        "max.connections", 4096, _integer(1), "connections in all", is_dynamic=True
    )
    connections_per_ip_max: int = _setting(
        "max.connections.per.ip", 2048, _integer(1), "connections from one address", is_dynamic=True
    )
    queued_max_request_bytes: int = _setting(
        "queued.max.request.bytes",
        256 * MIB,
        _integer(MIB),
        "bytes of requests and answers in memory, beyond which nothing more is read",
    )
    connections_max_idle_ms: int = _setting(
        "connections.max.idle.ms", 600_000, _integer(10), "silence after which a connection is closed"
    )
    frame_arrival_max_ms: int = _setting(
        "max.frame.arrival.ms", 30_000, _integer(10), "time in which a request must arrive whole"
    )
    shutdown_max_ms: int = _setting(
        "max.shutdown.ms",
        10_000,
        _integer(0),
        "time in which a stop ends: on SIGTERM open requests get half of it, the disk the rest",
    )


def _canonical(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")


_FIELDS: Final = {_canonical(item.metadata["name"]): item for item in dataclasses.fields(ServerSettings)}
_ALIASES: Final = {
    "listeners": "listen",
    "advertised.listeners": "advertised",
    "log.dir": "data.dir",
    "log.dirs": "data.dir",
    "node.id": "broker.id",
    "max.message.bytes": "message.max.bytes",
}


def setting_names() -> list[str]:
    """Every setting's name, sorted."""
    return sorted(item.metadata["name"] for item in _FIELDS.values())


def setting_aliases() -> frozenset[str]:
    """Kafka's other names of settings."""
    return frozenset(_ALIASES)


def dynamic_setting_names() -> frozenset[str]:
    """The settings that can be changed while the server runs."""
    return frozenset(item.metadata["name"] for item in _FIELDS.values() if item.metadata["is_dynamic"])


def parse_setting(name: str, text: str) -> Any:
    """A setting's value, by its exact name; ``ConfigError``: it cannot have that one."""
    return _FIELDS[name].metadata["parse"](text)


def changed(settings: ServerSettings, dynamic: Mapping[str, str]) -> ServerSettings:
    """``settings`` with those that were changed since the start; names that are not the server's are passed over."""
    values = {
        _FIELDS[name].name: parse_setting(name, text)
        for name, text in dynamic.items()
        if name in _FIELDS and _FIELDS[name].metadata["is_dynamic"]
    }
    return dataclasses.replace(settings, **values)


def describe_settings() -> list[tuple[str, str, str]]:
    """(name, default, what it is) of every setting, for help texts and the reference page."""
    return [
        (item.metadata["name"], "" if item.default is None else str(item.default), item.metadata["doc"])
        for item in _FIELDS.values()
    ]


def load_settings(
    *,
    flags: Mapping[str, object] | None = None,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> ServerSettings:
    """Merge the sources. ``flags`` whose value is None were not given; ``overrides`` are ``name=value``."""
    values: dict[str, Any] = {}
    if config_file is not None:
        values.update(_from_file(config_file))
    values.update(_from_environment(environment or {}))
    for name, value in (flags or {}).items():
        if value is not None:
            _put(values, name, value, f"option --{name.replace('_', '-')}")
    for override in overrides:
        name, separator, text = override.partition("=")
        if not separator:
            raise ConfigError(f"-X {override!r} is not name=value")
        _put(values, name.strip(), text.strip(), "-X")
    return ServerSettings(**values)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"settings file {path}: {error}") from error
    values: dict[str, Any] = {}
    for name, value in _flatten(content, ""):
        _put(values, name, value, f"settings file {path}")
    return values


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def unknown_in(environment: Mapping[str, str]) -> list[str]:
    """What is wrong with each variable that has our prefix, and is neither a setting nor a service's link."""
    return [
        f"environment variable {name}: unknown setting {bare!r}{_hint(_name_of(bare))}; it is not heeded"
        for name, bare in _ours(environment)
        if _name_of(bare) not in _FIELDS
    ]


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, bare in _ours(environment):
        if _name_of(bare) in _FIELDS:
            _put(values, bare, environment[name], f"environment variable {name}")
    return values


def _ours(environment: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Each variable that may be a setting, and its name without the prefix."""
    for name, text in environment.items():
        bare = name.removeprefix(ENVIRONMENT_PREFIX)
        if bare == name or bare in _OTHER_ENVIRONMENT or bare.startswith(_OTHER_PREFIXES):
            continue
        if not _SERVICE_LINK.fullmatch(bare) and not (
            _PORT_LINK.fullmatch(bare) and _LINKED_ADDRESS.match(text)
        ):
            yield name, bare


def _name_of(name: str) -> str:
    canonical = _canonical(name)
    return _ALIASES.get(canonical, canonical)


def _hint(canonical: str) -> str:
    near = difflib.get_close_matches(canonical, _FIELDS, n=1, cutoff=0.5)
    return f"; did you mean {_FIELDS[near[0]].metadata['name']!r}?" if near else ""


def _put(values: dict[str, Any], name: str, value: object, source: str) -> None:
    canonical = _name_of(name)
    item = _FIELDS.get(canonical)
    if item is None:
        raise ConfigError(f"{source}: unknown setting {name!r}{_hint(canonical)}")
    parse: Callable[[str], Any] = item.metadata["parse"]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        values[item.name] = parse(text)
    except ConfigError as error:
        raise ConfigError(f"{source}: {item.metadata['name']}: {error}") from None
