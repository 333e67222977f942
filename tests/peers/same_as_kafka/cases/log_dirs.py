"""DescribeLogDirs: the one folder, what lies in it, and the room that is left."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case, plain

_VERSIONS = range(1, 5)


@case()
def some_partitions(wire: Wire) -> object:
    topic = wire.new_topic(3)
    for number in range(3):
        wire.produce(topic, b"v", partition=number)
    asked = [{"topic": topic, "partitions": [2, 0]}]
    found = {}
    for version in _VERSIONS:
        answer = plain(
            wire.ask("describe_log_dirs", version, topics=asked), "log_dir", "total_bytes", "usable_bytes"
        )
        for result in answer["results"]:
            for one in result["topics"]:
                one["partitions"].sort(key=lambda partition: partition["partition_index"])
        found[version] = answer
    return found


@case()
def all_partitions(wire: Wire) -> object:
    topic = wire.new_topic(2)
    for number in range(2):
        wire.produce(topic, b"v", partition=number)
    (result,) = wire.ask("describe_log_dirs", 4, topics=None).results
    return [
        sorted((one.partition_index, one.offset_lag, one.is_future_key) for one in named.partitions)
        for named in result.topics
        if named.name == topic
    ]


@case()
def what_is_not_there_is_left_out(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    asked = [{"topic": topic, "partitions": [0, 7, -1]}, {"topic": wire.name(), "partitions": [0]}]
    some = wire.ask("describe_log_dirs", 4, topics=asked)
    none = wire.ask("describe_log_dirs", 4, topics=[])
    return [plain(one, "log_dir", "total_bytes", "usable_bytes") for one in (some, none)]


@case()
def named_twice(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    asked = [{"topic": topic, "partitions": [0, 0]}, {"topic": topic, "partitions": [0]}]
    return plain(wire.ask("describe_log_dirs", 4, topics=asked), "log_dir", "total_bytes", "usable_bytes")


@case()
def a_batch_makes_it_larger(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    asked = [{"topic": topic, "partitions": [0]}]

    def size_bytes() -> int:
        (result,) = wire.ask("describe_log_dirs", 4, topics=asked).results
        size = result.topics[0].partitions[0].partition_size
        assert isinstance(size, int)
        return size

    before = size_bytes()
    wire.produce(topic, b"x" * 1000)
    return {"before": before, "grown by": size_bytes() - before}


@case()
def room_on_the_disk(wire: Wire) -> object:
    (result,) = wire.ask("describe_log_dirs", 4, topics=[]).results
    return {
        "has some": 0 < result.usable_bytes < result.total_bytes,
        "absolute": result.log_dir.startswith("/"),
    }
