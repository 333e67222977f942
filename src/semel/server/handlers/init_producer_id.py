"""InitProducerId: the right to write, as ``core/identity.py`` decides it; durable before it is told.

Three requests in one: no name and no id, a fresh id; a name (Kafka's transactional id), the identity of that
name with a risen epoch; an id and its epoch, that id with the epoch raised once (the others are fenced). A lease
is asked for by a tagged field, and answered with one; whoever asks for it under a name gets no lease, for a name
has no end.
"""

from __future__ import annotations

from typing import Final

from semel.core.identity import Refused
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.operation import Synced
from semel.server.outcome import Answer, Call, Operation, Outcome
from semel.types import Lease, ProducerGrant
from semel.wire import init_producer_id
from semel.wire.frames import Buffer
from semel.wire.init_producer_id import InitProducerIdResponse, LeaseGranted

_FENCED_FROM: Final = 4  # older clients know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH (KIP-588)


def handle(broker: Broker, call: Call, body: Buffer) -> Outcome:
    request = init_producer_id.decode_request(call.api_version, body)
    version = call.api_version
    submitted = broker.storage.init_producer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        None if request.lease is None else request.lease.partitions,
        now_ms=call.now_ms,
    )
    partition = broker.storage.metadata_log.partition

    def answer() -> Answer:
        granted = submitted.response
        if submitted.error_message is not None or partition.high_watermark < submitted.sync_offset:
            broker.note_storage_error(partition, submitted.error_message or partition.offline_reason)
            response = InitProducerIdResponse(ErrorCode.KAFKA_STORAGE_ERROR)
        elif isinstance(granted, ProducerGrant):
            response = InitProducerIdResponse(ErrorCode.NONE, granted.producer_id, granted.producer_epoch)
        elif isinstance(granted, Lease):
            response = InitProducerIdResponse(ErrorCode.NONE, granted.producer_id, granted.producer_epoch)
            if request.lease is not None:
                response.lease = LeaseGranted(
                    granted.length_ms, granted.remaining_ms, dict(granted.first_sequences)
                )
        else:
            assert isinstance(granted, Refused)
            code = granted.error_code
            if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            response = InitProducerIdResponse(code)
        return Answer((init_producer_id.encode_response(version, response),))

    async def answer_once_durable() -> Answer:
        await Synced((partition,))
        return answer()

    is_durable = submitted.sync_offset <= partition.high_watermark
    return answer() if is_durable else Operation(answer_once_durable())
