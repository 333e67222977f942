"""Every option of ``format("semel")`` with its default and meaning; docs/reference.md is made from it.

Names and meanings are those of Spark's Kafka connector where it has the option. Keys are case-insensitive.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import Final


class Side(Flag):
    """Where an option may be given."""

    STREAM_SOURCE = auto()
    BATCH_SOURCE = auto()
    STREAM_SINK = auto()
    BATCH_SINK = auto()
    SOURCE = STREAM_SOURCE | BATCH_SOURCE
    SINK = STREAM_SINK | BATCH_SINK
    BOTH = SOURCE | SINK


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the reference."""

    name: str
    side: Side
    default: str
    meaning: str


OPTIONS: Final = (
    Option("kafka.bootstrap.servers", Side.BOTH, "required", "`host:port`, several with commas between"),
    Option("kafka.client.id", Side.BOTH, "semel-spark", "the name that the server sees"),
    Option("kafka.request.timeout.ms", Side.BOTH, "30000", "how long one request may take"),
    # source: what
    Option("subscribe", Side.SOURCE, "one of the three", "topics, with commas between"),
    Option(
        "subscribePattern",
        Side.SOURCE,
        "one of the three",
        "a regular expression that whole names match; an internal topic only where it is its exact name",
    ),
    Option("assign", Side.SOURCE, "one of the three", 'partitions: `{"flights": [0, 1]}`'),
    # source: from where to where
    Option("startingTimestamp", Side.SOURCE, "none", "milliseconds; wins over the two below"),
    Option(
        "startingOffsetsByTimestamp", Side.SOURCE, "none", 'milliseconds: `{"flights": {"0": 1732204800000}}`'
    ),
    Option(
        "startingOffsets",
        Side.SOURCE,
        "latest; batch: earliest",
        '`earliest`, `latest`, `{"flights": {"0": 23, "1": -2}}` (-2 earliest, -1 latest), or '
        "`sink:<sinkId>`: where that sink has decided its sources",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        Side.SOURCE,
        "error",
        "when no record is at or after the timestamp: `error`, or `latest`",
    ),
    Option("endingTimestamp", Side.BATCH_SOURCE, "none", "milliseconds; wins over the two below"),
    Option("endingOffsetsByTimestamp", Side.BATCH_SOURCE, "none", "as startingOffsetsByTimestamp"),
    Option("endingOffsets", Side.BATCH_SOURCE, "latest", "`latest`, or offsets as in startingOffsets"),
    # source: how much at a time
    Option("maxOffsetsPerTrigger", Side.STREAM_SOURCE, "no limit", "at most so many offsets a micro-batch"),
    Option("minOffsetsPerTrigger", Side.STREAM_SOURCE, "none", "wait for so many; not with AvailableNow"),
    Option(
        "maxTriggerDelay", Side.STREAM_SOURCE, "15m", "but not longer than this: `500ms`, `30s`, `15m`, `1h`"
    ),
    Option("minPartitions", Side.SOURCE, "the topics' own", "at least so many Spark partitions"),
    Option("maxRecordsPerPartition", Side.SOURCE, "no limit", "at most so many offsets in a Spark partition"),
    # source: the rest
    Option("includeHeaders", Side.SOURCE, "false", "a column `headers` more"),
    Option(
        "failOnDataLoss",
        Side.SOURCE,
        "true",
        "stop when offsets are gone before they were read, naming them, or a topic was made anew, or a log lost its "
        "end with rows that were read; false: go on with what is left, or with the new topic from its beginning, or "
        "behind what was read",
    ),
    Option(
        "deadLetterTopic",
        Side.BOTH,
        "none: stop there",
        "source: go past batches that cannot be read, and keep their bytes in this topic, with headers that say where "
        "and why. Sink: rows that no log can take (no topic, or a name that is none; a partition that the topic has "
        "not; more than `kafka.max.request.size`) go there instead, decided with their micro-batch",
    ),
    Option(
        "kafka.isolation.level", Side.SOURCE, "read_committed", "or `read_uncommitted`: aborted rows as well"
    ),
    Option(
        "commitGroup",
        Side.STREAM_SOURCE,
        "none",
        "a consumer group whose offsets follow the query, for tools that show lag; never read back",
    ),
    Option(
        "kafka.max.partition.fetch.bytes", Side.SOURCE, "8388608", "of one fetch; a task holds two answers"
    ),
    Option(
        "kafka.fetch.max.bytes",
        Side.SOURCE,
        "none",
        "a bound of the same fetch, which asks for one partition: the smaller one counts",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs", Side.SOURCE, "120000", "how long a task waits for rows that are known"
    ),
    Option(
        "fetchOffset.numRetries", Side.SOURCE, "3", "further tries to learn offsets, after the client's own"
    ),
    Option("fetchOffset.retryIntervalMs", Side.SOURCE, "10", "between these tries"),
    # sink
    Option("topic", Side.SINK, "the column `topic`", "where all rows go; wins over the column"),
    Option("sinkId", Side.STREAM_SINK, "required", "the name that the log remembers the query's output by"),
    Option("exactlyOnce", Side.SINK, "sequenced", "the protocol; there is one so far"),
    Option("txnAppId", Side.BATCH_SINK, "none", "with txnVersion: names a batch write across reruns"),
    Option(
        "txnVersion",
        Side.BATCH_SINK,
        "none",
        "a rising number; at or below the last decided one: skipped if its rows are those, else an error",
    ),
    Option("kafka.compression.type", Side.SINK, "none", "`none`, `gzip`, `snappy`, `lz4` or `zstd`"),
    Option("kafka.max.request.size", Side.SINK, "1000000", "bytes of a batch of rows, before compression"),
    Option("kafka.acks", Side.SINK, "all", "nothing less is exactly once"),
    Option("kafka.enable.idempotence", Side.SINK, "true", "nothing less is exactly once"),
)

REFUSED: Final = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.key.deserializer": "keys are read as bytes",
    "kafka.value.deserializer": "values are read as bytes",
    "kafka.key.serializer": "keys are written as bytes",
    "kafka.value.serializer": "values are written as bytes",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets",
    "kafka.interceptor.classes": "there are no interceptors here",
    "kafka.partitioner.class": "rows go by key as with Kafka's own partitioner, or by the column partition",
    "kafka.transactional.id": "sinkId, or txnAppId, is the name that the log knows the writer by",
}

# Settings of Kafka's clients that jobs bring along and that change nothing here, by the reason; each without
# its "kafka.". They are told once and ignored. What changes which rows there are or where they go is never here.
_IGNORED_BY_REASON: Final = {
    "the source joins no group; commitGroup names one that is told how far the query is": """
        group.id group.instance.id group.protocol group.remote.assignor session.timeout.ms heartbeat.interval.ms
        max.poll.interval.ms partition.assignment.strategy auto.commit.interval.ms""",
    "a task reads its range as fast as rows come; maxOffsetsPerTrigger limits a micro-batch": """
        max.poll.records fetch.min.bytes fetch.max.wait.ms""",
    "a task sends what Spark hands to it as it comes, in batches of kafka.max.request.size": """
        linger.ms batch.size buffer.memory max.block.ms partitioner.adaptive.partitioning.enable
        partitioner.availability.timeout.ms""",
    "a request is sent again until its answer is known": """
        retries delivery.timeout.ms max.in.flight.requests.per.connection retry.backoff.ms retry.backoff.max.ms""",
    "there are no transactions here; the sink is exactly once without": """
        transaction.timeout.ms transaction.two.phase.commit.enable""",
    "the codecs' own levels are used": "compression.gzip.level compression.lz4.level compression.zstd.level",
    "checksums are always checked": "check.crcs",
    "connections are kept as semel's client keeps them": """
        send.buffer.bytes receive.buffer.bytes connections.max.idle.ms reconnect.backoff.ms
        reconnect.backoff.max.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
        default.api.timeout.ms client.dns.lookup client.rack metadata.max.age.ms metadata.max.idle.ms
        metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms allow.auto.create.topics""",
    "Spark's progress and the server's metrics are what there is": """
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        enable.metrics.push auto.include.jmx.reporter""",
}
IGNORED: Final = {
    f"kafka.{name}": reason for reason, names in _IGNORED_BY_REASON.items() for name in names.split()
} | {"groupIdPrefix": next(iter(_IGNORED_BY_REASON))}


def names_of(side: Side) -> dict[str, str]:
    """The options of ``side``: how each is written, by its lower-case name."""
    return {option.name.lower(): option.name for option in OPTIONS if option.side & side}
