"""What a transactional client does, job by job: ``python -m bench.transaction_load BOOTSTRAP`` (:mod:`bench.worker`).

librdkafka by confluent-kafka, the same for both servers: it registers partitions beforehand (KIP-98). And the bare
protocol of KIP-890, whose producers register nothing, so that no client's own time is measured.
"""

from __future__ import annotations

import socket
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, Producer

from bench import worker
from semel.client.blocking import Cluster
from semel.errors import ErrorCode
from semel.record.batch import Record, encode_batch
from semel.types import ProducerGrant, TopicPartition
from semel.wire import fetch, messages, produce
from semel.wire.api import ApiKey
from semel.wire.frames import INT32, Buffer, decode_response_header, encode_request_header

PATIENCE_S: Final = 60.0
ROW: Final = bytes(100)
_FETCH_VERSION: Final = 11
_PRODUCE_VERSION: Final = 12  # registers its partition
_END_VERSION: Final = 5
_READ_COMMITTED: Final = 1


def _producer(bootstrap: str, transactional_id: str) -> Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "linger.ms": 0,
        "log_level": 3,
    }
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    return producer


def one_row_each(bootstrap: str, topic: str, transactions: int) -> float:
    """The median of begin, one row, commit, in ms."""
    producer = _producer(bootstrap, f"{topic}-rows")
    took_ms = []
    for _ in range(transactions):
        started_s = time.perf_counter()
        producer.begin_transaction()
        producer.produce(topic, ROW, partition=0)
        producer.commit_transaction(PATIENCE_S)
        took_ms.append(1000 * (time.perf_counter() - started_s))
    return statistics.median(took_ms)


def fill(bootstrap: str, topic: str, rows: int) -> float:
    """Rows for others to read."""
    settings = {"linger.ms": 50, "batch.size": 16_384, "queue.buffering.max.messages": rows, "log_level": 3}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for _ in range(rows):
        producer.produce(topic, ROW, partition=0)
    if producer.flush(PATIENCE_S):
        raise RuntimeError(f"not all of {rows:,} rows were taken within {PATIENCE_S:.0f} s")
    return float(rows)


def consume_and_produce(bootstrap: str, topic: str, rows: int, every_ms: int) -> float:
    """Rows a second from ``topic`` to ``topic``-out, each in a transaction with its position."""
    producer = _producer(bootstrap, f"{topic}-copier")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-copier",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 1,  # else it stands still for a second whenever enough is fetched
            "log_level": 3,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    consumer.consume(1, PATIENCE_S)  # what it is to be measured with is there
    consumer.seek(confluent_kafka.TopicPartition(topic, 0, 0))
    copied, started_s = 0, time.perf_counter()
    while copied < rows:
        producer.begin_transaction()
        ends_s = time.perf_counter() + every_ms / 1000
        while copied < rows and time.perf_counter() < ends_s:
            for message in consumer.consume(1_000, 0.01):
                producer.produce(f"{topic}-out", message.value(), partition=0)
                copied += 1
        producer.send_offsets_to_transaction(
            consumer.position([confluent_kafka.TopicPartition(topic, 0)]),
            consumer.consumer_group_metadata(),
            PATIENCE_S,
        )
        producer.commit_transaction(PATIENCE_S)
    took_s = time.perf_counter() - started_s
    consumer.close()
    return copied / took_s


def bare_row_each(bootstrap: str, topic: str, transactions: int) -> float:
    """The same by the bare protocol of KIP-890, one request at a time."""
    cluster = Cluster(bootstrap)
    grant = cluster.init_producer_id(topic)
    took_ms = []
    with _connection(bootstrap) as sock:
        for _ in range(transactions):
            started_s = time.perf_counter()
            _send_row(sock, topic, TopicPartition(topic, 0), grant)
            grant = _commit(sock, topic, grant)
            took_ms.append(1000 * (time.perf_counter() - started_s))
    cluster.close()
    return statistics.median(took_ms)


def _send_row(sock: socket.socket, transactional_id: str, tp: TopicPartition, grant: ProducerGrant) -> None:
    """The first row of a transaction."""
    batch = encode_batch(
        [Record(0, time.time_ns() // 1_000_000, None, ROW)],
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    item = produce.ProducePartition(tp.topic, tp.partition, memoryview(batch))
    request = produce.ProduceRequest(transactional_id, -1, 30_000, [item])
    body = _asked(sock, ApiKey.PRODUCE, _PRODUCE_VERSION, produce.encode_request(_PRODUCE_VERSION, request))
    ((produced,), _) = produce.decode_response(_PRODUCE_VERSION, body)
    if produced.error_code:
        raise RuntimeError(f"a row was refused: {ErrorCode.of(produced.error_code).name}")


def _commit(sock: socket.socket, transactional_id: str, grant: ProducerGrant) -> ProducerGrant:
    """What the next transaction is written with."""
    asked = {
        "transactional_id": transactional_id,
        "producer_id": grant.producer_id,
        "producer_epoch": grant.producer_epoch,
        "committed": True,
    }
    request = messages.encode_request(ApiKey.END_TXN, _END_VERSION, asked)
    ended = messages.decode_response(
        ApiKey.END_TXN, _END_VERSION, _asked(sock, ApiKey.END_TXN, _END_VERSION, [request])
    )
    if ended.error_code:
        raise RuntimeError(f"a commit was refused: {ErrorCode.of(ended.error_code).name}")
    return ProducerGrant(ended.producer_id, ended.producer_epoch)


def _asked(sock: socket.socket, api_key: ApiKey, version: int, request: Sequence[Buffer]) -> Buffer:
    """The answer's body."""
    frame = encode_request_header(api_key, version, 1, "bench") + b"".join(request)
    sock.sendall(INT32.pack(len(frame)) + frame)
    answer = bytearray(4_096)
    frame = answer[: _read_answer(sock, answer)]
    _, position = decode_response_header(frame, api_key, version)
    return memoryview(frame)[position:]


class _Open:
    """Transactions that stay open, each of another producer on a partition of its own; by KIP-890's protocol."""

    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        self._cluster = Cluster(bootstrap)
        self._names = [f"{topic}-{number}" for number in range(count)]
        with _connection(bootstrap) as sock:
            for number, name in enumerate(self._names):
                grant = self._cluster.init_producer_id(name)
                _send_row(sock, name, TopicPartition(topic, number), grant)

    def end(self) -> None:
        """Who asks for a name anew has what is under way aborted."""
        for name in self._names:
            self._cluster.init_producer_id(name)
        self._cluster.close()


@contextmanager
def _connection(bootstrap: str) -> Iterator[socket.socket]:
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), PATIENCE_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def fetches(bootstrap: str, topic: str, size_bytes: int, seconds: float) -> float:
    """Fetches a second of one reader of what is committed, one under way."""
    item = fetch.FetchPartition(topic, 0, 0, size_bytes)
    request = fetch.FetchRequest(0, 1, size_bytes, _READ_COMMITTED, [item])
    frame = encode_request_header(ApiKey.FETCH, _FETCH_VERSION, 1, "bench")
    frame += fetch.encode_request(_FETCH_VERSION, request)
    message = INT32.pack(len(frame)) + frame
    answer = bytearray(2 * size_bytes)
    done, started_s = 0, time.perf_counter()
    with _connection(bootstrap) as sock:
        while (now_s := time.perf_counter()) < started_s + seconds:
            sock.sendall(message)
            size = _read_answer(sock, answer)
            if size < size_bytes // 2:
                raise RuntimeError(f"an answer of {size} bytes")
            done += 1
    return done / (now_s - started_s)


def _read_answer(sock: socket.socket, into: bytearray) -> int:
    view = memoryview(into)
    have = 0
    while have < 4:
        have += sock.recv_into(view[have:4])
    (size,) = INT32.unpack_from(into)
    have = 0
    while have < size:
        received = sock.recv_into(view[have:size])
        if not received:
            raise RuntimeError("the server closed the connection")
        have += received
    return int(size)


def main() -> None:
    bootstrap = sys.argv[1]
    opened: list[_Open] = []

    def do(job: str, **how: Any) -> float:
        match job:
            case "one row":
                return one_row_each(bootstrap, **how)
            case "bare row":
                return bare_row_each(bootstrap, **how)
            case "fill":
                return fill(bootstrap, **how)
            case "copy":
                return consume_and_produce(bootstrap, **how)
            case "open":
                opened.append(_Open(bootstrap, **how))
            case "end":
                opened.pop().end()
            case "fetch":
                return fetches(bootstrap, **how)
        return 0.0

    worker.serve(do)


if __name__ == "__main__":
    main()
