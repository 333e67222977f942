"""What the log has of the topics, and their committed rows as columns. A server that restarts is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

import pyarrow as pa

from semel.client.blocking import Cluster
from semel.client.dead_letters import DeadLetters
from semel.client.unreadable import tables_of
from semel.core.land.starting import REMEDY, LogTopic
from semel.core.same_batch import is_another
from semel.errors import BrokerError, ConnectionLost, DataLoss, ErrorCode, UnknownTopic, UnreadableBatch
from semel.record.batch import BatchHeader, scan_batches
from semel.record.columnar import decode_table
from semel.spark.process import Clock
from semel.spark.reading import read_range
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

PATIENCE_MS: Final = 120_000  # with a log that does not answer
_PAUSE_MS: Final = 200
_NEWS_MS: Final = 2_000  # so long after a topic was made, brokers may not have heard of it
_WAY_ON: Final = (
    "what is in front of it is landed. --dead-letter TOPIC goes on behind it, and keeps the batch there"
)
_GONE_MS: Final = 10_000  # nor one that starts of any

Answer = TypeVar("Answer")


class Source:
    """The topics of one job."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str],
        clock: Clock,
        *,
        with_headers: bool = False,
        letters: DeadLetters | None = None,
    ) -> None:
        self._cluster, self._topics, self._clock = cluster, list(topics), clock
        self._with_headers, self._letters = with_headers, letters
        self._were_seen = False

    def look(self) -> dict[str, LogTopic]:
        """Their ids, partitions, first offsets and ends. Ids first: an offset of another topic is met when reading."""
        found = self._asked(self._look)
        self._were_seen = True
        return found

    def has_batch(self, source: TopicPartition, topic_id: str | None, last_offset: int, crc: int) -> bool:
        """Whether the batch that ended there may still be there: ``False`` is sure, another one lies there."""
        ids = None if topic_id is None else {source.topic: UUID(topic_id)}
        ask = partial(
            self._cluster.fetch,
            {source: last_offset},
            isolation="read_uncommitted",
            topic_ids=ids,
            min_bytes=0,
        )
        fetched = self._asked(ask)[source]
        if fetched.error_code is not ErrorCode.NONE:
            return True  # trimmed, or another topic by now: told where it is read on
        there = next((header for _, header in scan_batches(fetched.records, allow_partial_tail=True)), None)
        return there is None or not is_another(there, last_offset, crc)

    def read(
        self, source: TopicPartition, topic_id: str | None, from_offset: int, end_offset: int
    ) -> Iterator[tuple[pa.Table, int, BatchHeader | None]]:
        """The committed rows of the range, fetch by fetch, with the offset behind what was read so far, and the last
        batch of it. What cannot be read goes to the dead letters; else it is an error, behind what lies in front."""
        position, letters = from_offset, self._letters
        try:
            for batches in read_range(
                self._cluster,
                source,
                from_offset,
                end_offset,
                poll_timeout_ms=PATIENCE_MS,
                topic_id=topic_id,
                past_damage=None if letters is None else letters.put,
            ):
                read = tables_of(
                    source,
                    [batch for batch, _ in batches],
                    position,
                    end_offset,
                    include_headers=self._with_headers,
                )
                rows = []
                for found in read:
                    if not isinstance(found, UnreadableBatch):
                        rows.append(found)
                    elif letters is not None:
                        letters.put(found)
                    else:
                        yield pa.concat_tables(rows), found.offset, None
                        raise found
                if batches:
                    position = max(position, min(end_offset, batches[-1][1].last_offset + 1))
                yield pa.concat_tables(rows), position, batches[-1][1] if batches else None
        except DataLoss as loss:
            raise DataLoss(loss.partition, loss.lost_from, loss.lost_to_end, loss.why, REMEDY) from None
        except UnreadableBatch as found:
            raise found.with_way_on(_WAY_ON) from None
        yield _NO_ROWS, end_offset, None  # markers and aborted rows at the end of the range give no batches

    def _look(self) -> dict[str, LogTopic]:
        metadata = self._cluster.metadata(self._topics)
        found = {}
        for topic in self._topics:
            described = metadata.topics.get(topic)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if described is None else described.error_code
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(topic, "semel topic list shows what there is")
            if code is not ErrorCode.NONE or described is None:
                raise BrokerError(code, f"describe topic {topic!r}")
            sources = [TopicPartition(topic, number) for number in sorted(described.partitions)]
            firsts = self._cluster.list_offsets(dict.fromkeys(sources, EARLIEST_TIMESTAMP))
            ends = self._cluster.list_offsets(dict.fromkeys(sources, LATEST_TIMESTAMP))
            found[topic] = LogTopic(
                None if described.topic_id is None else str(described.topic_id),
                {tp.partition: listed.offset for tp, listed in firsts.items()},
                {tp.partition: listed.offset for tp, listed in ends.items()},
            )
        return found

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        began_ms = self._clock.elapsed_ms()
        while True:
            try:
                return ask()
            except UnknownTopic:
                if self._clock.elapsed_ms() - began_ms > (_GONE_MS if self._were_seen else _NEWS_MS):
                    raise
            except (ConnectionLost, BrokerError) as failed:
                passing = isinstance(failed, ConnectionLost) or failed.code.retriable
                if not passing or self._clock.elapsed_ms() - began_ms > PATIENCE_MS:
                    raise
            self._clock.pause(_PAUSE_MS)


_NO_ROWS: Final = decode_table([], topic="", partition=0)
