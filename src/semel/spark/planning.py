"""Pure planning of the source: limits, splits, and what is missing. Follows Spark's ``KafkaOffsetReader``.

A *range* is what one Spark partition reads; see :class:`semel.core.sink.ranges.SourceRange` for the whole
partition's range that goes with it, which the exactly-once sink recognises the micro-batch by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from semel.core.sink.ranges import SourceRange, ids_agree
from semel.types import NO_LEADER_EPOCH, TopicPartition


@dataclass(frozen=True, slots=True)
class ReadRange:
    """One Spark partition of the source: ``read_from`` to ``read_end`` (exclusive) of a source range."""

    source_range: SourceRange
    read_from: int
    read_end: int
    last_leader_epoch: int = (
        NO_LEADER_EPOCH  # of the row in front, or later; see ``SourceRange.end_leader_epoch``
    )


@dataclass(frozen=True, slots=True)
class RangeTopic:
    """Which topic the ranges of a name are of; see :class:`semel.core.sink.ranges.SourceRange`."""

    topic_id: str | None = None  # where they end
    from_topic_id: str | None = None  # where they begin
    is_gone: bool = False  # and not there any more
    is_replaced: bool = False  # by another one, which has the name now

    @property
    def is_another(self) -> bool:
        """Whether the topic was made anew since the range's beginning was remembered."""
        return not ids_agree(self.topic_id, self.from_topic_id)


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that were to be read and are gone."""

    source: TopicPartition
    lost_from: int
    lost_end: int
    is_behind_end: bool = False  # not what retention takes: the log ends in front of them


def made_anew(begun_ids: Mapping[str, str], ids: Mapping[str, str]) -> set[str]:
    """The topics that are others by now than those that a stream's offset is of."""
    return {topic for topic in ids if not ids_agree(begun_ids.get(topic), ids[topic])}


def range_topics(
    topics: Iterable[str],
    start_ids: Mapping[str, str],
    end_ids: Mapping[str, str],
    ids: Mapping[str, str],
    there: Collection[str],
) -> dict[str, RangeTopic]:
    """Which topics a planned micro-batch reads; ``ids`` are those of now, and ``there`` the topics that exist."""
    found = {}
    for topic in topics:
        topic_id = end_ids.get(topic, ids.get(topic))
        is_replaced = not ids_agree(topic_id, ids.get(topic))
        is_gone = is_replaced or topic not in there
        found[topic] = RangeTopic(topic_id, start_ids.get(topic), is_gone, is_replaced)
    return found


def left_of_topics(
    end: Mapping[TopicPartition, int],
    topics: Mapping[str, RangeTopic],
    log_start: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where reading begins in topics that were made anew: at their beginning. Of one that is gone, nothing is left."""
    return {
        tp: end[tp] if topics[tp.topic].is_gone else log_start.get(tp, end[tp])
        for tp in end
        if topics[tp.topic].is_gone or topics[tp.topic].is_another
    }


def limit(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int | None
) -> dict[TopicPartition, int]:
    """The end of the next micro-batch: at most ``offsets_max`` in all, in proportion to the accumulator."""
    ends = {tp: max(end, start.get(tp, 0)) for tp, end in latest.items()}
    accumulator = {tp: ends[tp] - start.get(tp, 0) for tp in ends if ends[tp] > start.get(tp, 0)}
    total = sum(accumulator.values())
    if offsets_max is None or total <= offsets_max:
        return ends
    # Whoever has a accumulator moves: shares are rounded down, but each is at least 1, as the connector does it.
    return {
        tp: min(end, start.get(tp, 0) + max(1, accumulator[tp] * offsets_max // total))
        if tp in accumulator
        else end
        for tp, end in ends.items()
    }


def split(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    partitions_min: int | None = None,
    records_max: int | None = None,
    left_from: Mapping[TopicPartition, int] | None = None,
    topics: Mapping[str, RangeTopic] | None = None,
    start_epochs: Mapping[TopicPartition, int] | None = None,
    end_epochs: Mapping[TopicPartition, int] | None = None,
    left_until: Mapping[TopicPartition, int] | None = None,
) -> list[ReadRange]:
    """One range per partition with rows; more when ``partitions_min`` asks for it, in proportion to size, or
    when one would have more than ``records_max`` offsets.

    ``left_from`` and ``left_until`` are where reading begins and ends after a loss that was accepted. The source range
    stays the planned one: that is what the sink knows the micro-batch by, also when nothing of it is left. Of a topic
    that was made anew every partition has a range, because each begins anew.
    """
    of = topics or {}
    planned = [
        tp
        for tp in sorted(end)
        if end[tp] != start.get(tp, 0) or (tp.topic in of and of[tp.topic].is_another)
    ]
    firsts = {tp: (left_from or {}).get(tp, start.get(tp, 0)) for tp in planned}
    lasts = {tp: min(end[tp], (left_until or {}).get(tp, end[tp])) for tp in planned}
    sizes = {tp: max(0, lasts[tp] - firsts[tp]) for tp in planned}
    idle = tuple((tp, end[tp]) for tp in sorted(end) if tp not in firsts)
    idle_ids = {tp.topic: of[tp.topic].topic_id for tp, _ in idle if tp.topic in of}
    idle_topic_ids = tuple((topic, known) for topic, known in idle_ids.items() if known is not None)
    epochs_then, epochs_now = start_epochs or {}, end_epochs or {}
    idle_epochs = tuple((tp, epochs_now[tp]) for tp, _ in idle if tp in epochs_now)
    total = max(1, sum(sizes.values()))
    ranges: list[ReadRange] = []
    for tp, size in sizes.items():
        pieces = 1
        if partitions_min is not None and partitions_min > len(sizes):
            pieces = max(1, min(size, round(size * partitions_min / total)))
        if records_max is not None:
            pieces = max(pieces, -(-size // records_max))
        first = min(firsts[tp], lasts[tp])
        topic = of.get(tp.topic, RangeTopic())
        goes_on = firsts[tp] == start.get(tp, 0) and not topic.is_another
        last_epoch = epochs_then.get(tp, NO_LEADER_EPOCH) if goes_on else NO_LEADER_EPOCH
        for index in range(pieces):
            source_range = SourceRange(
                tp,
                start.get(tp, 0),
                end[tp],
                index,
                pieces,
                idle if not ranges else (),
                topic.topic_id,
                topic.from_topic_id,
                topic.is_gone,
                idle_topic_ids if not ranges else (),
                epochs_now.get(tp, NO_LEADER_EPOCH),
                idle_epochs if not ranges else (),
            )
            read_from, read_end = first + size * index // pieces, first + size * (index + 1) // pieces
            # Of the row in front of a later piece only its own reader will know.
            ranges.append(
                ReadRange(source_range, read_from, read_end, NO_LEADER_EPOCH if index else last_epoch)
            )
    return ranges


def losses(
    start: Mapping[TopicPartition, int],
    log_start: Mapping[TopicPartition, int],
    log_end: Mapping[TopicPartition, int],
) -> list[Loss]:
    """What retention, a trim or a topic made anew has taken from under ``start``."""
    found = []
    for tp, offset in sorted(start.items()):
        if tp not in log_start:
            found.append(Loss(tp, offset, offset + 1))
        elif offset < log_start[tp]:
            found.append(Loss(tp, offset, log_start[tp]))
        elif offset > log_end[tp]:
            found.append(Loss(tp, log_end[tp], offset, is_behind_end=True))
    return found


def lost_ends(end: Mapping[TopicPartition, int], log_end: Mapping[TopicPartition, int]) -> list[Loss]:
    """Planned ends that the logs do not reach: nobody knows whether such rows ever come."""
    return [
        Loss(tp, log_end[tp], offset, is_behind_end=True)
        for tp, offset in sorted(end.items())
        if tp in log_end and offset > log_end[tp]
    ]
