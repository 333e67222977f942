"""How a copy comes to hold a job: HELD, who was before shut out, what it stored looked for, BEGUN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from semel.client.blocking import Cluster
from semel.client.model import ListedOffset
from semel.copy.log import CopyLog
from semel.copy.plan import CopyPlan
from semel.copy.proving import LOOK_TIMEOUT_MS, prove
from semel.copy.topics import CopyTopics, not_alone
from semel.core.client.resume import Behind
from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Begun, Mark, Place
from semel.core.copy.resume import (
    Ending,
    Lost,
    StoredRows,
    acknowledged,
    ending_of,
    place_behind,
    unsaid,
)
from semel.errors import DataLoss, ProducerFenced, ReplayUnprovable, SinkFenced
from semel.sequence import advance, distance
from semel.spark.process import this_process
from semel.spark.reading import headers_in
from semel.spark.sink_log import policy_of
from semel.spark.takeover import ends_before_fences, ends_behind_fences, fence_writers, listed
from semel.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    ProducerGrant,
    TopicPartition,
)


def take_over(
    log: CopyLog, plan: CopyPlan, topics: CopyTopics, destination: Cluster
) -> dict[TopicPartition, Place]:
    """Where every known partition stands, once this copy alone can write to them; BEGUN says so in the journal."""
    log.take_over()
    assert log.grant is not None
    history = log.history
    topics.check_names(history.places)
    topics.check_outputs(history.places)
    places = dict(history.places)
    _check_ends(destination, plan, places)
    sure = {
        source: acknowledged(place, history.under_way.get(source, ())) for source, place in places.items()
    }
    endings = {
        place.output_partition: ending
        for source, place in places.items()
        if (ending := ending_of(place, sure[source], history.writer)) is not None
    }
    blank_to: dict[TopicPartition, int] = {}
    if history.writer is not None and places:
        outputs = [place.output_partition for place in places.values()]
        told_by = destination.list_offsets(dict.fromkeys(outputs, LATEST_TIMESTAMP), "read_uncommitted")
        described = _described(destination, plan, history, outputs)
        shut = _shut_out(
            destination,
            plan,
            (history.writer.producer_id, history.epoch_to_shut_out(log.grant)),
            [places[source].output_partition for source in history.under_way],
        )
        ends = listed(destination, outputs, LATEST_TIMESTAMP) | {tp: end.offset for tp, end in shut.items()}
        begins = listed(destination, outputs, EARLIEST_TIMESTAMP)
        compacted = _compacted(destination, (places[source].output for source in history.under_way))
        for source, place in history.places.items():
            output, chunks = place.output_partition, history.under_way.get(source, ())
            if not chunks and ends[output] <= place.output_end:
                continue
            last = described.get(output)
            if output in shut and not _vouches(destination, told_by[output], shut[output]):
                last = None
            known = (
                None if last is None else sure[source] + distance(advance(last, 1), advance(0, sure[source]))
            )
            stored, seen_at = _stored(
                destination,
                plan,
                history,
                place,
                sure[source],
                known,
                begins[output],
                ends[output],
                place.output in compacted,
            )
            if seen_at is not None:
                endings[output] = Ending(seen_at, history.writer)
            behind = place_behind(place, chunks, stored)
            if isinstance(behind, Lost):
                raise _lost(plan, output, behind)
            is_blank = place.is_blank and not stored and seen_at is None
            if is_blank:  # what comes from now on has not been looked at
                blank_to[source] = ends[output]
            places[source] = replace(behind, is_blank=is_blank)
    ends, marks, lost = prove(destination, endings, [place.output_partition for place in places.values()])
    for output, each in lost.items():
        raise _lost(plan, output, each)
    places = {
        source: _at_end(
            place, ends[place.output_partition], marks.get(place.output_partition), blank_to.get(source)
        )
        for source, place in places.items()
    }
    log.append(Begun(log.grant, this_process().owner, tuple(places.values())))
    return places


def _at_end(place: Place, end: int, mark: Mark | None, blank_to: int | None) -> Place:
    """As BEGUN says it, at the end of the output; or where that was still ``blank_to``: others may have come since."""
    if place.is_blank:
        blank_end = place.output_end if blank_to is None else blank_to
        end, mark = blank_end, mark if blank_end == end else None
    return replace(place, sequence=0, output_end=end, output_mark=mark)


def _check_ends(destination: Cluster, plan: CopyPlan, places: Mapping[TopicPartition, Place]) -> None:
    """What was surely written is there, or was: no partition ends in front of it."""
    ends = listed(destination, [place.output_partition for place in places.values()], LATEST_TIMESTAMP)
    for place in places.values():
        end = ends[place.output_partition]
        if end < place.output_end:
            found = f"it was written up to offset {place.output_end}, and ends at {end}"
            raise _lost(plan, place.output_partition, Lost(found))


def _described(
    destination: Cluster, plan: CopyPlan, history: CopyHistory, outputs: list[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The writer's last sequences, where the leaders know it; asked for before the fence, which wipes them.

    They know a holder that the journal has lost also where its rows are gone.
    """
    last = {}
    for tp, known in destination.describe_producers(outputs).items():
        for each in known:
            grant = ProducerGrant(each.producer_id, each.producer_epoch)
            has_rows = each.last_sequence != NO_SEQUENCE
            lost = unsaid(history, grant, has_rows=has_rows)
            if lost is not None:
                raise _lost(plan, tp, lost)
            if grant == history.writer and has_rows:
                last[tp] = each.last_sequence
    return last


def _vouches(destination: Cluster, told_by: ListedOffset, shut: ListedOffset) -> bool:
    """Whether all that a leader told of is stored for good, once the fence is: of one that has taken the fence itself.

    Another one may have lost the last of it. Where nothing was taken out of the log, its batches tell by themselves.
    """
    if destination.tells_committed_only:
        return True
    return told_by.leader_epoch == shut.leader_epoch != NO_LEADER_EPOCH


def _shut_out(
    destination: Cluster, plan: CopyPlan, fence: tuple[int, int], outputs: list[TopicPartition]
) -> dict[TopicPartition, ListedOffset]:
    """A higher epoch in an output is that of a newer copy. Where the outputs end, behind the fence."""
    before = ends_before_fences(destination, outputs)
    try:
        fence_writers(destination, plan.identity, {fence: outputs})
    except SinkFenced:
        raise ProducerFenced(
            f"job {plan.name!r} was taken over by another copy while this one began. Nothing was copied by it"
        ) from None
    return ends_behind_fences(destination, {fence: outputs}, before)


def _stored(
    destination: Cluster,
    plan: CopyPlan,
    history: CopyHistory,
    place: Place,
    sure: int,
    known: int | None,
    begins: int,
    end: int,
    may_have_holes: bool,
) -> tuple[int, int | None]:
    """How many rows the writer has in ``output``: its last sequence is looked for where unsure rows stand. And where
    the last of these stands.

    ``begins``, ``end``: what the partition has now. ``known``: as many at least by its leader's word, which alone tells
    of rows that were trimmed since.
    """
    output, is_under_way = place.output_partition, place.source in history.under_way
    is_blank = place.is_blank and not plan.appends
    is_trimmed = begins > place.output_end
    rows = StoredRows(sure if known is None else max(sure, known), has_holes=is_trimmed or may_have_holes)
    seen_at, read_behind = None, Behind(max(begins, place.output_end))
    try:
        # Of the topic of that id only: one that is made anew meanwhile may be shorter, and be waited for in vain.
        for header in headers_in(
            destination,
            output,
            read_behind.offset,
            end,
            poll_timeout_ms=LOOK_TIMEOUT_MS,
            topic_id=place.output_id,
        ):
            grant = ProducerGrant(header.producer_id, header.producer_epoch)
            lost = unsaid(history, grant, has_rows=not header.is_control)
            if lost is not None:
                raise _lost(plan, output, lost)
            if is_blank and seen_at is None and header.producer_id not in history.held_epochs:
                raise not_alone(plan, output, header)
            is_its = not header.is_control and grant == history.writer
            read_behind.read(header, is_its=is_its)
            if not is_its:
                continue
            seen_at = header.last_offset
            more = rows.over(header.base_sequence, header.last_offset_delta + 1)
            if isinstance(more, Lost):
                raise _lost(plan, output, more)
            rows = more
    except DataLoss as error:
        raise _lost(plan, output, Lost(f"rows of it went while they were read ({error})")) from error
    if is_under_way and is_trimmed and known is None and seen_at is None:
        gone = f"offsets {place.output_end} to {begins - 1} are gone, and rows of its last holder may have stood there"
        raise _lost(plan, output, Lost(gone))
    if is_under_way and read_behind.lacks_some and known is None:
        gone = "it was compacted, and rows of its last holder may have been among those that are gone"
        raise _lost(plan, output, Lost(gone))
    return rows.sequence, seen_at


def _compacted(destination: Cluster, topics: Iterable[str]) -> set[str]:
    """Those whose rows may have gone from between others."""
    names = sorted(set(topics))
    configs = destination.describe_configs(names) if names else {}
    return {name for name in names if "compact" in policy_of(configs[name])}


def _lost(plan: CopyPlan, output: TopicPartition, lost: Lost) -> ReplayUnprovable:
    return ReplayUnprovable(
        f"{output} at {plan.destination.bootstrap} is not what the journal of job {plan.name!r} says: {lost.evidence}. "
        f"The partition or the journal has lost its end, as when a data folder is put back from an older copy. Nothing "
        f"more was copied. A job of another name, to outputs of another --prefix, copies what the source still has"
    )
