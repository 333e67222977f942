from semel.core.producer_state.entry import WINDOW_BATCHES_MAX
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.verdict import Duplicate
from semel.record.batch import BatchHeader


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
