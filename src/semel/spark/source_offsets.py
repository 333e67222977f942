"""What the log has of the partitions that a query reads, and what its tasks are to read of them. Nothing of Spark's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from semel.client.blocking import Cluster
from semel.client.model import ClusterMetadata
from semel.errors import BrokerError, ConfigError, ConnectionLost
from semel.spark.offsets import EARLIEST, LATEST, LeaderEpochs, Offsets, TopicIds
from semel.spark.options import Isolation, Position, SourceOptions
from semel.spark.planning import ReadRange, left_of_topics, losses, lost_ends, range_topics, split
from semel.spark.process import connect, this_process
from semel.spark.reading import another_topic, behind_the_end, data_loss, ends_before, warn_made_anew
from semel.spark.sink_log import starting_ends
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER_EPOCH, TopicPartition

Answer = TypeVar("Answer")
_LOG: Final = logging.getLogger("semel.spark")
_SILENT_S: Final = 3.0


class SourceOffsets:
    """What the log has: the chosen partitions, and offsets of positions in them.

    ``topic_ids`` are as the newest metadata had them. They are asked for before the offsets: an offset that is of
    another topic by then does not bear its id, and is found out where it is planned with or read from.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.topic_ids: TopicIds = {}
        self.leader_epochs: LeaderEpochs = {}  # of the ends that were asked for

    def partitions(self, *, not_gone: bool = True) -> list[TopicPartition]:
        """The partitions that the query reads, as of now; ``not_gone``: every topic has to be there."""
        if self.options.assign:
            self._metadata({tp.topic for tp in self.options.assign})
            return list(self.options.assign)
        if self.options.subscribe:
            metadata = self._metadata(self.options.subscribe)
            missing = [name for name in self.options.subscribe if not _is_there(metadata, name)]
            if missing and (not_gone or self.options.fail_on_data_loss):
                raise ConfigError(f"there is no topic {', '.join(missing)}")
            names: Iterable[str] = [name for name in self.options.subscribe if name not in missing]
        else:
            assert self.options.subscribe_pattern is not None
            metadata = self._metadata(None)
            pattern = self.options.subscribe_pattern
            names = [
                name
                for name, topic in metadata.topics.items()
                if pattern.fullmatch(name) and (name == pattern.pattern or not topic.is_internal)
            ]
        return sorted(
            TopicPartition(name, number) for name in names for number in metadata.topics[name].partitions
        )

    def existing(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of ``partitions`` that are still there."""
        wanted = sorted(partitions)
        if not wanted:
            return []
        metadata = self._metadata({tp.topic for tp in wanted})
        return [
            tp
            for tp in wanted
            if _is_there(metadata, tp.topic) and tp.partition in metadata.topics[tp.topic].partitions
        ]

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Log start offsets."""
        return self._listed(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where a reader of this isolation level stops: the high watermark or the last stable offset."""
        return self._listed(dict.fromkeys(partitions, LATEST_TIMESTAMP))

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where they end, rows of open transactions included: such an end is there, and is waited for."""
        return self._listed(dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation="read_uncommitted")

    def start(self, partitions: Sequence[TopicPartition]) -> tuple[Offsets, TopicIds, LeaderEpochs]:
        """The starting position, and of which topics and leaders it is: a sink may have decided in others."""
        sink_id = self.options.start.sink_id
        if sink_id is None:
            resolved = self.resolve(self.options.start, partitions, is_start=True)
            return resolved, dict(self.topic_ids), dict(self.leader_epochs)
        ends, ids, epochs = starting_ends(self.options.connection, sink_id)
        known = {tp: ends[tp] for tp in partitions if tp in ends}
        decided = {tp.topic for tp in known}
        held = {topic: topic_id for topic, topic_id in self.topic_ids.items() if topic not in decided}
        held |= {topic: ids[topic] for topic in decided & ids.keys()}
        return self.earliest([tp for tp in partitions if tp not in ends]) | known, held, epochs

    def accept_another(self, first: TopicPartition, lost_from: int, lost_end: int) -> None:
        """The name is that of another topic by now: stop, or say so."""
        if self.options.fail_on_data_loss:
            raise another_topic(first, lost_from, lost_end)
        warn_made_anew(first.topic)

    def resolve(self, position: Position, partitions: Sequence[TopicPartition], *, is_start: bool) -> Offsets:
        """Offsets of ``position`` in ``partitions``."""
        if position.timestamp_ms is not None:
            return self._at(dict.fromkeys(partitions, position.timestamp_ms), is_start)
        if position.timestamps_ms is not None:
            return self._at(_for_each(position.timestamps_ms, partitions, "timestamps"), is_start)
        if position.offsets is None:
            return self.earliest(partitions) if position.default == EARLIEST else self.latest(partitions)
        named = _for_each(position.offsets, partitions, "offsets")
        return (
            {tp: offset for tp, offset in named.items() if offset >= 0}
            | self.earliest([tp for tp, offset in named.items() if offset == EARLIEST])
            | self.latest([tp for tp, offset in named.items() if offset == LATEST])
        )

    def _at(self, timestamps_ms: Offsets, is_start: bool) -> Offsets:
        found = self._listed(timestamps_ms)
        beyond = sorted(tp for tp, offset in found.items() if offset < 0)
        if beyond and is_start and self.options.no_timestamp_match_is_error:
            raise ConfigError(
                f"no record of {', '.join(map(str, beyond))} is at or after the starting timestamp; "
                f"startingOffsetsByTimestampStrategy=latest would start at the end there"
            )
        return found | self.latest(beyond)

    def _listed(
        self, timestamps_ms: Mapping[TopicPartition, int], *, isolation: Isolation | None = None
    ) -> Offsets:
        if not timestamps_ms:
            return {}
        level = isolation or self.options.isolation
        answer = self._asked(lambda cluster: cluster.list_offsets(dict(timestamps_ms), isolation=level))
        self.leader_epochs |= {
            tp: listed.leader_epoch
            for tp, listed in answer.items()
            if timestamps_ms[tp] == LATEST_TIMESTAMP and listed.leader_epoch != NO_LEADER_EPOCH
        }
        return {tp: listed.offset for tp, listed in answer.items()}

    def _metadata(self, topics: Iterable[str] | None) -> ClusterMetadata:
        names = None if topics is None else list(topics)
        metadata = self._asked(lambda cluster: cluster.metadata(names))
        self.topic_ids = {
            name: str(topic.topic_id)
            for name, topic in metadata.topics.items()
            if topic.topic_id is not None and not topic.error_code
        }
        return metadata

    def _asked(self, ask: Callable[[Cluster], Answer]) -> Answer:
        """``fetchOffset.numRetries`` more rounds than the client makes by itself."""
        cluster = connect(self.options.connection)
        if not cluster.was_reached:
            with self._said_while_silent():
                return self._asked_of(cluster, ask)
        return self._asked_of(cluster, ask)

    @contextmanager
    def _said_while_silent(self) -> Iterator[None]:
        """An address that never answered is more likely wrong than about to come back: whoever waits is told soon."""
        connection = self.options.connection
        rounds_ms = (self.options.offset_retries + 1) * connection.request_timeout_ms
        words = "nobody has answered at %s so far; trying on for %d s"
        timer = threading.Timer(_SILENT_S, _LOG.warning, (words, connection.bootstrap, rounds_ms // 1000))
        timer.daemon = True
        timer.start()
        try:
            yield
        except ConnectionLost as failed:
            lost = ConnectionLost(f"nobody answered at {connection.bootstrap}: {failed}")
            lost.not_kafka = failed.not_kafka
            raise lost from failed
        finally:
            timer.cancel()

    def _asked_of(self, cluster: Cluster, ask: Callable[[Cluster], Answer]) -> Answer:
        for turn in range(self.options.offset_retries + 1):
            try:
                return ask(cluster)
            except (ConnectionLost, BrokerError) as failed:
                passing = failed.code.retriable if isinstance(failed, BrokerError) else not failed.not_kafka
                if not passing or turn == self.options.offset_retries:
                    raise
            this_process().clock.pause(self.options.offset_retry_interval_ms)
        raise AssertionError("the last round either answers or raises")


def _is_there(metadata: ClusterMetadata, topic: str) -> bool:
    return topic in metadata.topics and not metadata.topics[topic].error_code


def planned_ranges(
    offsets: SourceOffsets,
    start: Offsets,
    end: Offsets,
    start_ids: TopicIds,
    end_ids: TopicIds,
    start_epochs: LeaderEpochs,
    end_epochs: LeaderEpochs,
) -> list[ReadRange]:
    """What the tasks read, once it is known what is left of it."""
    options = offsets.options
    start = {tp: start[tp] for tp in end}
    there = offsets.existing(start)
    names = {tp.topic for tp in there}
    topics = range_topics(sorted({tp.topic for tp in start}), start_ids, end_ids, offsets.topic_ids, names)
    for topic, its in topics.items():
        if its.is_replaced or its.is_another:
            its_first = min(tp for tp in start if tp.topic == topic)
            offsets.accept_another(its_first, start[its_first], end[its_first])
    log_start = offsets.earliest(there)
    latest = offsets.latest(there)
    lost = losses(start, log_start, latest)
    unreached = lost_ends(end, latest | offsets.log_ends([tp for tp in there if end[tp] > latest[tp]]))
    if options.fail_on_data_loss and (lost or unreached):
        first = (lost or unreached)[0]
        error = ends_before if not lost else behind_the_end if first.is_behind_end else data_loss
        raise error(first.source, first.lost_from, first.lost_end)
    left_from = {loss.source: log_start.get(loss.source, end[loss.source]) for loss in lost}
    left_from |= left_of_topics(end, topics, log_start)
    left_until = {loss.source: loss.lost_from for loss in unreached}
    return split(
        start,
        end,
        options.partitions_min,
        options.records_per_partition_max,
        left_from,
        topics,
        start_epochs,
        end_epochs,
        left_until,
    )


def _for_each(named: Offsets, partitions: Sequence[TopicPartition], what: str) -> Offsets:
    """One value for each partition; exactly the query's partitions have to be named, as in the connector."""
    found = {}
    for tp in partitions:
        value = named.get(tp, named.get(TopicPartition(tp.topic, -1)))
        if value is None:
            raise ConfigError(f"the given {what} lack {tp}: each partition of the query has to be there")
        found[tp] = value
    strangers = sorted(tp for tp in named if tp.partition >= 0 and tp not in found)
    if strangers:
        raise ConfigError(
            f"the given {what} name {', '.join(map(str, strangers))}, which the query does not read"
        )
    return found
