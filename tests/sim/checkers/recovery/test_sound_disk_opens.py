from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP
from tests.sim.conftest import Breaks

from semel.core.log.recovery import Cut, Damaged, Sound
from semel.server.storage.outcome import RecoveryReport, Unopened
from semel.sim.checkers.recovery import SoundDiskOpens


def opened(verdict: Sound | Cut | Damaged | Unopened, *, disk_failed: bool) -> None:
    SoundDiskOpens().opened(RecoveryReport(TP, verdict, 0, 9, 0, 0), disk_failed=disk_failed)


@pytest.mark.parametrize(
    ("verdict", "disk_failed"),
    [(Sound(), False), (Cut(9, "torn batch"), False), (Unopened("EIO"), True)],
)
def test_it_opens_or_the_disk_gave_an_error(verdict, disk_failed: bool) -> None:
    opened(verdict, disk_failed=disk_failed)


@pytest.mark.parametrize(
    ("verdict", "disk_failed"),
    [(Unopened("EIO"), False), (Damaged(3, "CRC"), False), (Damaged(3, "CRC"), True)],
)
def test_it_is_refused(breaks: Breaks, verdict, disk_failed: bool) -> None:
    with breaks():
        opened(verdict, disk_failed=disk_failed)


def test_a_server_that_does_not_start(breaks: Breaks) -> None:
    SoundDiskOpens().not_opened("EIO", disk_failed=True)
    with breaks():
        SoundDiskOpens().not_opened("no such file", disk_failed=False)
