"""Handlers of the messages that go through kio: from fields to fields, in any version.

Such a handler takes kio's request and gives the fields of the answer, or :class:`FieldsAfterSync` when the
answer must wait for the disk; :func:`through_schema` puts the bytes around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from semel.server.durability import Syncable
from semel.server.outcome import AfterSync, Answer, Call, Outcome
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer
from semel.wire.messages import Fields

if TYPE_CHECKING:
    from semel.server.broker import Broker


@dataclass(frozen=True, slots=True)
class FieldsAfterSync:
    """Sync these partitions, then ask for the answer's fields."""

    partitions: Sequence[Syncable]
    finish: Callable[[], Fields]


Handler: TypeAlias = "Callable[[Broker, Call, Buffer], Outcome]"
FieldsHandler: TypeAlias = "Callable[[Broker, Call, Any], Fields | FieldsAfterSync]"


def through_schema(api_key: ApiKey, handle: FieldsHandler) -> Handler:
    """A handler of bytes from a handler of fields."""

    def handle_bytes(broker: Broker, call: Call, body: Buffer) -> Outcome:
        version = call.api_version
        result = handle(broker, call, messages.decode_request(api_key, version, body))
        if not isinstance(result, FieldsAfterSync):
            return Answer((messages.encode_response(api_key, version, result),))
        finish = result.finish
        return AfterSync(
            result.partitions, lambda: Answer((messages.encode_response(api_key, version, finish()),))
        )

    return handle_bytes
