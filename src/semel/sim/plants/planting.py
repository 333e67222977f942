"""How a bug is planted: patched into the code while it is switched on, and taken out again.

The product knows nothing of it. Each plant names the checkers that may be the ones to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final


class Patches:
    """What was changed, so that it can be changed back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Put ``value`` in the place of ``owner.name``, and return what was there."""
        before = vars(owner)[name]
        self._before.append((owner, name, before))
        setattr(owner, name, value)
        return before

    def undo(self) -> None:
        for owner, name, before in reversed(self._before):
            setattr(owner, name, before)
        self._before.clear()


@dataclass(frozen=True, slots=True)
class Plant:
    """One bug: what is broken, what it resembles, and which checkers may be the ones to find it."""

    name: str
    broken: str
    resembles: str
    found_by: tuple[str, ...]
    switch_on: Callable[[Patches], None]
    may_show: Callable[[int], bool]  # in which seeds

    @contextmanager
    def planted(self) -> Iterator[None]:
        patches = Patches()
        self.switch_on(patches)
        try:
            yield
        finally:
            patches.undo()


PLANTS: Final[dict[str, Plant]] = {}


def every_seed(seed: int) -> bool:
    """What most bugs may show in."""
    return True


def plant(
    broken: str, resembles: str, *found_by: str, may_show: Callable[[int], bool] = every_seed
) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Make a bug known under its function's name; ``may_show``: seeds for which it is false are passed over."""

    def register(switch_on: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = switch_on.__name__
        PLANTS[name] = Plant(name, broken, resembles, found_by, switch_on, may_show)
        return switch_on

    return register


STORED, ONCE, ORDER = "acknowledged_is_stored", "nothing_twice", "order"
ONE_VALUE, DENSE, MARKS = "one_value_per_offset", "dense_offsets", "high_watermark_rises"
DEFINITE, REPLAYED, RESUMED = "answers_are_definite", "recovered_state_equals_replay", "rows_resume_exactly"
FINISHES, FENCED, STARTS = "healed_world_finishes", "fence_holds", "log_start_rises"
BESIDE = "rot_beside_costs_nothing"
OPENS, PREFIX, TOLD = "sound_disk_opens", "what_is_left_is_a_prefix", "lost_end_is_told"
OVER, LIVES, GRANTED = "lease_over_for_ever", "lease_lives_its_length", "granted_once"
SILENCE = "in_doubt_only_in_silence"
BOUND, ROOM, REFUSALS = "bound_holds", "lease_room_is_kept", "refused_only_at_the_bound"
