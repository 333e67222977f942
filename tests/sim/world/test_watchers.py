"""Who is told what: each watcher of what it overrides, in order, and of no other subject."""

from __future__ import annotations

from semel.sim.world.watchers import Watchers

TOLD: list[str] = []


class Doors:
    def opened(self, door: str, *, wide: bool) -> None:
        """Nothing."""

    def closed(self) -> None:
        """Nothing."""


class Lamps:
    def lit(self) -> None:
        """Nothing."""


class Porter(Doors):
    def __init__(self, name: str) -> None:
        self.name = name

    def opened(self, door: str, *, wide: bool) -> None:
        TOLD.append(f"{self.name}: {door} {wide}")


class Caretaker(Porter, Lamps):
    def lit(self) -> None:
        TOLD.append(f"{self.name}: lit")


def test_all_who_override_a_hook_are_told_in_order() -> None:
    TOLD.clear()
    doors = Watchers([Porter("b"), Caretaker("a"), Lamps()]).of(Doors)
    doors.opened("north", wide=True)
    assert TOLD == ["b: north True", "a: north True"]


def test_one_who_overrides_it_is_told_alone() -> None:
    TOLD.clear()
    Watchers([Porter("b"), Caretaker("a")]).of(Lamps).lit()
    assert TOLD == ["a: lit"]


def test_what_nobody_overrides_does_nothing() -> None:
    watchers = Watchers([Porter("b")])
    watchers.of(Doors).closed()
    watchers.of(Lamps).lit()
    assert watchers.of(Doors) is watchers.of(Doors)
