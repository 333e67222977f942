"""Several requests in one send: each sees what those before it did. Each case is tried twenty times."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.peers.same_as_kafka import Wire, asking, case
from tests.peers.same_as_kafka.asking import EARLIEST, LATEST, Request

TIMES: Final = 20


def _seen(look: Callable[[], object]) -> object:
    """What was seen in each of the tries, or how often what, where they differ."""
    found = Counter(str(look()) for _ in range(TIMES))
    return next(iter(found)) if len(found) == 1 else dict(found)


def _at_all(is_seen: Callable[[], bool]) -> object:
    """For what Apache Kafka may show late, as its metadata travels; semel's own tests hold it to always."""
    return "seen" if any(is_seen() for _ in range(TIMES)) else "never seen"


def _together(wire: Wire, *requests: Request) -> list[Any]:
    wire.send_together(*requests)
    return [wire.receive() for _ in requests]


@case()
def delete_records_before_list_offsets(wire: Wire) -> object:
    topic, start = asking.topic_with_rows(wire, TIMES), 0

    def look() -> object:
        nonlocal start
        start += 1
        _, listed = _together(wire, asking.delete_records(topic, start), asking.list_offsets(topic, EARLIEST))
        return asking.offset(listed) - start

    return _seen(look)


@case()
def create_topics_before_metadata(wire: Wire) -> object:
    def knows() -> bool:
        topic = wire.name()
        _, told = _together(wire, asking.create(topic), asking.metadata(topic))
        return bool(told.topics[0].error_code.name == "none")

    return _at_all(knows)


@case()
def produce_before_list_offsets(wire: Wire) -> object:
    topic = asking.topic_with_rows(wire)

    def look() -> object:
        stored, listed = _together(
            wire, asking.produce(topic, b"a", b"b"), asking.list_offsets(topic, LATEST)
        )
        return asking.offset(listed) - stored.responses[0].partition_responses[0].base_offset

    return _seen(look)


@case()
def produce_with_acks_1_before_list_offsets(wire: Wire) -> object:
    topic = asking.topic_with_rows(wire)

    def look() -> object:
        stored, listed = _together(
            wire, asking.produce(topic, b"a", acks=1), asking.list_offsets(topic, LATEST)
        )
        return asking.offset(listed) - stored.responses[0].partition_responses[0].base_offset

    return _seen(look)


@case()
def produce_without_an_answer_before_list_offsets(wire: Wire) -> object:
    topic, ends = asking.topic_with_rows(wire), []
    for _ in range(TIMES):
        asking.send_unanswered(wire, asking.produce(topic, b"a", b"b", acks=0))
        wire.send(*(asked := asking.list_offsets(topic, LATEST))[:2], **asked[2])
        ends.append(asking.offset(wire.receive()))
    return ends


@case()
def what_is_good_of_a_request_without_an_answer_is_seen(wire: Wire) -> object:
    """A topic that there is not makes the server hang up; the rows for another one in front of it are stored."""
    topic, other = asking.topic_with_rows(wire), wire.another()
    api, version, fields = asking.produce(topic, b"row", acks=0)
    missing = {"name": wire.name("missing"), "partition_data": fields["topic_data"][0]["partition_data"]}
    both = fields | {"topic_data": [*fields["topic_data"], missing]}
    asking.send_unanswered(wire, (api, version, both))
    listed = asking.list_offsets(topic, LATEST)
    give_up_s = time.monotonic() + 3
    while (end := asking.offset(other.ask(*listed[:2], **listed[2]))) == 1 and time.monotonic() < give_up_s:
        time.sleep(0.05)
    wire.send(*listed[:2], **listed[2])
    try:
        wire.receive()
    except ConnectionError:
        return end, "hung up"
    return end, "goes on"


@case()
def an_answer_to_acks_1_counts_for_who_asks_elsewhere(wire: Wire) -> object:
    topic, other = asking.topic_with_rows(wire), wire.another()

    def look() -> object:
        base_offset = wire.produce(topic, b"a", acks=1).base_offset
        asked = asking.list_offsets(topic, LATEST)
        return asking.offset(other.ask(*asked[:2], **asked[2])) - base_offset

    return _seen(look)


@case()
def produce_before_fetch(wire: Wire) -> object:
    topic, end = asking.topic_with_rows(wire), 1

    def look() -> object:
        nonlocal end
        _, fetched = _together(wire, asking.produce(topic, b"row"), asking.fetch(topic, end))
        end += 1
        found = fetched.responses[0].partitions[0]
        return b"row" in bytes(found.records or b""), found.high_watermark - end

    return _seen(look)


@case()
def produces_before_and_behind_a_question(wire: Wire) -> object:
    topic, end = asking.topic_with_rows(wire), 1

    def look() -> object:
        nonlocal end
        answers = _together(
            wire,
            asking.produce(topic, b"a"),
            asking.produce(topic, b"b", b"c"),
            asking.list_offsets(topic, LATEST),
            asking.produce(topic, b"d"),
            asking.list_offsets(topic, LATEST),
        )
        began, end = end, end + 4
        return asking.offset(answers[2]) - began, asking.offset(answers[4]) - began

    return _seen(look)


@case()
def incremental_alter_configs_before_describe_configs(wire: Wire) -> object:
    topic, value = wire.new_topic(), 1000

    def is_told() -> bool:
        nonlocal value
        value += 1
        altered = asking.alter_config(topic, "retention.ms", str(value))
        _, told = _together(wire, altered, asking.describe_config(topic, "retention.ms"))
        return bool(told.results[0].configs[0].value == str(value))

    return _at_all(is_told)


@case()
def create_partitions_before_metadata(wire: Wire) -> object:
    topic, count = wire.new_topic(), 1

    def is_told() -> bool:
        nonlocal count
        count += 1
        _, told = _together(wire, asking.add_partitions(topic, count), asking.metadata(topic))
        return len(told.topics[0].partitions) == count

    return _at_all(is_told)


@case()
def delete_topics_before_metadata(wire: Wire) -> object:
    def is_gone() -> bool:
        topic = wire.new_topic()
        _, told = _together(wire, asking.delete(topic), asking.metadata(topic))
        return bool(told.topics[0].error_code.name == "unknown_topic_or_partition")

    return _at_all(is_gone)


@case()
def a_commit_before_its_fetch(wire: Wire) -> object:
    topic, group = asking.topic_with_rows(wire), wire.name("group")
    asked = {"key_type": 0, "coordinator_keys": [group]}
    while wire.ask("find_coordinator", 4, **asked).coordinators[0].error_code.name != "none":
        time.sleep(0.05)  # Apache Kafka makes the topic of the offsets
    committed = 0
    first = asking.commit(group, topic, committed)
    while wire.ask(*first[:2], **first[2]).topics[0].partitions[0].error_code.name != "none":
        time.sleep(0.05)

    def look() -> object:
        nonlocal committed
        committed += 1
        stored, told = _together(wire, asking.commit(group, topic, committed), asking.committed(group, topic))
        error = stored.topics[0].partitions[0].error_code.name
        return error, told.groups[0].topics[0].partitions[0].committed_offset - committed

    return _seen(look)


@case()
def init_producer_id_before_it_is_raised(wire: Wire) -> object:
    """The second of the same kind sees the epoch of the first."""
    name = wire.name("producer")
    asked = {"key_type": 1, "coordinator_keys": [name]}
    while wire.ask("find_coordinator", 4, **asked).coordinators[0].error_code.name != "none":
        time.sleep(0.05)
    fields = {
        "transactional_id": name,
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    while wire.ask("init_producer_id", 4, **fields).error_code.name != "none":
        time.sleep(0.05)

    def look() -> object:
        first, second = _together(wire, ("init_producer_id", 4, fields), ("init_producer_id", 4, fields))
        errors = first.error_code.name, second.error_code.name
        return *errors, second.producer_epoch - first.producer_epoch, second.producer_id == first.producer_id

    return _seen(look)


@case(
    because="Apache Kafka handles one request of a connection at a time, also while it is a fetch that waits",
    semel="rows of the produce request behind it",
    kafka="nothing",
)
def a_fetch_that_waits_before_a_produce(wire: Wire) -> object:
    topic = asking.topic_with_rows(wire)
    fetched, _ = _together(wire, asking.fetch(topic, 1, wait_ms=700), asking.produce(topic, b"row"))
    rows = bytes(fetched.responses[0].partitions[0].records or b"")
    return "rows of the produce request behind it" if b"row" in rows else "nothing"
