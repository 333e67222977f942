from hypothesis import given
from hypothesis import strategies as st

from semel.core.producer_state.entry import WINDOW_BATCHES_MAX, BatchSpan, ProducerEntry
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.verdict import APPEND, Duplicate
from semel.record.batch import BatchHeader
from semel.sequence import SEQUENCE_MAX


def header(base_sequence: int, *, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, -1, 2, 0, 0, 1, 0, 5, producer_id, epoch, base_sequence, 2)


def test_the_window_holds_the_last_five_batches() -> None:
    state = ProducerState()
    for n in range(8):
        state.apply(header(2 * n), 2 * n, now_ms=0)
    entry = state.get(7)
    assert entry is not None
    assert len(entry.window) == WINDOW_BATCHES_MAX
    assert entry.last_sequence == 15
    assert state.judge(header(6)) == Duplicate(6)
    assert state.judge(header(4)) == Duplicate(None)


def test_a_raised_epoch_empties_the_window() -> None:
    state = ProducerState()
    state.apply(header(0), 0, now_ms=0)
    state.apply(header(0, epoch=1), 2, now_ms=0)
    entry = state.get(7)
    assert entry is not None
    assert [span.base_offset for span in entry.window] == [2]


def test_an_id_expires_by_its_last_append() -> None:
    state = ProducerState()
    state.apply(header(0, producer_id=1), 0, now_ms=10)
    state.apply(header(0, producer_id=2), 2, now_ms=20)
    state.apply(header(2, producer_id=1), 4, now_ms=30)
    assert sum(state.expire(before_ms=30)) == 1
    assert [producer_id for producer_id, _ in state] == [1]
    assert sum(state.expire(before_ms=31)) == 1
    assert len(state) == 0


def test_an_append_that_failed_is_undone() -> None:
    state = ProducerState()
    state.apply(header(0), 0, now_ms=0)
    known = state.get(7)
    before = state.apply(header(2), 2, now_ms=0)
    state.apply(header(0, producer_id=8), 4, now_ms=0)
    state.restore(8, None)
    state.restore(7, before)
    assert list(state) == [(7, known)]


sequences = st.integers(0, 12) | st.sampled_from([SEQUENCE_MAX - 1, SEQUENCE_MAX])
batches = st.builds(header, sequences, producer_id=st.integers(7, 8), epoch=st.integers(0, 1))


@given(st.lists(batches, max_size=30), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_the_quick_way_of_the_next_batch_is_the_long_one(sent, frozen_before, undone) -> None:
    """What it takes, the judge would; what it then knows, and gives back for an undo, is what an append gives."""
    before_the_wrap = ProducerEntry(0, -1, 5, (BatchSpan(SEQUENCE_MAX - 3, SEQUENCE_MAX - 2, 0, 1),))
    quick, long = (ProducerState({8: before_the_wrap}, end_offset=2) for _ in range(2))
    frozen = []
    for n, batch in enumerate(sent):
        if n in frozen_before:
            frozen.append((quick.freeze(), list(long)))
        offset, verdict, known = long.end_offset, long.judge(batch), list(long)
        before = quick.append_next(batch, offset, now_ms=n)
        assert before is None or verdict is APPEND
        if verdict is not APPEND:
            continue
        expected = long.apply(batch, offset, now_ms=n)
        if before is None:
            before = quick.apply(batch, offset, now_ms=n)
        assert before == expected
        assert (list(quick), quick.end_offset) == (list(long), long.end_offset)
        if n in undone:
            for state in (quick, long):
                state.restore(batch.producer_id, before)
                state.end_offset = offset
            assert list(quick) == known
    for snapshot, known in frozen:
        assert list(snapshot) == known
    assert sorted(quick._rows._slabs) == sorted(long._rows._slabs)  # the times of the last appends too


def test_nearly_every_batch_goes_the_quick_way() -> None:
    state = ProducerState()
    state.apply(header(0), 0, now_ms=0)
    for n in range(1, 8):
        assert state.append_next(header(2 * n), 2 * n, now_ms=0) is not None
    assert state.append_next(header(16, epoch=1), 16, now_ms=0) is None
    assert state.append_next(header(18), 16, now_ms=0) is None
    assert state.append_next(header(16, producer_id=8), 16, now_ms=0) is None
    assert state.end_offset == 16
