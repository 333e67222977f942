"""Settings: every source, its rank, and that nothing is silently ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.config import Address, ServerSettings, load_settings, setting_names, unknown_in
from semel.errors import ConfigError


def test_defaults() -> None:
    assert load_settings() == ServerSettings()
    assert ServerSettings().listen == Address("127.0.0.1", 9092)


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "semel.toml"
    file.write_text('num.partitions = 2\nlog_format = "json"\n[log.segment]\nbytes = 4096\n')
    environment = {"SEMEL_NUM_PARTITIONS": "3", "SEMEL_BOOTSTRAP": "ignored:1", "HOME": "/"}
    settings = load_settings(config_file=file, environment=environment)
    assert (settings.num_partitions, settings.log_format, settings.log_segment_bytes) == (3, "json", 4096)
    settings = load_settings(
        config_file=file,
        environment=environment,
        flags={"data_dir": "d", "listen": None},
        overrides=["num.partitions=4"],
    )
    assert (settings.num_partitions, settings.data_dir) == (4, Path("d"))


@pytest.mark.parametrize("name", ["log.segment.bytes", "log_segment_bytes", "LOG-SEGMENT-BYTES"])
def test_dots_dashes_and_underscores_are_one(name: str) -> None:
    assert load_settings(overrides=[f"{name}=2048"]).log_segment_bytes == 2048


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("log.segmet.bytes=1", "did you mean 'log.segment.bytes'"),
        ("zzz=1", "unknown setting 'zzz'"),
        ("num.partitions", "not name=value"),
        ("num.partitions=many", "not a whole number"),
        ("num.partitions=0", "not between 1 and"),
        ("auto.create.topics.enable=maybe", "neither true nor false"),
        ("durability=never", "none of fsync, page-cache"),
        ("listen=9093", "not HOST:PORT"),
        ("listeners=SSL://localhost:9093", "not HOST:PORT"),
        ("log.message.timestamp.type=Never", "none of createtime"),
        ("zookeeper.connect=localhost", "not HOST:PORT"),
        ("zookeeper.connect=one:2181,two", "'two' is not HOST:PORT"),
        ("zookeeper.connect=one:2181/", "does not end in a path"),
        ("zookeeper.connect=one:2181/a//b", "does not end in a path"),
        ("zookeeper.connect=one:2181/a/../b", "does not end in a path"),
    ],
)
def test_what_is_wrong_is_said(override: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_settings(overrides=[override])


@pytest.mark.parametrize("connect", ["one:2181", "[::1]:2181,two:2182", "one:2181,two:2182/some/cluster"])
def test_zookeepers_are_named_as_in_kafka(connect: str) -> None:
    assert load_settings(overrides=[f"zookeeper.connect={connect}"]).zookeeper_connect == connect


def test_a_broken_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.toml"):
        load_settings(config_file=tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        load_settings(config_file=tmp_path / "bad.toml")


def test_addresses() -> None:
    assert Address.parse("[::1]:80") == Address("::1", 80)
    assert str(Address("::1", 80)) == "[::1]:80"
    assert Address.parse_listen("localhost") == Address("localhost", 9092)
    assert Address.parse_listen("localhost:0") == Address("localhost", 0)
    with pytest.raises(ConfigError, match="'9093' is not HOST:PORT"):
        Address.parse_listen("9093")
    assert Address.parse_listen("[::1]") == Address("::1", 9092)
    assert Address.parse("PLAINTEXT://127.0.0.1:9092") == Address("127.0.0.1", 9092)


def test_only_the_commands_own_variables_are_left_to_them() -> None:
    environment = {"SEMEL_BOOTSTRAP": "b:1", "SEMEL_TEST_X": "1", "HOME": "/"}
    assert load_settings(environment=environment) == ServerSettings()
    assert unknown_in(environment) == []


@pytest.mark.parametrize(
    "name", ["SEMEL_CONFIGS", "SEMEL_NUM_PARTITION", "SEMEL_PORT", "SEMEL_", "SEMEL_LISTEN_PORT"]
)
def test_an_unknown_variable_is_warned_of_by_its_name(name: str) -> None:
    environment = {name: "9092", "SEMEL_NUM_PARTITIONS": "4"}
    assert load_settings(environment=environment) == ServerSettings(num_partitions=4)
    (warning,) = unknown_in(environment)
    assert f"environment variable {name}: unknown setting" in warning


def links(service: str) -> dict[str, str]:
    """What Kubernetes sets for a service, and what Docker adds for a linked container."""
    port = f"{service}_PORT_9092_TCP"
    return {
        f"{service}_SERVICE_HOST": "10.0.0.5",
        f"{service}_SERVICE_PORT": "9092",
        f"{service}_SERVICE_PORT_KAFKA": "9092",
        f"{service}_SERVICE_PORT_LOG_DIRS": "9092",
        f"{service}_PORT": "tcp://10.0.0.5:9092",
        port: "tcp://10.0.0.5:9092",
        f"{port}_PROTO": "tcp",
        f"{port}_PORT": "9092",
        f"{port}_ADDR": "10.0.0.5",
        f"{service}_PORT_8125_UDP": "udp://10.0.0.5:8125",
        f"{service}_PORT_9092_TCP_START": "tcp://10.0.0.5:9092",
        f"{service}_PORT_9092_TCP_PORT_END": "9093",
        f"{service}_ENV_PATH": "/bin",
    }


@pytest.mark.parametrize(
    "service", ["SEMEL", "SEMEL_METRICS", "SEMEL_LISTEN", "SEMEL_DATA_DIR", "SEMEL_BOOTSTRAP"]
)
def test_the_links_of_a_service_are_passed_over(service: str) -> None:
    assert load_settings(environment=links(service)) == ServerSettings()
    assert unknown_in(links(service)) == []


def test_no_setting_looks_like_a_link() -> None:
    for name in setting_names():
        environment = {f"SEMEL_{name.replace('.', '_').upper()}": "tcp://10.0.0.5:9092"}
        try:
            assert load_settings(environment=environment) != ServerSettings(), "it was heeded"
        except ConfigError as refused:
            assert name in str(refused)


def test_names_are_unique() -> None:
    assert len(set(setting_names())) == len(setting_names())
