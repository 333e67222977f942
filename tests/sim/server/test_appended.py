from __future__ import annotations

from tests.sim.checkers.smallest import batch, marker

from semel.sim.server.appended import Appended

LOG = [batch(0, "a:0", "a:1"), marker(2), batch(3, "a:2")]


def appended() -> Appended:
    log = Appended()
    for one in LOG:
        log.add(one)
    return log


def test_a_log_is_read_from_the_batch_on_in_which_it_starts() -> None:
    assert appended().since(0) == LOG
    assert appended().since(1) == LOG
    assert appended().since(2) == LOG[1:]
    assert appended().since(4) == []


def test_what_a_power_cut_took_was_never_there() -> None:
    log = appended()
    log.recovered(LOG[:1], 3)
    assert (log.since(0), log.end_offset) == (LOG[:2], 3), "the marker went by compaction"


def test_what_was_written_when_the_process_ended_is_found() -> None:
    log = appended()
    log.recovered([LOG[0], batch(4, "a:3")], 5)
    assert log.since(0) == [*LOG, batch(4, "a:3")]
