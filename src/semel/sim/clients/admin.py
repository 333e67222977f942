"""An administrator process: trims, fences and looks, one request after another, for as long as there are faults.

Whom it fences is a producer that it was told of some time ago: by now that one may be dead, fenced already or
granted anew, so markers of every age arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from semel.errors import ErrorCode, SemelError
from semel.sim.checkers.watchers import GroupWatcher, ProducerWatcher
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition

REQUEST_TIMEOUT_MS: Final = 5_000
GROUP: Final = "auditors"


class SimulatedAdmin:
    """One process for the whole history; it is never killed, but its requests are lost like all others."""

    def __init__(
        self,
        tps: Sequence[TopicPartition],
        known_grants: Callable[[], Sequence[ProducerGrant]],
        random: Random,
        around: Surroundings,
        *,
        gap_ms_max: int,
        trims: bool,
        fences: bool,
        commits: bool = True,
    ) -> None:
        self.process = Process(around.scheduler)
        self.is_busy = False
        self.wanted = True  # False: no more after this one
        self._tps = tps
        self._known_grants = known_grants
        self._random = random
        self._around = around
        self._gap_ms_max = gap_ms_max
        self._session = Session("admin", self.process, around.network)
        self._cluster = SimulatedCluster(self.process, self._session, REQUEST_TIMEOUT_MS)
        self._sent_offsets: dict[TopicPartition, list[int]] = {tp: [] for tp in tps}
        self._acknowledged: set[TopicPartition] = set()
        works = [self._look, self._commit] if commits else [self._look]
        self._works = works + [self._trim] * (2 * trims) + [self._fence] * (2 * fences)
        self._later()

    def _later(self) -> None:
        self.process.after(self._random.randint(1, self._gap_ms_max), self._begin)

    def _begin(self) -> None:
        if not self.wanted:
            return
        work = self._random.choice(self._works)
        self.is_busy = True
        drive(work(self._random.choice(self._tps)), self._done)

    def _done(self, result: None, error: Exception | None) -> None:
        self.is_busy = False
        if error is not None and not isinstance(error, SemelError):
            raise error
        if error is not None:
            self._around.trace.note("admin", f"refused: {type(error).__name__}: {error}")
        self._later()

    # -- what it does -----------------------------------------------------------------------------------

    async def _trim(self, tp: TopicPartition) -> None:
        starts = await self._cluster.list_offsets({tp: EARLIEST_TIMESTAMP})
        ends = await self._cluster.list_offsets({tp: LATEST_TIMESTAMP})
        start, end = starts[tp].offset, ends[tp].offset
        before = self._random.choice((-1, end, self._random.randint(start, max(start, end)), end + 5))
        low = (await self._cluster.delete_records({tp: before}))[tp]
        self._around.trace.note("admin", f"{tp} trimmed to {before}: it starts at {low}")

    async def trim_all(self) -> None:
        """Every row that is readable."""
        for tp, low in (await self._cluster.delete_records(dict.fromkeys(self._tps, -1))).items():
            self._around.trace.note("admin", f"{tp} trimmed: it starts at {low}")

    async def _fence(self, tp: TopicPartition) -> None:
        grants = self._known_grants()
        if not grants:
            return
        grant = self._random.choice(grants)
        raised = grant.producer_epoch + self._random.choice((0, 1, 1, 1))
        tps = [tp] if self._random.random() < 0.5 else list(self._tps)
        answers = await self._cluster.write_fence({(grant.producer_id, raised): tps})
        for (producer_id, fenced_tp), code in sorted(answers.items()):
            self._around.trace.note("admin", f"fence {producer_id}/{raised} in {fenced_tp}: {code.name}")
            if code is ErrorCode.NONE:
                self._around.watchers.of(ProducerWatcher).fenced(fenced_tp, producer_id, raised)

    async def _look(self, tp: TopicPartition) -> None:
        described = (await self._cluster.describe_producers([tp]))[tp]
        producers = [(one.producer_id, one.producer_epoch) for one in described]
        self._around.watchers.of(ProducerWatcher).described(tp, producers)

    async def _commit(self, tp: TopicPartition) -> None:
        """Ask for the offset committed before, and commit another."""
        known = (await self._cluster.committed_offsets(GROUP, [tp]))[tp].offset
        sent = self._sent_offsets[tp]
        watcher = self._around.watchers.of(GroupWatcher)
        watcher.committed_is(tp, known, sent, was_acknowledged=tp in self._acknowledged)
        sent.append(len(sent) + 1)
        await self._cluster.commit_offsets(GROUP, {tp: sent[-1]})
        self._acknowledged.add(tp)
        self._around.counts.verdict("group: offset committed")
