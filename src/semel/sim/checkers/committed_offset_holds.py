"""``committed_offset_holds``: the offset that a group has committed is one that it sent, and stays once it was told.

A commit may arrive late and twice, and the last to arrive counts: so any that was ever sent may be there, but none
at all only as long as none was acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

NONE_COMMITTED: Final = -1


class CommittedOffsetHolds(Checker):
    """At every answer to who asks for it."""

    name: ClassVar[str] = "committed_offset_holds"

    def committed_is(
        self, tp: TopicPartition, known: int, sent: Sequence[int], *, was_acknowledged: bool
    ) -> None:
        if known not in sent and (known != NONE_COMMITTED or was_acknowledged):
            raise self.violated(f"{tp}: offset {known} is committed, sent were {list(sent)}")
