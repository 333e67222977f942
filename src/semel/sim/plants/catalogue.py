"""The planted bugs: each breaks the product in one place as some real system was broken once.

They prove the simulator (:mod:`semel.sim.plants.planting`): a checker that finds none of them checks nothing.
``KAFKA-``, ``rp`` (Redpanda) and ``rdk`` (librdkafka) are the trackers' numbers; papers are named by author and
venue; "here" was our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from semel.core.identity import BLOCK_IDS, IdBlock
from semel.core.log import recovery
from semel.core.log.index import floor_of_offset
from semel.core.log.watermarks import FetchIsolation, Watermarks
from semel.core.producer_state import row, snapshot, verdict
from semel.core.producer_state import state as producer_state
from semel.core.producer_state.entry import ProducerEntry
from semel.core.producer_state.state import FrozenProducers, ProducerState
from semel.core.transaction import transactions
from semel.core.transaction.transaction import Transaction
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader, decode_header
from semel.server import router
from semel.server.durability import GroupCommit, Syncable, _Waiter
from semel.server.handlers import fetch, offsets, producers
from semel.server.storage import checkpoints, opening, partition, snapshots
from semel.server.storage.appending import Appending
from semel.server.storage.checkpoints import OffsetCheckpoint
from semel.server.storage.epoch_file import EpochFile
from semel.server.storage.filesystem import write_file
from semel.server.storage.log_state import LogState
from semel.server.storage.opening import OpenedLog
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.producer_ids import ProducerIds
from semel.server.storage.reading import Reading
from semel.server.storage.segment import Segment
from semel.server.storage.snapshots import SnapshotFiles
from semel.server.storage.state_log import StateLog
from semel.server.storage.syncing import Syncing
from semel.server.storage.trimming import Trimming
from semel.sim.copies import plants as copy_plants  # noqa: F401 - likewise
from semel.sim.flows import plants as flow_plants  # noqa: F401 - likewise
from semel.sim.groups import plants as group_plants  # noqa: F401 - likewise
from semel.sim.plants import bound, client, compaction, lease  # noqa: F401 - those are among PLANTS too
from semel.sim.plants.planting import (
    BESIDE,
    DEFINITE,
    DENSE,
    FENCED,
    FINISHES,
    GRANTED,
    MARKS,
    ONCE,
    ONE_VALUE,
    OPENS,
    ORDER,
    OVER,
    PLANTS,
    REPLAYED,
    RESUMED,
    STARTS,
    STORED,
    TOLD,
    Patches,
    plant,
)
from semel.sim.sinks import log_plants as sink_log_plants  # noqa: F401 - likewise
from semel.sim.sinks.plants import STOPS, ZOMBIES  # and those of the sinks are among PLANTS too
from semel.sim.transactions import plants as transaction_plants  # noqa: F401 - likewise
from semel.sim.world.disk import SimulatedFile
from semel.types import LEASED_IDS_FROM, NO_LEADER_EPOCH

__all__ = ["PLANTS"]


# -- durability -----------------------------------------------------------------------------------------


@plant("acks=all is answered before the sync", "here", STORED, ONE_VALUE, MARKS, OVER)
def ack_before_sync(patch: Patches) -> None:
    patch.set(
        Watermarks, "high_watermark", property(lambda marks: marks.log_end_offset, lambda marks, offset: None)
    )


@plant("fdatasync is not called", "Alagappan FAST18", OPENS, STORED, MARKS, ONE_VALUE, OVER)
def sync_that_does_not(patch: Patches) -> None:
    patch.set(SimulatedFile, "fdatasync", lambda file: None)


@plant(
    "a failed fsync is tried again, and the second one believed",
    "Rebello ATC20",
    OPENS,
    STORED,
    MARKS,
    ONE_VALUE,
    FINISHES,
    OVER,
    REPLAYED,
)
def failed_sync_is_tried_again(patch: Patches) -> None:
    def stays_online(log: LogState, reason: str) -> None:
        if not reason.startswith("sync failed"):
            original(log, reason)

    original = patch.set(LogState, "go_offline", stays_online)


@plant(
    "a sync is taken to cover what was written while it ran",
    "here",
    OPENS,
    STORED,
    MARKS,
    ONE_VALUE,
    OVER,
    REPLAYED,
)
def sync_covers_later_writes(patch: Patches) -> None:
    def syncs(syncing: Syncing) -> None:
        original(syncing)
        log = syncing._log
        if log.is_online:
            log.marks.synced_to(log.marks.log_end_offset, None)

    def request(commit: GroupCommit, partitions: Iterable[Syncable], done: Callable[[], None] | None) -> None:
        asked = dict.fromkeys(partitions)
        lines = [line for each in asked if (line := commit._lines.get(each)) is not None and line.is_running]
        if len(lines) < len(asked) or not asked:
            requests(commit, asked, done)
        elif done is not None:
            waiter = _Waiter(done, len(lines))
            for line in lines:
                line.now.append(waiter)

    original = patch.set(Syncing, "_sync", syncs)
    requests = patch.set(GroupCommit, "request", request)


@plant("the folder of a new segment is not synced", "Mohan OSDI18", OPENS, STORED, MARKS, ONE_VALUE, OVER)
def folder_of_a_new_segment_not_synced(patch: Patches) -> None:
    def rolls(appending: Appending, now_ms: int) -> None:
        original(appending, now_ms)
        appending._log.is_folder_dirty = False

    original = patch.set(Appending, "roll", rolls)

    def replaces(file_system: Any, path: Any, content: bytes) -> None:
        draft = path.with_name(path.name + ".tmp")
        write_file(file_system, draft, content).fdatasync()
        file_system.rename(draft, path)

    # The snapshot of the roll would sync the folder, too.
    patch.set(snapshots, "replace_file", replaces)


@plant(
    "what recovery has read is believed to be on disk",
    "KAFKA-10101",
    OPENS,
    STORED,
    MARKS,
    ONE_VALUE,
    OVER,
    REPLAYED,  # of producers, too, the log knows less than recovery said
)
def recovery_believes_clean_pages(patch: Patches) -> None:
    patch.set(opening._Opening, "_write_again", lambda *_: None)


@plant("recovery checks the headers of the tail, not the CRCs", "Ganesan FAST17", OPENS)
def recovery_trusts_a_torn_tail(patch: Patches) -> None:
    patch.set(recovery, "validate_batch", decode_header)


@plant("damage below the recovery point is cut off like a torn tail", "Alagappan FAST18", "damage_is_not_cut")
def damage_is_cut(patch: Patches) -> None:
    def lenient(bad: Any, *, at_offset: int, recovery_point: int) -> Any:
        return original(bad, at_offset=at_offset, recovery_point=0)

    original = patch.set(opening, "decide_cut", lenient)


@plant("a partition that the disk did not give is called damaged", "here", OPENS)
def failed_opening_is_damage(patch: Patches) -> None:
    def damaged(cls: Any, log_start_offset: int, error: OSError) -> OpenedLog:
        opened: OpenedLog = original.__func__(cls, log_start_offset, error)
        return replace(opened, verdict=recovery.Damaged(log_start_offset, str(error)))

    original = patch.set(OpenedLog, "unopened", classmethod(damaged))


@plant(
    "a partition that the disk did not give answers as an empty one",
    "Ganesan FAST17",
    MARKS,
    ONCE,
    STORED,
    RESUMED,
    "flow_stops_are_right",
)
def offline_partition_answers(patch: Patches) -> None:
    def finds(broker: Any, topic: str, number: int, asked_epoch: int = NO_LEADER_EPOCH) -> Any:
        found = broker.storage.partition(topic, number)
        return original(broker, topic, number, asked_epoch) if found is None or found.is_online else found

    original = patch.set(offsets, "find_partition", finds)
    patch.set(producers, "find_partition", finds)


@plant(
    "the indexes are believed after a crash, too",
    "KAFKA-12734",
    OPENS,
    STORED,
    MARKS,
    ONE_VALUE,
    OVER,
    "no_uncommitted_read",
)
def index_trusted_after_a_crash(patch: Patches) -> None:
    def opens(*files: Any, **said: Any) -> OpenedLog:
        return original(*files, **{**said, "clean": True})  # type: ignore[no-any-return]

    original = patch.set(partition, "open_log", opens)


@plant(
    "nobody looks whether a batch begins where an index leads",
    "KAFKA-7283",
    BESIDE,
    STORED,
    OPENS,
    REPLAYED,
)
def index_trusted(patch: Patches) -> None:
    def leads_to(segment: Segment, relative_offset: int) -> int:
        entry = floor_of_offset(segment.index.tuple_at, segment.index.count, relative_offset)
        return 0 if entry is None else entry[1]

    patch.set(Segment, "_start_for", leads_to)


@plant("a snapshot that cannot be read is passed over, whatever has been trimmed since", "here", BESIDE)
def unread_snapshot_is_passed_over(patch: Patches) -> None:
    patch.set(SnapshotFiles, "check_newest", lambda *_: None)


@plant("records above the high watermark are served", "KAFKA-9835", DENSE, ONE_VALUE)
def reads_above_the_watermark(patch: Patches) -> None:
    def reads(log: Reading, from_offset: int, max_bytes: int, *_: Any, **options: bool) -> Any:
        return original(log, from_offset, max_bytes, FetchIsolation.LOG_END, **options)

    original = patch.set(Reading, "read", reads)


@plant("a reader is shown the log's end for its high watermark", "here", ONE_VALUE)
def readers_see_what_is_not_synced(patch: Patches) -> None:
    is_read = [False]

    def reading(handle: Any) -> Any:
        def reads(*asked: Any, **wanted: Any) -> Any:
            is_read[0] = True
            try:
                return handle(*asked, **wanted)
            finally:
                is_read[0] = False

        return reads

    def as_shown(marks: Watermarks) -> int:
        return marks.log_end_offset if is_read[0] else int(original.__get__(marks))

    def sets(marks: Watermarks, offset: int) -> None:
        original.__set__(marks, offset)

    original = patch.set(Watermarks, "high_watermark", property(as_shown, sets))
    patch.set(fetch, "_look_at", reading(fetch._look_at))
    patch.set(router, "handle_plain_fetch", reading(vars(router)["handle_plain_fetch"]))


# -- what the log knows of its producers ----------------------------------------------------------------


@plant("the window holds four batches, clients send five", "KAFKA-5494", DEFINITE, REPLAYED)
def window_of_four(patch: Patches) -> None:
    def put_four(slab: bytearray, at: int, *batch: int, is_transactional: bool) -> None:
        original(slab, at, *batch, is_transactional=is_transactional)
        entry = row.decode_row(slab, at)
        fewer = entry._replace(window=entry.window[-4:])
        slab[at : at + row.ROW_BYTES] = row.encode_row(row.id_of(slab[at:]), fewer)

    original = patch.set(producer_state, "put_batch", put_four)
    patch.set(ProducerState, "append_next", lambda *_: None)  # else most batches go past it


@plant(
    "a batch that plainly follows the newest one is taken, and takes the others' place",
    "here",
    DEFINITE,
    REPLAYED,
)
def quick_way_keeps_one(patch: Patches) -> None:
    def keeps_one(state: ProducerState, header: BatchHeader, base_offset: int, now_ms: int) -> Any:
        before = original(state, header, base_offset, now_ms)
        known = state.get(header.producer_id)
        if before is not None and known is not None:
            newest = known._replace(window=known.window[-1:])
            state._rows.put_back(header.producer_id, row.encode_row(header.producer_id, newest))
        return before

    original = patch.set(ProducerState, "append_next", keeps_one)


@plant("snapshots hold each producer's last batch only", "rp3039", DEFINITE, REPLAYED)
def snapshot_without_window(patch: Patches) -> None:
    def last_batch_only(frozen: FrozenProducers) -> Any:
        entries = {producer_id: entry._replace(window=entry.window[-1:]) for producer_id, entry in frozen}
        return original(ProducerState(entries, end_offset=frozen.end_offset).freeze())

    original = snapshot.encode_snapshot
    patch.set(snapshots, "encode_snapshot", last_batch_only)


@plant("sequences are compared by magnitude: the wrap to 0 looks like the past", "sequence 2^31-1", DEFINITE)
def wrap_by_magnitude(patch: Patches) -> None:
    patch.set(verdict, "distance", lambda newer, older: newer - older)


def _let_in(patch: Patches, refusal: type) -> None:
    def lenient(state: ProducerState, header: BatchHeader) -> Any:
        found = original(state, header)
        return verdict.APPEND if isinstance(found, refusal) and not header.is_control else found

    original = patch.set(ProducerState, "judge", lenient)


@plant("a gap in the sequences is let in", "here", DEFINITE)
def append_on_gap(patch: Patches) -> None:
    _let_in(patch, verdict.OutOfOrderSequence)


@plant("any first sequence of an unknown id is let in", "KAFKA-12671 (franz-go#451)", DEFINITE)
def unknown_producer_appends(patch: Patches) -> None:
    _let_in(patch, verdict.UnknownProducer)


@plant("a batch that straddles the mark is let in whole", "here", DEFINITE)
def straddling_batch_appends(patch: Patches) -> None:
    _let_in(patch, verdict.Straddling)


@plant("older epochs may still append", "SPARK-24589", DEFINITE)
def epochs_not_fenced(patch: Patches) -> None:
    _let_in(patch, verdict.InvalidProducerEpoch)


@plant("a duplicate is answered with the wrong offset", "rp5356", DEFINITE, REPLAYED)
def duplicate_offset_is_wrong(patch: Patches) -> None:
    def shifted(slab: bytearray, at: int, *batch: int, is_transactional: bool) -> None:
        producer_epoch, base_sequence, base_offset, *rest = batch
        original(
            slab,
            at,
            producer_epoch,
            base_sequence,
            base_offset + 1,
            *rest,
            is_transactional=is_transactional,
        )

    original = patch.set(producer_state, "put_batch", shifted)
    patch.set(ProducerState, "append_next", lambda *_: None)


@plant("the leader epoch stays where it was behind a loss", "KIP-320", TOLD)
def epoch_stays_behind_a_loss(patch: Patches) -> None:
    def stays(file: EpochFile, leader_epoch: int, start_offset: int) -> None:
        original(file, file.latest if file.epochs else leader_epoch, start_offset)

    original = patch.set(EpochFile, "begin", stays)


@plant("the tail is not replayed into the producer state", "rp31483", REPLAYED)
def recovery_forgets_the_producers(patch: Patches) -> None:
    patch.set(
        opening, "_replay", lambda segment, state, *_, **__: setattr(state, "end_offset", segment.end_offset)
    )


@plant("ids expire by the time in their records", "KAFKA-9144", DEFINITE, REPLAYED, FENCED)
def expiry_by_record_time(patch: Patches) -> None:
    def expires(state: ProducerState, before_ms: int, leases_expired_below: int) -> Iterator[int]:
        old = [producer_id for producer_id, entry in state if 0 <= entry.last_timestamp_ms < before_ms]
        for producer_id in old:
            state.restore(producer_id, None)
        yield len(old)

    patch.set(ProducerState, "expire", expires)


@plant("a write that failed stays in the producer state", "KAFKA-10778", DEFINITE, REPLAYED)
def failed_write_is_remembered(patch: Patches) -> None:
    patch.set(ProducerState, "restore", lambda *_: None)


# -- fences ---------------------------------------------------------------------------------------------


@plant("a fence is kept in memory only", "rp6018", FENCED, DEFINITE, ORDER)
def fence_in_memory(patch: Patches) -> None:
    def forgets(appending: Appending, incoming: Sequence[Incoming], now_ms: int) -> list[AppendOutcome]:
        header = incoming[0].headers[0]
        if not header.is_control:
            return original(appending, incoming, now_ms)  # type: ignore[no-any-return]
        producers = appending._log.producers.state
        known = producers.get(header.producer_id) or ProducerEntry()
        if header.producer_epoch > known.producer_epoch:
            end_offset = producers.end_offset
            producers.apply_marker(header, end_offset, -1, now_ms)
            producers.end_offset = end_offset
        return [AppendOutcome(ErrorCode.NONE)]

    original = patch.set(Appending, "append_all", forgets)


@plant("a fence is acknowledged before the disk has it, or has refused it", "KAFKA-17507", FENCED, FINISHES)
def fence_before_disk(patch: Patches) -> None:
    def fences(*asked: Any) -> tuple[None, ErrorCode, int]:
        _, code, _ = original(*asked)
        return None, ErrorCode.NONE if code is ErrorCode.KAFKA_STORAGE_ERROR else code, 0

    original = patch.set(producers, "_fence", fences)


@plant("a marker of an older epoch is taken", "here", DEFINITE, ORDER)
def late_marker_is_taken(patch: Patches) -> None:
    def lenient(entry: ProducerEntry | None, producer_epoch: int) -> Any:
        found = original(entry, producer_epoch)
        return verdict.APPEND if isinstance(found, verdict.InvalidProducerEpoch) else found

    original = patch.set(verdict, "judge_marker", lenient)


@plant("a raised epoch goes on with the old sequences", "here", DEFINITE, REPLAYED)
def marker_keeps_the_window(patch: Patches) -> None:
    def keeps(
        slab: bytearray, at: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
    ) -> None:
        window = row.decode_row(slab, at).window
        entry = ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, window)
        slab[at : at + row.ROW_BYTES] = row.encode_row(row.id_of(slab[at:]), entry)

    patch.set(producer_state, "put_marker", keeps)


# -- identities -----------------------------------------------------------------------------------------


@plant(
    "a restart goes on with a block of producer ids that was in use",
    "KAFKA-15552",
    GRANTED,
    ZOMBIES,
    STOPS,
)
def id_block_twice(patch: Patches) -> None:
    def begins(ids: ProducerIds, log: StateLog) -> None:
        original(ids, log)
        end_id = ids.identities.next_id
        ids._free_ids = IdBlock(max(0, end_id - BLOCK_IDS), end_id)

    def leases(ids: ProducerIds, fresh_id: int, *asked: Any) -> Any:
        """Of a lease's id that comes twice the core's own assertion tells; those go on as they should."""
        return original_lease(ids, max(fresh_id, ids.leases.granted_below - LEASED_IDS_FROM), *asked)

    original = patch.set(ProducerIds, "begin", begins)
    original_lease = patch.set(ProducerIds, "_lease", leases)


@plant("a named identity is granted again with the same epoch", "SPARK-26425", GRANTED, FINISHES, STOPS)
def epoch_not_raised(patch: Patches) -> None:
    def same(known: Transaction, **changes: Any) -> Transaction:
        return known if list(changes) == ["producer_epoch"] else replace(known, **changes)

    patch.set(transactions, "replace", same)


@plant("an identity is granted before its epoch is durable", "KAFKA-16541", GRANTED, OVER, DEFINITE)
def grant_before_sync(patch: Patches) -> None:
    def submits(log: StateLog, decision: Any, now_ms: int) -> Any:
        return original(log, decision, now_ms)._replace(sync_offset=0)

    original = patch.set(StateLog, "submit", submits)


# -- trims ----------------------------------------------------------------------------------------------


@plant("deleted segments take their producers with them", "KAFKA-7190", REPLAYED, OPENS)
def trim_forgets_producers(patch: Patches) -> None:
    async def lets_go(*_: Any) -> None:
        return None

    patch.set(Trimming, "_outlive", lets_go)
    patch.set(SnapshotFiles, "write", lambda *_: None)


@plant("a new log start is not synced", "SPARK-40826", STARTS, OPENS)
def log_start_not_durable(patch: Patches) -> None:
    def replaces(file_system: Any, path: Any, content: bytes) -> None:
        draft = path.with_name(path.name + ".tmp")
        write_file(file_system, draft, content)
        file_system.rename(draft, path)

    patch.set(checkpoints, "replace_file", replaces)


@plant("a log start that could not be saved is shown", "here", STARTS, OPENS)
def log_start_shown_too_early(patch: Patches) -> None:
    def raises(starts: OffsetCheckpoint, name: Any, offset: int) -> None:
        starts._offsets[name] = offset

    patch.set(OffsetCheckpoint, "raise_to", raises)


@plant("a reader that a trim has overtaken is not told where the log begins", "here", FINISHES)
def trimmed_reader_is_left_alone(patch: Patches) -> None:
    def looks(*asked: Any, **wanted: Any) -> Any:
        answer, piece = original(*asked, **wanted)
        if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            answer.log_start_offset = -1
        return answer, piece

    original = patch.set(fetch, "_look_at", looks)
