"""ListConfigResources: of what there are settings."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case, plain

_NAMES = {2: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}


def _listed(wire: Wire, *types: int, topic: str) -> tuple[str, list[tuple[str, str]]]:
    answer = wire.ask("list_config_resources", 1, resource_types=list(types))
    found = [
        (_NAMES[one.resource_type], one.resource_name)
        for one in answer.config_resources
        if one.resource_type != 2 or one.resource_name == topic
    ]
    return answer.error_code.name, sorted(found)


@case()
def topics_and_brokers(wire: Wire) -> object:
    topic = wire.new_topic()
    return [_listed(wire, *types, topic=topic) for types in ((2,), (4,), (2, 4), (2, 2))]


_NO_LOGGERS = "semel's loggers have no levels that could be changed while it runs"


@case(
    because=_NO_LOGGERS,
    semel=["broker", "topic"],
    kafka=["broker", "broker logger", "topic"],
)
def of_every_kind(wire: Wire) -> object:
    _, found = _listed(wire, topic=wire.new_topic())
    return [kind for kind, _ in found]


@case(because=_NO_LOGGERS, semel=("none", []), kafka=("none", [("broker logger", "1")]))
def loggers(wire: Wire) -> object:
    return _listed(wire, 8, topic=wire.new_topic())


@case()
def client_metrics_and_groups(wire: Wire) -> object:
    topic = wire.new_topic()
    return [_listed(wire, *types, topic=topic) for types in ((16,), (32,), (16, 32))]


@case()
def of_a_kind_that_there_is_not(wire: Wire) -> object:
    topic = wire.new_topic()
    return [_listed(wire, *types, topic=topic) for types in ((0,), (1,), (3,), (2, 99))]


@case()
def client_metrics(wire: Wire) -> object:
    return plain(wire.ask("list_config_resources", 0))
