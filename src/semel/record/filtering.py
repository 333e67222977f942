"""What is left of a batch when some of its records go (Kafka's ``MemoryRecords.filterTo``).

Invariants: the batch begins and ends at the offsets, and the sequences, at which it began and ended; a record that
stays is byte for byte what it was, but that its time counts from the delete horizon where the batch is given one, as
the horizon takes the base timestamp's place (KIP-534).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semel.record.batch import BatchHeader, TimestampType, assemble_batch
from semel.record.compression import Compression
from semel.record.index import Int64s
from semel.record.records import wrapped_ms
from semel.record.varint import append_varint, read_varint, read_varlong
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP


def filtered(
    header: BatchHeader,
    payload: bytes,
    bounds: Int64s,
    timestamp_delta: Int64s,
    stays: npt.NDArray[np.bool_],
    *,
    delete_horizon_ms: int | None,
    keeps_producer: bool,
    keeps_max_timestamp: bool,
) -> bytearray:
    """The batch with those records that stay, one at least, compressed as it was.

    Its records lie in ``payload`` at ``bounds``. The horizon is one that is given to it now.
    """
    is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
    max_timestamp = header.max_timestamp
    if is_create_time and not keeps_max_timestamp:
        max_timestamp = int(
            (timestamp_delta[stays] + np.int64(header.base_timestamp)).max()
        )  # wraps, as for a reader
    ahead_ms = (
        0 if delete_horizon_ms is None or not is_create_time else header.base_timestamp - delete_horizon_ms
    )
    return assemble_batch(
        _moved(payload, bounds, timestamp_delta, stays, ahead_ms)
        if ahead_ms
        else _taken(payload, bounds, stays),
        record_count=int(np.count_nonzero(stays)),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if delete_horizon_ms is None else delete_horizon_ms,
        max_timestamp=max_timestamp,
        timestamp_type=header.timestamp_type,
        base_offset=header.base_offset,
        producer_id=header.producer_id if keeps_producer else NO_PRODUCER_ID,
        producer_epoch=header.producer_epoch if keeps_producer else NO_PRODUCER_EPOCH,
        base_sequence=header.base_sequence,
        compression=header.compression,
        partition_leader_epoch=header.partition_leader_epoch,
        delete_horizon=header.has_delete_horizon or delete_horizon_ms is not None,
    )


def emptied(header: BatchHeader) -> bytearray:
    """The batch without records (``DefaultRecordBatch.writeEmptyHeader``)."""
    return assemble_batch(
        b"",
        record_count=0,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        timestamp_type=header.timestamp_type,
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        compression=Compression.NONE,
        partition_leader_epoch=header.partition_leader_epoch,
        control=header.is_control,
    )


def hole(base_offset: int, last_offset: int, partition_leader_epoch: int) -> bytearray:
    """A batch of nobody, without records, that stands for these offsets."""
    return assemble_batch(
        b"",
        record_count=0,
        last_offset_delta=last_offset - base_offset,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
    )


def _taken(payload: bytes, bounds: Int64s, stays: npt.NDArray[np.bool_]) -> bytes:
    """Those that stay, run by run."""
    edges = np.flatnonzero(np.diff(stays.astype(np.int8), prepend=0, append=0))
    places = bounds[edges].tolist()
    window = memoryview(payload)
    return b"".join([window[start:end] for start, end in zip(places[::2], places[1::2], strict=True)])


def _moved(
    payload: bytes, bounds: Int64s, timestamp_delta: Int64s, stays: npt.NDArray[np.bool_], ahead_ms: int
) -> bytearray:
    """The same, their times ``ahead_ms`` later than they say."""
    out, body = bytearray(), bytearray()
    which = np.flatnonzero(stays)
    starts, ends = bounds[which].tolist(), bounds[which + 1].tolist()
    for start, end, delta in zip(starts, ends, timestamp_delta[which].tolist(), strict=True):
        _, at = read_varint(payload, start, end)
        _, rest = read_varlong(payload, at + 1, end)
        body.clear()
        body.append(payload[at])  # attributes
        append_varint(body, wrapped_ms(delta + ahead_ms))
        body += payload[rest:end]
        append_varint(out, len(body))
        out += body
    return out
