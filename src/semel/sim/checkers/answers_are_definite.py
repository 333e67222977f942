"""``answers_are_definite``: every batch gets the verdict that the whole log calls for.

The second opinion (:mod:`semel.sim.server.reference`) knows every batch, not the last five, and does not wrap.
"""

from __future__ import annotations

from typing import ClassVar

from semel.record.batch import BatchHeader
from semel.sim.checkers.base import Checker
from semel.sim.server.reference import PartitionLedger
from semel.types import TopicPartition


class AnswersAreDefinite(Checker):
    """At every append, and for a duplicate its offset too."""

    name: ClassVar[str] = "answers_are_definite"

    def judged(
        self,
        tp: TopicPartition,
        header: BatchHeader,
        ledger: PartitionLedger,
        verdict: str,
        base_offset: int | None,
    ) -> None:
        expected = ledger.expected_of_marker(header) if header.is_control else ledger.expected(header)
        if verdict != expected.verdict or (verdict == "Duplicate" and base_offset != expected.base_offset):
            who = f"{header.producer_id}/{header.producer_epoch}"
            raise self.violated(
                f"{tp}: {verdict} at {base_offset} instead of {expected.verdict} at {expected.base_offset} "
                f"for sequences {header.base_sequence}..{header.last_sequence} of {who}"
            )
