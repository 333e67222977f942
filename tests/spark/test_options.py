"""Options: the connector's names, and no option ignored."""

from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.spark import options
from semel.spark.format import SemelDataSource
from semel.spark.offsets import EARLIEST, LATEST
from semel.spark.options import sink_options, source_options
from semel.types import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
READ = SERVERS | {"subscribe": "b, a"}
WRITE = SERVERS | {"topic": "t", "sinkId": "s"}


def test_defaults_of_a_stream_and_of_a_batch():
    stream, batch = source_options(READ, streaming=True), source_options(READ, streaming=False)
    assert stream.subscribe == ("a", "b")
    assert (stream.start.default, batch.start.default, batch.end.default) == (LATEST, EARLIEST, LATEST)
    assert stream.isolation == "read_committed"
    assert stream.fail_on_data_loss and not stream.include_headers


def test_keys_are_case_insensitive():
    assert source_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a", "MinPartitions": "3"}, streaming=True
    )


def test_timestamp_wins_over_timestamps_and_they_over_offsets():
    given = READ | {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"a": {"0": 6}}',
        "startingOffsets": "earliest",
    }
    assert source_options(given, streaming=True).start.timestamp_ms == 5
    del given["startingTimestamp"]
    assert source_options(given, streaming=True).start.timestamps_ms == {TopicPartition("a", 0): 6}
    del given["startingOffsetsByTimestamp"]
    assert source_options(given, streaming=True).start.default == EARLIEST


def test_sizes_delays_and_retries():
    options = source_options(
        READ
        | {
            "minOffsetsPerTrigger": "5",
            "maxTriggerDelay": "2m",
            "maxRecordsPerPartition": "7",
            "fetchOffset.numRetries": "0",
            "fetchOffset.retryIntervalMs": "20",
            "kafkaConsumer.pollTimeoutMs": "1000",
            "commitGroup": "g",
        },
        streaming=True,
    )
    assert (options.offsets_per_trigger_min, options.trigger_delay_ms_max) == (5, 120_000)
    assert (options.records_per_partition_max, options.poll_timeout_ms) == (7, 1000)
    assert (options.offset_retries, options.offset_retry_interval_ms, options.commit_group) == (0, 20, "g")
    assert source_options(READ, streaming=True).trigger_delay_ms_max == 15 * 60_000


def test_a_stream_can_start_at_a_sinks_decided_ends():
    assert source_options(READ | {"startingOffsets": "sink:s1"}, streaming=True).start.sink_id == "s1"


@pytest.mark.parametrize(
    "more, says",
    [
        ({"subscribePattern": "x"}, "exactly one"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "9 is above maxOffsetsPerTrigger=5"),
        ({"maxTriggerDelay": "soon"}, "a time such as 30s"),
        ({"fetchOffset.numRetries": "-1"}, "a number, or 0"),
        ({"kafka.someOption": "x"}, "option kafka.someOption is not supported"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.fetch.minimum": "1"}, "option kafka.fetch.minimum is not supported"),
        ({"kafka.partitioner.class": "x"}, "rows go by key"),
        ({"maxOffsetsPerTrigger": "0"}, "positive number"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"endingOffsets": "latest"}, "for batch queries"),
        ({"kafka.isolation.level": "dirty"}, "read_committed"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
    ],
)
def test_a_wrong_or_unsupported_source_option_is_an_error_that_says_so(more, says):
    with pytest.raises(ConfigError, match=says):
        source_options(READ | more, streaming=True)


SOURCES = {
    "kafka.max.poll.records": "500",
    "kafka.session.timeout.ms": "10000",
    "kafka.group.id": "g",
    "groupIdPrefix": "g",
    "kafka.fetch.min.bytes": "1",
}
SINKS = {"kafka.linger.ms": "5", "kafka.batch.size": "16384", "kafka.retries": "3"}


@pytest.mark.parametrize("name, value", (SOURCES | SINKS).items())
def test_what_changes_nothing_here_is_told_and_ignored(name, value, caplog):
    """Jobs that move over bring the settings of their clients, often one set for source and sink."""
    options._warn.cache_clear()
    assert source_options(READ | {name: value}, streaming=True) == source_options(READ, streaming=True)
    assert sink_options(WRITE | {name: value}, streaming=True) == sink_options(WRITE, streaming=True)
    [line] = caplog.messages  # once, though options are read for every micro-batch
    assert line.startswith(f"option {name} is ignored: ")


def test_a_client_setting_of_the_other_side_is_told_and_ignored(caplog):
    options._warn.cache_clear()
    assert source_options(READ | {"kafka.acks": "1"}, streaming=True)
    assert caplog.messages == ["option kafka.acks is ignored here: it is for sinks"]


def test_what_has_a_meaning_is_taken():
    given = READ | {"kafka.fetch.max.bytes": "1000000", "kafka.max.partition.fetch.bytes": "2000000"}
    assert source_options(given, streaming=True).partition_fetch_bytes_max == 1_000_000
    assert sink_options(WRITE | {"kafka.enable.idempotence": "true"}, streaming=True)
    with pytest.raises(ConfigError, match="an exactly-once sink needs it"):
        sink_options(WRITE | {"kafka.enable.idempotence": "false"}, streaming=True)


@pytest.mark.parametrize(
    "more, says",
    [
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "cannot be earliest"),
        ({"maxOffsetsPerTrigger": "5"}, "for streaming"),
        ({"commitGroup": "g"}, "for streaming"),
    ],
)
def test_a_batch_query_has_an_end_and_a_beginning(more, says):
    with pytest.raises(ConfigError, match=says):
        source_options(READ | more, streaming=False)


def test_bootstrap_servers_are_required():
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is required"):
        source_options({"subscribe": "a"}, streaming=True)


@pytest.mark.parametrize(
    "options, says",
    [
        (SERVERS | {"topic": "t"}, "sinkId is required"),
        (WRITE | {"sinkId": "a/b"}, "sinkId="),
        (WRITE | {"sinkId": "txn.a"}, "is for batch writes"),
        (WRITE | {"exactlyOnce": "transactional"}, "not supported yet"),
        (WRITE | {"kafka.acks": "1"}, "acks=all"),
        (WRITE | {"txnAppId": "a"}, "for batch writes"),
        (WRITE | {"txnAppId": "a", "txnVersion": "1"}, "for batch writes"),
        (WRITE | {"kafka.compression.type": "rar"}, "one of"),
    ],
)
def test_a_wrong_sink_option_is_an_error_that_says_so(options, says):
    with pytest.raises(ConfigError, match=says):
        sink_options(options, streaming=True)


@pytest.mark.parametrize(
    "more, says",
    [
        ({"txnAppId": "a"}, "give both"),
        ({"txnAppId": "a", "txnVersion": "x"}, "a number that rises"),
        ({"sinkId": "s"}, "for streaming sinks"),
        ({"subscribe": "t"}, "for sources"),
    ],
)
def test_a_wrong_option_of_a_batch_write(more, says):
    with pytest.raises(ConfigError, match=says):
        sink_options(SERVERS | {"topic": "t"} | more, streaming=False)


def test_a_batch_write_needs_no_sink_id():
    options = sink_options(SERVERS | {"topic": "t", "txnAppId": "a", "txnVersion": "7"}, streaming=False)
    assert (options.txn_app_id, options.txn_version) == ("a", 7)


SECURITY = {
    "kafka.ssl.truststore.location": "x",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "x",
}


@pytest.mark.parametrize(
    "refuse",
    [
        SemelDataSource,  # made by load(), save() and start()
        lambda given: source_options(given, streaming=True),
        lambda given: sink_options(given, streaming=False),
    ],
)
def test_all_options_of_tls_and_sasl_are_refused_together(refuse):
    with pytest.raises(ConfigError) as refused:
        refuse(READ | SECURITY)
    assert all(name in str(refused.value) for name in SECURITY)
    assert "semel speaks PLAINTEXT only so far" in str(refused.value)
    SemelDataSource({"KAFKA.security.protocol": "plaintext"})
