"""How much one request may make or delete: changes go one at a time, and those of others wait meanwhile.

What does not fit is refused with THROTTLING_QUOTA_EXCEEDED, as Kafka does with too many changes at once
(KIP-599): the client asks again for the rest, and others are served in between.
"""

from __future__ import annotations

from typing import Final

from semel.core.topics import Refused
from semel.errors import ErrorCode

PARTITIONS_MAX: Final = 1000  # about a second
_TOPIC_COST: Final = 5  # a topic's own sync, in partitions

_COME_AGAIN: Final = Refused(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many changes in one request; ask again for the rest"
)


class Room:
    """What one request may still do."""

    def __init__(self) -> None:
        self._left = PARTITIONS_MAX

    def refusal(self, partitions: int) -> Refused | None:
        """Why so many partitions of one topic cannot be made now, or never."""
        if partitions > PARTITIONS_MAX:
            reason = f"{partitions} partitions at once: make up to {PARTITIONS_MAX}, then add more"
            return Refused(ErrorCode.POLICY_VIOLATION, reason)
        return _COME_AGAIN if partitions > self._left else None

    def refusal_of_another(self) -> Refused | None:
        """Why no topic can be deleted or altered now; the first one always can, however large it is."""
        return _COME_AGAIN if self._left <= 0 else None

    def spend(self, partitions: int) -> None:
        """So many partitions of one topic were made, or deleted; none if it was altered."""
        self._left -= partitions + _TOPIC_COST
