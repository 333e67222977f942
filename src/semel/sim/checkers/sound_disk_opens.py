"""``sound_disk_opens``: a disk that lost nothing but what was not synced opens again, all of it.

A server that finds damage refuses the partition. Where nothing has rotted, it has told itself of something as
synced that was not, or cannot read what it wrote. An error that the disk gave while it was read excuses a
partition that is not opened, for this start; it does not excuse one that is called damaged.
"""

from __future__ import annotations

from typing import ClassVar

from semel.core.log.recovery import Damaged
from semel.server.storage.outcome import RecoveryReport, Unopened
from semel.sim.checkers.base import Checker


class SoundDiskOpens(Checker):
    """At every start."""

    name: ClassVar[str] = "sound_disk_opens"

    def opened(self, report: RecoveryReport, *, disk_failed: bool) -> None:
        excused = disk_failed and isinstance(report.verdict, Unopened)
        if isinstance(report.verdict, Damaged | Unopened) and not excused:
            raise self.violated(str(report))

    def not_opened(self, reason: str, *, disk_failed: bool) -> None:
        if not disk_failed:
            raise self.violated(reason)
