"""One life of whoever runs queries: a process, the workers that it has started, and what becomes of them.

It may die between any two steps, and what it has started may outlive it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from semel.errors import SemelError
from semel.sim.sinks.mix import SinkMix
from semel.sim.sinks.worker import Worker
from semel.sim.world.faults import Fault
from semel.sim.world.fiber import Fiber, Pending
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings

_T = TypeVar("_T")

STALLS_MS: Final = ((20, 400), (20, 400), (400, 4_000))


class Life:
    """``_live`` is what it does. When that is over, ``_ended`` is called with the error, or with ``None``."""

    def __init__(
        self, name: str, random: Random, around: Surroundings, mix: Callable[[], SinkMix], attempts_max: int
    ) -> None:
        self.name: Final = name
        self.process: Final = Process(around.scheduler)
        self.attempts_max = attempts_max  # spark.task.maxFailures
        self.had_rival = False  # another driver, or what was left of one, lived at the same time
        self.workers: list[Worker] = []  # those alive
        self._random = random
        self._around = around
        self._mix = mix
        self._workers_made = 0
        self._task_attempts = 0
        self._fiber = Fiber(self.process, self._live, self._over)

    def start(self) -> None:
        self._fiber.start()

    def _live(self) -> None:
        raise NotImplementedError

    def _ended(self, error: SemelError | None) -> None:
        raise NotImplementedError

    def _kept(self) -> tuple[Worker | None, ...]:
        """The workers that it does not end after a call."""
        raise NotImplementedError

    # -- what its parts ask ----------------------------------------------------------------------------

    @property
    def mix(self) -> SinkMix:
        return self._mix()

    @property
    def is_gone(self) -> bool:
        """It, and all that it has started."""
        return not self.process.alive and not self.workers

    @property
    def has_running_tasks(self) -> bool:
        kept = self._kept()
        return self.process.alive and any(worker.is_busy for worker in self.workers if worker not in kept)

    def bites(self, fault: Fault, chance: float) -> bool:
        return self._around.counts.bites(fault, self._random, chance)

    def trace_note(self, what: str) -> None:
        self._around.trace.note(self.name, what)

    def next_task_attempt_id(self) -> int:
        self._task_attempts += 1
        return self._task_attempts - 1

    def new_worker(self, kind: str) -> Worker:
        self._workers_made += 1
        worker = Worker(f"{self.name}.{kind}", self.name, self._around.scheduler, self._around.network)
        self.workers.append(worker)
        return worker

    def worker_is_done(self, worker: Worker) -> None:
        """A task's process has nothing more to do; so it is with the others of a driver that is dead."""
        if worker not in self._kept() or not self.process.alive:
            self.kill_worker(worker)

    def kill_worker(self, worker: Worker) -> None:
        worker.die()
        if worker in self.workers:
            self.workers.remove(worker)

    def stall(self, worker: Worker) -> None:
        """What nobody waits for may well stand still for a while, and then go on."""
        if self._random.random() < 0.6:
            worker.process.stop_for(self._random.randint(*self._random.choice(STALLS_MS)))

    def stall_all(self) -> None:
        """Its machine swaps, or its network is cut: that is why another driver is started."""
        for worker in self.workers:
            if worker.is_busy:
                self.stall(worker)

    def die(self, zombie: float = 0.0) -> None:
        """Killed; with chance ``zombie`` each, what it has started goes on."""
        if not self.process.alive:
            return
        self.process.alive = False
        for worker in list(self.workers):
            if not worker.is_busy or not self.bites(Fault.SINK_ZOMBIE, zombie):
                self.kill_worker(worker)
        self.stall_all()
        self._fiber.end()
        self.trace_note(f"dies; {[worker.name for worker in self.workers]} go on")

    def die_with_all(self) -> None:
        """The end of the world."""
        self.die()
        for worker in list(self.workers):
            self.kill_worker(worker)

    # -- calls to its workers --------------------------------------------------------------------------

    def _call(self, worker: Worker, work: Callable[[], _T]) -> _T:
        answer: Pending[_T] = Pending()

        def over(result: _T | None, error: Exception | None) -> None:
            if not self.process.alive:
                self.worker_is_done(worker)
            self.process.soon(lambda: answer.know(result, error))

        worker.run(work, over)
        return answer.result()

    def _over(self, result: Any, error: Exception | None) -> None:
        if error is not None and not isinstance(error, SemelError):
            raise error
        self.process.alive = False
        for worker in list(self.workers):
            if not worker.is_busy:
                self.kill_worker(worker)
        self.trace_note(f"ends: {'all is decided' if error is None else f'{type(error).__name__}: {error}'}")
        self._ended(error)
