"""The last stable offset and the aborted transactions of any history, against a list of all that happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.log.transactions import ABORTED_ENTRY, AbortedTxn, OpenTransactions
from semel.core.log.watermarks import FetchIsolation, Synced, Watermarks

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["data", "data", "commit", "abort", "begin to sync", "synced"]), st.integers(1, 5)
    ),
    max_size=60,
)


class Naive:
    """Every transaction that there ever was: its producer, its first offset, its marker's, if it was aborted."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int, int, bool]] = []
        self.open: dict[int, int] = {}

    def stable_to(self, high_watermark: int) -> int:
        unseen = [first for _, first, marker, _ in self.ended if marker >= high_watermark]
        return min([high_watermark, *self.open.values(), *unseen])


@given(steps=STEPS, durable=st.booleans())
def test_any_history(steps: list[tuple[str, int]], durable: bool) -> None:
    marks, naive = Watermarks(Synced(0, 0), durable=durable), Naive()
    end = target = seen = 0
    for step, number in steps:
        if step == "begin to sync":
            target = end
        elif step == "synced":
            marks.synced_to(target, None)
        elif step == "data":
            naive.open.setdefault(number, end)
            marks.transactions.began(number, end)
            end += number
        else:
            told = marks.transactions.end(number, end, aborted=step == "abort")
            first = naive.open.pop(number, None)
            if first is not None:
                naive.ended.append((number, first, end, step == "abort"))
            earliest = min(naive.open.values(), default=end + 1)
            expected = AbortedTxn(0, number, first or 0, end, earliest)
            assert told == (expected if step == "abort" and first is not None else None)
            end += 1
        marks.appended(end)
        assert marks.last_stable_offset == naive.stable_to(marks.high_watermark)
        assert seen <= marks.last_stable_offset <= marks.high_watermark, "it went back"
        seen = marks.last_stable_offset
        assert marks.end_for(FetchIsolation.TXN_COMMITTED) == seen
        assert len(marks.transactions) == len(naive.open)


def test_an_entry_is_kafkas() -> None:
    assert ABORTED_ENTRY.size == 34
    entry = AbortedTxn(0, 7, 1, 5, 3)
    assert AbortedTxn._make(ABORTED_ENTRY.unpack(ABORTED_ENTRY.pack(*entry))) == entry


def test_many_open_ones_cost_no_more_than_a_few() -> None:
    """A loop over them would take minutes here, which no test may."""
    transactions = OpenTransactions()
    for n in range(100_000):
        transactions.began(n, n)
        assert transactions.first_unstable_offset(n + 1) == 0
    for n in range(100_000):
        transactions.end(n, 100_000 + n, aborted=False)
        assert transactions.first_unstable_offset(100_000 + n) == n


def test_nothing_is_kept_of_what_readers_have_seen_end_though_nobody_reads() -> None:
    transactions = OpenTransactions()
    for n in range(0, 2_000, 2):
        transactions.began(1, n)
        transactions.end(1, n + 1, aborted=False, high_watermark=n)
    assert len(transactions._ended) == 1
