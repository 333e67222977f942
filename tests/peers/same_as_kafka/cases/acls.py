"""Access lists where there is no authorizer."""

from __future__ import annotations

from typing import Any, Final

from tests.peers.same_as_kafka import Wire, case, plain

_RULE: Final[dict[str, Any]] = {"operation": 3, "permission_type": 3}  # read, allow
_CREATION: Final = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*", **_RULE,
}  # fmt: skip
_FILTER: Final = {
    "resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 3, "principal_filter": None,
    "host_filter": None, **_RULE,
}  # fmt: skip


@case()
def described_made_and_deleted(wire: Wire) -> object:
    found = {}
    for version in (1, 2, 3):
        found[version] = [
            plain(answer, "error_message")
            for answer in (
                wire.ask("describe_acls", version, **_FILTER),
                wire.ask("create_acls", version, creations=[_CREATION, _CREATION | {"principal": "User:b"}]),
                wire.ask("delete_acls", version, filters=[_FILTER, _FILTER | {"principal_filter": "User:b"}]),
                wire.ask("create_acls", version, creations=[]),
            )
        ]
    return found
