"""What a producer was handed and has not settled: the lines of all partitions, and how much is in them.

Whoever hands rows in is to hold ``buffered_bytes`` to a bound of its own; nothing is refused here. Invariant: the
two totals are those of the batches in the lines. (Kafka's class of this name.)
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.core.client.batch import BATCH_OVERHEAD_BYTES, ProducerBatch, estimated_bytes
from semel.core.client.events import Effects
from semel.core.client.fate import PartFate
from semel.core.client.partition_queue import PartitionQueue
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.types import TopicPartition


class RecordAccumulator:
    """A queue a partition. Those with something in them are looked after, in the order in which they got it."""

    __slots__ = (
        "_batch_bytes",
        "_busy",
        "_is_transactional",
        "_queues",
        "buffered_bytes",
        "unsettled_batches",
    )

    def __init__(self, batch_bytes: int, *, is_transactional: bool = False) -> None:
        self.buffered_bytes = 0
        self.unsettled_batches = 0
        self._batch_bytes = batch_bytes
        self._is_transactional = is_transactional
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[TopicPartition, PartitionQueue] = {}

    @property
    def tps(self) -> Iterable[TopicPartition]:
        """Every partition that was ever written to."""
        return self._queues

    @property
    def busy(self) -> list[PartitionQueue]:
        """The queues that are looked after, as they are now: some may be empty by the end of a walk over them."""
        return list(self._busy.values())

    def of(self, tp: TopicPartition) -> PartitionQueue:
        """The queue of a partition that was written to."""
        return self._queues[tp]

    def begin(self, tp: TopicPartition) -> PartitionQueue:
        """The queue of a partition that is to be written to; it is looked after from now on."""
        queue = self._busy.get(tp)
        if queue is None:
            queue = self._queues.get(tp)
            if queue is None:
                queue = self._queues[tp] = PartitionQueue(tp)
            self._busy[tp] = queue
        return queue

    def append(self, tp: TopicPartition, row: Record, now_ms: int) -> tuple[ProducerBatch, int, bool]:
        """Buffer one row. Returns its batch, its place there, and whether the shell should tick."""
        queue = self.begin(tp)
        batch = queue.filling
        size_bytes = estimated_bytes(row)
        wake = False
        if batch is not None and batch.size_bytes + size_bytes > self._batch_bytes:
            queue.seal()
            batch, wake = None, True
        if batch is None:
            batch = queue.begin_batch(now_ms)
            batch.is_transactional = self._is_transactional
            self.unsettled_batches += 1
            self.buffered_bytes += BATCH_OVERHEAD_BYTES
            wake = True
        place = batch.add(row)
        self.buffered_bytes += size_bytes
        return batch, place, wake

    def append_encoded(
        self, tp: TopicPartition, encoded: bytearray, record_count: int, now_ms: int
    ) -> ProducerBatch:
        """Buffer a batch that is encoded already."""
        queue = self.begin(tp)
        batch = ProducerBatch.of_encoded(tp, encoded, record_count, now_ms)
        batch.is_transactional = self._is_transactional
        queue.enqueue(batch)
        self.unsettled_batches += 1
        self.buffered_bytes += batch.size_bytes
        return batch

    def begin_anew(self) -> None:
        """Forget every line, with what stopped it: all is settled, and what comes goes under another grant."""
        assert not self._busy
        self._queues.clear()

    def seal(self) -> None:
        """Let what is there wait for no more rows. Those appended later linger as before."""
        for queue in self._busy.values():
            queue.seal()

    def split(self, queue: PartitionQueue, batch: ProducerBatch, compression: Compression) -> None:
        """Halve a batch that was too large to be taken; its halves go in its place."""
        parts = batch.split(compression)
        queue.replace(batch, parts)
        self.unsettled_batches += len(parts) - 1
        self.buffered_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes

    def settle(self, queue: PartitionQueue, batch: ProducerBatch, fate: PartFate, effects: Effects) -> None:
        """Tell what became of a batch, and have it in the line no more."""
        queue.let_go(batch)
        self.unsettled_batches -= 1
        self.buffered_bytes -= batch.size_bytes
        effects.settled.append((batch, fate))
        if queue.is_idle:
            self._busy.pop(queue.tp, None)
