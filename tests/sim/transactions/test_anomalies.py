"""The smallest history of each of Jepsen's anomalies, and one that has none."""

from __future__ import annotations

from tests.sim.transactions.smallest import OTHER, TP, begun, committed, read, story

from semel.sim.transactions.anomalies import anomalies
from semel.sim.transactions.story import TransactionStory


def kinds(of: TransactionStory) -> set[str]:
    return {found.kind for found in anomalies(of)}


def test_a_history_without_any() -> None:
    of = story()
    first, second = committed(of, (TP, 0), (TP, 1), (OTHER, 0)), committed(of, (TP, 4), epoch=1)
    aborted = begun(of, (TP, 2), asked=False, told=False)
    second.polled.append((TP, first.rows[0].value))
    for reader in ("r", "s"):
        read(of, *first.rows[:2], reader=reader, to=3)
        read(of, *second.rows, reader=reader, from_offset=3)
    read(of, first.rows[2], tp=OTHER)
    read(of, *aborted.rows, is_committed=False)
    assert not kinds(of)


def test_g1a_reads_of_one_that_aborted() -> None:
    of = story()
    read(of, *begun(of, (TP, 0), asked=False, told=False).rows)
    assert kinds(of) == {"G1a"}


def test_g1a_reads_of_one_that_nobody_asked_to_commit() -> None:
    of = story()
    read(of, *begun(of, (TP, 0)).rows)
    assert kinds(of) == {"G1a"}


def test_g1b_reads_some_of_it_and_passes_others() -> None:
    of = story()
    txn = committed(of, (TP, 0), (TP, 1))
    read(of, *txn.rows)
    read(of, txn.rows[1], reader="s")
    assert kinds(of) == {"G1b"}


def test_g1c_reads_in_a_circle() -> None:
    of = story()
    some = [committed(of, (TP, n), epoch=n) for n in range(3)]
    for txn, other in zip(some, [*some[1:], some[0]], strict=True):
        txn.polled.append((TP, other.rows[0].value))
    read(of, *[txn.rows[0] for txn in some])
    assert kinds(of) == {"G1c"}
    some[0].polled.clear()
    assert not kinds(of)


def test_a_lost_write() -> None:
    of = story()
    committed(of, (TP, 0))
    read(of, *committed(of, (TP, 1), epoch=1).rows)
    assert kinds(of) == {"lost write"}
    of.log_starts[TP] = 1
    assert not kinds(of)


def test_a_duplicate() -> None:
    of = story()
    txn = committed(of, (TP, 0))
    read(of, *txn.rows)
    txn.rows[0].record_offset = 1
    read(of, *txn.rows, from_offset=1)
    assert kinds(of) == {"duplicate"}


def test_an_inconsistent_offset() -> None:
    of = story()
    read(of, *committed(of, (TP, 0)).rows)
    read(of, *committed(of, (TP, 0), epoch=1).rows, reader="s")
    assert "inconsistent offset" in kinds(of)


def test_a_poll_skip() -> None:
    of = story()
    first, second = committed(of, (TP, 0)), committed(of, (TP, 1), epoch=1)
    read(of, *first.rows, *second.rows)
    read(of, *second.rows, reader="s")
    assert kinds(of) == {"poll skip"}


def test_a_nonmonotonic_poll() -> None:
    of = story()
    txn = committed(of, (TP, 0))
    read(of, *txn.rows)
    read(of, *txn.rows)
    assert kinds(of) == {"nonmonotonic poll"}


def test_a_reader_that_a_trim_has_overtaken_goes_on_where_the_log_begins() -> None:
    of = story()
    read(of, *committed(of, (TP, 0)).rows)
    of.log_starts[TP] = 5
    read(of, *committed(of, (TP, 5), epoch=1).rows, from_offset=5)
    assert not kinds(of)


def test_a_nonmonotonic_send() -> None:
    of = story()
    txn = begun(of, (TP, 1), (TP, 0))
    assert kinds(of) == {"nonmonotonic send"}
    txn.rows[1].record_offset = None
    assert not kinds(of)
