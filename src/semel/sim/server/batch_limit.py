"""How large a batch the log takes: mostly larger than any that comes, in some histories smaller.

There producers have to split batches, and the first batch of a row that is too large by itself is refused for good,
with others behind it. A producer with a saved position would stop at such a row, so only the others send any.
"""

from __future__ import annotations

from random import Random
from typing import Final

SMALL_CHANCE: Final = 0.5
SMALL_BYTES: Final = (160, 220, 320)  # a row alone takes less than 160; producers fill batches of up to 400
TOO_LARGE_CHANCE: Final = 0.08  # of each row


class BatchLimit:
    """The topic's ``max.message.bytes``, and the rows that exceed it."""

    def __init__(self, random: Random) -> None:
        self.message_bytes_max = random.choice(SMALL_BYTES) if random.random() < SMALL_CHANCE else None

    @property
    def topic_config(self) -> dict[str, str]:
        return {} if self.message_bytes_max is None else {"max.message.bytes": str(self.message_bytes_max)}

    def key_of_next_row(self, random: Random) -> bytes | None:
        """None, or so large a key that the row cannot be stored."""
        if self.message_bytes_max is None or random.random() >= TOO_LARGE_CHANCE:
            return None
        return bytes(self.message_bytes_max)
