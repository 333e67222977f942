import pytest

from semel.core.log.config import FIXED, NAMES, BadConfig, LogConfig, describe_config, parse_config
from semel.core.log.kept import KEPT
from semel.record.compression import Compression


def test_settings_have_kafkas_names() -> None:
    config = parse_config({"retention.ms": "1000", "message.timestamp.type": "LogAppendTime"}, LogConfig())
    assert config == LogConfig(retention_ms=1000, message_timestamp_type="LogAppendTime")
    assert set(describe_config(LogConfig(), {})) == {*NAMES, *FIXED, *KEPT}


def test_what_is_shown_can_be_given_back() -> None:
    config = LogConfig(segment_bytes=2048)
    assert parse_config(dict(describe_config(config, {})), LogConfig()) == config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.mss", "1"),
        ("cleanup.policy", "compacted"),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", ""),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "half"),
        ("max.compaction.lag.ms", "0"),
        ("flush.messages", "0"),
        ("flush.ms", "-1"),
        ("preallocate", "maybe"),
        ("segment.index.bytes", "3"),
        ("local.retention.ms", "-3"),
        ("leader.replication.throttled.replicas", "all"),
        ("remote.storage.enable", "true"),
        ("segment.bytes", "12"),
        ("segment.bytes", "many"),
        ("message.timestamp.type", "Now"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
    ],
)
def test_what_is_not_done_is_refused(name: str, value: str) -> None:
    refused = parse_config({name: value}, LogConfig())
    assert isinstance(refused, BadConfig)
    assert refused.name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush.ms", "0"),
        ("segment.jitter.ms", "100"),
        ("preallocate", "TRUE"),
        ("leader.replication.throttled.replicas", "0:1,2:1"),
        ("follower.replication.throttled.replicas", "*"),
    ],
)
def test_what_changes_nothing_here_is_kept_and_told(name: str, value: str) -> None:
    assert parse_config({name: value}, LogConfig()) == LogConfig()
    assert describe_config(LogConfig(), {name: value})[name] == value
    assert describe_config(LogConfig(), {})[name] == KEPT[name].default


@pytest.mark.parametrize(
    ("policy", "is_compacted", "is_deleted"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ("delete, compact", True, True),
    ],
)
def test_what_becomes_of_old_records(policy: str, is_compacted: bool, is_deleted: bool) -> None:
    config = parse_config({"cleanup.policy": policy}, LogConfig())
    assert isinstance(config, LogConfig)
    assert (config.is_compacted, config.is_deleted) == (is_compacted, is_deleted)


def test_the_smallest_lag_is_not_more_than_the_largest() -> None:
    lags = {"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"}
    refused = parse_config(lags, LogConfig())
    assert isinstance(refused, BadConfig)
    assert refused.name == "min.compaction.lag.ms"
    assert isinstance(parse_config(lags | {"max.compaction.lag.ms": "11"}, LogConfig()), LogConfig)


def test_a_segment_that_is_to_be_compacted_is_full_in_time() -> None:
    lag = LogConfig(segment_ms=100, max_compaction_lag_ms=10)
    assert (lag.roll_ms, LogConfig(segment_ms=100).roll_ms) == (100, 100)
    assert LogConfig(segment_ms=100, max_compaction_lag_ms=10, cleanup_policy="compact").roll_ms == 10


@pytest.mark.parametrize(
    ("settings", "compression", "level"),
    [
        ({}, None, None),
        ({"compression.type": "producer", "compression.zstd.level": "7"}, None, None),
        ({"compression.type": "uncompressed"}, Compression.NONE, None),
        ({"compression.type": "gzip"}, Compression.GZIP, -1),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Compression.GZIP, 9),
        ({"compression.type": "snappy"}, Compression.SNAPPY, None),
        ({"compression.type": "lz4"}, Compression.LZ4, None),
        ({"compression.type": "lz4", "compression.lz4.level": "12"}, Compression.LZ4, 12),
        ({"compression.type": "zstd", "compression.zstd.level": "-131072"}, Compression.ZSTD, -131_072),
    ],
)
def test_how_batches_are_compressed(
    settings: dict[str, str], compression: Compression | None, level: int | None
) -> None:
    config = parse_config(settings, LogConfig())
    assert isinstance(config, LogConfig)
    assert (config.compression, config.compression_level) == (compression, level)
