"""DescribeAcls, CreateAcls, DeleteAcls, where nobody asks who may do what.

As Apache Kafka without an authorizer: clients take SECURITY_DISABLED for "this cluster has none", while a connection
that closes is a server that is too old, or gone.
"""

from __future__ import annotations

from typing import Any, Final

from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.outcome import Call
from semel.wire.messages import Fields

_NO_AUTHORIZER: Final[Fields] = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "this server has no authorizer: whoever reaches it may do everything",
}


def handle_describe(broker: Broker, call: Call, request: Any) -> Fields:
    return {**_NO_AUTHORIZER, "resources": ()}


def handle_create(broker: Broker, call: Call, request: Any) -> Fields:
    return {"results": [_NO_AUTHORIZER for _ in request.creations]}


def handle_delete(broker: Broker, call: Call, request: Any) -> Fields:
    return {"filter_results": [{**_NO_AUTHORIZER, "matching_acls": ()} for _ in request.filters]}
