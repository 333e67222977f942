"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the members of groups, by the classic protocol."""

from __future__ import annotations

from typing import Any, Final

from semel.core.group.group import Protocol
from semel.core.group.requests import (
    Heartbeat,
    Join,
    Leave,
    Leaving,
    Sync,
)
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.coordinator import NOT_STORED
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of, milliseconds

_NEEDS_KNOWN_ID_FROM: Final = 4  # KIP-394
_CAN_SKIP_ASSIGNMENT_FROM: Final = 9  # KIP-814
_NULLABLE_PROTOCOL_FROM: Final = 7
_SYNC_NAMES_PROTOCOL_FROM: Final = 5  # KIP-559
_SEVERAL_LEAVE_FROM: Final = 3


async def handle_join(broker: Broker, call: Call, request: Any) -> Fields:
    coordinator = broker.coordinator
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout = field_of(request, "rebalance_timeout")
    instance_id = field_of(request, "group_instance_id")
    client_id = call.client_id or ""

    def join(ticket: int) -> Join:
        return Join(
            ticket,
            request.group_id,
            request.member_id,
            instance_id,
            client_id,
            f"/{call.peer_host}",  # as Java writes an address
            session_timeout_ms,
            session_timeout_ms if rebalance_timeout is None else milliseconds(rebalance_timeout),
            request.protocol_type,
            [Protocol(one.name, bytes(one.metadata)) for one in request.protocols],
            coordinator.member_id_for(client_id if instance_id is None else instance_id),
            needs_known_id=call.api_version >= _NEEDS_KNOWN_ID_FROM,
            can_skip_assignment=call.api_version >= _CAN_SKIP_ASSIGNMENT_FROM,
        )

    answer = await coordinator.join(join, call.now_ms)
    protocol_name = answer.protocol_name
    if protocol_name is None and call.api_version < _NULLABLE_PROTOCOL_FROM:
        protocol_name = ""
    return {
        "error_code": answer.error_code,
        "generation_id": answer.generation_id,
        "protocol_type": answer.protocol_type,
        "protocol_name": protocol_name,
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": one.metadata}
            for one in answer.members
        ],
    }


async def handle_sync(broker: Broker, call: Call, request: Any) -> Fields:
    protocol_type, protocol_name = field_of(request, "protocol_type"), field_of(request, "protocol_name")
    if call.api_version >= _SYNC_NAMES_PROTOCOL_FROM and None in (protocol_type, protocol_name):
        return {
            "error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "protocol_type": None,
            "protocol_name": None,
            "assignment": b"",
        }

    def sync(ticket: int) -> Sync:
        return Sync(
            ticket,
            request.group_id,
            request.generation_id,
            request.member_id,
            field_of(request, "group_instance_id"),
            protocol_type,
            protocol_name,
            {one.member_id: bytes(one.assignment) for one in request.assignments},
        )

    answer = await broker.coordinator.sync(sync, call.now_ms)
    return {
        "error_code": answer.error_code,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name,
        "assignment": answer.assignment,
    }


def handle_heartbeat(broker: Broker, call: Call, request: Any) -> Fields:
    del call
    heartbeat = Heartbeat(
        request.group_id, request.generation_id, request.member_id, field_of(request, "group_instance_id")
    )
    return {"error_code": broker.coordinator.heartbeat(heartbeat)}


async def handle_leave(broker: Broker, call: Call, request: Any) -> Fields:
    if call.api_version < _SEVERAL_LEAVE_FROM:
        leaving = [Leaving(request.member_id, None)]
    else:
        leaving = [Leaving(one.member_id, one.group_instance_id) for one in request.members]
    codes = await broker.coordinator.leave(Leave(request.group_id, leaving), call.now_ms)
    if codes is None or isinstance(codes, ErrorCode):
        return {"error_code": NOT_STORED if codes is None else codes, "members": []}
    if call.api_version < _SEVERAL_LEAVE_FROM:
        return {"error_code": codes[0]}
    return {
        "error_code": ErrorCode.NONE,
        "members": [
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "error_code": code}
            for each, code in zip(leaving, codes, strict=True)
        ],
    }
