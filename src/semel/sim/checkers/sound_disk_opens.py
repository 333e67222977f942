"""``sound_disk_opens``: a disk that lost nothing but what was not synced opens again, all of it.

A server that finds damage refuses the partition. Where nothing has rotted, it has told itself of something as
synced that was not, or cannot read what it wrote.
"""

from __future__ import annotations

from typing import ClassVar

from semel.core.log.recovery import Damaged
from semel.server.storage.outcome import RecoveryReport
from semel.sim.checkers.base import Checker


class SoundDiskOpens(Checker):
    """At every start."""

    name: ClassVar[str] = "sound_disk_opens"

    def opened(self, report: RecoveryReport) -> None:
        if isinstance(report.verdict, Damaged):
            raise self.violated(str(report))

    def not_opened(self, reason: str) -> None:
        if "input/output" not in reason and "no space" not in reason:
            raise self.violated(reason)
