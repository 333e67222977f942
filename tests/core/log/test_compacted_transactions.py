"""Whatever transactions a log had: compacted, it shows what was committed, and says the same of each producer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.log.compacted import (
    NOW_MS,
    assert_dense,
    compacted,
    entries,
    newest_of_each_key,
    records_in,
    replayed,
)

from semel.core.log.transactions import AbortedTxn, OpenTransactions
from semel.core.producer_state.state import ProducerState
from semel.record.batch import Record, assign_offsets, decode_header, encode_batch, scan_batches
from semel.record.control import encode_abort_marker, encode_commit_marker


class Writing:
    """A log of several producers, and what a reader of what is committed would get of it."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.transactions = OpenTransactions()
        self.aborted: list[AbortedTxn] = []
        self.end_offset = 0
        self._next: dict[int, tuple[int, int]] = {}
        self._open: dict[int, list[int]] = {}  # offsets of rows
        self.not_committed: set[int] = set()

    def write(self, producer_id: int, keys: str, *, transactional: bool, sequenced: bool = True) -> None:
        records = [Record(n, NOW_MS, key.encode(), b"%d" % self.end_offset) for n, key in enumerate(keys)]
        epoch, sequence = self._next.get(producer_id, (0, 0))
        in_one = producer_id in self._open or transactional
        offset = self._append(
            encode_batch(
                records,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence if sequenced else -1,
                transactional=in_one,
            )
        )
        self._next[producer_id] = epoch, sequence + (len(keys) if sequenced else 0)
        if in_one:
            self.transactions.began(producer_id, offset)
            self._open.setdefault(producer_id, []).extend(range(offset, self.end_offset))

    def end(self, producer_id: int, *, commit: bool, raises: bool) -> None:
        epoch, sequence = self._next.get(producer_id, (0, 0))
        if producer_id not in self._open and not raises:
            return
        encode = encode_commit_marker if commit else encode_abort_marker
        offset = self._append(encode(producer_id, epoch + raises, epoch + raises, NOW_MS))
        self._next[producer_id] = epoch + raises, 0 if raises else sequence
        aborted = self.transactions.end(producer_id, offset, aborted=not commit)
        rows = self._open.pop(producer_id, [])
        if aborted is not None:
            self.aborted.append(aborted)
            self.not_committed.update(rows)

    def _append(self, batch: bytearray) -> int:
        offset = self.end_offset
        assign_offsets(batch, offset, 0)
        self.log.append(bytes(batch))
        self.end_offset = decode_header(batch).last_offset + 1
        return offset

    @property
    def stable(self) -> list[bytes]:
        """The part that may be compacted, in whole batches."""
        end = self.transactions.first_unstable_offset(self.end_offset)
        return [one for one in self.log if decode_header(one).last_offset < end]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "own", "commit", "abort", "abort"]),
        st.integers(1, 3),
        st.text("abc", min_size=1, max_size=3),
        st.booleans(),
    ),
    max_size=40,
)


@given(STEPS, st.floats(0, 1), st.integers(1, 5))
def test_any_log(steps: list[tuple[str, int, str, bool]], part: float, chunk_batches: int) -> None:
    writing = Writing()
    for step, producer_id, keys, flag in steps:
        if step == "write":
            writing.write(producer_id, keys, transactional=flag)
        elif step == "own":
            writing.write(producer_id, keys, transactional=True, sequenced=False)
        else:
            writing.end(producer_id, commit=step == "commit", raises=flag)
    stable = writing.stable
    cut = stable[: round(part * len(stable))]  # transactions that are over may reach across its end
    rest = writing.log[len(cut) :]
    left, _ = compacted(cut, replayed(writing.log), aborted=writing.aborted, chunk_batches=chunk_batches)
    end = decode_header(cut[-1]).last_offset + 1 if cut else 0
    assert_dense(left, end)
    committed = [one for one in records_in(cut) if one.offset not in writing.not_committed]
    assert newest_of_each_key(records_in(left)) == newest_of_each_key(committed)
    assert len(records_in(left)) == len(newest_of_each_key(committed))
    for _, header in scan_batches(b"".join(left)):
        assert header.is_control or not header.is_transactional, "it would need its marker"
    assert entries(replayed([*left, *rest])) == entries(replayed(writing.log))


def test_a_producer_that_is_known_no_more_leaves_rows_of_nobody() -> None:
    writing = Writing()
    writing.write(1, "ab", transactional=True)
    writing.end(1, commit=True, raises=False)
    left, _ = compacted(writing.log, ProducerState())
    headers = [header for _, header in scan_batches(b"".join(left))]
    assert [(one.producer_id, one.is_transactional, one.record_count) for one in headers] == [
        (-1, False, 2),
        (-1, False, 0),
    ]
