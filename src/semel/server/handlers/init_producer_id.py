"""InitProducerId: the right to write, durable before it is told.

Three requests in one: no name and no id, a fresh id; a transactional id, its producer id with a risen epoch, once
what it has under way is aborted; an id and its epoch, that id with the epoch raised once (the others are fenced). A
lease is asked for by a tagged field, and answered with one; whoever asks for it under a name gets no lease, for a
name has no end.
"""

from __future__ import annotations

from typing import Final

from semel.core.identity import Refused
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.known_codes import as_known
from semel.server.operation import Synced
from semel.server.outcome import Answer, Call, Operation, Outcome
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Lease, ProducerGrant
from semel.wire import init_producer_id
from semel.wire.frames import Buffer
from semel.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse, LeaseGranted

_FENCED_FROM: Final = 4


def handle(broker: Broker, call: Call, body: Buffer) -> Outcome:
    request = init_producer_id.decode_request(call.api_version, body)
    if request.transactional_id is not None:
        return Operation(_init_transactional(broker, call, request, request.transactional_id))
    version = call.api_version
    submitted = broker.storage.init_producer(
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
            response = InitProducerIdResponse(as_known(granted.error_code, version, fenced_from=_FENCED_FROM))
        return Answer((init_producer_id.encode_response(version, response),))

    async def answer_once_durable() -> Answer:
        await Synced((partition,))
        return answer()

    is_durable = submitted.sync_offset <= partition.high_watermark
    return answer() if is_durable else Operation(answer_once_durable())


async def _init_transactional(
    broker: Broker, call: Call, request: InitProducerIdRequest, name: str
) -> Answer:
    is_half = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if is_half:
        response = InitProducerIdResponse(ErrorCode.INVALID_REQUEST)
        return Answer((init_producer_id.encode_response(call.api_version, response),))
    granted = await broker.transactions.init(
        name, request.transaction_timeout_ms, request.producer_id, request.producer_epoch, call.now_ms
    )
    if isinstance(granted, ProducerGrant):
        response = InitProducerIdResponse(ErrorCode.NONE, granted.producer_id, granted.producer_epoch)
    else:
        code = as_known(granted.error_code, call.api_version, fenced_from=_FENCED_FROM)
        response = InitProducerIdResponse(code)
    return Answer((init_producer_id.encode_response(call.api_version, response),))
