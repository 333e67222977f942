from __future__ import annotations

import pytest

from semel.config import ServerSettings, changed, setting_names
from semel.core.dynamic_config.broker import CHANGEABLE, COMPRESSION, KEPT, THROTTLES, log_config, wrong_with
from semel.core.dynamic_config.kafkas_read_only import KAFKAS_READ_ONLY
from semel.core.log.config import LogConfig
from semel.core.log.described import TOPIC_SETTINGS
from semel.errors import ErrorCode


def test_a_setting_is_of_one_kind() -> None:
    kinds = [set(KEPT), set(THROTTLES), set(KAFKAS_READ_ONLY), set(CHANGEABLE)]
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    assert set(setting_names()) >= CHANGEABLE - COMPRESSION
    assert not (set(KEPT) | KAFKAS_READ_ONLY) & set(setting_names())


@pytest.mark.parametrize("name", [*KEPT, *THROTTLES])
def test_a_kept_setting_takes_its_default(name: str) -> None:
    default = (KEPT.get(name) or THROTTLES[name]).default
    assert default is None or wrong_with(name, default, of_all_brokers=False) is None


def test_what_a_topic_falls_back_to_can_be_changed_or_is_kept() -> None:
    names = {one.server_name for one in TOPIC_SETTINGS.values()} - {None}
    assert names <= CHANGEABLE | set(KEPT)


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("log.retention.ms", "soon", ErrorCode.INVALID_REQUEST, "not a whole number"),
        ("max.connections", "0", ErrorCode.INVALID_REQUEST, "not between 1"),
        ("num.io.threads", "0", ErrorCode.INVALID_REQUEST, "not within 1"),
        ("min.insync.replicas", "2", ErrorCode.INVALID_REQUEST, "there is one broker"),
        ("max.connections.per.ip.overrides", "here", ErrorCode.INVALID_REQUEST, "host:connections"),
        ("group.max.size", "5", ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically"),
        ("log.dirs", "/", ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically"),
        ("broker.rack", "a", ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically"),
        ("sasl.jaas.config", "x", ErrorCode.INVALID_REQUEST, "would secure nothing"),
        ("listener.name.a.ssl.keystore.type", "PEM", ErrorCode.INVALID_REQUEST, "would secure nothing"),
        ("log.retention.millis", "5", ErrorCode.INVALID_CONFIG, "unknown or not supported"),
    ],
)
def test_a_refusal_says_why(name: str, text: str, code: ErrorCode, words: str) -> None:
    wrong = wrong_with(name, text, of_all_brokers=False)
    assert wrong is not None
    assert wrong.error_code is code
    assert name in wrong.reason
    assert words in wrong.reason


def test_what_was_changed_goes_before_what_was_started_with() -> None:
    dynamic = {"log.retention.ms": "5", "compression.type": "lz4", "flush": "7", "log.flush.interval.ms": "8"}
    started = LogConfig(segment_bytes=2048, retention_ms=7)
    assert log_config(dynamic, started) == LogConfig(
        segment_bytes=2048, retention_ms=5, compression_type="lz4"
    )
    assert changed(ServerSettings(num_partitions=3), dynamic) == ServerSettings(
        num_partitions=3, log_retention_ms=5
    )
