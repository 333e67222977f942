"""When the planner of a merge log records a TICK: which partitions have rested for so long as the flow asks for.

A tick tells the steps for how long nothing came, and their time goes on by as much. It is recorded, so a replay has it
where the first run had it; the clock that measured it is the planner's own, monotone, and never asked again.

Invariants
    A partition rests from when the planner last saw a row in any of its inputs, or from when this planner began:
    what went by while nobody planned does not count, for nobody has seen that nothing came.
    It rests up to a moment at which all that its stage's sources had is known to have come through the stages in
    between. A stage above that stands still, or is busy with last year's rows, takes no row's window away.
    Ticks do not overlap: one ends where the next begins, and each is the idle time or longer. So an hour of rest is an
    hour of the rows' time, however often it is looked at, and there is one tick at most for each idle time.
    Behind the last window that can be open there are none: a flow that rests comes to rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Partition:
    ends: object  # of its inputs, to be compared only
    since_ms: int
    left_ms: list[int]  # for each window of the stage, the rest that closes it


@dataclass(slots=True)
class Resting:
    """The partitions of one stage, by a clock that never goes back."""

    idle_ms: int
    rests_ms: Sequence[int]  # for each window, in the order of the steps: behind so long a rest it is closed
    _partitions: dict[int, _Partition] = field(default_factory=dict)

    def see(self, number: int, ends: object, now_ms: int, *, is_new: bool = False) -> None:
        """Where the recorded ends of a partition's inputs are. ``is_new``: nothing was ever recorded of it."""
        known = self._partitions.get(number)
        if known is None or known.ends != ends:
            self._partitions[number] = _Partition(ends, now_ms, [] if is_new else list(self.rests_ms))

    def may_be_due(self, now_ms: int) -> bool:
        """Whether it is worth asking what is under way in the stages above."""
        return bool(self.due(now_ms))

    def due(self, quiet_ms: int) -> dict[int, int]:
        """The ticks, by partition, where at ``quiet_ms`` nothing was under way to any."""
        return {
            number: quiet_ms - part.since_ms
            for number, part in self._partitions.items()
            if part.left_ms and quiet_ms - part.since_ms >= self.idle_ms
        }

    def ticked(self, number: int, tick_ms: int) -> None:
        """This tick of :meth:`due` was recorded."""
        part = self._partitions[number]
        part.since_ms += tick_ms
        part.left_ms[0] -= tick_ms
        if part.left_ms[0] <= 0:  # what it has told may lie in the next window since this tick
            part.left_ms.pop(0)
