"""A topic with a ``compression.type`` of its own: what is taken, what is refused, and what is read back."""

from __future__ import annotations

import itertools
import struct
import time
from typing import Any, Final

from tests.peers.same_as_kafka import Wire, case

from semel.record.batch import Record, assemble_batch, decode_records, encode_batch, scan_batches
from semel.record.compression import Compression
from semel.record.records import encode_payload

TYPES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
BEGAN_MS: Final = time.time_ns() // 1_000_000 - 3_600_000
ROWS: Final = [
    Record(0, BEGAN_MS + 5, b"a key", b"a value " * 20, (("name", b"value"), ("none", None))),
    Record(0, BEGAN_MS + 9, None, None),
    Record(0, BEGAN_MS + 7, b"", b"a value " * 30),
]


def new_topic(wire: Wire, **configs: str) -> str:
    """A topic that can be written to; Kafka's metadata is ahead of its partitions."""
    topic = wire.new_topic(**configs)
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    while True:
        answer = wire.ask("list_offsets", 6, replica_id=-1, isolation_level=0, topics=asked)
        if answer.topics[0].partitions[0].error_code.name == "none":
            return topic
        time.sleep(0.01)


def append(wire: Wire, topic: str, batch: bytes | bytearray) -> tuple[str, int]:
    """How that ended: the error and the base offset."""
    asked = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    found = wire.ask("produce", 9, acks=-1, timeout=10_000, topic_data=asked)
    answer = found.responses[0].partition_responses[0]
    return answer.error_code.name, answer.base_offset


def read(wire: Wire, topic: str) -> bytes:
    asked = [
        {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 24}]}
    ]
    answer = wire.ask(
        "fetch", 11, replica_id=-1, max_wait=0, min_bytes=1, max_bytes=1 << 24, isolation_level=0,
        session_id=0, session_epoch=-1, topics=asked, forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return bytes(answer.responses[0].partitions[0].records)


def stored(wire: Wire, topic: str) -> list[Any]:
    """Of each batch: its codec, what its header says beside sizes, and whether its records are ``ROWS``, repeated."""
    return [
        {
            "codec": header.compression.name,
            "offsets": (header.base_offset, header.last_offset_delta),
            "producer": (header.producer_id, header.producer_epoch, header.base_sequence),
            "times": (header.timestamp_type.name, header.max_timestamp - BEGAN_MS < 1000),
            "rows": [
                record.timestamp_ms - BEGAN_MS == row.timestamp_ms - BEGAN_MS or header.timestamp_type.name
                if (record.key, record.value, record.headers) == (row.key, row.value, row.headers)
                else record
                for record, row in zip(decode_records(batch), itertools.cycle(ROWS), strict=False)
            ],
        }
        for batch, header in scan_batches(read(wire, topic))
    ]


@case()
def from_each_codec_to_each(wire: Wire) -> object:
    found = {}
    for kind in TYPES:
        topic = new_topic(wire, compression_type=kind)
        answers = [append(wire, topic, encode_batch(ROWS, compression=codec)) for codec in Compression]
        found[kind] = answers, stored(wire, topic)
    return found


@case()
def what_has_the_codec_already_stays_as_it_is(wire: Wire) -> object:
    found = []
    for kind, codec in (("gzip", Compression.GZIP), ("zstd", Compression.ZSTD)):
        topic = new_topic(wire, compression_type=kind)
        for level in (1, 9):
            batch = encode_batch(ROWS * 30, compression=codec, compression_level=level)
            append(wire, topic, batch)
            found.append(read(wire, topic).endswith(bytes(batch[61:])))
    return found


@case()
def with_the_logs_own_time(wire: Wire) -> object:
    topic = new_topic(wire, compression_type="lz4", message_timestamp_type="LogAppendTime")
    for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
        append(wire, topic, encode_batch(ROWS, compression=codec))
    return stored(wire, topic)


@case()
def levels(wire: Wire) -> object:
    found = {}
    for codec, given in (
        ("gzip", ("-1", "1", "9", "0", "10", "-2", "x")),
        ("lz4", ("1", "9", "17", "0", "18")),
        ("zstd", ("-131072", "-5", "1", "22", "-131073", "23", "3.5")),
    ):
        for level in given:
            configs = [
                {"name": "compression.type", "value": codec},
                {"name": f"compression.{codec}.level", "value": level},
            ]
            topic = {
                "name": wire.name(), "num_partitions": 1, "replication_factor": 1, "assignments": [],
                "configs": configs,
            }  # fmt: skip
            answer = wire.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=True)
            found[codec, level] = answer.topics[0].error_code.name
    return found


@case()
def each_level_compresses(wire: Wire) -> object:
    found = []
    for codec, level in (("gzip", "9"), ("lz4", "1"), ("lz4", "17"), ("zstd", "-5"), ("zstd", "19")):
        topic = new_topic(wire, compression_type=codec, **{f"compression_{codec}_level": level})
        found.append((append(wire, topic, encode_batch(ROWS * 5)), stored(wire, topic)))
    return found


@case()
def names_of_types(wire: Wire) -> object:
    found = {}
    for kind in (*TYPES, "none", "GZIP", "rar", ""):
        topic = {
            "name": wire.name(), "num_partitions": 1, "replication_factor": 1, "assignments": [],
            "configs": [{"name": "compression.type", "value": kind}],
        }  # fmt: skip
        answer = wire.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=True)
        found[kind] = answer.topics[0].error_code.name
    return found


def _alter(wire: Wire, topic: str, operation: int, value: str | None) -> object:
    config = {"name": "compression.type", "config_operation": operation, "value": value}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    return answer.responses[0].error_code.name


def _described(wire: Wire, topic: str) -> object:
    names = ["compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"]
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": names}
    answer = wire.ask(
        "describe_configs", 4, resources=[resource], include_synonyms=False, include_documentation=False
    )
    return sorted(
        (one.name, one.value, one.read_only, one.config_source) for one in answer.results[0].configs
    )


@case()
def altered_and_described(wire: Wire) -> object:
    topic = new_topic(wire)
    found = [_described(wire, topic)]
    append(wire, topic, encode_batch(ROWS))
    for operation, value in ((0, "gzip"), (0, "none"), (0, "zstd"), (1, None)):
        found.append(_alter(wire, topic, operation, value))
        deadline_s = time.monotonic() + 5
        while time.monotonic() < deadline_s:  # Apache Kafka tells its logs later
            append(wire, topic, encode_batch(ROWS[:1]))
            time.sleep(0.1)
            expected = {"gzip": "GZIP", "none": "GZIP", "zstd": "ZSTD", None: "NONE"}[value]
            if stored(wire, topic)[-1]["codec"] == expected:
                break
        found.append(stored(wire, topic)[-1]["codec"])
        found.append(_described(wire, topic))
    return found


def _rotten() -> dict[str, bytearray]:
    """Batches whose CRC is right, and whose records are not what a producer makes."""
    payload = bytes(encode_payload(ROWS, BEGAN_MS))
    about: dict[str, Any] = {
        "record_count": 3, "last_offset_delta": 2, "base_timestamp": BEGAN_MS, "max_timestamp": BEGAN_MS + 9,
    }  # fmt: skip
    found = {}
    for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
        name = codec.name.lower()
        found[f"{name} bytes behind the records"] = assemble_batch(
            payload + b"xyz", compression=codec, **about
        )
        found[f"{name} a record too few"] = assemble_batch(
            bytes(encode_payload(ROWS[:2], BEGAN_MS)), compression=codec, **about
        )
        found[f"{name} rubbish"] = assemble_batch(b"\x77" * 200, compression=codec, **about)
        found[f"{name} zeros"] = assemble_batch(bytes(200), compression=codec, **about)
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        batch = assemble_batch(payload, **about)
        struct.pack_into(">h", batch, 21, codec)
        found[f"no {codec.name.lower()}"] = _with_crc(batch)
    found["gzip counts less than there is"] = assemble_batch(
        payload, compression=Compression.GZIP, **about | {"record_count": 2, "last_offset_delta": 1}
    )
    found["none counts less than there is"] = assemble_batch(
        payload, **about | {"record_count": 2, "last_offset_delta": 1}
    )
    return found


def _with_crc(batch: bytearray) -> bytearray:
    from crc32c import crc32c

    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


@case()
def rotten_records(wire: Wire) -> object:
    topic = new_topic(wire, compression_type="zstd")
    return {
        what: append(wire, topic, batch) for what, batch in _rotten().items() if not what.startswith("no ")
    }


@case(
    because="Apache Kafka trips over it; INVALID_RECORD says that the batch can never be stored, and no client retries",
    semel=[("invalid_record", -1)] * 4,
    kafka=[("unknown_server_error", -1)] * 4,
)
def what_cannot_be_decompressed(wire: Wire) -> object:
    topic, other = (new_topic(wire, compression_type=kind) for kind in ("zstd", "gzip"))
    return [
        append(wire, other if what == "no zstd" else topic, batch)
        for what, batch in _rotten().items()
        if what.startswith("no ")
    ]


@case()
def sizes(wire: Wire) -> object:
    """``max.message.bytes`` holds for what comes and for what is stored."""
    rows = [Record(0, BEGAN_MS, None, b"v" * 2_000)]
    small = new_topic(wire, compression_type="gzip", max_message_bytes="1000")
    large = new_topic(wire, compression_type="uncompressed", max_message_bytes="1000")
    return [
        append(wire, small, encode_batch(rows)),
        append(wire, small, encode_batch(rows, compression=Compression.ZSTD)),
        append(wire, large, encode_batch(rows, compression=Compression.ZSTD)),
        append(wire, large, encode_batch(ROWS[1:2], compression=Compression.ZSTD)),
    ]


@case()
def times_of_records(wire: Wire) -> object:
    """The records' own times count, whatever the header says of them."""
    topic = new_topic(wire, compression_type="gzip")
    tomorrow_ms = BEGAN_MS + 90_000_000
    found = []
    for time_ms, claimed_ms in (
        (tomorrow_ms, tomorrow_ms),
        (tomorrow_ms, BEGAN_MS),
        (BEGAN_MS + 3, BEGAN_MS + 1_000_000),
    ):
        payload = encode_payload([Record(0, time_ms, None, b"v")], BEGAN_MS)
        batch = assemble_batch(
            payload, record_count=1, last_offset_delta=0, base_timestamp=BEGAN_MS, max_timestamp=claimed_ms
        )
        found.append(append(wire, topic, batch))
    return found, [header.max_timestamp - BEGAN_MS for _, header in scan_batches(read(wire, topic))]


@case()
def duplicates_and_gaps(wire: Wire) -> object:
    topic = new_topic(wire, compression_type="zstd")
    given = None
    while given is None or given.error_code.name != "none":  # Kafka's coordinator is loading
        given = wire.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
    found = []
    for sequence, rows in ((0, 3), (3, 1), (0, 3), (9, 1), (4, 1), (3, 1), (4, 1)):
        batch = encode_batch(
            ROWS[:rows], producer_id=given.producer_id, producer_epoch=0, base_sequence=sequence
        )
        found.append(append(wire, topic, batch))
    seen = [(header.base_sequence, header.record_count) for _, header in scan_batches(read(wire, topic))]
    return found, seen


@case()
def pipelined(wire: Wire) -> object:
    """Produce after produce, of both kinds of topics: each partition has its batches in order."""
    topic, plain = new_topic(wire, compression_type="gzip"), new_topic(wire)
    requests: list[tuple[str, int, dict[str, Any]]] = []
    for n in range(20):
        values = [Record(0, BEGAN_MS, None, b"%d" % n * (5_000 if n % 4 == 0 else 1))]
        data = [{"index": 0, "records": bytes(encode_batch(values))}]
        asked = [{"name": plain if n % 5 == 4 else topic, "partition_data": data}]
        requests.append(("produce", 9, {"acks": -1, "timeout": 10_000, "topic_data": asked}))
    wire.send_together(*requests)
    answers = [wire.receive().responses[0].partition_responses[0] for _ in requests]
    return [(one.error_code.name, one.base_offset) for one in answers]
