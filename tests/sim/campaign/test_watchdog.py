"""What hangs is ended, and told where it was."""

import signal
import time
from threading import Lock

import pytest

from semel.sim.campaign.watchdog import SeedHangs, watched
from semel.sim.world.scheduler import Livelock, Scheduler


def test_a_loop_without_end_is_ended() -> None:
    with pytest.raises(SeedHangs), watched(0.05):
        while True:
            pass


def test_who_waits_for_a_processor_does_not_hang() -> None:
    timer = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        with watched(0.05):
            time.sleep(0.1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_a_deadlock_is_ended_where_the_real_timer_is_free() -> None:
    timer = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    lock = Lock()
    lock.acquire()
    try:
        with pytest.raises(SeedHangs), watched(0.05):
            lock.acquire()
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_events_that_beget_events_are_bounded() -> None:
    scheduler = Scheduler(events_max=100)

    def again() -> None:
        scheduler.after(0, again)

    scheduler.after(0, again)
    with pytest.raises(Livelock):
        scheduler.run(lambda: False, scheduler.now_ms + 10)
