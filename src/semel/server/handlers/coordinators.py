"""FindCoordinator: the one broker coordinates everything.

Key types: 0 a consumer group (its committed offsets), 1 a transactional id (a named producer identity).
Share groups (2) are not there.
"""

from __future__ import annotations

from typing import Any, Final

from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of

_KEY_TYPES: Final = (0, 1)
_SEVERAL_KEYS_FROM: Final = 4


def handle(broker: Broker, call: Call, request: Any) -> Fields:
    known = field_of(request, "key_type", 0) in _KEY_TYPES
    address = broker.advertised(call)
    here: Fields = {
        "error_code": ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST,
        "error_message": None if known else "this type of coordinator is not supported",
        "node_id": broker.settings.broker_id if known else -1,
        "host": address.host if known else "",
        "port": address.port if known else -1,
    }
    if call.api_version < _SEVERAL_KEYS_FROM:
        return here
    return {"coordinators": [{"key": key, **here} for key in request.coordinator_keys]}
