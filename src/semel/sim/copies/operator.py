"""Who runs copies: starts one again whenever none runs, and does to them what people do.

He kills copies, at any time or behind a request of a certain number, starts a second one beside the first, lets both
run or stops one in good order, and now and then a machine stands still, for a moment or until everybody has forgotten
it. Where a job stops for good he does what the error says: begins one of another name, or goes on after a loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from semel.errors import DataLoss, ReplayUnprovable, SemelError
from semel.sim.copies.life import CopyLife
from semel.sim.copies.sites import Sites
from semel.sim.copies.story import CopyJob, CopyStory
from semel.sim.copies.watch import CopyWatcher
from semel.sim.world.faults import Fault
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms
from semel.wire.api import ApiKey

RESTART_MS: Final = (5, 800)
STALLS_MS: Final = ((20, 400), (400, 4_000), (3_000, 20_000))
REQUESTS_MAX: Final = (6, 20, 80)
JOBS_MAX: Final = 4
OVERLAP_MS_MAX: Final = 30
LOOK_AGAIN_MS: Final = 20


@dataclass(frozen=True, slots=True)
class CopyMix:
    """The chances of one seed."""

    interval_ms: int = 0  # mean time between disasters; 0: none
    second: float = 0.0  # that it is a second copy, else the first is killed
    stalls: float = 0.0  # that the first stands still meanwhile
    pause: float = 0.0  # that it is no more than that
    in_order: float = 0.0
    by_number: float = 0.0  # that a copy is to be killed behind a request of a certain number
    goes_on: float = 0.0  # after a loss, else another job begins

    @staticmethod
    def draw(random: Random) -> CopyMix:
        """Most of them are on."""
        return CopyMix(
            interval_ms=random.randint(400, 3_000),
            second=random.choice((0.2, 0.4, 0.7)),
            stalls=random.choice((0.0, 0.5, 0.9)),
            pause=random.choice((0.1, 0.3)),
            in_order=random.choice((0.0, 0.15)),
            by_number=random.choice((0.0, 0.4, 0.8)),
            goes_on=random.choice((0.0, 0.5, 1.0)),
        )


NO_DISASTERS: Final = CopyMix()


class CopyOperator:
    """Of all jobs of one history, for as long as that is."""

    def __init__(
        self, story: CopyStory, sites: Sites, random: Random, around: Surroundings, mix: CopyMix
    ) -> None:
        self._story = story
        self._sites = sites
        self._random = random
        self._around = around
        self._mix = mix
        self._goes_on: Final = mix.goes_on
        self._starts_due = 0
        self._is_over = False
        self._lives = 0

    def start(self) -> None:
        """Once there is something to copy."""
        if self._story.is_made:
            self._start()
            if self._mix is not NO_DISASTERS:
                self._plan_disaster()
        else:
            self._around.scheduler.after(LOOK_AGAIN_MS, self.start)

    def stop(self) -> None:
        """No more disasters; who runs goes on until no row comes any more."""
        self._mix = NO_DISASTERS
        self._close()

    @property
    def is_settled(self) -> bool:
        """All is copied, or nothing will be; and no copy is left."""
        job = self._story.job
        return (job.is_finished or job.has_stopped) and not self._alive()

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        return [(life.name, life.process) for life in self._alive()]

    @property
    def what_is_open(self) -> list[str]:
        return [] if self.is_settled else [self._story.job.name, *(life.name for life in self._alive())]

    def end(self) -> None:
        """The end of the world."""
        self._is_over = True
        for life in self._alive():
            life.die()

    def _alive(self) -> list[CopyLife]:
        return [life for job in self._story.jobs for life in job.lives if life.is_alive]

    def _close(self) -> None:
        """Once no row comes any more, whoever runs is to make way for a copy that goes to the end."""
        if self._is_over:
            return
        if not self._story.is_closed:
            self._around.scheduler.after(LOOK_AGAIN_MS, self._close)
            return
        for life in self._alive():
            if not life.until_end:
                life.stop_in_order()

    # -- lives ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        job = self._story.job
        if self._is_over or job.is_finished or job.has_stopped:
            return
        life = CopyLife(
            job,
            f"{job.name}.{self._lives}",
            Random(self._random.random()),
            self._sites,
            self._around,
            until_end=self._story.is_closed and self._mix is NO_DISASTERS,
            on_doom=self._doom_by_number,
            on_end=self._ended,
        )
        self._lives += 1
        if self._random.random() < self._mix.by_number:
            life.requests_left = self._random.randint(1, self._random.choice(REQUESTS_MAX))
            life.counts_only = self._random.choice((None, ApiKey.PRODUCE))
        life.start()

    def _start_later(self) -> None:
        if self._starts_due:
            return
        self._starts_due += 1
        self._around.scheduler.after(self._random.randint(*RESTART_MS), self._restart)

    def _restart(self) -> None:
        self._starts_due -= 1
        if not any(
            life.is_alive for life in self._story.job.lives
        ):  # those of a job before do nothing for it
            self._start()

    def _ended(self, life: CopyLife, error: SemelError | None) -> None:
        job = life.job
        if error is None:
            if life.until_end:
                job.is_finished = True
            self._start_later()
            return
        self._around.counts.verdict(f"copy: stopped, {type(error).__name__}")
        self._around.watchers.of(CopyWatcher).copy_stopped(self._story, life, error)
        if isinstance(error, (DataLoss, ReplayUnprovable)) and not job.is_finished:
            self._find_a_way_out(job, error)
        self._start_later()

    def _find_a_way_out(self, job: CopyJob, error: SemelError) -> None:
        """As the error says."""
        may_go_on = isinstance(error, DataLoss) and not job.goes_on_after_loss
        if may_go_on and self._random.random() < self._goes_on:
            job.goes_on_after_loss = True
        elif job is self._story.job:
            job.has_stopped = True
            if len(self._story.jobs) < JOBS_MAX:
                self._story.begin_job()

    # -- disasters --------------------------------------------------------------------------------------

    def _plan_disaster(self) -> None:
        self._around.scheduler.after(drawn_wait_ms(self._random, self._mix.interval_ms), self._disaster)

    def _disaster(self) -> None:
        mix, random, counts = self._mix, self._random, self._around.counts
        if mix is NO_DISASTERS or self._is_over:
            return
        alive = self._alive()
        if alive:
            life = random.choice(alive)
            if random.random() < mix.pause:
                if counts.bites(Fault.COPY_PAUSE, random, 1.0):
                    self._stall(life)
            elif counts.bites(Fault.COPY_SECOND, random, mix.second):
                if random.random() < mix.stalls:
                    self._stall(life)
                self._start()
                if random.random() < 0.2:  # at once, as when two machines do so
                    self._around.scheduler.after(random.randint(0, OVERLAP_MS_MAX), self._start)
            elif random.random() < mix.in_order:
                life.stop_in_order()
            else:
                self._doom(life)
        self._plan_disaster()

    def start_rival(self) -> None:
        """Beside whoever runs, who may well stand still for a while."""
        alive = self._alive()
        if self._mix is not NO_DISASTERS and alive and self._around.counts.occurs(Fault.COPY_SECOND):
            self._around.counts.bit(Fault.COPY_SECOND)
            if self._random.random() < self._mix.stalls:
                self._stall(self._random.choice(alive))
            self._start()

    def _doom_by_number(self, life: CopyLife) -> None:
        """Killed; or it stands still amid what it does, and another one comes."""
        if life.is_alive and self._mix is not NO_DISASTERS and self._random.random() < self._mix.stalls:
            if self._around.counts.bites(Fault.COPY_SECOND, self._random, 1.0):
                self._stall(life)
                self._start()
        else:
            self._doom(life)

    def _doom(self, life: CopyLife) -> None:
        if (
            life.is_alive
            and not self._is_over
            and self._around.counts.bites(Fault.COPY_KILL, self._random, 1.0)
        ):
            life.die()
            self._start_later()

    def _stall(self, life: CopyLife) -> None:
        stall_ms = self._random.randint(*self._random.choice(STALLS_MS))
        life.process.stop_for(stall_ms)
        self._around.trace.note(life.name, f"stands still for {stall_ms} ms")
