"""Settings of the broker, of all brokers and of a group, changed while it runs (KIP-226, KIP-1043).

Everything else is asked of the same servers, so a case takes back what it has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.wire import NODE_ID

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_HERE, _ALL = str(NODE_ID), ""
_MIN_ISR = "min.insync.replicas"  # set for all brokers when Apache Kafka is formatted (KIP-966)


def _change(
    wire: Wire, kind: int, name: str, *configs: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    entries = [{"name": key, "config_operation": what, "value": value} for key, what, value in configs]
    asked = {"resource_type": kind, "resource_name": name, "configs": entries}
    answer = wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=validate_only)
    return answer.responses[0].error_code.name


def _replace(
    wire: Wire, kind: int, name: str, configs: dict[str, str], *, validate_only: bool = False
) -> Any:
    entries = [{"name": key, "value": value} for key, value in configs.items()]
    asked = {"resource_type": kind, "resource_name": name, "configs": entries}
    answer = wire.ask("alter_configs", 2, resources=[asked], validate_only=validate_only)
    return answer.responses[0].error_code.name


def _told(wire: Wire, kind: int, name: str, *names: str) -> Any:
    """Value, source, whether it is read-only, and synonyms, of some settings or of all."""
    wire.catch_up()
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": list(names)}
    answer = wire.ask(
        "describe_configs", 4, resources=[asked], include_synonyms=True, include_documentation=False
    )
    found = sorted(answer.results[0].configs, key=lambda one: one.name)
    return {
        one.name: (
            one.value,
            one.config_source,
            one.config_type,
            one.read_only,
            [(each.name, each.value, each.source) for each in one.synonyms],
        )
        for one in found
        if one.name != _MIN_ISR
    }


@contextmanager
def _taken_back(wire: Wire, *names: str) -> Iterator[None]:
    try:
        yield
    finally:
        for name in (_HERE, _ALL):
            _change(wire, _BROKER, name, *((one, _DELETE, None) for one in names))
        wire.catch_up()


@case()
def from_the_strongest_to_the_default(wire: Wire) -> object:
    """Of this broker, of all brokers, and what a topic makes of both."""
    size, topic, found = "log.segment.bytes", wire.new_topic(), []
    with _taken_back(wire, size):
        for name, change in (
            (_HERE, (size, _SET, "1048576")),
            (_ALL, (size, _SET, "2097152")),
            (_HERE, (size, _DELETE, None)),
            (_ALL, (size, _DELETE, None)),
        ):
            answer = _change(wire, _BROKER, name, change)
            found.append((answer, _told(wire, _BROKER, _HERE, size), _told(wire, _BROKER, _ALL)))
            found.append(_told(wire, _TOPIC, topic, "segment.bytes"))
    return found


@case()
def a_topics_own_setting_goes_first(wire: Wire) -> object:
    topic = wire.new_topic(max_message_bytes="3000000")
    with _taken_back(wire, "message.max.bytes"):
        _change(wire, _BROKER, _ALL, ("message.max.bytes", _SET, "2000000"))
        return _told(wire, _TOPIC, topic, "max.message.bytes")


@case()
def it_counts_at_once(wire: Wire) -> object:
    topic, found = wire.new_topic(), []
    with _taken_back(wire, "message.max.bytes"):
        for limit in ("2000", "1048588"):
            _change(wire, _BROKER, _HERE, ("message.max.bytes", _SET, limit))
            wire.catch_up()
            found.append(wire.produce(topic, b"x" * 4000).error_code.name)
    return found


@case()
def only_looked_at(wire: Wire) -> object:
    age = "log.roll.ms"
    return [
        _change(wire, _BROKER, _HERE, (age, _SET, "7000"), validate_only=True),
        _change(wire, _BROKER, _HERE, (age, _SET, "soon"), validate_only=True),
        _replace(wire, _BROKER, _HERE, {"log.dirs": "/elsewhere"}, validate_only=True),
        _told(wire, _BROKER, _HERE, "log.segment.bytes"),
        _told(wire, _BROKER, _ALL),
    ]


@case()
def refused(wire: Wire) -> object:
    bad: list[list[tuple[str, int, str | None]]] = [
        [("log.dirs", _SET, "/elsewhere")],
        [("broker.id", _SET, "8"), ("log.segment.bytes", _SET, "1048576")],
        [("num.partitions", _SET, "3")],
        [("group.max.size", _SET, "3")],
        [("log.retention.hours", _SET, "3")],
        [("queued.max.requests", _SET, "3")],
        [("log.retention.check.interval.ms", _SET, "3000")],
        [("log.segment.bytes", _SET, "large")],
        [("log.segment.bytes", _SET, "1")],
        [("log.segment.bytes", _SET, None)],
        [("log.segment.bytes", _SET, "1048576"), ("log.segment.bytes", _SET, "2097152")],
        [("log.segment.bytes", _APPEND, "1048576")],
        [("log.segment.bytes", _SUBTRACT, "1048576")],
        [("log.segment.bytes", 9, "1048576")],
        [("num.io.threads", _SET, "0")],
        [("log.cleanup.policy", _SET, "nonsense")],
        [("log.cleaner.min.cleanable.ratio", _SET, "2")],
        [("log.message.timestamp.type", _SET, "Never")],
        [("compression.type", _SET, "rar")],
        [("ssl.keystore.type", _SET, "JKS")],
        [("unclean.leader.election.enable", _SET, "maybe")],
        [("leader.replication.throttled.rate", _SET, "-1")],
    ]
    found = [(change[0][0], _change(wire, _BROKER, _HERE, *change)) for change in bad]
    of_all = [
        (name, _change(wire, _BROKER, _ALL, (name, _SET, value)))
        for name, value in (("sasl.kerberos.min.time.before.relogin", "5"), ("queued.max.requests", "5"))
    ]
    return found, of_all, _told(wire, _BROKER, _HERE, "log.segment.bytes"), _told(wire, _BROKER, _ALL)


@case()
def of_brokers_that_there_are_not(wire: Wire) -> object:
    return [
        (call(wire, _BROKER, name, given), name)
        for name in ("77", "x", "-1")
        for call, given in ((_change, ("log.roll.ms", _DELETE, None)), (_replace, {}))
    ]


@case()
def what_is_set_is_taken_back(wire: Wire) -> object:
    """What is not set can be deleted, too, whatever it is."""
    return [
        _change(wire, _BROKER, _HERE, ("log.dirs", _DELETE, None)),
        _change(wire, _BROKER, _HERE, ("no.such.setting", _DELETE, None)),
        _change(wire, _BROKER, _HERE, ("log.roll.ms", _DELETE, None), ("num.io.threads", _DELETE, None)),
    ]


@case()
def all_replaced(wire: Wire) -> object:
    names = ("log.segment.bytes", "log.index.interval.bytes")
    with _taken_back(wire, *names):
        _change(wire, _BROKER, _HERE, (names[0], _SET, "1048576"))
        answer = _replace(wire, _BROKER, _HERE, {names[1]: "5000"})
        found = _told(wire, _BROKER, _HERE, *names)
        return answer, found, _replace(wire, _BROKER, _HERE, {}), _told(wire, _BROKER, _HERE, *names)


@case()
def lists(wire: Wire) -> object:
    policy, found = "log.cleanup.policy", []
    with _taken_back(wire, policy):
        for what, value in (
            (_APPEND, "compact"),
            (_APPEND, "compact"),
            (_SUBTRACT, "delete"),
            (_DELETE, None),
        ):
            answer = _change(wire, _BROKER, _HERE, (policy, what, value))
            found.append((answer, _told(wire, _BROKER, _HERE, policy)))
        answer = _change(wire, _BROKER, _ALL, (policy, _APPEND, "compact"))
        return found, answer, _told(wire, _BROKER, _ALL, policy)


_KEPT = {
    "background.threads": "11",
    "log.cleaner.io.buffer.load.factor": "0.8",
    "log.cleaner.io.buffer.size": "600000",
    "log.cleaner.io.max.bytes.per.second": "1000000.0",
    "log.cleaner.threads": "2",
    "log.flush.interval.messages": "1000",
    "log.index.size.max.bytes": "10485768",
    "log.local.retention.bytes": "-2",
    "log.local.retention.ms": "-2",
    "log.preallocate": "true",
    "log.segment.delete.delay.ms": "50000",
    "max.connection.creation.rate": "100000",
    "max.connections.per.ip.overrides": "127.0.0.2:5000",
    "num.io.threads": "9",
    "num.network.threads": "4",
    "num.recovery.threads.per.data.dir": "3",
    "num.replica.fetchers": "2",
    "remote.fetch.max.wait.ms": "600",
    "remote.list.offsets.request.timeout.ms": "40000",
    "remote.log.index.file.cache.total.size.bytes": "1073741825",
    "remote.log.manager.copier.thread.pool.size": "11",
    "remote.log.manager.copy.max.bytes.per.second": "1000000",
    "remote.log.manager.expiration.thread.pool.size": "11",
    "remote.log.manager.fetch.max.bytes.per.second": "1000000",
    "remote.log.reader.threads": "11",
    "transaction.partition.verification.enable": "true",
    "unclean.leader.election.enable": "false",
}
_KEPT_OF_ONE_BROKER = {
    "sasl.kerberos.kinit.cmd": "/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "50000",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.ticket.renew.jitter": "0.06",
    "sasl.kerberos.ticket.renew.window.factor": "0.7",
    "sasl.login.refresh.buffer.seconds": "200",
    "sasl.login.refresh.min.period.seconds": "50",
    "sasl.login.refresh.window.factor": "0.7",
    "sasl.login.refresh.window.jitter": "0.06",
}


@case()
def what_semel_only_keeps(wire: Wire) -> object:
    return _told(wire, _BROKER, _HERE, *_KEPT, *_KEPT_OF_ONE_BROKER)


@case()
def what_semel_only_keeps_is_changed(wire: Wire) -> object:
    """``log.preallocate`` and threads are not: Apache Kafka would."""
    given = {
        name: value for name, value in _KEPT.items() if "threads" not in name and name != "log.preallocate"
    }
    with _taken_back(wire, *given):
        answer = _change(wire, _BROKER, _ALL, *((name, _SET, value) for name, value in given.items()))
        found = _told(wire, _BROKER, _HERE, *given)
        topic = wire.new_topic()
        of_a_topic = _told(
            wire, _TOPIC, topic, "file.delete.delay.ms", "flush.messages", "segment.index.bytes"
        )
        return answer, found, of_a_topic


@case()
def what_a_topic_falls_back_to(wire: Wire) -> object:
    names = ["file.delete.delay.ms", "flush.messages", "local.retention.bytes", "local.retention.ms"]
    names += ["preallocate", "segment.index.bytes", "unclean.leader.election.enable"]
    return _told(wire, _TOPIC, wire.new_topic(), *names)


@case()
def of_one_broker_only(wire: Wire) -> object:
    with _taken_back(wire, *_KEPT_OF_ONE_BROKER):
        changes = [(name, _SET, value) for name, value in _KEPT_OF_ONE_BROKER.items()]
        answer = _change(wire, _BROKER, _HERE, *changes)
        return answer, _told(wire, _BROKER, _HERE, *_KEPT_OF_ONE_BROKER)


@case()
def throttles(wire: Wire) -> object:
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    with _taken_back(wire, *rates):
        answer = _change(wire, _BROKER, _HERE, *((one, _SET, "1000") for one in rates))
        return answer, _told(wire, _BROKER, _HERE, *rates), _told(wire, _BROKER, _ALL, *rates)


@case()
def what_can_be_changed(wire: Wire) -> object:
    """Of what both have."""
    names = [
        "auto.create.topics.enable", "compression.gzip.level", "compression.lz4.level", "compression.type",
        "compression.zstd.level", "connections.max.idle.ms", "fetch.max.bytes", "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms", "group.max.size", "group.min.session.timeout.ms", "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size", "log.cleaner.delete.retention.ms", "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.cleanup.policy",
        "log.index.interval.bytes", "log.message.timestamp.after.max.ms", "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type", "log.retention.bytes", "log.retention.check.interval.ms", "log.retention.ms",
        "log.roll.ms", "log.segment.bytes", "max.connections", "max.connections.per.ip", "message.max.bytes",
        "num.partitions", "offset.metadata.max.bytes", "offsets.retention.minutes", "producer.id.expiration.ms",
        "queued.max.request.bytes", "socket.request.max.bytes", "transaction.max.timeout.ms",
        "transactional.id.expiration.ms",
    ]  # fmt: skip
    return {name: told[3] for name, told in _told(wire, _BROKER, _HERE, *names).items()}


@case(
    because="semel has no plugins whose settings it could keep, and ignores none in silence",
    semel=("invalid_config", {}),
    kafka=("none", {"no.such.setting": (None, 2, 0, True, [("no.such.setting", None, 2)])}),
)
def unknown(wire: Wire) -> object:
    with _taken_back(wire, "no.such.setting"):
        answer = _change(wire, _BROKER, _HERE, ("no.such.setting", _SET, "5"))
        return answer, _told(wire, _BROKER, _HERE, "no.such.setting")


# Groups


@case()
def a_groups_settings(wire: Wire) -> object:
    group, found = wire.name("group"), [_told(wire, _GROUP, wire.name("group"))]
    for change in (
        [("consumer.session.timeout.ms", _SET, "50000"), ("share.auto.offset.reset", _SET, "earliest")],
        [("consumer.session.timeout.ms", _SET, "45000")],
        [("consumer.session.timeout.ms", _DELETE, None)],
    ):
        found.append((_change(wire, _GROUP, group, *change), _told(wire, _GROUP, group)))
    answer = _replace(wire, _GROUP, group, {"streams.num.standby.replicas": "1"})
    found.append(
        (answer, _told(wire, _GROUP, group, "streams.num.standby.replicas", "share.auto.offset.reset"))
    )
    found.append(_replace(wire, _GROUP, group, {}))
    return found


def _is_listed(wire: Wire, group: str) -> bool:
    wire.catch_up()
    listed = wire.ask("list_config_resources", 1, resource_types=[_GROUP, _BROKER]).config_resources
    return (_GROUP, group) in [(one.resource_type, one.resource_name) for one in listed]


@case()
def groups_that_have_settings_are_listed(wire: Wire) -> object:
    group = wire.name("group")
    found = [_is_listed(wire, group)]
    _change(wire, _GROUP, group, ("consumer.session.timeout.ms", _SET, "50000"))
    found.append(_is_listed(wire, group))
    _change(wire, _GROUP, group, ("consumer.session.timeout.ms", _DELETE, None))
    return found


@case(
    because="Apache Kafka lists a group that had settings until it is started again", semel=False, kafka=True
)
def a_group_of_which_nothing_is_set_any_more(wire: Wire) -> object:
    group = wire.name("group")
    for what, value in ((_SET, "50000"), (_DELETE, None)):
        _change(wire, _GROUP, group, ("consumer.session.timeout.ms", what, value))
    return _is_listed(wire, group)


@case()
def a_groups_values(wire: Wire) -> object:
    group = wire.name("group")
    asked = {
        "consumer.heartbeat.interval.ms": ("4999", "5000", "15000", "15001", "x"),
        "consumer.session.timeout.ms": ("44999", "45000", "60000", "60001", ""),
        "share.auto.offset.reset": (
            "earliest", "by_duration:PT1H30M", "by_duration:P1D", "by_duration:P", "by_duration:PT", "never",
        ),
        "share.heartbeat.interval.ms": ("4999", "15000", "15001"),
        "share.isolation.level": ("read_committed", "READ_COMMITTED", "x"),
        "share.record.lock.duration.ms": ("14999", "15000", "60000", "60001"),
        "share.session.timeout.ms": ("44999", "60000", "60001"),
        "streams.heartbeat.interval.ms": ("4999", "15000", "15001"),
        "streams.num.standby.replicas": ("-1", "0", "2", "3"),
        "streams.session.timeout.ms": ("44999", "60000", "60001"),
        "no.such.setting": ("5",),
    }  # fmt: skip
    return [
        (name, value, _change(wire, _GROUP, group, (name, _SET, value), validate_only=True))
        for name, values in asked.items()
        for value in values
    ]


@case()
def what_no_group_takes(wire: Wire) -> object:
    group, name = wire.name("group"), "consumer.session.timeout.ms"
    answers = [
        _change(wire, _GROUP, group, (name, _SET, None)),
        _change(wire, _GROUP, group, (name, _APPEND, "50000")),
        _change(wire, _GROUP, group, (name, _SET, "50000"), (name, _SET, "51000")),
        _change(wire, _GROUP, group, ("no.such.setting", _DELETE, None)),
        _change(wire, _GROUP, group, (name, _SET, "50000"), ("no.such.setting", _SET, "5")),
        _change(wire, _GROUP, "", (name, _SET, "50000")),
        _change(wire, _GROUP, "", (name, _DELETE, None)),
        _replace(wire, _GROUP, "", {}),
    ]
    asked = {"resource_type": _GROUP, "resource_name": "", "configuration_keys": None}
    told = wire.ask(
        "describe_configs", 4, resources=[asked], include_synonyms=False, include_documentation=False
    )
    return answers, plain(told.results[0], "error_message"), _told(wire, _GROUP, group, name)
