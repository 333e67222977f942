"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, ListTransactions and DescribeTransactions.

A client of KIP-890 sends neither of the first two: Produce and TxnOffsetCommit register what they write themselves. It
is known by its EndTxn, version 5 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, Final

from semel.core.transaction.requests import AddPartitions, Refused
from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import EPOCH_BUMP_FROM, Transaction
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.committed_offsets import OFFSETS_PARTITION
from semel.server.handlers.known_codes import as_known
from semel.server.handlers.schema import Large, once, partitions_once
from semel.server.outcome import Call
from semel.server.storage.aside import aside
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from semel.wire.messages import Fields, field_of

_BEFORE_EPOCH_BUMP: Final = 0
_FENCED_FROM: Final = 2
_EPOCH_BUMP_END_FROM: Final = 5
_ANY_DURATION: Final = -1
_NEVER: Final = ("Dead", "PrepareEpochFence")  # states of Kafka's in which none is here
_PATTERN_BYTES_MAX: Final = 1024
_AT_ONCE_MAX: Final = 1_000  # names: ten milliseconds


async def handle_add_partitions(broker: Broker, call: Call, request: Any) -> Fields:
    """All of the partitions, or none: where one is unknown the others are OPERATION_NOT_ATTEMPTED, as in Kafka."""
    topics = partitions_once(request.v3_and_below_topics, number=None)
    asked = [TopicPartition(topic, number) for topic, numbers in topics for number in numbers]
    codes = {name: _refusal_of(broker, name) for name in asked}
    if any(code is not ErrorCode.NONE for code in codes.values()):
        others = ErrorCode.OPERATION_NOT_ATTEMPTED
        codes = {name: others if code is ErrorCode.NONE else code for name, code in codes.items()}
    else:
        code = await broker.transactions.add(
            AddPartitions(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                frozenset(asked),
                _BEFORE_EPOCH_BUMP,
            ),
            call.now_ms,
        )
        codes = dict.fromkeys(asked, as_known(code, call.api_version, fenced_from=_FENCED_FROM))
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic,
                "results_by_partition": [
                    {
                        "partition_index": number,
                        "partition_error_code": codes[TopicPartition(topic, number)],
                    }
                    for number in numbers
                ],
            }
            for topic, numbers in topics
        ]
    }


async def handle_add_offsets(broker: Broker, call: Call, request: Any) -> Fields:
    """The group's offsets are written in the transaction, too."""
    code = await broker.transactions.add(
        AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({OFFSETS_PARTITION}),
            _BEFORE_EPOCH_BUMP,
        ),
        call.now_ms,
    )
    return {"error_code": as_known(code, call.api_version, fenced_from=_FENCED_FROM)}


async def handle_end(broker: Broker, call: Call, request: Any) -> Fields:
    raises_epoch = call.api_version >= _EPOCH_BUMP_END_FROM
    ended = await broker.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        call.now_ms,
        is_commit=request.committed,
        client_version=EPOCH_BUMP_FROM if raises_epoch else _BEFORE_EPOCH_BUMP,
    )
    if isinstance(ended, Refused):
        code = as_known(ended.error_code, call.api_version, fenced_from=_FENCED_FROM)
        return {
            "error_code": code,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        }
    return {
        "error_code": ErrorCode.NONE,
        "producer_id": ended.producer_id,
        "producer_epoch": ended.producer_epoch,
    }


async def handle_list(broker: Broker, call: Call, request: Any) -> Fields | Large:
    """Those that match every filter that is given."""
    titles = {state.title: state for state in TransactionState}
    unknown = [title for title in request.state_filters if title not in titles and title not in _NEVER]
    states = {titles[title] for title in request.state_filters if title in titles}
    producer_ids = set(request.producer_id_filters)
    duration_ms = field_of(request, "duration_filter", _ANY_DURATION)
    pattern = field_of(request, "transactional_id_pattern") or ""
    if len(pattern.encode()) > _PATTERN_BYTES_MAX:
        return _listed(ErrorCode.INVALID_REGULAR_EXPRESSION, (), ())
    found = [
        each
        for each in broker.transactions.transactions
        if (not request.state_filters or each.state in states)
        and (not producer_ids or each.producer_id in producer_ids)
        and (duration_ms < 0 or _lasts(each, call.now_ms, duration_ms))
    ]
    if pattern:
        matches = await aside(_matches, pattern, [each.transactional_id for each in found])
        if matches is None:
            return _listed(ErrorCode.INVALID_REGULAR_EXPRESSION, (), ())
        found = list(compress(found, matches))
    listed = _listed(ErrorCode.NONE, unknown, found)
    return Large(listed) if len(found) > _AT_ONCE_MAX else listed


def handle_describe(broker: Broker, call: Call, request: Any) -> Fields:
    return {
        "transaction_states": [
            _described(broker, name) for name in once(request.transactional_ids, lambda name: name)
        ]
    }


def _listed(code: ErrorCode, unknown: Iterable[str], found: Iterable[Transaction]) -> Fields:
    return {
        "error_code": code,
        "unknown_state_filters": list(unknown),
        "transaction_states": [
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.producer_id,
                "transaction_state": each.state.title,
            }
            for each in found
        ],
    }


def _matches(pattern: str, names: Sequence[str]) -> list[bool] | None:
    """Which of the names match as a whole; None if it is no pattern. By RE2, whose time is linear whatever a stranger
    sends, as in Apache Kafka.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # By itself first: what closes a bracket that it has not opened is no pattern.
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
        found = pc.match_substring_regex(pa.array(names, pa.string()), pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return None
    return found.to_pylist()  # type: ignore[no-any-return]


def _lasts(transaction: Transaction, now_ms: int, duration_ms: int) -> bool:
    """Whether it is under way for longer than that (KIP-994)."""
    is_open = transaction.state is TransactionState.ONGOING or transaction.state.is_prepared
    return is_open and now_ms - transaction.started_ms > duration_ms


def _described(broker: Broker, name: str) -> Fields:
    known = broker.transactions.transactions.get(name)
    if known is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name else ErrorCode.INVALID_REQUEST
        return _state_fields(Transaction(name, 0, 0, 0, started_ms=0), code, state="")  # Kafka's zeros
    return _state_fields(known, ErrorCode.NONE, state=known.state.title)


def _state_fields(known: Transaction, code: ErrorCode, state: str) -> Fields:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(known.partitions):
        topics.setdefault(topic, []).append(number)
    return {
        "error_code": code,
        "transactional_id": known.transactional_id,
        "transaction_state": state,
        "transaction_timeout": known.timeout_ms,
        "transaction_start_time": known.started_ms,
        "producer_id": known.producer_id,
        "producer_epoch": known.producer_epoch,
        "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }


def _refusal_of(broker: Broker, name: TopicPartition) -> ErrorCode:
    if broker.storage.find(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if broker.is_internal(name.topic) else ErrorCode.NONE
