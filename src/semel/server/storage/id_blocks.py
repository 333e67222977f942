"""Where a server's blocks of producer ids come from: one global sequence behind one small interface.

Invariant: a block that was taken is nobody else's, and no id of it was ever in a block before. It is for the
taker to log it before its first id is used: what the log says it has had is the floor of all later blocks.
"""

from __future__ import annotations

from typing import Protocol

from semel.core.identity import BLOCK_IDS, IdBlock


class IdBlocks(Protocol):
    """Neither call waits for anything: both come from the event loop."""

    def claim_ahead(self, floor_id: int) -> None:
        """Have a block ready for the next :meth:`take`; nothing if one is ready or on its way."""

    def take(self, floor_id: int) -> IdBlock | None:
        """A block at or above ``floor_id``, the end of the last one that was taken; None while there is none."""


class FolderIdBlocks:
    """For a server that shares its ids with nobody: the data folder's own log is the sequence."""

    def claim_ahead(self, floor_id: int) -> None:
        """Nothing to do: the log is at hand."""

    def take(self, floor_id: int) -> IdBlock:
        return IdBlock(floor_id, floor_id + BLOCK_IDS)
