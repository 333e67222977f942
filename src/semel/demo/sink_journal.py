"""What the sink's decision log tells the demo: which rows are decided, and which came again.

A micro-batch is in its middle while rows of it stand in the output that no decision covers. A run of the sink
writes into BEGIN how many such rows it found; those come again from Spark, and are not stored again.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.audit.read import read_batches
from semel.client.blocking import Cluster
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import SINKS_TOPIC, Begin, decode
from semel.types import LATEST_TIMESTAMP, TopicPartition


class SinkJournal:
    """One sink's decision log, read on at each question."""

    def __init__(self, cluster: Cluster, sink_id: str) -> None:
        self._cluster = cluster
        self._history = SinkHistory(sink_id)
        self._read_to: dict[TopicPartition, int] = {}
        self.rows_found_stored = 0

    def read(self) -> None:
        """Up to what is there now; nothing before the first driver has made the topic."""
        described = self._cluster.metadata([SINKS_TOPIC]).topics[SINKS_TOPIC]
        partitions = [TopicPartition(SINKS_TOPIC, number) for number in described.partitions]
        if not partitions:
            return
        listed = self._cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        end = {partition: at.offset for partition, at in listed.items()}
        first = {partition: self._read_to.get(partition, 0) for partition in partitions}
        for _, _, records in read_batches(self._cluster, first, end):
            for record in records:
                if record.value is None:
                    continue
                entry = decode(record.value)
                if self._history.apply(entry) and isinstance(entry, Begin):
                    self.rows_found_stored += sum(stored.digest.count for stored in entry.have.values())
        self._read_to = end

    def undecided_rows(self, output_ends: Mapping[TopicPartition, int]) -> int:
        """Rows below ``output_ends`` that no decision covers even now.

        Ends that were seen before a kill prove that it fell in the middle of a micro-batch: decisions only
        grow, so what is undecided now was so then.
        """
        self.read()
        decided = self._history.decision.output_ends if self._history.decision is not None else {}
        first = {partition: min(end, decided.get(partition, 0)) for partition, end in output_ends.items()}
        found = read_batches(self._cluster, first, dict(output_ends))
        return sum(len(records) for _, _, records in found)  # a fence is a batch without records
