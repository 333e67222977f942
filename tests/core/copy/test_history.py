"""What a copy's journal adds up to."""

from msgspec.structs import replace

from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Begun, Chunk, Held, Joined, Mark, Next, Place
from semel.types import ProducerGrant, TopicPartition

TP, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
OLD, NEW = ProducerGrant(7, 1), ProducerGrant(7, 2)
PLACE = Place(TP, "id", 10, "clicks", "out", 100, 0, 0)


def chunk(start, end, sequence, acknowledged=0, output_end=100):
    return Chunk(TP, ((start, end),), end, sequence, acknowledged, output_end, Mark(end - 1, end))


def history_of(*entries):
    history = CopyHistory()
    counted = [history.apply(entry) for entry in entries]
    return history, counted


BEGUN = (Held(OLD, "old", 0), Begun(OLD, "old", (PLACE,)))


def test_what_comes_next_is_under_way_until_it_is_acknowledged():
    history, _ = history_of(*BEGUN, Next(OLD, (chunk(10, 15, 0),)), Next(OLD, (chunk(15, 20, 5, 3, 103),)))
    assert history.under_way[TP] == [chunk(10, 15, 0), chunk(15, 20, 5, 3, 103)]
    assert history.places[TP] == replace(PLACE, output_end=103)
    history.apply(Next(OLD, (chunk(20, 30, 10, 5, 105),)))
    assert history.under_way[TP] == [chunk(15, 20, 5, 3, 103), chunk(20, 30, 10, 5, 105)]
    assert history.places[TP] == replace(PLACE, offset=15, sequence=5, output_end=105, mark=Mark(14, 15))


def test_what_was_passed_by_moves_the_place_once_all_in_front_is_acknowledged():
    passed = Chunk(TP, (), 30, 5, 0, 100, Mark(29, 30))
    history, _ = history_of(*BEGUN, Next(OLD, (chunk(10, 15, 0),)), Next(OLD, (passed,)))
    assert history.places[TP].offset == 10 and history.under_way[TP] == [chunk(10, 15, 0), passed]
    history.apply(Next(OLD, (replace(passed, end=50, acknowledged=5, output_end=105),)))
    assert (history.places[TP].offset, history.places[TP].sequence, history.under_way[TP]) == (50, 5, [])


def test_records_of_who_lost_the_job_count_no_more():
    late = Next(OLD, (chunk(10, 15, 0),))
    history, counted = history_of(*BEGUN, Held(NEW, "new", 1), late, Begun(OLD, "old", ()), Joined(OLD, ()))
    assert counted == [True, True, True, False, False, False]
    assert (history.holder.owner, history.writer, history.under_way) == ("new", OLD, {})
    assert history.is_held_by(NEW) and not history.is_held_by(OLD)


def test_the_writer_is_who_may_have_rows_under_way():
    """Who took the job over and died in front of its BEGUN has sent nothing."""
    history, _ = history_of(*BEGUN, Next(OLD, (chunk(10, 15, 0),)), Held(NEW, "new", 1))
    assert history.writer == OLD and history.under_way[TP]
    history.apply(Begun(NEW, "new", (replace(PLACE, offset=12),)))
    assert (history.writer, history.under_way, history.places[TP].offset) == (NEW, {}, 12)


def test_a_forgotten_name_has_a_lower_epoch_and_still_comes_later():
    other = ProducerGrant(90, 0)
    history, counted = history_of(*BEGUN, Held(other, "new", 1), Next(OLD, (chunk(10, 15, 0),)))
    assert counted[-1] is False and history.is_held_by(other)


def test_a_writer_is_shut_out_at_the_holders_own_epoch():
    history, _ = history_of(*BEGUN, Held(NEW, "new", 1))
    assert history.epoch_to_shut_out(NEW) == NEW.producer_epoch


def test_a_forgotten_writer_is_shut_out_behind_all_who_held_the_job_under_its_id():
    """They may have shut it out at their own epochs, and died in front of their BEGUN."""
    third, other = ProducerGrant(OLD.producer_id, OLD.producer_epoch + 5), ProducerGrant(90, 0)
    history, _ = history_of(*BEGUN, Held(third, "third", 1), Held(other, "other", 2))
    assert history.epoch_to_shut_out(other) == third.producer_epoch + 1
    history, _ = history_of(Begun(OLD, "old", (PLACE,)), Held(other, "other", 2))
    assert history.epoch_to_shut_out(other) == OLD.producer_epoch + 1


def test_an_output_is_blank_until_a_row_of_the_job_is_known_there():
    history, _ = history_of(BEGUN[0], Begun(OLD, "old", (replace(PLACE, is_blank=True),)))
    history.apply(Next(OLD, (chunk(10, 15, 0),)))
    assert history.places[TP].is_blank
    history.apply(Next(OLD, (chunk(15, 20, 5, 5, 105),)))
    assert not history.places[TP].is_blank


def test_who_took_the_job_over_since_a_begun_is_known():
    third = ProducerGrant(90, 0)
    history, _ = history_of(*BEGUN, Held(NEW, "new", 1), Held(third, "third", 2))
    assert history.held_since == {NEW, third}
    history.apply(Begun(third, "third", (PLACE,)))
    assert history.held_since == set()


def test_partitions_join():
    later = replace(PLACE, source=OTHER)
    history, _ = history_of(*BEGUN, Joined(OLD, (later,)))
    assert set(history.places) == {TP, OTHER}


def test_a_journal_that_was_cut_begins_with_a_begun():
    history, counted = history_of(Begun(OLD, "old", (PLACE,)), Next(OLD, (chunk(10, 15, 0),)))
    assert counted == [True, True] and history.holder.owner == "old"
    history, counted = history_of(Next(OLD, ()), Begun(NEW, "new", (PLACE,)), Next(OLD, ()))
    assert counted == [False, True, False]
