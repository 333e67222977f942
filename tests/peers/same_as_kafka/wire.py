"""A connection that says what it is told to, in any API and version that kio has a schema of.

It is written with kio alone, both ways: what semel's own wire layer makes of a field is among what is compared.
"""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import timedelta
from importlib import import_module
from io import BytesIO
from typing import Any, Final, Self
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from semel.record.batch import Record, encode_batch
from semel.types import EARLIEST_TIMESTAMP
from semel.wire.entity import reader_of
from semel.wire.frames import INT32, Reader
from semel.wire.messages import build

NODE_ID: Final = 1
_TIMEOUT_S: Final = 30.0
_NOT_YET: Final = re.compile("not_coordinator|coordinator_not_available|coordinator_load_in_progress")
_correlation_ids = itertools.count(1)


class ConnectionClosed(ConnectionError):
    """The server hung up instead of answering."""


class Wire:
    """One connection to one server; the names of its topics begin with ``topic_prefix``."""

    def __init__(self, bootstrap: str, topic_prefix: str) -> None:
        self._bootstrap, self._topic_prefix = bootstrap, topic_prefix
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expected: deque[tuple[str, int]] = deque()
        self._others: list[Wire] = []
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others:
            other.__exit__()
        self._socket.close()

    def another(self) -> Wire:
        """One more connection to the same server."""
        other = Wire(self._bootstrap, self._topic_prefix)
        other._numbers = self._numbers
        self._others.append(other)
        return other

    # Requests and answers.

    def send(self, api: str, version: int, **values: Any) -> None:
        """Send one request at once, whatever is still unanswered."""
        self.send_together((api, version, values))

    def send_together(self, *requests: tuple[str, int, dict[str, Any]]) -> None:
        """Send several requests with one ``send`` of the system."""
        self._socket.sendall(b"".join(self._framed(*request) for request in requests))

    def receive(self) -> Any:
        """The next answer, in the order of the requests."""
        api, version = self._expected.popleft()
        return decode_answer(api, version, self._read(INT32.unpack(self._read(4))[0]))

    def ask(self, api: str, version: int, **values: Any) -> Any:
        """Send one request and wait for its answer."""
        self.send(api, version, **values)
        return self.receive()

    def coordinated(self, ask: Callable[[], Any]) -> Any:
        """What ``ask`` gives once Apache Kafka's coordinators, of groups, transactions and ids, have come up."""
        give_up_s = time.monotonic() + _TIMEOUT_S
        while _NOT_YET.search(str(answer := ask())):
            assert time.monotonic() < give_up_s, answer
            time.sleep(0.05)
        return answer

    def _framed(self, api: str, version: int, values: dict[str, Any]) -> bytes:
        self._expected.append((api, version))
        return encode_request(api, version, values)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise ConnectionClosed("the server closed the connection")
            data += more
        return bytes(data)

    # What most cases begin with.

    def name(self, what: str = "topic") -> str:
        """A name that nothing has yet, the same on both sides."""
        return f"{self._topic_prefix}{what}-{next(self._numbers)}"

    def new_topic(self, partitions: int = 1, **configs: str) -> str:
        """A topic that is there and has leaders; ``retention_ms="1000"`` sets ``retention.ms``."""
        name = self.name()
        settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": settings,
        }
        made = self.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False).topics[0]
        assert made.error_code.name == "none", made
        give_up_s = time.monotonic() + _TIMEOUT_S
        while not self._is_there(name, partitions):  # Apache Kafka's metadata travels
            assert time.monotonic() < give_up_s, f"{name} is not there yet"
            time.sleep(0.02)
        return name

    def catch_up(self) -> None:
        """Wait until what was changed so far is seen: Apache Kafka answers before it obeys, but in order."""
        self.new_topic()

    def topic_id(self, topic: str) -> UUID:
        """Its id, as Metadata tells it."""
        found = self._metadata(topic).topic_id
        assert isinstance(found, UUID)
        return found

    def produce(self, topic: str, *values: bytes, partition: int = 0, acks: int = -1) -> Any:
        """Append ``values`` in one batch and wait; the answer of the partition."""
        data = {"index": partition, "records": records(*values)}
        asked = [{"name": topic, "partition_data": [data]}]
        answer = self.ask("produce", 9, acks=acks, timeout=10_000, topic_data=asked)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, version: int = 12, **given: Any) -> Any:
        """What partition 0 has, at once; ``given`` are other values, ``partition`` those of its own."""
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": 0,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1_000_000,
            **given.pop("partition", {}),
        }
        asked = {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
            **given,
        }
        return self.ask("fetch", version, **asked)

    def _is_there(self, topic: str, partitions: int) -> bool:
        """Whether everybody is told of it, and its leader serves each of its partitions."""
        asked = [{"partition_index": number, "timestamp": EARLIEST_TIMESTAMP} for number in range(partitions)]
        listed = self.ask("list_offsets", 1, replica_id=-1, topics=[{"name": topic, "partitions": asked}])
        told = [*self._metadata(topic).partitions, *listed.topics[0].partitions]
        return len(told) == 2 * partitions and all(one.error_code.name == "none" for one in told)

    def _metadata(self, topic: str) -> Any:
        asked = [{"name": topic, "topic_id": None}]
        return self.ask(
            "metadata",
            12,
            topics=asked,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ).topics[0]


def encode_request(api: str, version: int, values: dict[str, Any]) -> bytes:
    """A request as it goes out, its length in front."""
    request = _schema(api, version, "request")
    head = {
        "request_api_key": request.__api_key__,
        "request_api_version": version,
        "correlation_id": next(_correlation_ids),
        "client_id": "same-as-kafka",
    }
    out = BytesIO()
    for schema, content in ((request.__header_schema__, head), (request, values)):
        entity_writer(schema)(out, build(schema, content))
    return INT32.pack(out.tell()) + out.getvalue()


def decode_answer(api: str, version: int, frame: bytes) -> Any:
    """An answer without its length."""
    schema = _schema(api, version, "response")
    _, head = entity_reader(schema.__header_schema__)(frame, 0)
    if api == "describe_transactions":  # kio refuses the time before 1970 by which Apache Kafka says "none"
        reader = Reader(memoryview(frame)[head:])
        answer, size = reader_of(schema)(reader), reader.position
    else:
        answer, size = entity_reader(schema)(frame, head)
    assert head + size == len(frame), f"{len(frame) - head - size} bytes more than the answer has"
    return answer


def records(*values: bytes, timestamp_ms: int | None = None) -> bytes:
    """One record batch without a producer id, stamped now unless told otherwise."""
    stamp_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    return bytes(encode_batch([Record(n, stamp_ms, None, value) for n, value in enumerate(values)]))


def plain(answer: Any, *left_out: str) -> Any:
    """An answer, or a part of it, as nested dicts and lists: errors by name, times in ms, without ``left_out``."""
    if is_dataclass(answer):
        return {
            one.name: plain(getattr(answer, one.name), *left_out)
            for one in fields(answer)
            if one.name not in ("throttle_time", *left_out)
        }
    if isinstance(answer, tuple):
        return [plain(one, *left_out) for one in answer]
    if isinstance(answer, timedelta):
        return answer // timedelta(milliseconds=1)
    return answer.name if isinstance(answer, ErrorCode) else answer


def _schema(api: str, version: int, direction: str) -> type[Any]:
    module = import_module(f"kio.schema.{api}.v{version}.{direction}")
    found = getattr(module, "".join(map(str.capitalize, api.split("_"))) + direction.capitalize())
    assert isinstance(found, type)
    return found
