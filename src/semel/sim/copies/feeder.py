"""Who writes the rows of the source: batches of all kinds, each once, and now and then a marker between them.

A marker takes an offset and is no row: behind it the offsets of rows have a gap.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.errors import ErrorCode, SemelError
from semel.record.batch import encode_batch
from semel.record.compression import Compression
from semel.record.records import Record
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.copies.sites import Site
from semel.sim.copies.story import CopyStory
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import ProducerGrant, TopicPartition

ROWS_AT_ONCE: Final = (1, 1, 2, 5, 12)
MARKER: Final = 0.12
AGAIN_MS: Final = 60
OLD_MS: Final = 5 * 3_600_000  # behind what a log may have forgotten its producer
CODECS: Final = (Compression.NONE, Compression.NONE, Compression.GZIP, Compression.ZSTD, Compression.LZ4)
_AGAIN: Final = frozenset({ErrorCode.NETWORK_EXCEPTION})


class CopyFeeder:
    """One process for the whole history; it is never killed, but its requests are lost like all others."""

    def __init__(self, story: CopyStory, site: Site, random: Random, around: Surroundings) -> None:
        self._story = story
        self._random = random
        self._around = around
        self._process = Process(around.scheduler)
        self._cluster: SimulatedCluster = site.client("copies.feeder", self._process)
        self._site = site
        self._wanted = True
        self._rows = 0
        self._grant: ProducerGrant | None = None
        self._sequences: dict[TopicPartition, int] = {}
        drive(self._feed(), self._ended)

    def stop(self) -> None:
        """No more rows behind those under way."""
        self._wanted = False

    def _ended(self, result: object, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._story.is_closed = True

    async def _feed(self) -> None:
        random, story = self._random, self._story
        for topic, count in list(story.topics.items()):
            await self._make(topic, count)
        story.is_made = True
        while self._wanted:
            await self._cluster.runtime.pause(random.randint(1, 2 * story.row_gap_ms))
            if self._rows >= story.rows_max:
                continue
            try:
                await self._send()
            except SemelError as error:
                self._around.trace.note("feeder", f"{type(error).__name__}: {error}")

    async def _make(self, topic: str, count: int) -> None:
        while True:
            try:
                await self._cluster.create_topics({topic: count}, configs={topic: self._story.settings})
                return
            except SemelError as error:
                if getattr(error, "code", None) is ErrorCode.TOPIC_ALREADY_EXISTS:
                    return
                await self._cluster.runtime.pause(AGAIN_MS)

    async def _send(self) -> None:
        random = self._random
        topic = random.choice(list(self._story.topics))
        tp = TopicPartition(topic, random.randrange(self._story.topics[topic]))
        if random.random() < MARKER:
            await self._cluster.write_fence({(1 << 40, random.randrange(1 << 14)): [tp]})
            return
        if self._grant is None:
            self._grant, self._sequences = await self._cluster.init_producer_id(), {}
        records = [self._record() for _ in range(random.choice(ROWS_AT_ONCE))]
        sequence = self._sequences.get(tp, 0)
        batch = encode_batch(
            records,
            producer_id=self._grant.producer_id,
            producer_epoch=self._grant.producer_epoch,
            base_sequence=sequence,
            compression=random.choice(CODECS),
        )
        self._around.counts.operations += len(records)
        grant, self._grant = self._grant, None  # whatever becomes of it, under another id nothing comes twice
        while True:
            answer = (await self._cluster.produce({tp: batch}))[tp]
            if not answer.error_code.retriable:
                break
            await self._cluster.runtime.pause(AGAIN_MS)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._grant, self._sequences[tp] = grant, sequence + len(records)

    def _record(self) -> Record:
        """No two are alike."""
        random = self._random
        self._rows += 1
        key = None if random.random() < 0.3 else b"k%d" % random.randrange(5)
        headers = (("n", b"%d" % self._rows),) + ((("h", None),) if random.random() < 0.2 else ())
        value = None if key is not None and random.random() < 0.1 else b"row %d" % self._rows
        age_ms = OLD_MS if random.random() < 0.05 else random.randint(0, 100)
        return Record(0, self._process.time_of_day_ms - age_ms, key, value, headers)
