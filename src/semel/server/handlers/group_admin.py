"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete: groups as administrators see them."""

from __future__ import annotations

from typing import Any, Final

from semel.core.group.group import Group, Member
from semel.core.group.requests import DeleteOffsets
from semel.core.group.states import DEAD, GroupState
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.coordinator import NOT_STORED
from semel.server.handlers.authorized import NOT_ASKED, ON_GROUP, when_asked
from semel.server.handlers.schema import Large, partitions_once
from semel.server.outcome import Call
from semel.types import TopicPartition
from semel.wire.messages import Fields, field_of

CLASSIC: Final = "classic"
_IS_ERROR_FROM: Final = 6  # that a group is not there (KIP-1043)


async def handle_list(broker: Broker, call: Call, request: Any) -> Large:
    del call
    states = {state.lower() for state in field_of(request, "states_filter", ())}
    types = {kind.lower() for kind in field_of(request, "types_filter", ())}
    return Large(
        {
            "error_code": ErrorCode.NONE,
            "groups": [
                {
                    "group_id": group_id,
                    "protocol_type": protocol_type,
                    "group_state": state.value,
                    "group_type": CLASSIC,
                }
                for group_id, protocol_type, state in broker.coordinator.groups
                if (not states or state.value.lower() in states) and (not types or CLASSIC in types)
            ],
        }
    )


async def handle_describe(broker: Broker, call: Call, request: Any) -> Large:
    wants_operations = field_of(request, "include_authorized_operations", False)
    return Large(
        {
            "groups": [
                _described(broker, group_id, call.api_version, wants_operations=wants_operations)
                for group_id in dict.fromkeys(request.groups)
            ]
        }
    )


def _described(broker: Broker, group_id: str, api_version: int, *, wants_operations: bool) -> Fields:
    groups = broker.coordinator.groups
    group = groups.membership.get(group_id)
    fields: dict[str, Any] = {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": group_id,
        "group_state": DEAD,
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": when_asked(wants_operations, ON_GROUP),
    }
    if group is not None:
        # Who reads what is settled only once the assignment is with all; until then members have told nothing.
        is_stable = group.state is GroupState.STABLE
        fields["group_state"] = group.state.value
        fields["protocol_type"] = group.protocol_type or ""
        fields["protocol_data"] = (group.protocol_name or "") if is_stable else ""
        fields["members"] = [_member(group, member, is_stable=is_stable) for member in group.members.values()]
    elif group_id in groups:  # it only commits offsets
        fields["group_state"] = GroupState.EMPTY.value
    elif api_version >= _IS_ERROR_FROM:
        fields["error_code"] = ErrorCode.GROUP_ID_NOT_FOUND
        fields["error_message"] = f"Group {group_id} not found."
        fields["authorized_operations"] = NOT_ASKED
    return fields


def _member(group: Group, member: Member, *, is_stable: bool) -> Fields:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata_for(group.protocol_name) if is_stable else b"",
        "member_assignment": member.assignment,
    }


async def handle_delete(broker: Broker, call: Call, request: Any) -> Fields:
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        code = await broker.coordinator.delete_group(group_id, call.now_ms)
        results.append({"group_id": group_id, "error_code": NOT_STORED if code is None else code})
    return {"results": results}


async def handle_offset_delete(broker: Broker, call: Call, request: Any) -> Fields:
    asked = partitions_once(request.topics)
    named = [TopicPartition(topic, one.partition_index) for topic, items in asked for one in items]
    storage = broker.storage
    known = [name for name in named if storage.find(name) is not None]
    deleted = await broker.coordinator.delete_offsets(DeleteOffsets(request.group_id, known), call.now_ms)
    codes = NOT_STORED if deleted is None else deleted
    if isinstance(codes, ErrorCode):
        return {"error_code": codes, "topics": []}
    return {
        "error_code": ErrorCode.NONE,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": codes.get(
                            TopicPartition(topic, one.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    }
                    for one in items
                ],
            }
            for topic, items in asked
        ],
    }
