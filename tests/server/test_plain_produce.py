"""Requests that are handled together get, byte for byte, the answers that each would have got alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.config import Address, ServerSettings
from semel.record.batch import Record, encode_batch
from semel.record.compression import Compression
from semel.server.broker import Broker
from semel.server.outcome import AfterSync, Answer, Call, Compressing, Disconnect, Handled, framed
from semel.server.router import handle, handle_next, handle_together, plain_at_head
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import TopicPartition
from semel.wire import produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.frames import decode_request_header, encode_request_header
from semel.wire.produce import ProducePartition, ProduceRequest

NOW_MS = 1_700_000_000_000
DIALLED = Address("127.0.0.1", 9092)
SERVED_PRODUCE = SERVED[ApiKey.PRODUCE]
INTERNAL = "__semel_metadata"


@dataclass(frozen=True)
class Asked:
    """One produce request; ``sequence`` is near to what is due, so that most are right and some are not."""

    version: int
    topic: str
    partition: int
    producer_id: int
    epoch: int
    sequence: int
    count: int
    acks: int
    damage_at: int | None
    codec: Compression = Compression.NONE


asked = st.builds(
    Asked,
    st.sampled_from([3, 4, 5, 7, 8, 9, 12, 13]),
    st.sampled_from(["t", "t", "t", "t", "u", "z", "z", INTERNAL, "nowhere"]),
    st.sampled_from([0, 0, 1, 9]),
    st.sampled_from([-1, 5, 5, 5, 6]),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from([-1, -1, -1, -1, 1, 0, 5]),
    st.none() | st.none() | st.none() | st.integers(0, 90),
    st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
)


def frame_of(request: Asked, correlation_id: int, topic_ids: Mapping[str, UUID]) -> bytearray:
    idempotent = request.producer_id >= 0
    batch = encode_batch(
        [Record(0, NOW_MS, b"k", b"value")] * request.count,
        producer_id=request.producer_id,
        producer_epoch=request.epoch if idempotent else -1,
        base_sequence=request.sequence if idempotent else -1,
        compression=request.codec,
    )
    if request.damage_at is not None:
        batch[request.damage_at % len(batch)] ^= 0x10
    topic: str | UUID = request.topic
    if request.version >= 13:
        topic = topic_ids.get(request.topic, UUID(int=9))
    item = ProducePartition(topic, request.partition, memoryview(batch))
    body = produce.encode_request(request.version, ProduceRequest(None, request.acks, 1000, [item]))
    head = encode_request_header(ApiKey.PRODUCE, request.version, correlation_id, "c")
    return bytearray(b"".join((head, *body)))


class Server:
    """A broker on files of its own."""

    def __init__(self, durable: bool, settings: ServerSettings | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp())
        ids: Iterator[int] = count(1)
        self.storage = Storage.open(
            self.folder / "data",
            settings=StorageSettings(durable=durable),
            now_ms=NOW_MS,
            new_uuid=lambda: UUID(int=next(ids)),
        )
        self.broker = Broker(settings or ServerSettings(), self.storage)
        at_once(self.broker.create_topic("t", 2, {}, NOW_MS))
        at_once(
            self.broker.create_topic("u", 1, {"segment.bytes": "1024", "max.message.bytes": "150"}, NOW_MS)
        )
        at_once(self.broker.create_topic("z", 2, {"compression.type": "gzip"}, NOW_MS))

    @property
    def topic_ids(self) -> dict[str, UUID]:
        """The same in every server: they count up."""
        return {topic.name: topic.topic_id for topic in self.storage.topics}

    def answers_of(self, handled: Handled) -> bytes | str:
        outcome = handled.outcome
        if isinstance(outcome, Compressing):
            outcome = at_once(outcome.begin(lambda: NOW_MS))
        if isinstance(outcome, AfterSync):
            for partition in outcome.partitions:
                partition.sync()
            answer = outcome.answer if outcome.finish is None else outcome.finish()
            outcome = Answer(()) if answer is None else answer
            if outcome == Answer(()):
                return b""
        if isinstance(outcome, Disconnect):
            return outcome.reason
        assert isinstance(outcome, Answer)
        return b"".join(bytes(part) for part in framed(outcome, handled))

    def together(self, frames: Sequence[memoryview]) -> list[bytes | str]:
        answers = []
        while frames:
            handled = handle_next(self.broker, frames, DIALLED, NOW_MS, lambda: 1 << 20)
            frames = frames[handled.requests :]
            answers.append(self.answers_of(handled))
        return answers

    def in_one_turn(self, connections: Sequence[Sequence[memoryview]]) -> list[bytes | str]:
        """What each connection leaves to the turn, then what is left of each."""
        heads = [plain_at_head(self.broker, frames) for frames in connections]
        left = [frames[len(head) :] for head, frames in zip(heads, connections, strict=True)]
        joined = [head for head in heads if head]
        handled = handle_together(self.broker, joined, NOW_MS) if joined else []
        return [self.answers_of(each) for each in handled] + self.together(
            [one for each in left for one in each]
        )

    def alone(self, frames: Sequence[memoryview]) -> list[bytes | str]:
        """By the full codec and the general handler."""
        answers = []
        for frame in frames:
            header, body_at = decode_request_header(frame)
            call = Call(
                header.api_key, header.api_version, header.client_id, DIALLED, NOW_MS, lambda: 1 << 20
            )
            outcome = handle(self.broker, call, frame[body_at:])
            handled = Handled(outcome, 1, header.api_key, header.api_version, header.correlation_id)
            answers.append(self.answers_of(handled))
        return answers

    def content(self) -> dict[TopicPartition, tuple[object, ...]]:
        found = {}
        for partition in self.storage:
            log = b"".join(
                path.read_bytes() for path in sorted(self._folder_of(partition.name).glob("*.log"))
            )
            found[partition.name] = partition.producers(), partition.segment_base_offsets, log
        return found

    def _folder_of(self, name: TopicPartition) -> Path:
        return self.folder / "data" / str(name)

    def close(self) -> None:
        self.storage.close(now_ms=NOW_MS)
        shutil.rmtree(self.folder)


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(st.lists(asked, min_size=1, max_size=8), max_size=4), st.booleans())
def test_together_as_alone(reads: list[list[Asked]], durable: bool) -> None:
    one, other = Server(durable), Server(durable)
    try:
        for requests in reads:
            frames = [frame_of(request, number, one.topic_ids) for number, request in enumerate(requests)]
            together = one.together([memoryview(bytearray(frame)) for frame in frames])
            alone = other.alone([memoryview(bytearray(frame)) for frame in frames])
            assert _joined(together) == _joined(alone)
        internal = TopicPartition(INTERNAL, 0)
        seen, expected = one.content(), other.content()
        del seen[internal], expected[internal]  # holds random topic ids
        assert seen == expected
        assert one.broker.counters.requests == other.broker.counters.requests
        assert one.broker.counters.verdicts == other.broker.counters.verdicts
        assert one.broker.counters.errors == other.broker.counters.errors
    finally:
        one.close()
        other.close()


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(st.lists(asked, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_in_one_turn_as_alone(connections: list[list[Asked]], durable: bool) -> None:
    one, other = Server(durable), Server(durable)
    try:
        numbers = count()
        frames = [[frame_of(each, next(numbers), one.topic_ids) for each in its] for its in connections]
        views = [[memoryview(bytearray(frame)) for frame in its] for its in frames]
        joining = [len(plain_at_head(one.broker, its)) for its in views]
        joined = [frame for its, until in zip(frames, joining, strict=True) for frame in its[:until]]
        left = [frame for its, until in zip(frames, joining, strict=True) for frame in its[until:]]
        together = one.in_one_turn(views)
        assert _joined(together) == _joined(other.alone([memoryview(frame) for frame in joined + left]))
        assert one.broker.counters.verdicts == other.broker.counters.verdicts
        assert one.broker.counters.requests == other.broker.counters.requests
    finally:
        one.close()
        other.close()


def _joined(answers: Sequence[bytes | str]) -> tuple[bytes, list[str]]:
    """How many requests share one outcome is free; the bytes in order, and what closes, are not."""
    return (
        b"".join(answer for answer in answers if isinstance(answer, bytes)),
        [answer for answer in answers if isinstance(answer, str)],
    )


def test_the_plain_form_is_taken(tmp_path: Path) -> None:
    """Else the other test would compare the general handler with itself."""
    server = Server(durable=True)
    try:
        for version in (7, 12, 13):
            right = Asked(version, "t", 0, 5, 0, 0, 1, -1, None)
            frames = [memoryview(frame_of(right, number, server.topic_ids)) for number in range(3)]
            assert handle_next(server.broker, frames, DIALLED, NOW_MS, lambda: 1 << 20).requests == 3
        compressed = Asked(12, "z", 0, 5, 0, 0, 1, -1, None)
        frames = [memoryview(frame_of(compressed, number, {})) for number in range(3)]
        handled = handle_next(server.broker, frames, DIALLED, NOW_MS, lambda: 1 << 20)
        assert (type(handled.outcome), handled.requests) == (Compressing, 3)
    finally:
        server.close()
