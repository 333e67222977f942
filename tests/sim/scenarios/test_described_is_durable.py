"""A resumed producer asks the log what is stored and never sends that again: the answer must be durable.

A batch is appended, its sync still under way. DescribeProducers names its last sequence; the producer that
asked drops those rows. Answered at once, a power cut now would lose them for ever.
"""

from pathlib import Path
from random import Random

import pytest

from semel.config import Address, ServerSettings
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.broker import Broker
from semel.server.operation import Synced
from semel.server.outcome import Answer, Call, Operation
from semel.server.router import handle
from semel.server.storage.aside import at_once
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.wire import messages
from semel.wire.api import ApiKey


def test_what_is_told_of_a_producer_is_synced_first() -> None:
    disk = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
    storage = Storage.open(Path("/data"), disk.mount(), now_ms=0)
    at_once(storage.create_topic("events", 1, now_ms=0))
    partition = storage.partition("events", 0)
    assert partition is not None
    rows = [Record(0, 0, None, b"row")]
    batch = memoryview(encode_batch(rows, producer_id=7, producer_epoch=0, base_sequence=0))
    partition.append(batch, [decode_header(batch)], 0)

    broker = Broker(ServerSettings(), storage)
    call = Call(ApiKey.DESCRIBE_PRODUCERS, 0, None, Address("simulated", 9092), 0, lambda: 1 << 20)
    fields = {"topics": [{"name": "events", "partition_indexes": [0]}]}
    body = memoryview(messages.encode_request(ApiKey.DESCRIBE_PRODUCERS, 0, fields))

    outcome = handle(broker, call, body)
    assert isinstance(outcome, Operation)
    awaited = outcome.steps.send(None)
    assert isinstance(awaited, Synced)
    for waited_for in awaited.partitions:
        waited_for.sync()
    assert partition.high_watermark == 1
    with pytest.raises(StopIteration) as ended:
        outcome.steps.send(None)
    answer = b"".join(ended.value.value.parts)
    (described,) = messages.decode_response(ApiKey.DESCRIBE_PRODUCERS, 0, answer).topics[0].partitions
    assert [(one.producer_id, one.last_sequence) for one in described.active_producers] == [(7, 0)]

    assert isinstance(handle(broker, call, body), Answer)  # durable already: no wait
