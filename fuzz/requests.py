"""Whole requests, from the header to the answer: every served API in every version, over a disk in memory.

A request is answered, or it is ``MalformedMessage`` and costs its sender the connection; anything else out of
a handler is a defect.
"""

from __future__ import annotations

import dataclasses
import typing
import uuid
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from kio.serial import entity_writer

from fuzz.harness import main
from semel.config import Address, ServerSettings
from semel.record.batch import Record, encode_batch
from semel.server.broker import Broker
from semel.server.outcome import AfterSync, Call, Delayed
from semel.server.router import handle
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.wire.api import SERVED
from semel.wire.frames import decode_request_header, encode_request_header
from semel.wire.messages import schema_of

TOPIC_ID = uuid.UUID(int=7)
NOW_MS = 1_000_000
_BATCH = bytes(
    encode_batch([Record(0, NOW_MS, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0)
)
_SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")  # to the topic t
_NUMBERS = {"timestamp": -1, "replication_factor": 1, "num_partitions": 2, "count": 3, "resource_type": 2}
_NUMBERS |= {"acks": -1, "required_acks": -1, "session_id": 0, "session_epoch": -1, "committed_offset": 1}
_NUMBERS |= {
    "max_bytes": 1000,
    "partition_max_bytes": 1000,
    "generation_id_or_member_epoch": -1,
    "producer_id": -1,
}
_NUMBERS |= {"producer_epoch": -1, "generation_id": -1, "current_leader_epoch": -1, "leader_epoch": -1}
_STRINGS = {"member_id": "", "resource_name": "t"}


def sample(schema: type[Any]) -> Any:
    """A plausible message: each list with one item, each text a known topic's name."""
    hints = typing.get_type_hints(schema)
    return schema(**{field.name: _value(hints[field.name], field) for field in dataclasses.fields(schema)})


def _value(hint: Any, field: dataclasses.Field[Any]) -> Any:
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if type(None) in typing.get_args(hint):
        (hint,) = options
    if typing.get_origin(hint) is tuple:
        return (_value(typing.get_args(hint)[0], field),)
    if dataclasses.is_dataclass(hint):
        return sample(typing.cast("type[Any]", hint))
    kind = str(field.metadata.get("kafka_type"))
    if kind == "string":
        return _STRINGS.get(field.name, "t")
    if kind == "bytes":
        return _SUBSCRIPTION
    if kind == "records":
        return _BATCH
    if kind == "uuid":
        return TOPIC_ID
    if kind.startswith("timedelta"):
        return timedelta(0)
    if kind == "bool":
        return False
    return _NUMBERS.get(field.name, 0)


def corpus() -> list[bytes]:
    requests = []
    for api_key, served in SERVED.items():
        for version in range(served.version_min, served.version_max + 1):
            body = BytesIO()
            schema = schema_of(api_key, version, "request")
            entity_writer(schema)(body, sample(schema))
            requests.append(bytes(encode_request_header(api_key, version, 1, "fuzz")) + body.getvalue())
    return requests


def broker() -> Broker:
    disk = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
    settings = StorageSettings(topics_max=10, partitions_max=20)
    storage = Storage.open(Path("/data"), disk.mount(), settings, now_ms=NOW_MS)
    at_once(storage.create_topic("t", 2, now_ms=NOW_MS, topic_id=TOPIC_ID))
    return Broker(ServerSettings(partitions_max=20), storage)


def target(data: bytes) -> None:
    served = broker()
    frame = memoryview(bytearray(data))
    header, body_at = decode_request_header(frame)
    address = Address("fuzz", 9092)
    call = Call(header.api_key, header.api_version, header.client_id, address, NOW_MS, lambda: 1 << 20)
    outcome = handle(served, call, frame[body_at:])
    if isinstance(outcome, AfterSync):
        for partition in outcome.partitions:
            partition.sync()
        if outcome.finish is not None:
            outcome.finish()
    elif isinstance(outcome, Delayed):
        assert outcome.attempt(True) is not None
    for partition in served.storage:
        assert partition.is_online


if __name__ == "__main__":
    main("requests", corpus(), target)
