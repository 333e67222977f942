"""A reader of what is committed, or of all. It goes on from the offsets that it has committed, in no transaction."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from semel.errors import ErrorCode
from semel.sim.clients.cluster import SimulatedRuntime, drive
from semel.sim.transactions.requests import Connections
from semel.sim.transactions.story import Poll, TransactionStory
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import TopicPartition

AGAIN_MS: Final = (20, 200)
COMMIT_CHANCE: Final = 0.2
BYTES_MAX: Final = (400, 2_000, 10_000)


class TransactionReader:
    """One life. ``group_id``: where it goes on, and says where; None: it reads all that is there."""

    def __init__(
        self,
        story: TransactionStory,
        name: str,
        group_id: str | None,
        random: Random,
        around: Surroundings,
        *,
        is_committed: bool,
    ) -> None:
        self.name: Final = name
        self.group_id: Final = group_id
        self.is_committed: Final = is_committed
        self.process: Final = Process(around.scheduler)
        self.positions: Final[dict[TopicPartition, int]] = {}  # where it has read on to, once it has begun
        self._story, self._random = story, random
        self._connections = Connections(story, name, self.process, around)
        self._runtime = SimulatedRuntime(self.process)
        self._bytes_max = random.choice(BYTES_MAX)
        self._pace_ms = random.choice((5, 60, 400))
        drive(self._live(story.tps), self._ended)

    def die(self) -> None:
        self.process.alive = False
        self._connections.die()

    def _ended(self, result: None, error: Exception | None) -> None:
        if error is not None:
            raise error

    async def _pause(self, least_ms: int, most_ms: int) -> None:
        await self._runtime.pause(self._random.randint(least_ms, most_ms))

    async def _live(self, tps: Sequence[TopicPartition]) -> None:
        for tp in tps:
            found = 0 if self.group_id is None else None
            while found is None:
                found = await self._connections.position(str(self.group_id), tp, notes=False)
                if found is None:
                    await self._pause(*AGAIN_MS)
            self.positions[tp] = max(0, found)
        while True:
            for tp in tps:
                await self._read(tp)
                await self._pause(1, self._pace_ms)

    async def _read(self, tp: TopicPartition) -> None:
        found = await self._connections.poll(
            tp, self.positions[tp], self._bytes_max, is_committed=self.is_committed
        )
        if isinstance(found, Poll):
            self.positions[tp] = found.next_offset
            if self.group_id is not None and self._random.random() < COMMIT_CHANCE:
                await self._connections.commit(self.group_id, tp, found.next_offset)
        elif isinstance(found, ErrorCode):
            await self._pause(*AGAIN_MS)
        else:
            self.positions[tp] = found
