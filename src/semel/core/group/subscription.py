"""What a consumer says that it reads: the head of Kafka's ``ConsumerProtocolSubscription``, alike in all versions."""

from __future__ import annotations

import struct
from typing import Final

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics that a member's metadata names; ``None`` where it is in no form that is known."""
    try:
        if _INT16.unpack_from(subscription)[0] < 0:
            return None
        (count,) = _INT32.unpack_from(subscription, _INT16.size)
        position, topics = _INT16.size + _INT32.size, []
        for _ in range(count):
            start = position + _INT16.size
            position = start + _INT16.unpack_from(subscription, position)[0]
            if not start <= position <= len(subscription):
                return None
            topics.append(subscription[start:position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
