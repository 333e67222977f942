"""Carries out what a producer's transactions ask: one attempt per question, its answer an event."""

from __future__ import annotations

from collections.abc import Mapping

from semel.client.cluster import Cluster
from semel.client.transaction_requests import NotSent
from semel.core.client.transaction_events import (
    AddOffsets,
    AddPartitions,
    AskCoordinator,
    AskProducerId,
    CommitOffsets,
    CoordinatorAnswered,
    CoordinatorLost,
    EndTransaction,
    OwnDescription,
)
from semel.errors import BrokerError, ErrorCode, SemelError
from semel.types import ProducerGrant, TopicPartition

_UNHARMED = frozenset({ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED})


class CoordinatorAsker:
    """Asks for one transactional id. ``timeout_ms``: after which its coordinator is to abort a transaction."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self.transactional_id, self._timeout_ms = transactional_id, timeout_ms

    async def ask(self, ask: AskCoordinator) -> CoordinatorAnswered | CoordinatorLost:
        try:
            return await self._ask(ask)
        except BrokerError as error:  # of the way there: who the coordinator is, what it serves
            if error.code.retriable:
                return CoordinatorLost(ask.request_id, False, str(error))
            return CoordinatorAnswered(ask.request_id, error.code, what=str(error))
        except SemelError as error:
            return CoordinatorLost(ask.request_id, not isinstance(error, NotSent), str(error))

    async def _ask(self, ask: AskCoordinator) -> CoordinatorAnswered:
        cluster, name = self._cluster, self.transactional_id
        match ask.question:
            case AskProducerId(before):
                code, grant = await cluster.begin_as(name, self._timeout_ms, before)
                return CoordinatorAnswered(ask.request_id, code, grant)
            case AddPartitions(grant, tps):
                code, where = _worst(await cluster.add_partitions_once(name, grant, tps))
                return CoordinatorAnswered(ask.request_id, code, what=f"to write to {where} in a transaction")
            case AddOffsets(grant, group):
                code = await cluster.add_offsets(name, grant, group)
                return CoordinatorAnswered(ask.request_id, code)
            case CommitOffsets(grant, offsets, is_v2):
                answers = await cluster.commit_in_transaction(name, grant, offsets, is_v2=is_v2)
                code, where = _worst(answers)
                what = f"the commit of {where} for group {offsets.group!r}"
                return CoordinatorAnswered(ask.request_id, code, what=what)
            case EndTransaction(grant, is_commit, is_v2):
                code, after = await cluster.end_transaction(name, grant, is_commit=is_commit, is_v2=is_v2)
                return CoordinatorAnswered(ask.request_id, code, after if is_v2 else None)
        code, described = await cluster.describe_own_transaction(name)
        own = None
        if described is not None:
            grant = ProducerGrant(described.producer_id, described.producer_epoch)
            own = OwnDescription(described.state, grant)
        return CoordinatorAnswered(ask.request_id, code, described=own)


def _worst(answers: Mapping[TopicPartition, ErrorCode]) -> tuple[ErrorCode, TopicPartition | str]:
    """The refusal that the others follow from: one that is for good before one that may pass."""
    refused = [(code.retriable, tp, code) for tp, code in answers.items() if code not in _UNHARMED]
    if refused:
        _, tp, code = min(refused, key=lambda item: item[:2])
        return code, tp
    if ErrorCode.OPERATION_NOT_ATTEMPTED in answers.values():
        return ErrorCode.OPERATION_NOT_ATTEMPTED, "partitions"
    return ErrorCode.NONE, ""
