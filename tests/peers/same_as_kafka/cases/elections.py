"""ElectLeaders with one broker: every partition is led by it, and by nobody else."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain


def _ask(wire: Wire, version: int, asked: Any, election_type: int = 0) -> Any:
    values = {} if version == 0 else {"election_type": election_type}
    return wire.ask("elect_leaders", version, topic_partitions=asked, timeout=10_000, **values)


@case()
def preferred(wire: Wire) -> object:
    asked = [{"topic": wire.new_topic(2), "partitions": [0, 1]}]
    return {version: plain(_ask(wire, version, asked), "error_message") for version in (0, 1, 2)}


@case()
def unclean(wire: Wire) -> object:
    asked = [{"topic": wire.new_topic(), "partitions": [0]}]
    return {version: plain(_ask(wire, version, asked, 1), "error_message") for version in (1, 2)}


@case()
def partitions_that_are_not_there(wire: Wire) -> object:
    asked = [
        {"topic": wire.new_topic(), "partitions": [3]},
        {"topic": wire.name(), "partitions": [0]},
        {"topic": "", "partitions": [0]},
    ]
    return plain(_ask(wire, 2, asked), "error_message")


@case()
def all_partitions(wire: Wire) -> object:
    topic = wire.new_topic()
    found = []
    for election_type in (0, 1):
        answer = _ask(wire, 2, None, election_type)
        results = answer.replica_election_results
        others = any(one.partition_result for one in results)
        found.append((answer.error_code.name, others, [plain(one) for one in results if one.topic == topic]))
    return found


@case()
def none_and_twice(wire: Wire) -> object:
    topic = wire.new_topic(2)
    twice = [{"topic": topic, "partitions": [1, 0, 1]}, {"topic": topic, "partitions": [1]}]
    return [plain(_ask(wire, 2, asked), "error_message") for asked in ([], twice)]


@case()
def an_election_that_there_is_not(wire: Wire) -> object:
    asked = [{"topic": wire.new_topic(), "partitions": [0]}]
    return plain(_ask(wire, 2, asked, 7), "error_message")
