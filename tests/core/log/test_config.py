import pytest

from semel.core.log.config import FIXED, NAMES, BadConfig, LogConfig, describe_config, parse_config


def test_settings_have_kafkas_names() -> None:
    config = parse_config({"retention.ms": "1000", "message.timestamp.type": "LogAppendTime"}, LogConfig())
    assert config == LogConfig(retention_ms=1000, message_timestamp_type="LogAppendTime")
    assert set(describe_config(LogConfig())) == {*NAMES, *FIXED}


def test_what_is_shown_can_be_given_back() -> None:
    config = LogConfig(segment_bytes=2048)
    assert parse_config(dict(describe_config(config)), LogConfig()) == config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.mss", "1"),
        ("cleanup.policy", "compact"),
        ("segment.bytes", "12"),
        ("segment.bytes", "many"),
        ("message.timestamp.type", "Now"),
    ],
)
def test_what_is_not_done_is_refused(name: str, value: str) -> None:
    refused = parse_config({name: value}, LogConfig())
    assert isinstance(refused, BadConfig)
    assert refused.name == name
