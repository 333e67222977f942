"""A part of a history that lives beside its producers: who runs its clients, and does to them what people do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, Protocol, TypeVar

from semel.sim.server.machine import SimulatedServer
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms


def drawn_interval_ms(random: Random, least: int, most: int, chance: float) -> int:
    """A mean time between disasters of a kind; 0, by the rest of the chance: none."""
    return random.randint(least, most) if random.random() < chance else 0


class Operator:
    """Of one part; it has disasters in store until it is stopped."""

    def __init__(self, server: SimulatedServer, random: Random, around: Surroundings) -> None:
        self._server, self._random, self._around = server, random, around
        self._is_over = False
        self._stopped_ms: int | None = None
        self._disturbed_ms = 0

    @property
    def is_wanted(self) -> bool:
        """Whether there are disasters still."""
        return self._stopped_ms is None and not self._is_over

    @property
    def is_settled(self) -> bool:
        """Whether all has come to what it should be."""
        raise NotImplementedError

    @property
    def what_is_open(self) -> list[str]:
        """What has not."""
        raise NotImplementedError

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        raise NotImplementedError

    def stop(self) -> None:
        """No more disasters."""
        raise NotImplementedError

    def finished(self) -> None:
        """All is settled, with all other parts: the histories can be judged."""

    def end(self) -> None:
        """The end of the world."""
        raise NotImplementedError

    def _later(self, mean_ms: int, happen: Callable[[], None]) -> None:
        """Again and again, at about that distance."""

        def now() -> None:
            if self.is_wanted:
                happen()
                self._later(mean_ms, happen)

        self._around.scheduler.after(drawn_wait_ms(self._random, mean_ms), now)

    def _crash(self) -> None:
        if self.is_wanted:
            self._server.crash()


class Ledger(Protocol):
    is_on: bool


Run = TypeVar("Run", bound=Operator)


class Part(Generic[Run]):
    """What a history asks of it, from before its faults until nothing is left."""

    def __init__(self, ledger: Ledger, begin: Callable[[], Run]) -> None:
        self._ledger, self._begin = ledger, begin
        self._operator: Run | None = None

    def start(self) -> None:
        """The faults begin."""
        self._operator = self._begin()

    def stop(self) -> None:
        """No more disasters; what is there must settle."""
        if self._operator is not None:
            self._operator.stop()

    @property
    def is_settled(self) -> bool:
        return self._operator is None or self._operator.is_settled

    @property
    def what_is_open(self) -> list[str]:
        return [] if self._operator is None else self._operator.what_is_open

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        return [] if self._operator is None else self._operator.processes

    def finished(self) -> None:
        """All is there: the histories are judged."""
        if self._operator is not None:
            self._operator.finished()

    def end(self) -> None:
        """Clients are gone; what is done to the disk behind it is none of the checkers' business."""
        self._ledger.is_on = False
        if self._operator is not None:
            self._operator.end()
