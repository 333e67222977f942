"""Make the golden batches: the same rows, encoded by every client that semel has to get along with.

    .venv/bin/python tests/record/make_golden.py JARS [JAVA]

JARS is a folder with kafka-clients and its codecs (as under ``.cache/jars/kafka``, or from Maven:
``org.apache.kafka:kafka-clients:4.1.0``). aiokafka and kafka-python are asked for what their producers send;
librdkafka produces to its own mock cluster, which keeps batches as they came, and they are fetched raw.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
START_MS = 1_700_000_000_000

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

ROWS: list[Row] = [
    (START_MS, b"k1", b"v1", []),
    (START_MS + 5, None, b"", []),
    (START_MS - 3, b"", None, [("h", b"1"), ("h", None), ("ü", b"")]),
    *(
        (START_MS + 7 * n, b"key-%d" % n, b"value " * (n % 13), []) for n in range(140)
    ),  # two-byte deltas and lengths
]


def main() -> None:
    jars, java = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "java"
    GOLDEN.mkdir(exist_ok=True)
    every: dict[str, int] = {}  # which rows a batch holds: all, every third, or none
    batches = {**from_aiokafka(), **from_kafka_python(), **from_librdkafka()}
    hashes = []
    for line in run_java(java, jars, "make", [line_of(row) for row in ROWS]):
        kind, name, rest = line.split(" ")
        if kind == "batch":
            batches[name] = bytes.fromhex(rest)
        else:
            hashes.append([name, int(rest)])
    for name, batch in batches.items():
        (GOLDEN / f"{name}.bin").write_bytes(batch)
        every[name] = 0 if "marker" in name else 3 if "compacted" in name else 1
    index = {"rows": [line_of(row) for row in ROWS], "every": every}
    (GOLDEN / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    (GOLDEN / "murmur2.json").write_text(json.dumps(hashes) + "\n")
    print(f"{len(batches)} batches, {len(hashes)} hashes")


def run_java(java: str, jars: str, mode: str, lines: list[str]) -> list[str]:
    """The lines that ``GoldenBatches.java`` answers."""
    source = str(HERE / "GoldenBatches.java")
    command = [java, "-Xmx256m", "-cp", f"{jars}/*", source, mode]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()


def line_of(row: Row) -> str:
    """A row as ``GoldenBatches.java`` and ``index.json`` spell it."""
    timestamp_ms, key, value, headers = row

    def text(data: bytes | None) -> str:
        return "-" if data is None else data.hex()

    pairs = ",".join(f"{name.encode().hex()}:{text(data)}" for name, data in headers)
    return f"{timestamp_ms} {text(key)} {text(value)} {pairs}"


def from_aiokafka() -> dict[str, bytes]:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    batches = {}
    for codec, name in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=0,
            producer_id=4000,
            producer_epoch=2,
            base_sequence=17,
            batch_size=1 << 20,
        )
        for offset, row in enumerate(ROWS):
            builder.append(offset, row[0], row[1], row[2], row[3])
        batches[f"aiokafka-{name}"] = bytes(builder.build())
    return batches


def from_kafka_python() -> dict[str, bytes]:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    batches = {}
    for codec, name in enumerate(("none", "gzip")):  # its other codecs need packages that are not there
        builder = DefaultRecordBatchBuilder(2, codec, False, 4000, 2, 17, 1 << 20)
        for offset, row in enumerate(ROWS):
            builder.append(offset, row[0], row[1], row[2], row[3])
        batches[f"kafka-python-{name}"] = bytes(builder.build())
    return batches


def from_librdkafka() -> dict[str, bytes]:
    from confluent_kafka import Producer

    batches = {}
    for name in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "test.mock.num.brokers": 1,
                "enable.idempotence": True,
                "compression.type": name,
                "linger.ms": 500,
                "batch.num.messages": len(ROWS),
            }
        )
        for timestamp_ms, key, value, headers in ROWS:
            producer.produce("golden", value, key, 0, timestamp=timestamp_ms, headers=headers)
        producer.flush(10)
        broker = next(iter(producer.list_topics("golden", 10).brokers.values()))
        batches[f"librdkafka-{name}"] = fetch_first(broker.host, broker.port, "golden")
    return batches


def fetch_first(host: str, port: int, topic: str) -> bytes:
    """The first batch of partition 0, by Fetch v4."""
    name = topic.encode()
    body = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiib", -1, 1000, 1, 1 << 24, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, 1 << 24)
    with (
        socket.create_connection((host, port), timeout=10) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(size)
    (aborted,) = struct.unpack_from(">i", answer, 4 + 4 + 4 + 2 + len(name) + 4 + 4 + 2 + 8 + 8)
    at = 4 + 4 + 4 + 2 + len(name) + 4 + 4 + 2 + 8 + 8 + 4 + max(aborted, 0) * 16 + 4
    (batch_length,) = struct.unpack_from(">i", answer, at + 8)
    return answer[at : at + 12 + batch_length]


if __name__ == "__main__":
    main()
