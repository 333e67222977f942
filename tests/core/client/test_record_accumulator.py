"""The totals are those of what is in the lines, whatever was appended, split and settled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects
from semel.core.client.fate import Refused
from semel.core.client.record_accumulator import RecordAccumulator
from semel.errors import ErrorCode
from semel.record.batch import Record, encode_batch
from semel.record.compression import Compression
from semel.types import ProducerGrant, TopicPartition

TPS = TopicPartition("t", 0), TopicPartition("t", 1)
FATE = Refused(ErrorCode.MESSAGE_TOO_LARGE, "too large")


def batches(accumulator: RecordAccumulator) -> list[ProducerBatch]:
    return [
        batch
        for queue in accumulator.busy
        for batch in (*queue.in_flight, *queue.waiting, *([queue.filling] if queue.filling else []))
    ]


@given(st.lists(st.tuples(st.sampled_from(["row", "encoded", "seal", "split", "settle"]), st.integers(0, 9))))
def test_the_totals_are_those_of_the_lines(steps: list[tuple[str, int]]) -> None:
    accumulator = RecordAccumulator(batch_bytes=150)
    for what, number in steps:
        tp = TPS[number % 2]
        row = Record(0, 0, None, b"x" * 10 * number)
        queue = accumulator.begin(tp)
        match what:
            case "row":
                accumulator.append(tp, row, 0)
            case "encoded":
                accumulator.append_encoded(tp, encode_batch([row, row]), 2, 0)
            case "seal":
                accumulator.seal()
            case "split" if queue.waiting and queue.waiting[0].record_count > 1:
                queue.waiting[0].encode(Compression.NONE)
                queue.adopt(ProducerGrant(7, 0))
                accumulator.split(queue, queue.take(), Compression.NONE)
            case "settle" if queue.waiting:
                accumulator.settle(queue, queue.waiting[number % len(queue.waiting)], FATE, Effects())
        assert accumulator.unsettled_batches == len(batches(accumulator))
        assert accumulator.buffered_bytes == sum(batch.size_bytes for batch in batches(accumulator))


def test_a_partition_is_looked_after_until_it_is_empty() -> None:
    accumulator, effects = RecordAccumulator(batch_bytes=150), Effects()
    batch, _, _ = accumulator.append(TPS[0], Record(0, 0, None, b"a"), 0)
    accumulator.append(TPS[1], Record(0, 0, None, b"b"), 0)
    accumulator.seal()
    accumulator.settle(accumulator.of(TPS[0]), batch, FATE, effects)
    assert [queue.tp for queue in accumulator.busy] == [TPS[1]]
    assert effects.settled == [(batch, FATE)]
    accumulator.append(TPS[0], Record(0, 0, None, b"c"), 0)
    assert [queue.tp for queue in accumulator.busy] == [TPS[1], TPS[0]]
