"""The ranges of a stream, micro-batch by micro-batch: what Spark asks its source for, without Spark.

A stream offset is the next offset of every partition, in the JSON that Spark keeps (:mod:`semel.spark.offsets`).
One object lives as long as its query: it holds the target of AvailableNow and the latest offsets that were seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from semel.client.dead_letters import DeadLetters
from semel.client.unreadable import tables_of
from semel.errors import UnreadableBatch
from semel.spark.offsets import (
    Json,
    LeaderEpochs,
    Offsets,
    TopicIds,
    epochs_from_json,
    from_json,
    ids_from_json,
    to_json,
)
from semel.spark.options import SourceOptions
from semel.spark.planning import ReadRange, limit, made_anew
from semel.spark.process import connect
from semel.spark.reading import behind_the_end, read_range
from semel.spark.source_offsets import SourceOffsets, planned_ranges

_WAY_ON: Final = (
    "the option deadLetterTopic of this reader goes past it, and keeps it in a topic; so does a new query that starts "
    "behind it"
)


class StreamRanges:
    """Of one streaming query."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._available_now: tuple[Offsets, TopicIds, LeaderEpochs] | None = None
        self._latest: Offsets = {}
        self._triggered_ms: int | None = None

    def initial(self) -> Json:
        """The starting position."""
        offsets = SourceOffsets(self.options)
        return to_json(*offsets.start(offsets.partitions()))

    def fix_target(self) -> None:
        """From now on the stream ends at what is there now."""
        offsets = SourceOffsets(self.options)
        partitions = offsets.partitions()
        self._available_now = offsets.latest(partitions), offsets.topic_ids, offsets.leader_epochs

    def next_end(self, start: Json, rows_max: int | None = None, rows_min: int | None = None) -> Json:
        """The end of the next micro-batch; partitions that came since start at their earliest offset.

        ``start`` itself where there is nothing to do yet.
        """
        offsets = SourceOffsets(self.options)
        begun, begun_ids = from_json(start), ids_from_json(start)
        if self._available_now is not None:
            latest, ids, epochs = self._available_now
        else:
            partitions = offsets.partitions(not_gone=False)
            latest, ids, epochs = offsets.latest(partitions), offsets.topic_ids, offsets.leader_epochs
        self._latest = begun | latest
        others = made_anew(begun_ids, {tp.topic: ids[tp.topic] for tp in latest if tp.topic in ids})
        for topic in sorted(others):
            first = min(tp for tp in begun if tp.topic == topic)
            offsets.accept_another(first, begun[first], latest.get(first, 0))
        begun = {tp: offset for tp, offset in begun.items() if tp.topic not in others}
        begun |= offsets.earliest([tp for tp in latest if tp not in begun])
        shrunk = [tp for tp, end in latest.items() if end < begun[tp]]
        for tp in shrunk:  # made anew; Spark would see no new offset, and never ask for the ranges
            if self.options.fail_on_data_loss:
                raise behind_the_end(tp, latest[tp], begun[tp])
        begun |= offsets.earliest(shrunk)
        target = begun | latest
        if self._available_now is None and rows_min is not None and self._waits(begun, target, rows_min):
            return start
        ends = limit(begun, target, rows_max)
        if not others and ends == from_json(start):
            return start  # also where it has no ids yet: they alone are no reason for a micro-batch
        # A partition that stands still was not read since: the epoch that its offset is of stays.
        stands = {
            tp for tp, end in from_json(start).items() if ends.get(tp) == end and tp.topic not in others
        }
        held = {tp: epoch for tp, epoch in epochs_from_json(start).items() if tp in stands}
        ids_now = {tp.topic: ids[tp.topic] for tp in latest if tp.topic in ids}
        return to_json(ends, begun_ids | ids_now, epochs | held)

    def _waits(self, begun: Offsets, target: Offsets, rows_min: int) -> bool:
        """``minOffsetsPerTrigger``: not enough rows yet, and not ``maxTriggerDelay`` since the last time."""
        now_ms = time.monotonic_ns() // 1_000_000
        accumulator = sum(target[tp] - begun[tp] for tp in target)
        waited = (
            self._triggered_ms is None or now_ms - self._triggered_ms >= self.options.trigger_delay_ms_max
        )
        if accumulator < rows_min and not waited:
            return True
        self._triggered_ms = now_ms
        return False

    def latest(self) -> Json | None:
        """What the log had when it was asked last."""
        return to_json(self._latest) if self._latest else None

    def ranges(self, start: Json, end: Json) -> list[ReadRange]:
        """What the tasks of a micro-batch read; also asked for one that is replayed after a restart."""
        offsets = SourceOffsets(self.options)
        begun, ends = from_json(start), from_json(end)
        ids = ids_from_json(end)
        begun_topics = {tp.topic for tp in begun}
        begun_ids = ids_from_json(start) | {name: ids[name] for name in ids if name not in begun_topics}
        came = [tp for tp in ends if tp not in begun]
        # Of one that is gone again all is lost, wherever it began.
        begun |= dict.fromkeys(came, 0) | offsets.earliest(offsets.existing(came))
        return planned_ranges(
            offsets, begun, ends, begun_ids, ids, epochs_from_json(start), epochs_from_json(end)
        )


def tables(options: SourceOptions, planned: ReadRange) -> Iterator[pa.Table]:
    """The rows of a range, in offset order, fetch by fetch, with all of the source's columns."""
    topic = options.dead_letter_topic
    with ExitStack() as opened:
        letters = None
        if topic is not None:
            letters = opened.enter_context(DeadLetters(options.connection.bootstrap, topic))
        try:
            past_damage = None if letters is None else letters.put
            for found in tables_and_unreadable(options, planned, past_damage):
                if not isinstance(found, UnreadableBatch):
                    yield found
                elif letters is None:
                    raise found
                else:
                    letters.put(found)
        except UnreadableBatch as found:
            raise found.with_way_on(_WAY_ON) from None


def tables_and_unreadable(
    options: SourceOptions,
    planned: ReadRange,
    past_damage: Callable[[UnreadableBatch], int] | None = None,
) -> Iterator[pa.Table | UnreadableBatch]:
    """The same, with the error in the place of a batch that was produced so that nobody can read it."""
    source = planned.source_range.source
    fetches = read_range(
        connect(options.connection),
        source,
        planned.read_from,
        planned.read_end,
        isolation=options.isolation,
        partition_bytes_max=options.partition_fetch_bytes_max,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=options.poll_timeout_ms,
        topic_id=planned.source_range.topic_id,
        last_leader_epoch=planned.last_leader_epoch,
        past_damage=past_damage,
    )
    for batches in fetches:
        yield from tables_of(
            source,
            [batch for batch, _ in batches],
            planned.read_from,
            planned.read_end,
            include_headers=options.include_headers,
        )
