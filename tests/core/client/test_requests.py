"""What travels in one request, and how many requests a node has: each bound by a test."""

from __future__ import annotations

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.requests import Requests
from semel.core.client.settings import PipelineSettings
from semel.types import TopicPartition

NODE = 1
SETTINGS = PipelineSettings(in_flight_max=2, request_bytes_max=100)


def queue(partition: int, *sizes_bytes: int) -> PartitionQueue:
    """A partition whose batches of these sizes are ready."""
    made = PartitionQueue(TopicPartition("t", partition))
    made.waiting.extend(ProducerBatch.of_encoded(made.tp, bytearray(size), 1, 0) for size in sizes_bytes)
    return made


def sent(requests: Requests, *queues: PartitionQueue) -> list[list[tuple[int, int]]]:
    """Partition and size of what goes, a list a request."""
    effects = Effects()
    requests.send(NODE, list(queues), 0, effects)
    return [[(batch.tp.partition, batch.size_bytes) for batch in send.batches] for send in effects.sends]


def test_a_request_has_one_batch_of_each_partition() -> None:
    assert sent(Requests(SETTINGS), queue(0, 10, 11), queue(1, 20, 21)) == [
        [(0, 10), (1, 20)],
        [(0, 11), (1, 21)],
    ]


def test_a_node_has_so_many_requests_and_the_next_when_one_is_closed() -> None:
    requests, busy = Requests(SETTINGS), queue(0, 1, 2, 3, 4)
    assert sent(requests, busy) == [[(0, 1)], [(0, 2)]]
    assert sent(requests, busy) == []
    (batch,) = requests.close(0)
    busy.let_go(batch)
    assert sent(requests, busy) == [[(0, 3)]]


def test_what_does_not_fit_goes_first_in_the_next_request() -> None:
    assert sent(Requests(SETTINGS), queue(0, 60), queue(1, 60), queue(2, 40)) == [
        [(0, 60)],
        [(1, 60), (2, 40)],
    ]


def test_a_batch_above_the_bound_goes_alone() -> None:
    assert sent(Requests(SETTINGS), queue(0, 500), queue(1, 1)) == [[(0, 500)], [(1, 1)]]


def test_a_request_is_closed_once() -> None:
    requests = Requests(SETTINGS)
    sent(requests, queue(0, 1))
    assert len(requests.close(0)) == 1
    assert requests.close(0) == ()
