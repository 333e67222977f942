"""Which batches travel together: the produce requests that are unanswered, and how many of them a node has.

Invariants: at most ``in_flight_max`` requests a node; one batch a partition in each; above ``request_bytes_max``
only a batch that is too large by itself, and that one goes alone.
"""

from __future__ import annotations

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects, SendProduce
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.settings import PipelineSettings


class Requests:
    """The open requests of one producer."""

    __slots__ = ("_next_request_id", "_open", "_open_of_node", "_settings")

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._open: dict[int, SendProduce] = {}
        self._open_of_node: dict[int, int] = {}
        self._next_request_id = 0

    def send(self, node_id: int, queues: list[PartitionQueue], now_ms: int, effects: Effects) -> None:
        """Send what the partitions of one leader have ready, as far as it may have more requests."""
        while queues and self._open_of_node.get(node_id, 0) < self._settings.in_flight_max:
            taken = self._take(queues, now_ms)
            if not taken:
                return
            taken.sort(key=lambda batch: batch.tp.topic)
            request = SendProduce(self._next_request_id, node_id, tuple(taken))
            self._next_request_id += 1
            self._open[request.request_id] = request
            self._open_of_node[node_id] = self._open_of_node.get(node_id, 0) + 1
            effects.sends.append(request)

    def _take(self, queues: list[PartitionQueue], now_ms: int) -> list[ProducerBatch]:
        """The batches of one request; each partition's turn comes again behind the others'."""
        size_bytes = 0
        taken: list[ProducerBatch] = []
        for queue in list(queues):
            batch = queue.head(now_ms, self._settings.in_flight_max)
            if batch is None:
                queues.remove(queue)
                continue
            size_bytes += len(batch.encode(self._settings.compression))
            if taken and size_bytes > self._settings.request_bytes_max:
                break
            taken.append(queue.take())
            queues.remove(queue)
            queues.append(queue)
        return taken

    def close(self, request_id: int) -> tuple[ProducerBatch, ...]:
        """A request was answered, or will not be: what was in it."""
        request = self._open.pop(request_id, None)
        if request is None:
            return ()
        self._open_of_node[request.node_id] -= 1
        return request.batches
