"""``sink_attempts_not_mixed``: where the attempts of a task give other rows each time, what is decided is the rows
of one of them, whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.sinks.story import ONE_TOO_MANY

if TYPE_CHECKING:
    from semel.sim.sinks.view import SinkView


class SinkAttemptsNotMixed(Checker):
    """By the version that each row carries. A source partition's range is one task's: such a sink is not split.

    Rows too many may be a later micro-batch's, for all that the next run can tell of them: stored before any decision,
    or by a twin that was late for it. None of them is decided, and that micro-batch stops because they are not its own;
    so a sink that comes to its end has none.
    """

    name: ClassVar[str] = "sink_attempts_not_mixed"

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            if not view.story.rows_differ or not view.is_whole:
                continue
            stored = [one.row for one in (view.rows if view.story.is_finished else view.decided_rows)]
            versions = {(row.source_partition, row.number): row.version for row in stored if not row.is_extra}
            extras = {(row.source_partition, row.number) for row in stored if row.is_extra}
            starts: dict[int, int] = {}
            for decision in view.decisions:
                for tp, end in decision.source_ends.items():
                    start = starts.get(tp.partition, 0)
                    if end <= start:
                        continue
                    starts[tp.partition] = end
                    rows = range(start, end)
                    found = {versions.get((tp.partition, number)) for number in rows}
                    if len(found) > 1:
                        raise self.violated(f"rows {start} to {end - 1} of {tp} come from versions {found}")
                    extra = [number for number in rows if (tp.partition, number) in extras]
                    if extra != ([end - 1] if found == {ONE_TOO_MANY} else []):
                        raise self.violated(
                            f"rows {start} to {end - 1} of {tp} are of version {found}, with rows too many at {extra}"
                        )
