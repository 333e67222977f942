"""What DescribeConfigs tells of a topic's settings besides their values: type, default's origin, meaning.

The types are Kafka's (``ConfigDef.Type`` as ``TopicConfig`` and ``LogConfig`` use it): tools choose by them how a
value is shown, and which settings may be appended to.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class ConfigType(IntEnum):
    """``DescribeConfigsResponse.ConfigType``."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Described(NamedTuple):
    """One setting of a topic; ``server_name`` is the server's setting that it falls back to, if there is one."""

    config_type: ConfigType
    server_name: str | None
    meaning: str


TOPIC_SETTINGS: Final = {
    "cleanup.policy": Described(
        ConfigType.LIST,
        "log.cleanup.policy",
        "what becomes of old records: delete (by age and size), compact (the newest of each key stays), or both",
    ),
    "compression.gzip.level": Described(
        ConfigType.INT, "compression.gzip.level", "how hard gzip tries, 1 to 9; -1: as zlib does by itself"
    ),
    "compression.lz4.level": Described(
        ConfigType.INT, "compression.lz4.level", "how hard lz4 tries, 1 to 17; 9: its fast compressor"
    ),
    "compression.zstd.level": Described(
        ConfigType.INT, "compression.zstd.level", "how hard zstd tries, -131072 to 22"
    ),
    "compression.type": Described(
        ConfigType.STRING, "compression.type", "how the log compresses; producer: as the producer did"
    ),
    "delete.retention.ms": Described(
        ConfigType.LONG,
        "log.cleaner.delete.retention.ms",
        "how long compaction keeps a tombstone, from when it first came by it",
    ),
    "index.interval.bytes": Described(
        ConfigType.INT, "log.index.interval.bytes", "bytes of log between two entries of the offset index"
    ),
    "max.compaction.lag.ms": Described(
        ConfigType.LONG,
        "log.cleaner.max.compaction.lag.ms",
        "age at which a record is compacted, however little there is to compact",
    ),
    "max.message.bytes": Described(
        ConfigType.INT, "message.max.bytes", "largest record batch, headers included"
    ),
    "message.format.version": Described(
        ConfigType.STRING, None, "taken for old clients' sake; there is one format"
    ),
    "message.timestamp.after.max.ms": Described(
        ConfigType.LONG,
        "log.message.timestamp.after.max.ms",
        "how far a record's timestamp may lie in the future",
    ),
    "message.timestamp.before.max.ms": Described(
        ConfigType.LONG,
        "log.message.timestamp.before.max.ms",
        "how old a record may be; with a bound each record is looked at",
    ),
    "message.timestamp.type": Described(
        ConfigType.STRING,
        "log.message.timestamp.type",
        "whose clock stamps a record: the producer's (CreateTime) or the server's (LogAppendTime)",
    ),
    "min.cleanable.dirty.ratio": Described(
        ConfigType.DOUBLE,
        "log.cleaner.min.cleanable.ratio",
        "part of the log that must not have been compacted yet, so that it is",
    ),
    "min.compaction.lag.ms": Described(
        ConfigType.LONG, "log.cleaner.min.compaction.lag.ms", "age below which no record is compacted"
    ),
    "min.insync.replicas": Described(
        ConfigType.INT, "min.insync.replicas", "replicas that must have a batch of acks=all; there is one"
    ),
    "retention.bytes": Described(
        ConfigType.LONG, "log.retention.bytes", "size a partition is kept below; -1: no bound"
    ),
    "retention.ms": Described(ConfigType.LONG, "log.retention.ms", "age at which data goes; -1: never"),
    "segment.bytes": Described(ConfigType.INT, "log.segment.bytes", "size at which a segment file is rolled"),
    "segment.ms": Described(ConfigType.LONG, "log.roll.ms", "age at which a segment file is rolled"),
    "unclean.leader.election.enable": Described(
        ConfigType.BOOLEAN,
        "unclean.leader.election.enable",
        "whether a replica that is behind may lead: kept, and there is none",
    ),
    "file.delete.delay.ms": Described(
        ConfigType.LONG,
        "log.segment.delete.delay.ms",
        "wait before a file is deleted: kept; a file goes once nobody reads it any more",
    ),
    "flush.messages": Described(
        ConfigType.LONG,
        "log.flush.interval.messages",
        "records after which the log is synced: kept; `durability` says when it is",
    ),
    "flush.ms": Described(
        ConfigType.LONG,
        "log.flush.interval.ms",
        "time after which the log is synced: kept; `durability` says when it is",
    ),
    "follower.replication.throttled.replicas": Described(
        ConfigType.LIST, None, "replicas that are slowed as followers: kept, and there are none"
    ),
    "leader.replication.throttled.replicas": Described(
        ConfigType.LIST, None, "replicas that are slowed as leaders: kept, and nothing follows them"
    ),
    "local.retention.bytes": Described(
        ConfigType.LONG,
        "log.local.retention.bytes",
        "size kept here of what is elsewhere too: kept; everything is here",
    ),
    "local.retention.ms": Described(
        ConfigType.LONG,
        "log.local.retention.ms",
        "age kept here of what is elsewhere too: kept; everything is here",
    ),
    "preallocate": Described(
        ConfigType.BOOLEAN,
        "log.preallocate",
        "whether a segment's file has its size from the start: kept; it grows",
    ),
    "remote.log.copy.disable": Described(
        ConfigType.BOOLEAN, None, "whether nothing more is copied elsewhere: kept; nothing ever is"
    ),
    "remote.log.delete.on.disable": Described(
        ConfigType.BOOLEAN, None, "whether what is elsewhere goes with that: kept; nothing is there"
    ),
    "remote.storage.enable": Described(
        ConfigType.BOOLEAN, None, "whether segments are kept elsewhere: only false; there is no such storage"
    ),
    "segment.index.bytes": Described(
        ConfigType.INT,
        "log.index.size.max.bytes",
        "size of a segment's index: kept; it has the size that it needs",
    ),
    "segment.jitter.ms": Described(
        ConfigType.LONG,
        "log.roll.jitter.ms",
        "spread of the times at which segments are rolled: kept; there is none",
    ),
}
