"""``rows_resume_exactly``: of every source each row is stored once, in order, and none before the saved
position is missing, however often its producer died, and however many copies of it ran at once.

At every moment a partition holds the first rows of its share, without a hole; at the end all of them. Of an input
that a copy was started on by mistake it holds nothing.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import OTHER_INPUT, History, Logs, lineage_of


class RowsResumeExactly(Checker):
    """By the numbers in the values; what was trimmed is taken for granted."""

    name: ClassVar[str] = "rows_resume_exactly"

    def logs(self, history: History, logs: Logs) -> None:
        for source in history.sources:
            saved_position = source.saved_position
            for tp, batches in logs.items():
                found = []
                for batch in batches:
                    for value in batch.values:
                        lineage, row = lineage_of(value)
                        if lineage == f"{source.name}/{tp.partition}":
                            found.append(row)
                        elif lineage.startswith(f"{source.name}{OTHER_INPUT}/"):
                            raise self.violated(
                                f"{tp} holds row {row} of an input that {source.name} never had"
                            )
                expected = source.rows_of(tp)
                first = expected.index(found[0]) if found and found[0] in expected else 0
                if first and not history.log_starts.get(tp, 0):
                    raise self.violated(f"the first row of {source.name} in {tp} is {found[0]}")
                if found != expected[first : first + len(found)]:
                    wrong = next(
                        n for n, row in enumerate(found) if expected[first + n : first + n + 1] != [row]
                    )
                    raise self.violated(
                        f"{source.name} in {tp}: behind row {found[wrong - 1] if wrong else None} lies row "
                        f"{found[wrong]}, due was {expected[first + wrong : first + wrong + 1]}"
                    )
                saved_to = max((row for row in expected if row <= saved_position), default=-1)
                if saved_to >= 0 and not (found and found[-1] >= saved_to):
                    if not found and history.log_starts.get(tp, 0):
                        continue  # trimmed as a whole
                    raise self.violated(
                        f"{source.name} saved position {saved_position}, and its row {saved_to} is not "
                        f"in {tp}"
                    )
