"""``sink_rows_once``: a sink's output holds each row of its source at most once, at every moment; and all of them
once its query has finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker

if TYPE_CHECKING:
    from semel.sim.sinks.view import SinkView, StoredRow


class SinkRowsOnce(Checker):
    """By the rows' numbers, whatever version of the query gave them; what was trimmed is remembered.

    What a sink had not decided when it was given up for one of another name is a matter of its own.
    """

    name: ClassVar[str] = "sink_rows_once"

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            seen: dict[tuple[int, int, bool, str], StoredRow] = {}
            for stored in (*view.rows, *view.rows_left):
                row = stored.row
                name = (row.source_partition, row.number, row.is_extra, stored.left_by)
                first = seen.setdefault(name, stored)
                if first is not stored:
                    raise self.violated(f"{first}, and {stored}")
            if view.story.is_finished and view.is_whole:
                for tp, head in view.story.heads().items():
                    story = view.story
                    end = story.number_of(story.source_topics[-1].topic_id, tp, head)
                    missing = [
                        n
                        for n in range(end)
                        if (tp.partition, n, False, "") not in seen and not story.may_be_lost(tp, n)
                    ]
                    if missing:
                        raise self.violated(
                            f"{tp} was written to its end {head}, and misses rows {missing[:5]}"
                        )
