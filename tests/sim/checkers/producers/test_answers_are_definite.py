from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import LEASE, TP, WRITER, batch, header, ledger, marker
from tests.sim.conftest import Breaks

from semel.sim.checkers.producers import AnswersAreDefinite

LOG = [batch(0, "a:0", "a:1", sequence=0), batch(2, "a:2", sequence=2)]
NEW = {"by": WRITER + 1}

CASES = [
    # what comes, what it must be answered, what would be wrong
    pytest.param(header(3, sequence=3), "Append", "OutOfOrderSequence", id="next"),
    pytest.param(header(3, sequence=4), "OutOfOrderSequence", "Append", id="gap"),
    pytest.param(header(3, 2, sequence=2), "Straddling", "Append", id="straddling"),
    pytest.param(header(3, sequence=0, epoch=-1), "InvalidProducerEpoch", "Append", id="older epoch"),
    pytest.param(header(3, sequence=0, epoch=1), "Append", "Duplicate", id="newer epoch"),
    pytest.param(
        header(3, sequence=3, epoch=1), "OutOfOrderSequence", "Append", id="newer epoch, not from 0"
    ),
    pytest.param(header(3, sequence=0, **NEW), "Append", "UnknownProducer", id="new producer"),
    pytest.param(header(3, sequence=1, **NEW), "UnknownProducer", "Append", id="new producer, not from 0"),
    pytest.param(header(3, sequence=0, by=LEASE), "LeaseExpired", "Append", id="lease is over"),
    pytest.param(marker(3, epoch=1).header, "Append", "Duplicate", id="fence"),
    pytest.param(marker(3, epoch=0).header, "Duplicate", "Append", id="fence of the present epoch"),
    pytest.param(marker(3, epoch=-1).header, "InvalidProducerEpoch", "Append", id="fence of an older epoch"),
]


@pytest.mark.parametrize(("come", "right", "wrong"), CASES)
def test_the_verdict(breaks: Breaks, come, right: str, wrong: str) -> None:
    known = ledger(*LOG, leases_over_below=LEASE + 1)
    AnswersAreDefinite().judged(TP, come, known, right, 3 if right == "Append" else None)
    with breaks():
        AnswersAreDefinite().judged(TP, come, known, wrong, 3 if wrong == "Append" else None)


def test_a_duplicate_is_told_where_it_lies(breaks: Breaks) -> None:
    known, again = ledger(*LOG), header(3, sequence=2)
    AnswersAreDefinite().judged(TP, again, known, "Duplicate", 2)
    with breaks():
        AnswersAreDefinite().judged(TP, again, known, "Duplicate", 3)


def test_after_the_last_sequence_comes_0(breaks: Breaks) -> None:
    known, wrapped = ledger(batch(0, "a:0", sequence=2**31 - 1)), header(1, sequence=0)
    AnswersAreDefinite().judged(TP, wrapped, known, "Append", 1)
    with breaks():
        AnswersAreDefinite().judged(TP, wrapped, known, "Duplicate", None)
