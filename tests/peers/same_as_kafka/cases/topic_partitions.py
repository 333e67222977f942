"""DescribeTopicPartitions: pages of topics by name, each page with where the next one begins."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import ConnectionClosed, Wire, case, plain


def _ask(wire: Wire, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    asked = [{"name": name} for name in names]
    return wire.ask("describe_topic_partitions", 0, topics=asked, response_partition_limit=limit, cursor=at)


def _page(answer: Any) -> object:
    at = answer.next_cursor
    return {
        "topics": [
            (topic.error_code.name, topic.name, [one.partition_index for one in topic.partitions])
            for topic in answer.topics
        ],
        "next": None if at is None else (at.topic_name, at.partition_index),
    }


@case()
def one_topic(wire: Wire) -> object:
    answer = _ask(wire, [wire.new_topic(2)])
    given = all(topic.topic_id is not None for topic in answer.topics)
    return {"has an id": given, **plain(answer, "topic_id")}


@case()
def pages(wire: Wire) -> object:
    names = [wire.new_topic(count) for count in (3, 1, 2)]
    found, at = [], None
    while True:
        answer = _ask(wire, [*names[::-1], names[0]], 2, at)
        found.append(_page(answer))
        if answer.next_cursor is None:
            return found
        at = answer.next_cursor.topic_name, answer.next_cursor.partition_index


@case()
def limits_of_no_sense(wire: Wire) -> object:
    topic = wire.new_topic(3)
    return [_page(_ask(wire, [topic], limit)) for limit in (0, -5, 1, 3, 10**9)]


@case()
def topics_that_are_not_there(wire: Wire) -> object:
    topic = wire.new_topic()
    answer = _ask(wire, [wire.name(), topic, "not a/name"])
    return plain(answer, "topic_id")


@case()
def all_topics(wire: Wire) -> object:
    topic = wire.new_topic()
    answer = _ask(wire, [])
    names = [one.name for one in answer.topics]
    return {"there": topic in names, "in order": names == sorted(names)}


@case()
def all_topics_from_a_cursor(wire: Wire) -> object:
    topics = [wire.new_topic(), wire.new_topic(3)]
    answer = _ask(wire, [], cursor=(topics[1], 1))
    mine = [one for one in answer.topics if one.name in topics]
    return [(one.name, [partition.partition_index for partition in one.partitions]) for one in mine]


@case()
def a_cursor_at_a_topic_that_is_gone(wire: Wire) -> object:
    gone = wire.name()
    after = wire.new_topic(2)
    some = _page(_ask(wire, [gone, after], cursor=(gone, 1)))
    every = [one.name for one in _ask(wire, [], cursor=(gone, 1)).topics if one.name in (gone, after)]
    return {"named": some, "all": every}


def _or_closed(wire: Wire, names: list[str], cursor: tuple[str, int]) -> object:
    try:
        return plain(_ask(wire, names, cursor=cursor), "topic_id")
    except ConnectionClosed as closed:
        return str(closed)


@case()
def a_cursor_at_a_topic_that_is_not_asked_for(wire: Wire) -> object:
    return _or_closed(wire, [wire.new_topic()], ("zzz", 0))


@case()
def a_cursor_at_no_partition(wire: Wire) -> object:
    topic = wire.new_topic(2)
    return [_or_closed(wire.another(), [topic], (topic, number)) for number in (-1, 2, 9)]
