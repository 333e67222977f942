"""Whatever a log holds: compacted, it says the same of each key and of each producer, at the same offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.log.compacted import (
    DAY_MS,
    NOW_MS,
    assert_dense,
    compacted,
    entries,
    newest_of_each_key,
    records_in,
    replayed,
)

from semel.core.producer_state.state import ProducerState
from semel.record.batch import (
    Compression,
    Record,
    assemble_batch,
    assign_offsets,
    decode_header,
    decode_records,
    encode_batch,
    scan_batches,
)
from semel.record.control import encode_abort_marker


class Writing:
    """A log that grows, with its producers."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.state = ProducerState()
        self.end_offset = 0
        self._next: dict[int, tuple[int, int]] = {}  # epoch and sequence

    def write(
        self,
        *pairs: tuple[bytes | None, bytes | None],
        producer_id: int = -1,
        compression: Compression = Compression.NONE,
        time_ms: int = NOW_MS,
    ) -> None:
        records = [Record(n, time_ms + n, *pair, (("h", b"x"),)) for n, pair in enumerate(pairs)]
        epoch, sequence = self._next.get(producer_id, (0, 0)) if producer_id >= 0 else (-1, -1)
        batch = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            compression=compression,
        )
        self._append(batch)
        self._next[producer_id] = epoch, sequence + len(records)

    def fence(self, producer_id: int) -> None:
        epoch = self._next.get(producer_id, (0, 0))[0] + 1
        self._append(encode_abort_marker(producer_id, epoch, epoch, NOW_MS))
        self._next[producer_id] = epoch, 0

    def forget(self, producer_id: int) -> None:
        """As upkeep does with one that was silent for long; it may begin again."""
        self.state.forget(producer_id)
        self._next.pop(producer_id, None)

    def _append(self, batch: bytearray) -> None:
        assign_offsets(batch, self.end_offset, 0)
        header = decode_header(batch)
        if header.is_control:
            self.state.apply_marker(header, self.end_offset, header.producer_epoch, NOW_MS)
        else:
            self.state.apply(header, self.end_offset, NOW_MS)
        self.log.append(bytes(batch))
        self.end_offset = header.last_offset + 1


def test_of_each_key_the_newest_stays_and_a_hole_stands_for_the_rest() -> None:
    writing = Writing()
    writing.write((b"a", b"1"), (b"b", b"1"))
    writing.write((b"a", b"2"))
    writing.write((b"a", b"3"), (b"c", b"1"))
    left, read_to = compacted(writing.log)
    assert read_to == 5
    assert [(one.offset, one.key, one.value) for one in records_in(left)] == [
        (1, b"b", b"1"),
        (3, b"a", b"3"),
        (4, b"c", b"1"),
    ]
    headers = [header for _, header in scan_batches(b"".join(left))]
    assert [(one.base_offset, one.last_offset, one.record_count) for one in headers] == [
        (0, 1, 1),
        (2, 2, 0),
        (3, 4, 2),
    ]
    assert left[2] == writing.log[2], "byte for byte"


def test_holes_that_meet_are_one() -> None:
    writing = Writing()
    for n in range(6):
        writing.write((b"a", b"%d" % n))
    left, _ = compacted(writing.log)
    assert len(left) == 2
    writing.write((b"a", b"6"))
    left, _ = compacted([*left, writing.log[-1]], from_offset=6)
    assert [decode_header(one).last_offset for one in left] == [5, 6]


def test_what_was_not_read_stays_and_the_next_pass_goes_on_there() -> None:
    writing = Writing()
    for n in range(40):
        writing.write(*((b"%d" % (n * 3 + m), b"x") for m in range(3)))
    for n in range(40):
        writing.write(*((b"%d" % (n * 3 + m), b"y") for m in range(3)))
    log, read_to, passes = writing.log, 0, 0
    while read_to < writing.end_offset:
        before, passes = read_to, passes + 1
        log, read_to = compacted(log, from_offset=read_to, map_bytes=24 * 50)
        assert before < read_to <= before + 50
        assert newest_of_each_key(records_in(log)) == newest_of_each_key(records_in(writing.log))
    assert passes > 4
    assert len(records_in(log)) == 120


def test_a_tombstone_stays_until_its_horizon() -> None:
    writing = Writing()
    writing.write((b"a", b"1"), (b"b", b"1"))
    writing.write((b"a", None), (b"c", b"1"))
    left, read_to = compacted(writing.log)
    header = decode_header(left[-1])
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + DAY_MS
    assert [(one.key, one.timestamp_ms) for one in records_in(left)] == [
        (b"b", NOW_MS + 1),
        (b"a", NOW_MS),
        (b"c", NOW_MS + 1),
    ], "the times of the records are what they were"
    again, _ = compacted(left, from_offset=read_to, now_ms=NOW_MS + DAY_MS - 1, dirty=[])
    assert again == left
    gone, _ = compacted(left, from_offset=read_to, now_ms=NOW_MS + DAY_MS, dirty=[])
    assert [one.key for one in records_in(gone)] == [b"b", b"c"]
    assert decode_header(gone[-1]).has_delete_horizon


def test_a_record_without_a_key_goes_and_what_cannot_be_read_stays() -> None:
    writing = Writing()
    writing.write((None, b"1"), (b"a", b"1"))
    broken = assemble_batch(b"\x50" * 30, record_count=2, last_offset_delta=1, base_offset=2)
    too_few = assemble_batch(b"", record_count=0, last_offset_delta=0, base_offset=4)
    log = [*writing.log, bytes(broken), bytes(too_few)]
    left, _ = compacted(log, ProducerState())
    assert left[1:] == [bytes(broken), bytes(too_few)]
    assert [one.offset for one in decode_records(left[0])] == [1]


def test_a_window_stays_though_it_be_empty() -> None:
    writing = Writing()
    for n in range(8):
        writing.write((b"a", b"%d" % n), (b"b", b"%d" % n), producer_id=7)
    left, _ = compacted(writing.log)
    headers = [header for _, header in scan_batches(b"".join(left))]
    assert [(one.base_sequence, one.last_sequence, one.record_count) for one in headers] == [
        (-1, -1, 0),
        (6, 7, 0),
        (8, 9, 0),
        (10, 11, 0),
        (12, 13, 0),
        (14, 15, 2),
    ]
    assert entries(replayed(left)) == entries(writing.state)


def test_a_marker_stays_while_its_producer_is_known_and_no_newer_one_is_read() -> None:
    writing = Writing()
    writing.write((b"a", b"1"), producer_id=7)
    writing.fence(7)
    writing.fence(7)
    writing.write((b"a", b"2"), producer_id=7)
    writing.fence(8)
    writing.forget(8)
    left, _ = compacted(writing.log, writing.state)
    markers = [header.base_offset for _, header in scan_batches(b"".join(left)) if header.is_control]
    assert markers == [2]
    assert entries(replayed(left)) == entries(writing.state)


def test_rows_of_a_producer_that_was_forgotten_are_nobodys() -> None:
    """Else a start without snapshots would know a part of what it wrote, and take the rest for new."""
    writing = Writing()
    writing.write((b"a", b"1"), producer_id=7)
    writing.write((b"b", b"1"), producer_id=7)
    writing.forget(7)
    writing.write((b"b", b"2"))
    left, _ = compacted(writing.log, writing.state)
    assert [one.key for one in records_in(left)] == [b"a", b"b"]
    assert not replayed(left)


def test_one_that_began_again_has_only_what_it_wrote_since() -> None:
    writing = Writing()
    writing.write((b"a", b"1"), producer_id=7)
    writing.forget(7)
    writing.write((b"b", b"1"), producer_id=7)
    left, _ = compacted(writing.log, writing.state)
    assert entries(replayed(left)) == entries(writing.state)
    assert len(records_in(left)) == 2


_keys = st.one_of(
    st.none(), st.sampled_from([b"", b"a", b"b", b"abcd", b"abcde", b"k" * 64, b"k" * 65, b"k" * 300])
)
_pairs = st.lists(st.tuples(_keys, st.one_of(st.none(), st.binary(max_size=20))), min_size=1, max_size=6)
_steps = st.one_of(
    st.tuples(st.just("write"), _pairs, st.integers(-1, 3), st.sampled_from([*Compression])),
    st.tuples(st.just("fence"), st.integers(0, 3)),
    st.tuples(st.just("forget"), st.integers(0, 3)),
)


@given(
    steps=st.lists(st.lists(_steps, max_size=12), min_size=1, max_size=4),
    keys_max=st.integers(1, 30),
    chunk_batches=st.integers(1, 9),
    apart_ms=st.sampled_from([0, DAY_MS // 2, DAY_MS]),
)
def test_any_log_says_the_same_compacted(steps, keys_max: int, chunk_batches: int, apart_ms: int) -> None:
    """It grows, is compacted as far as the map reaches, grows on, and so on."""
    writing = Writing()
    log: list[bytes] = []
    read_to, now_ms = 0, NOW_MS
    for some in steps:
        written = len(writing.log)
        for what, *given_ in some:
            if what == "write":
                pairs, producer_id, compression = given_
                writing.write(*pairs, producer_id=producer_id, compression=compression)
            else:
                getattr(writing, what)(*given_)
        log += writing.log[written:]
        if not log:
            continue
        dirty = [one for one in log if decode_header(one).last_offset >= read_to]
        log, read_to = compacted(
            log,
            writing.state,
            from_offset=read_to,
            map_bytes=24 * keys_max,
            now_ms=now_ms,
            chunk_batches=chunk_batches,
            dirty=dirty,
        )
        now_ms += apart_ms
        assert_dense(log, writing.end_offset)
        assert entries(replayed(log)) == entries(writing.state)
        left, all_ = records_in(log), records_in(writing.log)
        assert set(left) <= set(all_), "nothing is another, or elsewhere"
        newest = newest_of_each_key(all_)
        found = newest_of_each_key(left)
        assert {key: one for key, one in newest.items() if one.value is not None} == {
            key: one for key, one in found.items() if one.value is not None
        }
        assert all(newest[key] == one for key, one in found.items()), "an older value came back"
        below = [one for one in left if one.offset < read_to and one.key is not None]
        assert len({one.key for one in below}) == len(below)
        assert {one.offset for one in all_ if one.offset >= read_to} == {
            one.offset for one in left if one.offset >= read_to
        }
