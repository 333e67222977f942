"""What becomes of the topics at both ends while they are copied, and what the destination forgets.

Sources grow, and are trimmed: mostly what is copied already, at times more. Topics are deleted and made anew at either
end, and a partition of an output comes back as it was some time ago, as from an older copy of its folder. What may be
lost is written down before anybody is asked, for requests may be carried out late.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from semel.core.log.names import folder_of
from semel.errors import SemelError
from semel.sim.clients.cluster import drive
from semel.sim.copies.ledger import TopicLog
from semel.sim.copies.sites import Site, Sites
from semel.sim.copies.story import CopyStory
from semel.sim.server.machine import DATA_DIR
from semel.sim.world.disk import Folder, find
from semel.sim.world.faults import Fault
from semel.sim.world.inode import Inode
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms
from semel.types import TopicPartition

PARTITIONS_MAX: Final = 4
TOO_FAR: Final = 0.3  # of trims: in front of what is copied
RIVAL: Final = 0.7
RIVAL_MS_MAX: Final = 60
MADE_ANEW_MS_MAX: Final = 600
_Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class UpheavalMix:
    """Mean times of one seed between upheavals of each kind; 0: none."""

    trim_ms: int
    grow_ms: int
    source_anew_ms: int
    output_anew_ms: int
    output_old_ms: int
    forget_ms: int

    @staticmethod
    def draw(random: Random) -> UpheavalMix:
        """What ends a job is on in fewer seeds."""
        return UpheavalMix(
            trim_ms=random.choice((0, 1_000, 3_000)),
            grow_ms=random.choice((0, 5_000)),
            source_anew_ms=random.choice((0, 0, 6_000)),
            output_anew_ms=random.choice((0, 0, 8_000)),
            output_old_ms=random.choice((0, 0, 1_000)),
            forget_ms=random.choice((0, 1_000, 4_000)),
        )


class CopyUpheavals:
    """Of one history; its requests are lost like all others."""

    def __init__(
        self,
        story: CopyStory,
        sites: Sites,
        random: Random,
        around: Surroundings,
        mix: UpheavalMix,
        start_rival: Callable[[], None],
    ) -> None:
        self.wanted = True  # False: no more
        self._open = 0
        self._making = False  # a topic anew
        self._story, self._sites, self._random, self._around = story, sites, random, around
        self._start_rival = start_rival
        self._process = Process(around.scheduler)
        self._source = sites.source.client("copies.admin", self._process)
        self._kept: dict[TopicPartition, tuple[int, _Files]] = {}  # a copy of the folder, and where it ends
        for mean_ms, happen in (
            (mix.trim_ms, lambda: self._drive(self._trim())),
            (mix.grow_ms, lambda: self._drive(self._grow())),
            (mix.source_anew_ms, self._make_source_anew),
            (mix.output_anew_ms, self._make_output_anew),
            (mix.output_old_ms, self._put_back),
            (mix.forget_ms, self._forget),
        ):
            if mean_ms:
                self._later(mean_ms, happen)

    @property
    def is_busy(self) -> bool:
        return self._making or self._open > 0

    def _later(self, mean_ms: int, happen: Callable[[], None]) -> None:
        def now() -> None:
            if self.wanted:
                if self._story.is_made:
                    happen()
                self._later(mean_ms, happen)

        self._around.scheduler.after(drawn_wait_ms(self._random, mean_ms), now)

    def _drive(self, work: Coroutine[Any, Any, None]) -> None:
        def done(result: None, error: Exception | None) -> None:
            self._open -= 1
            if error is not None and not isinstance(error, SemelError):
                raise error
            if error is not None:
                self._around.trace.note("upheaval", f"refused: {type(error).__name__}: {error}")

        self._open += 1
        drive(work, done)

    # -- the source -------------------------------------------------------------------------------------

    async def _trim(self) -> None:
        found = self._sites.source.ledger.current(list(self._story.topics))
        if not found or not self._around.counts.occurs(Fault.COPY_SOURCE_TRIMMED):
            return
        place, seen = self._random.choice(found)
        copied = self._copied(place.tp)
        before = seen.records[copied - 1].offset + 1 if 0 < copied <= len(seen.records) else 0
        if self._random.random() < TOO_FAR:
            before = self._random.randint(before, seen.end)
            self._story.source_was_changed = True
        if before <= seen.may_be_gone_below:
            return
        self._sites.source.ledger.may_be_trimmed(place.tp, before)
        self._story.source_was_trimmed = True
        self._around.trace.note(
            "upheaval", f"{place.tp} of the source is trimmed to {before}, {copied} rows copied"
        )
        await self._source.delete_records({place.tp: before})
        self._around.counts.bit(Fault.COPY_SOURCE_TRIMMED)

    def _copied(self, source: TopicPartition) -> int:
        """So many of its rows at least."""
        job = self._story.job
        output = self._sites.destination.ledger.log(
            TopicPartition(job.prefix + source.topic, source.partition)
        )
        return 0 if output is None else len(output.records)

    async def _grow(self) -> None:
        topic = self._random.choice(list(self._story.topics))
        count = self._story.topics[topic] + 1
        if (
            count <= PARTITIONS_MAX
            and not self._making
            and self._around.counts.occurs(Fault.COPY_SOURCE_GROWN)
        ):
            await self._source.add_partitions({topic: count})
            self._story.topics[topic] = count
            self._around.counts.bit(Fault.COPY_SOURCE_GROWN)

    def _make_source_anew(self) -> None:
        topic = self._random.choice(list(self._story.topics))
        found = self._sites.source.ledger.current([topic])
        if found and not self.is_busy and self._around.counts.occurs(Fault.COPY_SOURCE_ANEW):
            self._story.source_was_changed = True
            self._sites.source.ledger.may_be_deleted(found[0][0].topic_id)
            count = self._story.topics[topic]
            self._make_anew(self._sites.source, found[0][0], count, Fault.COPY_SOURCE_ANEW)

    # -- the destination --------------------------------------------------------------------------------

    def _make_output_anew(self) -> None:
        job = self._story.job
        found = self._sites.destination.ledger.current([self._random.choice(job.outputs)])
        if found and not self.is_busy and self._around.counts.occurs(Fault.COPY_OUTPUT_ANEW):
            job.output_was_changed = True
            self._sites.destination.ledger.may_be_deleted(found[0][0].topic_id)
            self._make_anew(self._sites.destination, found[0][0], len(found), Fault.COPY_OUTPUT_ANEW)

    def _make_anew(self, site: Site, old: TopicLog, count: int, fault: Fault) -> None:
        """Whatever becomes of the server meanwhile: a topic that is away for good is another story."""
        name = old.tp.topic
        settings = dict(self._story.settings)
        if site is self._sites.destination:
            settings.pop("message.timestamp.type", None)  # a copy refuses to write there

        def go_on() -> None:
            storage = site.server.storage
            topic = None if storage is None else storage.topics.get(name)
            if storage is None:
                pass
            elif topic is None:
                site.server.change(
                    lambda storage, now_ms: storage.create_topic(name, count, settings, now_ms=now_ms)
                )
            elif str(topic.topic_id) == old.topic_id:
                site.server.change(lambda storage, now_ms: storage.delete_topic(name, now_ms=now_ms))
            else:
                self._making = False
                self._around.counts.bit(fault)
                return
            self._around.scheduler.after(self._random.randint(1, MADE_ANEW_MS_MAX), go_on)

        self._making = True
        self._around.trace.note("upheaval", f"{name} is made anew")
        go_on()

    def _put_back(self) -> None:
        """A partition's folder is copied away; or it is as it was when it was, and its server starts with that."""
        site = self._sites.destination
        found = site.ledger.current(self._story.job.outputs)
        if not found:
            return
        place, seen = self._random.choice(found)
        folder = find(site.disk.root, DATA_DIR / folder_of(place.tp))
        if not isinstance(folder, Folder):
            return
        kept = self._kept.get(place.tp)
        if kept is None or kept[0] >= seen.end:
            if site.server.is_idle:
                files = {
                    name: bytes(node.cached) for name, node in folder.names.items() if isinstance(node, Inode)
                }
                self._kept[place.tp] = (seen.end, files)
        elif site.server.is_up and self._around.counts.bites(Fault.COPY_OUTPUT_OLD, self._random, 1.0):
            self._story.job.output_was_changed = seen.was_put_back = True
            self._around.trace.note(
                "upheaval", f"{place.tp}, which ended at {seen.end}, is put back to {kept[0]}"
            )
            site.server.kill()
            folder.put_back(kept[1])
            del self._kept[place.tp]

    def _forget(self) -> None:
        """It shows where somebody holds the job and another one comes."""
        if self._around.counts.occurs(Fault.COPY_NAME_FORGOTTEN):
            names = {job.plan.identity for job in self._story.jobs}
            self._sites.destination.server.forget_names(names.__contains__, Fault.COPY_NAME_FORGOTTEN)
            if self._random.random() < RIVAL:
                self._around.scheduler.after(self._random.randint(1, RIVAL_MS_MAX), self._start_rival)
