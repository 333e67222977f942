"""What a producer was handed and has not settled: the lines of all partitions, and how much is in them.

Whoever hands rows in is to hold ``buffered_bytes`` to a bound of its own; nothing is refused here. Invariant: the
two totals are those of the batches in the lines. Kafka's counterpart is ``RecordAccumulator``.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.core.client.batch import BATCH_OVERHEAD_BYTES, ProducerBatch, estimated_bytes
from semel.core.client.events import Effects
from semel.core.client.fate import PartFate
from semel.core.client.pipe import PartitionPipe
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.types import TopicPartition


class Backlog:
    """A pipe a partition. Those with something in them are looked after, in the order in which they got it."""

    __slots__ = ("_batch_bytes", "_busy", "_pipes", "buffered_bytes", "unsettled_batches")

    def __init__(self, batch_bytes: int) -> None:
        self.buffered_bytes = 0
        self.unsettled_batches = 0
        self._batch_bytes = batch_bytes
        self._pipes: dict[TopicPartition, PartitionPipe] = {}
        self._busy: dict[TopicPartition, PartitionPipe] = {}

    @property
    def tps(self) -> Iterable[TopicPartition]:
        """Every partition that was ever written to."""
        return self._pipes

    @property
    def busy(self) -> list[PartitionPipe]:
        """The pipes that are looked after, as they are now: some may be empty by the end of a walk over them."""
        return list(self._busy.values())

    def of(self, tp: TopicPartition) -> PartitionPipe:
        """The pipe of a partition that was written to."""
        return self._pipes[tp]

    def begin(self, tp: TopicPartition) -> PartitionPipe:
        """The pipe of a partition that is to be written to; it is looked after from now on."""
        pipe = self._busy.get(tp)
        if pipe is None:
            pipe = self._pipes.get(tp)
            if pipe is None:
                pipe = self._pipes[tp] = PartitionPipe(tp)
            self._busy[tp] = pipe
        return pipe

    def append(self, tp: TopicPartition, row: Record, now_ms: int) -> tuple[ProducerBatch, int, bool]:
        """Buffer one row. Returns its batch, its place there, and whether the shell should tick."""
        pipe = self.begin(tp)
        batch = pipe.filling
        size_bytes = estimated_bytes(row)
        wake = False
        if batch is not None and batch.size_bytes + size_bytes > self._batch_bytes:
            pipe.seal()
            batch, wake = None, True
        if batch is None:
            batch = pipe.filling = ProducerBatch(tp, now_ms)
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
        pipe = self.begin(tp)
        pipe.seal()
        batch = ProducerBatch.of_encoded(tp, encoded, record_count, now_ms)
        pipe.waiting.append(batch)
        self.unsettled_batches += 1
        self.buffered_bytes += batch.size_bytes
        return batch

    def seal(self) -> None:
        """Let what is there wait for no more rows. Those appended later linger as before."""
        for pipe in self._busy.values():
            pipe.seal()

    def split(self, pipe: PartitionPipe, batch: ProducerBatch, compression: Compression) -> None:
        """Halve a batch that was too large to be taken; its halves go in its place."""
        parts = batch.split(compression)
        pipe.replace(batch, parts)
        self.unsettled_batches += len(parts) - 1
        self.buffered_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes

    def settle(self, pipe: PartitionPipe, batch: ProducerBatch, fate: PartFate, effects: Effects) -> None:
        """Tell what became of a batch, and have it in the line no more."""
        pipe.let_go(batch)
        self.unsettled_batches -= 1
        self.buffered_bytes -= batch.size_bytes
        effects.settled.append((batch, fate))
        if pipe.is_idle:
            self._busy.pop(pipe.tp, None)
