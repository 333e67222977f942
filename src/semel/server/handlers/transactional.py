"""Batches in transactions: whether the coordinator lets one in. To be asked when the batch is appended, not before.

By Produce of version 12 on its partition is registered with it (KIP-890); by older ones it has to be registered before.
"""

from __future__ import annotations

from typing import Final

from semel.core.log.admission import AppendOrigin
from semel.core.transaction.requests import AddPartitions
from semel.core.transaction.transaction import EPOCH_BUMP_FROM
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.server.broker import Broker
from semel.server.handlers.known_codes import as_known
from semel.server.storage.outcome import AppendOutcome
from semel.types import TopicPartition

_ABORTABLE_FROM: Final = 11
_REGISTERS_FROM: Final = 12


def origin_of(transactional_id: str | None, header: BatchHeader) -> AppendOrigin:
    """Where a client's batch comes from: a transaction, where the request names one."""
    is_in_one = transactional_id is not None and header.is_transactional
    return AppendOrigin.TRANSACTION if is_in_one else AppendOrigin.CLIENT


def refusal_of_write(
    broker: Broker,
    api_version: int,
    transactional_id: str | None,
    header: BatchHeader,
    partition: TopicPartition,
    now_ms: int,
) -> AppendOutcome | None:
    """Why a batch cannot enter by its transaction; ``None`` when it can, and for one in none."""
    if transactional_id is None or not header.is_transactional:
        return None
    if api_version < _REGISTERS_FROM:
        return is_still_open(broker, api_version, transactional_id, header, partition)
    request = AddPartitions(
        transactional_id,
        header.producer_id,
        header.producer_epoch,
        frozenset({partition}),
        EPOCH_BUMP_FROM,
    )
    code = broker.transactions.write(request, now_ms)
    return _refused(transactional_id, code, api_version)


def registers(origin: AppendOrigin, api_version: int) -> bool:
    """Whether a batch has registered its partition, so that its answer waits until that is durable.

    The partition itself says after a crash what is open in it; but one that the next start cannot open says nothing,
    and the transaction could be committed without the rows that were acknowledged there.
    """
    return origin is AppendOrigin.TRANSACTION and api_version >= _REGISTERS_FROM


def is_still_open(
    broker: Broker,
    api_version: int,
    transactional_id: str,
    header: BatchHeader,
    partition: TopicPartition,
) -> AppendOutcome | None:
    """The same where nothing is to be registered any more."""
    code = broker.transactions.refusal_of_write(
        transactional_id, header.producer_id, header.producer_epoch, partition
    )
    return _refused(transactional_id, code, api_version)


def _refused(transactional_id: str, code: ErrorCode, api_version: int) -> AppendOutcome | None:
    if code is ErrorCode.NONE:
        return None
    reason = f"not stored: transactional id {transactional_id!r}: {code.name}"
    return AppendOutcome(_as_known(code, api_version), error_message=reason)


def _as_known(code: ErrorCode, api_version: int) -> ErrorCode:
    """As producers take it: the first two they end the transaction by, the third they retry."""
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _REGISTERS_FROM:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return as_known(code, api_version, abortable_from=_ABORTABLE_FROM)
