"""Any history of runs stores each row once, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.client import progress as progress_module
from semel.core.client.fate import Stored
from semel.core.client.progress import Progress
from semel.core.client.resume import (
    LogKnows,
    ScanFrom,
    SeenBatch,
    Unprovable,
    counted_to,
    is_compacted,
    made_anew,
    not_held,
    plan_begin,
    plan_scan,
    resumed,
    still_vouches,
    total_stored,
)
from semel.core.client.saved import UNCOUNTED, SavedIdentity, SavedPartition, decode_identity, encode_identity
from semel.record.batch import Record, decode_header, encode_batch, without_producer
from semel.record.filtering import emptied, hole
from semel.types import NO_SEQUENCE, ProducerGrant, TopicPartition

PRODUCER_ID = 7
ROWS = 40

# -- a log that judges epochs and sequences --------------------------------------------------------------


@dataclass
class ModelPartition:
    """Batches as (base offset, epoch, base sequence, rows); a fence takes an offset too."""

    batches: list[tuple[int, int, int, list[int]]] = field(default_factory=list)
    end_offset: int = 0
    newest_epoch: int | None = None
    last_sequence: int = NO_SEQUENCE
    start_offset: int = 0
    first_offset: int | None = None  # of whatever this identity appended
    fences: dict[int, int] = field(default_factory=dict)  # by epoch, the offset behind it

    def append(self, producer_epoch: int, base_sequence: int, rows: list[int]) -> int | None:
        """The base offset; None when refused."""
        if self.newest_epoch is not None and producer_epoch < self.newest_epoch:
            return None
        if producer_epoch != self.newest_epoch:
            self.newest_epoch, self.last_sequence = producer_epoch, NO_SEQUENCE
        assert base_sequence == self.last_sequence + 1
        self.touch()
        self.batches.append((self.end_offset, producer_epoch, base_sequence, rows))
        self.end_offset += len(rows)
        self.last_sequence += len(rows)
        return self.batches[-1][0]

    def fence(self, producer_epoch: int) -> bool:
        """Whether it was taken."""
        if self.newest_epoch is not None and producer_epoch < self.newest_epoch:
            return False
        if producer_epoch != self.newest_epoch:
            self.newest_epoch, self.last_sequence = producer_epoch, NO_SEQUENCE
        self.touch()
        self.end_offset += 1
        self.fences.setdefault(producer_epoch, self.end_offset)
        return True

    def touch(self) -> None:
        self.first_offset = self.end_offset if self.first_offset is None else self.first_offset

    def knows(self) -> LogKnows:
        return LogKnows(self.end_offset, self.newest_epoch, self.last_sequence, self.start_offset)

    def seen(self, from_offset: int, end_offset: int) -> list[SeenBatch]:
        return [
            SeenBatch(producer_epoch, base_sequence, len(rows))
            for base_offset, producer_epoch, base_sequence, rows in self.batches
            if from_offset <= base_offset < end_offset
        ]

    def rows(self) -> list[int]:
        return [row for *_, rows in self.batches for row in rows]


class Crash(Exception):
    pass


class CannotKnow(Exception):
    """Rows were deleted before they were counted."""


class History:
    """One identity, its log and its store, through any number of runs."""

    def __init__(self, data: st.DataObject, partition_counts: dict[str, int], is_trimmed: bool) -> None:
        self.data = data
        self.partition_counts = partition_counts
        self.log = {
            TopicPartition(topic, partition): ModelPartition()
            for topic, count in partition_counts.items()
            for partition in range(count)
        }
        self.store: list[SavedIdentity] = [SavedIdentity("loader")]
        self.newest_epoch = -1
        self.on_the_wire: list[tuple[TopicPartition, int, int, list[int]]] = []  # of runs that crashed
        self.steps_left = 0  # until the run crashes
        self.is_twin = False
        self.is_trimmed = is_trimmed

    def chance(self, one_in: int) -> bool:
        return self.data.draw(st.integers(0, one_in - 1)) == 0

    def maybe_crash(self, may_crash: bool) -> None:
        self.steps_left -= 1
        if may_crash and self.steps_left < 0:
            raise Crash

    def maybe_trim(self) -> None:
        """Others write too; and a trim takes what lies in front, though not what was said of its writers."""
        for partition in self.log.values() if self.is_trimmed else ():
            if self.chance(3):
                partition.end_offset += self.data.draw(st.integers(0, 3))
                partition.start_offset = partition.end_offset - self.data.draw(
                    st.integers(0, partition.end_offset - partition.start_offset)
                )

    def late_arrivals(self) -> None:
        """What a crashed run had sent arrives now, in order, or is lost from some batch on."""
        while self.on_the_wire and self.chance(2):
            tp, producer_epoch, base_sequence, rows = self.on_the_wire.pop(0)
            partition = self.log[tp]
            if producer_epoch == partition.newest_epoch and base_sequence != partition.last_sequence + 1:
                continue  # one before it was lost: out of sequence
            if producer_epoch != partition.newest_epoch and base_sequence != 0:
                continue
            partition.append(producer_epoch, base_sequence, rows)

    def twin_run(self) -> None:
        """Another copy starts, and gets as far as it gets before this one takes its epoch."""
        self.is_twin, steps_left = True, self.steps_left
        try:
            self.crashing_run()
        finally:
            self.is_twin, self.steps_left = False, steps_left

    def crashing_run(self) -> None:
        self.steps_left = self.data.draw(st.integers(0, 150))
        try:
            self.run(may_crash=True)
        except Crash:
            self.late_arrivals()

    def resume(self, may_crash: bool) -> Progress:
        self.maybe_trim()
        # A copy of the store from any time before is as good as the newest.
        saves_ago = [0, 1, 2, len(self.store) - 1] if len(self.store) > 2 else [0]
        index = -1 - self.data.draw(st.sampled_from(saves_ago))
        saved = decode_identity(encode_identity(self.store[index]))
        assert isinstance(saved, SavedIdentity)
        knows = {tp: self.log[tp].knows() for tp in saved.partitions}
        if self.chance(4):  # the log forgets who wrote
            knows = {
                tp: replace(found, producer_epoch=None, last_sequence=NO_SEQUENCE)
                if saved.partitions[tp].is_counted
                else found
                for tp, found in knows.items()
            }
        plans = {tp: self.plan(saved, tp, knows[tp]) for tp in knows}
        self.late_arrivals()
        self.maybe_crash(may_crash)
        if not self.is_twin and self.chance(4):
            self.twin_run()
        self.newest_epoch += 1
        grant = ProducerGrant(PRODUCER_ID, self.newest_epoch)
        for tp in saved.partitions:
            self.late_arrivals()
            assert self.log[tp].fence(grant.producer_epoch)
            self.maybe_crash(may_crash)
        counted = self.count(saved, plans, grant.producer_epoch, may_crash)
        fresh = resumed(saved, grant, counted)
        self.maybe_crash(may_crash)
        self.store.append(fresh)
        return Progress(fresh, save_interval_ms=0)

    def begin_topic(self, progress: Progress, topic: str, may_crash: bool) -> None:
        tps = [TopicPartition(topic, partition) for partition in range(self.partition_counts[topic])]
        begun = {}
        for tp in tps:
            knows = self.log[tp].knows()
            if (knows.producer_epoch or 0) > progress.saved.producer_epoch:
                raise Crash  # fenced
            planned = plan_begin(progress.saved, tp, knows)
            if isinstance(planned, Unprovable):
                assert knows.producer_epoch is not None and knows.start_offset > 0
                raise CannotKnow
            begun[tp.partition] = planned
        self.maybe_crash(may_crash)
        self.store.append(progress.note_topic(topic, begun))
        self.maybe_trim()
        if not progress.knows_topic(topic):
            self.store.append(progress.note_topic(topic, self.count_topic(progress.saved, tps, may_crash)))

    def count_topic(
        self, saved: SavedIdentity, tps: list[TopicPartition], may_crash: bool
    ) -> dict[int, SavedPartition]:
        plans = {tp: self.plan(saved, tp, self.log[tp].knows()) for tp in tps}
        for tp in tps:
            self.late_arrivals()
            if not self.log[tp].fence(saved.producer_epoch):
                raise Crash  # fenced
            self.maybe_crash(may_crash)
        counted = self.count(saved, plans, saved.producer_epoch, may_crash)
        self.maybe_crash(may_crash)
        return {tp.partition: item for tp, item in counted.items()}

    def plan(self, saved: SavedIdentity, tp: TopicPartition, knows: LogKnows) -> tuple[LogKnows, ScanFrom]:
        scan = plan_scan(saved, tp, knows)
        assert isinstance(scan, ScanFrom)
        return knows, scan

    def count(
        self,
        saved: SavedIdentity,
        plans: dict[TopicPartition, tuple[LogKnows, ScanFrom]],
        fence_epoch: int,
        may_crash: bool,
    ) -> dict[TopicPartition, SavedPartition]:
        if may_crash and not self.is_twin and self.chance(6):
            self.twin_run()  # and it may be fenced before it has counted
        counted = {}
        for tp, (knows, scan) in plans.items():
            partition, end_offset = self.log[tp], self.log[tp].fences[fence_epoch]
            if scan.offset < partition.start_offset:
                vouched = knows.producer_epoch == (
                    saved.producer_epoch if saved.partitions[tp].is_counted else None
                )
                assert not vouched or (partition.first_offset or 0) < partition.start_offset
                raise CannotKnow
            total = total_stored(saved, tp, knows, scan, partition.seen(scan.offset, end_offset))
            assert isinstance(total, int)
            counted[tp] = counted_to(saved.partitions[tp], scan, total, end_offset)
        return counted

    def stored_behind(self, saved: SavedIdentity, tp: TopicPartition) -> deque[int] | None:
        """As they are read back; None where the log no longer reaches back that far."""
        item, partition = saved.partitions[tp], self.log[tp]
        if item.reread_offset < partition.start_offset:
            return None
        rows = [
            row
            for base_offset, _, _, rows in partition.batches
            if item.reread_offset <= base_offset < item.counted_to_offset
            for row in rows
        ]
        assert len(rows) == item.stored - item.reread_rows
        return deque(rows[item.handed - item.reread_rows :])

    def run(self, may_crash: bool) -> None:
        progress = self.resume(may_crash)
        grant = ProducerGrant(PRODUCER_ID, progress.saved.producer_epoch)
        lines: dict[TopicPartition, deque[int]] = {tp: deque() for tp in self.log}
        sequences = dict.fromkeys(self.log, 0)
        unanswered: list[tuple[TopicPartition, Stored, int]] = []
        behind = {tp: self.stored_behind(progress.saved, tp) for tp in progress.saved.partitions}
        batch_rows_max = self.data.draw(st.integers(1, 7))  # the run's own batch size
        sent: list[tuple[TopicPartition, int, int, list[int]]] = []

        def send_and_answer(everything: bool) -> None:
            for tp, line in lines.items():
                while line and (everything or self.chance(3)):
                    count = min(len(line), self.data.draw(st.integers(1, batch_rows_max)))
                    rows = [line.popleft() for _ in range(count)]
                    sent.append((tp, grant.producer_epoch, sequences[tp], rows))
                    self.maybe_crash(may_crash)  # sent, and perhaps on the wire for long
                    base_offset = self.log[tp].append(*sent.pop()[1:])
                    if base_offset is None:
                        assert may_crash
                        raise Crash  # fenced
                    told = base_offset if self.chance(2) else None  # "duplicate" says no offset
                    unanswered.append((tp, Stored(grant, sequences[tp], told, -1), count))
                    sequences[tp] += count
                    self.maybe_crash(may_crash)
            while unanswered and (everything or self.chance(2)):
                tp, fate, count = unanswered.pop(0)
                progress.stored(tp, fate, count)
                if (due := progress.to_save()) is not None:
                    self.maybe_crash(may_crash)
                    self.store.append(due)

        try:
            first = 0 if progress.saved.position is None else progress.saved.position + 1
            for position in range(first, ROWS):
                topic = "a" if position < ROWS // 2 or "b" not in self.partition_counts else "b"
                if not progress.knows_topic(topic):
                    self.begin_topic(progress, topic, may_crash)
                    begun = [tp for tp in self.log if tp.topic == topic]
                    behind |= {tp: self.stored_behind(progress.saved, tp) for tp in begun}
                progress.at(position, now_ms=position)
                progress.begin()
                for row in rows_at(position):
                    tp = TopicPartition(topic, partition_of(progress, topic, row))
                    if progress.hand(tp):
                        lines[tp].append(row)
                    elif (stored := behind[tp]) is not None:
                        assert stored.popleft() == row
                    self.maybe_crash(may_crash)
                progress.handed()
                send_and_answer(everything=False)
            send_and_answer(everything=True)
            assert progress.rows_missing == 0
            progress.mark(ROWS)
            if (due := progress.to_save()) is not None:
                self.store.append(due)
        except Crash:
            self.on_the_wire += sent
            raise


def rows_at(position: int) -> list[int]:
    """Every fifth position gives two rows."""
    return [position, 1000 + position] if position % 5 == 0 else [position]


def partition_of(progress: Progress, topic: str, row: int) -> int:
    return progress.turn(topic) if row % 3 == 0 else row * 7 % progress.partition_count(topic)


@given(st.data(), st.integers(1, 3), st.sampled_from([0, 1, 2]), st.integers(0, 6), st.booleans())
def test_any_history_of_runs_stores_each_row_once_and_in_order(
    data: st.DataObject, partitions_of_a: int, partitions_of_b: int, runs: int, is_trimmed: bool
) -> None:
    """And where the log is trimmed under it, rather gives up than to store a row twice."""
    counts = {"a": partitions_of_a} | ({"b": partitions_of_b} if partitions_of_b else {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress_module, "ROWS_A_TURN", 3)
        history = History(data, counts, is_trimmed)
        gave_up = False
        try:
            for _ in range(runs):
                history.crashing_run()
            history.run(may_crash=False)
        except CannotKnow:
            gave_up = True
    handed = [row for position in range(ROWS) for row in rows_at(position)]
    stored = [row for partition in history.log.values() for row in partition.rows()]
    assert len(stored) == len(set(stored)) if gave_up else sorted(stored) == sorted(handed)
    place = {row: index for index, row in enumerate(handed)}
    for partition in history.log.values():
        places = [place[row] for row in partition.rows()]
        assert places == sorted(places)


def test_what_arrives_between_the_question_and_the_fence_is_counted() -> None:
    """A late batch of the saved epoch, and one of a twin that took an epoch in between."""
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, 9, {"out": 1}, {tp: SavedPartition(9, 9, 9, 12, 8)})
    knows = LogKnows(14, 3, 10)
    scan = plan_scan(saved, tp, knows)
    assert scan == ScanFrom(14, by_sequence=True)
    seen = [SeenBatch(3, 11, 4), SeenBatch(4, 0, 2)]
    assert total_stored(saved, tp, knows, scan, seen) == 9 + 2 + 4 + 2


def test_a_log_that_lost_rows_or_was_made_anew_is_refused() -> None:
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, 9, {"out": 1}, {tp: SavedPartition(9, 9, 9, 12, 8)}, {"out": "x"})
    assert plan_scan(saved, tp, LogKnows(12, 3, 8)) == ScanFrom(12, by_sequence=True)
    lost = plan_scan(saved, tp, LogKnows(11, 3, 8))
    assert isinstance(lost, Unprovable) and "up to 12" in lost.why
    assert made_anew(saved, {"out": "x"}) is None
    other = made_anew(saved, {"out": "y"})
    assert isinstance(other, Unprovable) and "made anew" in other.why


def test_a_log_that_lost_rows_is_refused_though_others_made_it_as_long_again() -> None:
    """Else fewer rows would count as stored than were handed: some lost, and as many stored twice by a later run."""
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, 9, {"out": 1}, {tp: SavedPartition(9, 9, 9, 12, 8)})
    for knows in (LogKnows(20, 3, 6), LogKnows(20, 3, NO_SEQUENCE), LogKnows(20, 2, 40)):
        lost = plan_scan(saved, tp, knows)
        assert isinstance(lost, Unprovable) and "its log lost them" in lost.why
    for knows in (LogKnows(20, None, NO_SEQUENCE), LogKnows(20, 4, NO_SEQUENCE)):
        assert plan_scan(saved, tp, knows) == ScanFrom(12, by_sequence=False)


def test_a_fence_behind_which_nothing_was_written_vouches_for_what_was_counted() -> None:
    """Others' rows may fill the log and be deleted again meanwhile."""
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, 9, {"out": 1}, {tp: SavedPartition(9, 9, 9, 12)})
    knows = LogKnows(500, 3, NO_SEQUENCE)
    scan = plan_scan(saved, tp, knows)
    assert scan == ScanFrom(500, by_sequence=True)
    assert total_stored(saved, tp, knows, scan, []) == 9


def test_batches_that_were_taken_out_of_a_log_are_missed() -> None:
    """By compaction, or by a trim in the middle of the scan."""
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, 9, {"out": 1}, {tp: SavedPartition(9, 9, 7, 12, 6)})
    scan, knows = ScanFrom(12, by_sequence=False), LogKnows(40, 5, 3)
    whole = [SeenBatch(3, 5, 4), SeenBatch(4, 0, 2), SeenBatch(5, 0, 4)]
    assert total_stored(saved, tp, knows, scan, whole) == 7 + 4 + 2 + 4
    for lacking in (whole[1:], [whole[0], SeenBatch(4, 1, 1)], [SeenBatch(3, 9, 4)]):
        missed = total_stored(saved, tp, knows, scan, lacking)
        if lacking == whole[1:]:
            assert missed == 7 + 2 + 4  # nothing more of epoch 3 was there
        else:
            assert isinstance(missed, Unprovable) and "taken out" in missed.why


def test_what_was_taken_out_of_a_log_is_seen_by_what_was_left() -> None:
    rows = [Record(n, 0, b"key", b"row") for n in range(3)]
    batch = encode_batch(rows, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=5)
    whole, of_nobody = decode_header(batch), decode_header(encode_batch(rows))
    assert not is_compacted(whole, 0)
    assert not is_compacted(of_nobody, 0)
    assert not is_compacted(whole, 2), "read from the middle of a batch on"
    assert is_compacted(whole._replace(base_offset=4), 3), "a gap, as Apache Kafka leaves it"
    assert is_compacted(whole._replace(record_count=2), 0)
    assert is_compacted(decode_header(emptied(whole)), 0)
    assert is_compacted(decode_header(hole(0, 2, 0)), 0)
    assert is_compacted(decode_header(without_producer(batch)), 0), "somebody's, and nobody knows whose"


def test_where_a_topic_was_begun_may_be_gone_if_the_log_does_not_know_the_identity() -> None:
    """What was deleted, or lost, was others'. What is left is read: the log may have forgotten who wrote it."""
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, None, {"out": 1}, {tp: SavedPartition(0, 0, 0, 12, UNCOUNTED)})
    for end_offset, start_offset, from_offset in ((900, 13, 900), (10, 0, 10), (900, 12, 12)):
        knows = LogKnows(end_offset, None, NO_SEQUENCE, start_offset)
        assert plan_scan(saved, tp, knows) == ScanFrom(from_offset, by_sequence=False)


def test_sequences_that_may_have_wrapped_are_not_compared() -> None:
    tp = TopicPartition("out", 0)
    for last_sequence in (8, NO_SEQUENCE):
        partition = SavedPartition(9, 9, 9, 12, last_sequence)
        saved = SavedIdentity("loader", 7, 3, 9, {"out": 1}, {tp: partition})
        assert plan_scan(saved, tp, LogKnows(12 + 2**31, 3, 7)) == ScanFrom(12, by_sequence=False)


def test_a_leader_vouches_for_sequences_only_if_it_stored_the_fence_too() -> None:
    """Another one may have taken over without the last of them."""
    knows = LogKnows(14, 3, 10, leader_epoch=5)
    assert still_vouches(knows, 5)
    assert not still_vouches(knows, 6)
    assert not still_vouches(replace(knows, leader_epoch=-1), -1)


def test_a_topic_that_was_begun_is_read_though_the_log_knows_a_sequence_of_the_saved_epoch() -> None:
    """What that epoch stored once it had counted does not tell how many rows it had found."""
    tp = TopicPartition("out", 0)
    saved = SavedIdentity("loader", 7, 3, None, {"out": 1}, {tp: SavedPartition(0, 0, 0, 12, UNCOUNTED)})
    knows = LogKnows(40, 3, 9)
    scan = plan_scan(saved, tp, knows)
    assert scan == ScanFrom(12, by_sequence=False)
    assert total_stored(saved, tp, knows, scan, [SeenBatch(2, 0, 5), SeenBatch(3, 0, 10)]) == 15


def test_a_grant_is_held_against_the_one_before_it() -> None:
    saved = SavedIdentity("loader", 7, 3)
    assert not_held(saved, ProducerGrant(7, 4)) is None
    assert not_held(saved, ProducerGrant(9, 0)) is None  # forgotten, which the other id shows
    for epoch in (3, 0):
        went_back = not_held(saved, ProducerGrant(7, epoch))
        assert isinstance(went_back, Unprovable) and "lost what it knew" in went_back.why


def test_ids_of_old_are_kept_as_long_as_rows_of_theirs_may_come_again() -> None:
    saved = resumed(SavedIdentity("loader", 7, 3), ProducerGrant(9, 0), {})
    assert saved.earlier_ids == (7,)
    assert resumed(saved, ProducerGrant(9, 1), {}).earlier_ids == (7,)
    progress = Progress(saved, save_interval_ms=0)
    progress.at(0, now_ms=0)
    progress.mark(0)
    caught_up = progress.to_save()
    assert caught_up is not None and caught_up.earlier_ids == ()


def test_a_topic_that_is_not_saved_is_counted_from_where_an_older_copy_may_have_begun() -> None:
    tp = TopicPartition("out", 0)
    first, later = SavedIdentity("loader", 7, 0), SavedIdentity("loader", 7, 2)
    assert plan_begin(first, tp, LogKnows(12, None, NO_SEQUENCE)) == SavedPartition.begun(12)
    unknown = LogKnows(12, None, NO_SEQUENCE, start_offset=5)
    assert plan_begin(later, tp, unknown) == SavedPartition.begun(12, UNCOUNTED)
    assert plan_begin(later, tp, LogKnows(12, 1, 3)) == SavedPartition.begun(0, UNCOUNTED)
    for last_sequence in (3, NO_SEQUENCE):  # a fence may hide the rows of an older epoch
        trimmed = plan_begin(later, tp, LogKnows(12, 1, last_sequence, start_offset=5))
        assert isinstance(trimmed, Unprovable) and "trimmed to offset 5" in trimmed.why
