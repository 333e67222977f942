"""The options of ``format("semel")``: the names of Spark's Kafka connector, and semel's own for the sink.

An option that is not known, or not supported yet, is an error that says so. Ignored are Spark's own, and with a
warning those of Kafka's clients that change nothing here. Keys are case-insensitive, as Spark's are.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from semel.core.log.names import topic_name_error
from semel.core.sink.refusal import NAMED_PREFIX
from semel.core.sink.routing import Routing
from semel.errors import ConfigError
from semel.spark.offsets import EARLIEST, LATEST, Offsets, parse_assignment, parse_offsets
from semel.spark.option_names import IGNORED, OPTIONS, REFUSED, Side, names_of
from semel.types import TopicPartition

_LOG: Final = logging.getLogger("semel.spark")
POLL_TIMEOUT_MS: Final = 120_000  # kafkaConsumer.pollTimeoutMs
TRIGGER_DELAY_MS_MAX: Final = 15 * 60_000
_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

Isolation = Literal["read_committed", "read_uncommitted"]

_SECURITY: Final = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
_PARTITION_FETCH_BYTES: Final = 8 * 2**20
_FETCH_BYTES_MAX: Final = 2**31 - 1
_SPARK_OWN: Final = frozenset({"checkpointlocation", "path", "queryname", "outputmode"})


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the log."""

    bootstrap: str
    client_id: str = "semel-spark"
    request_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Position:
    """A starting or ending position. Of the fields, the first that is set wins, as in the connector."""

    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None
    offsets: Offsets | None = None
    default: int = LATEST
    sink_id: str | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source reads."""

    connection: Connection
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: re.Pattern[str] | None = None
    assign: tuple[TopicPartition, ...] = ()
    start: Position = field(default_factory=Position)
    end: Position = field(default_factory=Position)
    no_timestamp_match_is_error: bool = True
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_ms_max: int = TRIGGER_DELAY_MS_MAX
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    isolation: Isolation = "read_committed"
    partition_fetch_bytes_max: int = _PARTITION_FETCH_BYTES
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    commit_group: str | None = None
    dead_letter_topic: str | None = None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink writes, and under which name."""

    connection: Connection
    topic: str | None  # None: the column's
    sink_id: str | None
    compression: str = "none"
    batch_bytes_max: int = 1_000_000
    txn_app_id: str | None = None
    txn_version: int | None = None
    dead_letter_topic: str | None = None
    routing: Routing | None = None  # the frame's, which is no option
    # Nor are these: texts of a flow's stage that say what its rows are made by, and what its states.
    plan: str = ""
    state_plan: str = ""
    resumed_epoch: int | None = None  # the sink's, of the FENCE behind which it was read where to begin


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parsed and checked; ``ConfigError`` names the option."""
    given = _known(options, Side.STREAM_SOURCE if streaming else Side.BATCH_SOURCE)
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(chosen) != 1:
        raise ConfigError(
            "exactly one of the options subscribe, subscribePattern and assign is needed"
            + (f", not {' and '.join(chosen)}" if chosen else "")
        )
    rows_min = _positive(given, "minOffsetsPerTrigger")
    rows_max = _positive(given, "maxOffsetsPerTrigger")
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        raise ConfigError(f"minOffsetsPerTrigger={rows_min} is above maxOffsetsPerTrigger={rows_max}")
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(
            f"option startingOffsetsByTimestampStrategy is 'error' or 'latest', not {strategy!r}"
        )
    start = _position(given, "starting", LATEST if streaming else EARLIEST)
    end = _position(given, "ending", LATEST)
    if not streaming and (
        (start.offsets is None and start.default == LATEST) or LATEST in (start.offsets or {}).values()
    ):
        raise ConfigError(
            "option startingOffsets cannot be latest (-1) in a batch query: there would be no row"
        )
    if end.default == EARLIEST or EARLIEST in (end.offsets or {}).values():
        raise ConfigError("option endingOffsets cannot be earliest (-2): there would be no row")
    return SourceOptions(
        connection=_connection(given),
        subscribe=_topics(given["subscribe"]) if "subscribe" in given else (),
        subscribe_pattern=_pattern(given["subscribepattern"]) if "subscribepattern" in given else None,
        assign=tuple(parse_assignment(given["assign"])) if "assign" in given else (),
        start=start,
        end=end,
        no_timestamp_match_is_error=strategy == "error",
        offsets_per_trigger_max=rows_max,
        offsets_per_trigger_min=rows_min,
        trigger_delay_ms_max=_duration_ms(given, "maxTriggerDelay", TRIGGER_DELAY_MS_MAX),
        partitions_min=_positive(given, "minPartitions"),
        records_per_partition_max=_positive(given, "maxRecordsPerPartition"),
        include_headers=_flag(given, "includeHeaders", default=False),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        isolation=_isolation(given),
        partition_fetch_bytes_max=min(
            _positive(given, "kafka.max.partition.fetch.bytes") or _PARTITION_FETCH_BYTES,
            _positive(given, "kafka.fetch.max.bytes") or _FETCH_BYTES_MAX,
        ),
        poll_timeout_ms=_positive(given, "kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        offset_retries=_count(given, "fetchOffset.numRetries", 3),
        offset_retry_interval_ms=_count(given, "fetchOffset.retryIntervalMs", 10),
        commit_group=given.get("commitgroup") or None,
        dead_letter_topic=given.get("deadlettertopic") or None,
    )


def sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Parsed and checked; ``ConfigError`` names the option."""
    given = _known(options, Side.STREAM_SINK if streaming else Side.BATCH_SINK)
    protocol = given.get("exactlyonce", "sequenced").lower()
    if protocol != "sequenced":
        raise ConfigError(
            f"option exactlyOnce={given['exactlyonce']} is not supported yet: there is 'sequenced' only"
        )
    acks = given.get("kafka.acks", "all")
    if acks not in ("all", "-1"):
        raise ConfigError(f"option kafka.acks={acks}: an exactly-once sink needs acks=all")
    if not _flag(given, "kafka.enable.idempotence", default=True):
        raise ConfigError("option kafka.enable.idempotence=false: an exactly-once sink needs it")
    sink_id = given.get("sinkid")
    if streaming and not sink_id:
        raise ConfigError(
            "option sinkId is required: the log remembers under this name what the query has written. Choose "
            "it once and keep it; a name made up from the checkpoint would be lost with it"
        )
    txn_app_id, version = given.get("txnappid"), given.get("txnversion")
    for option, name in (("sinkId", sink_id), ("txnAppId", txn_app_id)):
        if name is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", name):
            raise ConfigError(
                f"option {option}={name!r}: up to 200 letters, digits, dots, dashes and underscores"
            )
    if sink_id is not None and sink_id.startswith((NAMED_PREFIX, "write.")):
        raise ConfigError(f"option sinkId={sink_id!r}: what begins with txn. or write. is for batch writes")
    if (txn_app_id is None) != (version is None):
        raise ConfigError("the options txnAppId and txnVersion name a batch write together: give both")
    if version is not None and not version.isdigit():
        raise ConfigError(f"option txnVersion={version!r} has to be a number that rises")
    return SinkOptions(
        connection=_connection(given),
        topic=given.get("topic") or None,
        sink_id=sink_id,
        compression=_choice(given, "kafka.compression.type", ("none", "gzip", "snappy", "lz4", "zstd")),
        batch_bytes_max=_positive(given, "kafka.max.request.size") or 1_000_000,
        txn_app_id=txn_app_id,
        txn_version=None if version is None else int(version),
        dead_letter_topic=_dead_letter_topic(given),
    )


def _dead_letter_topic(given: Mapping[str, str]) -> str | None:
    """The sink's, of rows; a source's is of batches."""
    topic = given.get("deadlettertopic") or None
    reason = None if topic is None else topic_name_error(topic)
    if reason is not None:
        raise ConfigError(f"option deadLetterTopic: {reason}")
    if topic is not None and topic == given.get("topic"):
        raise ConfigError(
            f"option deadLetterTopic={topic}: rows go there already; a topic of its own is wanted"
        )
    return topic


def stage_sink_id(flow: str, stage: str) -> str:
    """The name that the log remembers a flow's stage by. With a slash, so that it is no user's ``sinkId``."""
    for what, name in (("flow", flow), ("stage", stage)):
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
            raise ConfigError(f"{what} {name!r}: up to 100 letters, digits, dots, dashes and underscores")
    if flow.startswith((NAMED_PREFIX, "write.")):
        raise ConfigError(f"flow {flow!r}: what begins with txn. or write. is for batch writes")
    return f"{flow}/{stage}"


def check_security(options: Mapping[str, str]) -> None:
    """Refuse all options of TLS and SASL together. Known before it is known whether they are a source's or a sink's."""
    asked = sorted(
        name
        for name, value in options.items()
        if name.lower().startswith(_SECURITY)
        and (name.lower(), value.strip().upper()) != ("kafka.security.protocol", "PLAINTEXT")
    )
    if asked:
        raise ConfigError(
            f"{'options' if len(asked) > 1 else 'option'} {', '.join(asked)}: TLS and SASL are not there yet, semel "
            f"speaks PLAINTEXT only so far. Leave them out, and name a listener of that protocol in "
            f"kafka.bootstrap.servers"
        )


def _known(options: Mapping[str, str], side: Side) -> dict[str, str]:
    check_security(options)
    given = {name.lower(): value for name, value in options.items()}
    known = names_of(side)
    refused = {name.lower(): (name, why) for name, why in REFUSED.items()}
    ignored = {name.lower(): (name, why) for name, why in IGNORED.items()}
    elsewhere = names_of(Side.BOTH)
    for name, written in zip(given, options, strict=True):  # Spark itself may have made it lower case
        if name in known or name in _SPARK_OWN:
            continue
        if name.startswith(_SECURITY):
            continue
        if name in refused:
            raise ConfigError("option {} is not supported: {}".format(*refused[name]))
        if name in ignored:
            _warn("option {} is ignored: {}".format(*ignored[name]))
        elif name in elsewhere and name.startswith("kafka."):
            _warn(f"option {elsewhere[name]} is ignored here: it is for {_users(name)}")
        elif name in elsewhere:
            raise ConfigError(f"option {elsewhere[name]} is for {_users(name)}")
        else:
            near = difflib.get_close_matches(name, sorted({*known, *ignored}), n=1)
            meant = known.get(near[0], near[0]) if near else ""
            raise ConfigError(
                f"option {written} is not supported" + (f"; did you mean {meant}?" if meant else "")
            )
    return given


@lru_cache(maxsize=256)
def _warn(text: str) -> None:
    """Once in a process: options are read for every micro-batch."""
    _LOG.warning(text)


def _users(name: str) -> str:
    side = next(option.side for option in OPTIONS if option.name.lower() == name)
    return {
        Side.STREAM_SOURCE: "streaming queries",
        Side.BATCH_SOURCE: "batch queries; a stream has no end",
        Side.STREAM_SINK: "streaming sinks",
        Side.BATCH_SINK: "batch writes; a stream has its sinkId",
        Side.SOURCE: "sources",
    }.get(side, "sinks")


def _connection(given: Mapping[str, str]) -> Connection:
    bootstrap = given.get("kafka.bootstrap.servers", "").strip()
    if not bootstrap:
        raise ConfigError("option kafka.bootstrap.servers is required")
    return Connection(
        bootstrap,
        given.get("kafka.client.id", "semel-spark"),
        _positive(given, "kafka.request.timeout.ms") or 30_000,
    )


def _position(given: Mapping[str, str], side: str, default: int) -> Position:
    timestamp = given.get(f"{side}timestamp")
    if timestamp is not None:
        if not timestamp.strip().isdigit():
            raise ConfigError(f"option {side}Timestamp={timestamp!r} has to be milliseconds since 1970")
        return Position(timestamp_ms=int(timestamp), default=default)
    by_timestamp = given.get(f"{side}offsetsbytimestamp")
    if by_timestamp is not None:
        return Position(
            timestamps_ms=parse_offsets(by_timestamp, f"{side}OffsetsByTimestamp", sentinels=()),
            default=default,
        )
    text = given.get(f"{side}offsets")
    if text is None:
        return Position(default=default)
    if text.strip().lower() in ("earliest", "latest"):
        return Position(default=EARLIEST if text.strip().lower() == "earliest" else LATEST)
    if side == "starting" and text.strip().startswith("sink:"):
        return Position(default=EARLIEST, sink_id=text.strip().removeprefix("sink:"))
    return Position(offsets=parse_offsets(text, f"{side}Offsets"), default=default)


def _isolation(given: Mapping[str, str]) -> Isolation:
    level = _choice(given, "kafka.isolation.level", ("read_committed", "read_uncommitted"))
    return "read_committed" if level == "read_committed" else "read_uncommitted"


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise ConfigError("option subscribe names no topic")
    return topics


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as bad:
        raise ConfigError(f"option subscribePattern={text!r}: {bad}") from None


def _positive(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise ConfigError(f"option {name}={text!r} has to be a positive number")
    return int(text)


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower(), str(default)).strip()
    if not text.isdigit():
        raise ConfigError(f"option {name}={text!r} has to be a number, or 0")
    return int(text)


def _duration_ms(given: Mapping[str, str], name: str, default_ms: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default_ms
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ConfigError(f"option {name}={text!r} has to be a time such as 30s, 15m or 500ms")
    return int(found[1]) * _UNITS_MS[found[2]]


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option {name}={text!r} has to be true or false")
    return text == "true"


def _choice(given: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = given.get(name, allowed[0]).strip().lower()
    if text not in allowed:
        raise ConfigError(f"option {name}={text!r} has to be one of {', '.join(allowed)}")
    return text
