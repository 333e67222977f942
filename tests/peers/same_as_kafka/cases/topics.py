"""CreateTopics, CreatePartitions, DeleteTopics: the fields that seldom matter, and what is asked wrongly."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.wire import NODE_ID


def _topic(name: str, count: int = 1, factor: int = 1, **given: Any) -> dict[str, Any]:
    asked = {"num_partitions": count, "replication_factor": factor, "assignments": [], "configs": []}
    return {"name": name, **asked, **given}


def _create(
    wire: Wire, *topics: dict[str, Any], timeout: int = 10_000, validate_only: bool = False
) -> object:
    answer = wire.ask(
        "create_topics", 7, topics=list(topics), timeout=timeout, validate_only=validate_only
    ).topics
    return [(one.error_code.name, one.num_partitions, one.replication_factor) for one in answer]


def _on(*brokers: list[int]) -> dict[str, Any]:
    placed = [{"partition_index": number, "broker_ids": ids} for number, ids in enumerate(brokers)]
    return {"count": -1, "factor": -1, "assignments": placed}


@case()
def placed_by_hand(wire: Wire) -> object:
    wanted = ([[NODE_ID], [NODE_ID]], [[9]], [[NODE_ID, 9]], [[NODE_ID, NODE_ID]], [[]], [[NODE_ID], [9]])
    return [_create(wire, _topic(wire.name(), **_on(*brokers))) for brokers in wanted]


@case()
def placed_by_hand_with_gaps(wire: Wire) -> object:
    found = []
    for numbers in ([1], [0, 0], [0, 2], [-1]):
        placed = [{"partition_index": number, "broker_ids": [NODE_ID]} for number in numbers]
        found.append(_create(wire, _topic(wire.name(), -1, -1, assignments=placed)))
    return found


@case()
def placed_and_counted(wire: Wire) -> object:
    placed = [{"partition_index": 0, "broker_ids": [NODE_ID]}]
    counts = ((1, -1), (-1, 1), (1, 1))
    return [_create(wire, _topic(wire.name(), count, factor, assignments=placed)) for count, factor in counts]


@case()
def counts_of_no_sense(wire: Wire) -> object:
    return [
        _create(wire, _topic(wire.name(), count, factor))
        for count, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (-1, -1))
    ]


@case()
def names_of_no_sense(wire: Wire) -> object:
    return [_create(wire, _topic(name)) for name in ("", ".", "..", "a b", "x" * 250, "x/y")]


@case()
def one_name_twice(wire: Wire) -> object:
    name = wire.name()
    return sorted(set(_create(wire, _topic(name), _topic(name))))  # type: ignore[call-overload]


@case()
def configs_of_no_sense(wire: Wire) -> object:
    wanted = (
        [("retention.ms", None)],
        [("retention.ms", "1"), ("retention.ms", "2")],
        [("no.such", "1")],
        [("retention.ms", "soon")],
    )
    return [
        _create(
            wire, _topic(wire.name(), configs=[{"name": name, "value": value} for name, value in configs])
        )
        for configs in wanted
    ]


@case()
def a_topic_that_is_there(wire: Wire) -> object:
    name = wire.new_topic()
    return _create(wire, _topic(name)), _create(wire, _topic(name), validate_only=True)


@case()
def only_looked_at(wire: Wire) -> object:
    name = wire.name()
    return [_create(wire, _topic(name, 3), validate_only=True) for _ in range(2)]


@case()
def the_answers_configs(wire: Wire) -> object:
    topic = _topic(wire.name(), configs=[{"name": "retention.ms", "value": "1000"}])
    answer = wire.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False).topics[0]
    wanted = ("retention.ms", "segment.bytes", "message.timestamp.type")
    return {one.name: plain(one) for one in answer.configs if one.name in wanted}


def _grow(
    wire: Wire, name: str, count: int, assignments: list[list[int]] | None, *, validate_only: bool = False
) -> object:
    placed = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
    asked = {"name": name, "count": count, "assignments": placed}
    answer = wire.ask("create_partitions", 3, topics=[asked], timeout=10_000, validate_only=validate_only)
    return plain(answer.results[0], "error_message")


@case()
def more_partitions_placed_by_hand(wire: Wire) -> object:
    wanted = (
        [[NODE_ID], [NODE_ID]],
        [[NODE_ID]],
        [[NODE_ID]] * 3,
        [[NODE_ID], [9]],
        [[NODE_ID], []],
        [[NODE_ID], [NODE_ID, NODE_ID]],
        [[NODE_ID], [NODE_ID, 9]],
        [],
    )
    return [_grow(wire, wire.new_topic(), 3, placed, validate_only=True) for placed in wanted]


@case()
def more_partitions_of_no_sense(wire: Wire) -> object:
    topic = wire.new_topic(2)
    return [_grow(wire, topic, count, None) for count in (2, 1, 0, -1)] + [
        _grow(wire, wire.name(), 3, None),
        _grow(wire, "a b", 3, None),
    ]


@case()
def more_partitions_of_one_topic_twice(wire: Wire) -> object:
    topic = wire.new_topic()
    asked = [{"name": topic, "count": count, "assignments": None} for count in (2, 3)]
    answer = wire.ask("create_partitions", 3, topics=asked, timeout=10_000, validate_only=False)
    return plain(answer, "error_message")


@case()
def deleted_by_name_and_by_id(wire: Wire) -> object:
    topics = [wire.new_topic(), wire.new_topic()]
    asked = [{"name": topics[0], "topic_id": None}, {"name": None, "topic_id": wire.topic_id(topics[1])}]
    answer = wire.ask("delete_topics", 6, topics=asked, timeout=10_000)
    return sorted((one.name, one.error_code.name) for one in answer.responses)


@case()
def deleted_in_versions_without_ids(wire: Wire) -> object:
    found = []
    for version in (1, 3, 5):
        asked = [wire.new_topic(), wire.name()]
        answer = wire.ask("delete_topics", version, topic_names=asked, timeout=10_000)
        found.append(sorted((one.name, one.error_code.name) for one in answer.responses))
    return found


@case()
def deleted_that_is_not_there(wire: Wire) -> object:
    asked = [{"name": wire.name(), "topic_id": None}]
    return plain(wire.ask("delete_topics", 6, topics=asked, timeout=10_000), "error_message")


@case()
def deleted_twice_in_one(wire: Wire) -> object:
    asked = [{"name": wire.new_topic(), "topic_id": None}] * 2
    answer = wire.ask("delete_topics", 6, topics=asked, timeout=10_000)
    return sorted({(one.name, one.error_code.name) for one in answer.responses})


@case()
def deleted_under_name_and_id(wire: Wire) -> object:
    topic = wire.new_topic()
    asked = [{"name": topic, "topic_id": wire.topic_id(topic)}]
    answer = wire.ask("delete_topics", 6, topics=asked, timeout=10_000)
    return [one.error_code.name for one in answer.responses]
