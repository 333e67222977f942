"""ApiVersions: what is served. A version that is not gets error 35 in version 0 (KIP-511)."""

from __future__ import annotations

from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.outcome import Answer, Call, Outcome
from semel.wire import api_versions
from semel.wire.frames import Buffer


def handle(broker: Broker, call: Call, body: Buffer) -> Outcome:
    name, version = api_versions.decode_request(call.api_version, body)
    software = None if name is None else f"{name} {version}"
    return Answer((api_versions.encode_response(call.api_version, ErrorCode.NONE),), software=software)
