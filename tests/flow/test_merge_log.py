"""The merge log on a real server: planners that come and go, and inputs that are not what they were."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
import time
from contextlib import closing

import pytest
from tests.flow.merging import Merging

from semel.client.blocking import Cluster
from semel.core.flow.merge_records import Entry
from semel.errors import (
    ConnectionLost,
    DataLoss,
    PlanNotSupported,
    ReplayUnprovable,
    SinkFenced,
    UnknownTopic,
)
from semel.record.compression import Compression
from semel.types import TopicPartition


@pytest.fixture(scope="module")
def cluster(semel_server_session):
    with closing(Cluster(semel_server_session.bootstrap)) as cluster:
        yield cluster


@pytest.fixture
def merging(semel_server_session, cluster):
    """``merging(partition_count)``."""
    made: list[Merging] = []

    def make(partition_count: int = 1) -> Merging:
        made.append(Merging(semel_server_session.bootstrap, cluster, partition_count))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def of(merging):
    """One partition."""
    return merging()


# -- what is recorded ------------------------------------------------------------------------------------------


def test_what_two_topics_have_is_recorded_once_and_goes_on(merging):
    of = merging(2)
    of.write(of.clicks, 5, 0)
    of.write(of.users, 3, 0)
    of.write(of.users, 4, 1)
    planner = of.planner().take_over(1)
    ends = planner.plan()
    assert planner.ranges(ends[0]) == [("c", 0, 5), ("u", 0, 3)]
    assert planner.ranges(ends[1], 1) == [("u", 0, 4)]
    assert planner.plan(ends) == ends
    of.write(of.clicks, 2, 1)
    more = planner.plan(ends)
    assert more[0] == ends[0]
    reader = of.reader()
    assert reader.ranges(more[1], 1, ends[1]) == [("c", 0, 2)]
    assert reader.ranges(more[1], 1) == [("u", 0, 4), ("c", 0, 2)]
    assert reader.ranges(ends[1], 1) == [("u", 0, 4)]


def test_inputs_begin_at_their_log_starts(of):
    of.write(of.clicks, 9)
    of.cluster.delete_records({TopicPartition(of.clicks, 0): 4})
    planner = of.planner().take_over(1)
    assert planner.ranges(planner.plan()[0]) == [("c", 4, 9)]


def test_ranges_stand_in_the_order_of_the_inputs(of):
    of.write(of.clicks, 1)
    of.write(of.users, 1)
    planner = of.planner(inputs=(of.users, of.clicks)).take_over(1)
    assert planner.ranges(planner.plan()[0]) == [("u", 0, 1), ("c", 0, 1)]


def test_one_input_has_a_merge_log_too(of):
    of.write(of.users, 3)
    planner = of.planner(inputs=(of.users,)).take_over(1)
    assert planner.ranges(planner.plan()[0]) == [("u", 0, 3)]


def test_much_is_cut_into_entries_and_they_are_stored_by_one_request(merging):
    of = merging(3)
    for partition in (0, 1):
        of.write(of.clicks, 20, partition)
        of.write(of.users, 10, partition)
    planner = of.planner().take_over(1)
    planner.cluster.forget()
    ends = planner.plan(rows_max=6, entries_max=4)
    assert [asked for name, asked in planner.cluster.asked if name == "produce"] == [[of.tp(0), of.tp(1)]]
    assert all(
        tp.topic in of.inputs for name, asked in planner.cluster.asked if name == "fetch" for tp in asked
    )
    for partition in (0, 1):
        entries = planner.entries(partition, 0, ends[partition])
        sizes = [sum(each.end_offset - each.from_offset for each in entry.ranges) for entry in entries]
        assert sizes == [6, 6, 6, 6]
        assert all({each.topic for each in entry.ranges} == set(of.inputs) for entry in entries)
    assert ends[2] == 0
    rest = planner.plan(ends, rows_max=6, entries_max=4)
    assert of.reader().ranges(rest[1], 1, ends[1]) == planner.ranges(rest[1], 1, ends[1])
    ranges = planner.ranges(rest[1], 1, 0)
    assert [max(end for topic, _, end in ranges if topic == which) for which in "cu"] == [20, 10]


def test_nothing_new_costs_one_question_and_no_record(merging):
    of = merging(3)
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    ends = planner.plan()
    before = of.values()
    planner.cluster.forget()
    for _ in range(3):
        assert planner.plan(ends) == ends
    assert planner.cluster.names == ["list_offsets"] * 3
    assert len(planner.cluster.asked[0][1]) == 2 * 3  # all partitions of all inputs
    assert of.values() == before


def test_something_new_costs_four_round_trips_and_the_first_time_a_look_at_the_rows(merging):
    of = merging(2)
    planner = of.planner().take_over(1)
    ends: dict[int, int] = {}
    for look in (["fetch"], [], []):
        of.write(of.clicks, 5, 0)
        of.write(of.clicks, 5, 1)
        planner.cluster.forget()
        ends = planner.plan(ends)
        assert planner.cluster.names == ["list_offsets", "metadata", "list_offsets", *look, "produce"]


def test_entries_of_large_rows_are_bounded_in_bytes(of):
    for _ in range(6):
        of.append(TopicPartition(of.clicks, 0), *[bytes(1_000_000)] * 20, compression=Compression.ZSTD)
    of.write(of.users, 3)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    assert planner.ranges(end)[:3] == [("c", 0, 14), ("u", 0, 2), ("c", 14, 29)]
    assert all(to - first <= 16 for _, first, to in planner.ranges(end))
    assert planner.ranges(end)[-1][2] == 120


def test_tables_are_read_before_what_is_joined_with_them(of):
    of.write(of.clicks, 5)
    of.write(of.users, 5)
    planner = of.planner(tables=(of.users,)).take_over(1)
    first = planner.plan(rows_max=2, entries_max=2)
    assert planner.ranges(first[0]) == [("u", 0, 2), ("u", 2, 4)]
    of.write(of.users, 1)
    second = of.planner(tables=(of.users,)).take_over(2, first)
    rest = second.plan(first, rows_max=3)
    assert second.ranges(rest[0], 0, first[0]) == [("u", 4, 6), ("c", 0, 3), ("c", 3, 5)]
    of.write(of.clicks, 3)
    of.write(of.users, 3)
    more = of.planner(tables=(of.users,)).take_over(3, rest).plan(rest)
    assert second.ranges(rest[0]) + of.reader().ranges(more[0], 0, rest[0]) == of.reader().ranges(more[0])
    assert of.reader().ranges(more[0], 0, rest[0]) == [("c", 5, 8), ("u", 6, 9)]


def test_taking_over_asks_for_all_partitions_at_once(merging):
    of = merging(4)
    for partition in range(4):
        of.write(of.clicks, 9, partition)
    first = of.planner().take_over(1)
    decided = first.plan(rows_max=2, entries_max=2)
    first.plan(decided, rows_max=2, entries_max=2)
    second = of.planner()
    second.take_over(2, decided)
    assert second.cluster.names == ["metadata", "describe_configs", "list_offsets", "fetch", "produce"]
    assert second.cluster.asked[3][1] == {of.tp(number): end - 1 for number, end in decided.items()}
    second.cluster.forget()
    assert second.plan(decided, append=False) == {number: end + 2 for number, end in decided.items()}
    assert second.plan(decided, entries_max=2) == {number: end + 2 for number, end in decided.items()}
    assert second.cluster.names == []


def test_no_more_is_read_than_stands_behind_the_decided_end(of):
    planner = of.planner().take_over(1)
    decided = {0: 0}
    for _ in range(50):
        of.write(of.clicks, 1)
        decided = planner.plan(decided)
    of.write(of.users, 2)
    planner.plan(decided)
    second = of.planner().take_over(2, decided)
    fetched = [asked for name, asked in second.cluster.asked if name == "fetch"]
    assert fetched
    assert all(offset >= decided[0] - 1 for asked in fetched for offset in asked.values())
    end = second.plan(decided)[0]
    assert second.ranges(end, 0, decided[0]) == [("u", 0, 2)]
    of.write(of.clicks, 3)
    end, before = second.plan({0: end})[0], end
    assert second.ranges(end, 0, before) == [("c", 50, 53)]


def test_a_tick_comes_where_it_is_asked_for_and_nothing_is_to_be_read(merging):
    of = merging(3)
    of.write(of.clicks, 5, 1)
    planner = of.planner().take_over(1)
    ends = planner.plan(tick_ms={0: 70, 1: 71}, rows_max=3)
    assert [each.tick_ms for each in planner.entries(0, 0, ends[0])] == [70]
    assert [each.tick_ms for each in planner.entries(1, 0, ends[1])] == [None, None]
    assert ends[2] == 0
    more = planner.plan(ends, tick_ms={1: 72})
    assert more[0] == ends[0]
    tick = planner.entries(1, ends[1], more[1])
    assert [(each.tick_ms, each.ranges) for each in tick] == [(72, ())]
    assert of.reader().entries(1, ends[1], more[1]) == tick


def test_planning_without_appending_uses_what_is_there(of):
    of.write(of.clicks, 6)
    planner = of.planner().take_over(1)
    assert planner.plan(append=False) == {0: 0}
    end = planner.plan(rows_max=2)[0]
    of.write(of.clicks, 6)
    planner.cluster.forget()
    assert planner.plan(append=False) == {0: end}
    assert planner.plan(append=False, entries_max=2) == {0: end - 1}
    assert planner.cluster.names == []


def test_what_was_planned_is_planned_again_with_other_cuts(of):
    of.write(of.clicks, 10)
    planner = of.planner().take_over(1)
    end = planner.plan(rows_max=2)[0]
    recorded = planner.entries(0, 0, end)
    assert planner.plan({0: end - 2})[0] == end
    first = planner.plan({0: 0}, entries_max=3)[0]
    assert planner.entries(0, 0, first) == recorded[:3]
    assert planner.plan({0: first}, entries_max=3)[0] == end
    assert of.values() == of.values()[:6]


# -- planners --------------------------------------------------------------------------------------------------


def test_who_takes_over_goes_on_with_what_was_recorded_and_the_other_stops(of):
    of.write(of.clicks, 5)
    first = of.planner("the first").take_over(1)
    recorded = first.plan()
    of.write(of.users, 2)
    second = of.planner("the second").take_over(2)
    end = second.plan()[0]
    assert second.ranges(end) == [("c", 0, 5), ("u", 0, 2)]
    with pytest.raises(
        SinkFenced, match=r"another driver \(the second\) took the merge log over, with epoch 2"
    ):
        first.plan(recorded)
    with pytest.raises(SinkFenced):
        first.plan(recorded)
    assert isinstance(of.records()[-1], Entry)  # it came late, and is void
    of.write(of.clicks, 1)
    more = second.plan({0: end})[0]
    for reader in (second, of.reader()):
        assert reader.ranges(more) == [("c", 0, 5), ("u", 0, 2), ("c", 5, 6)]
        assert reader.ranges(more, 0, end) == [("c", 5, 6)]


def test_a_driver_that_was_fenced_cannot_take_over(of):
    of.planner("the newer").take_over(7)
    with pytest.raises(SinkFenced, match=r"\(the newer\).*epoch 7; this one has 6"):
        of.planner().take_over(6)


def test_who_is_overtaken_between_reading_and_its_head_learns_of_it(of, monkeypatch):
    slow, fast = of.planner(), of.planner("the fast")
    real = slow.log._append

    def late(records):
        fast.take_over(2)
        real(records)

    monkeypatch.setattr(slow.log, "_append", late)
    with pytest.raises(SinkFenced, match="the fast"):
        slow.take_over(1)
    with pytest.raises(ValueError, match="taken over before"):
        slow.plan()
    of.write(of.clicks, 1)
    assert fast.ranges(fast.plan()[0]) == [("c", 0, 1)]


def test_one_driver_may_take_over_again(of):
    of.write(of.clicks, 5)
    first = of.planner().take_over(3)
    end = first.plan()
    again = of.planner().take_over(3)
    assert "produce" not in again.cluster.names
    assert again.plan() == end
    of.write(of.clicks, 5)
    assert again.plan(end) == first.plan(end)
    assert of.reader().ranges(4) == [("c", 0, 5), ("c", 5, 10)]


def test_an_append_whose_answer_was_lost_counts_once(of):
    of.write(of.clicks, 4)
    planner = of.planner()
    planner.cluster.answers_to_lose = 1
    planner.take_over(1)
    assert len(of.records()) == 2  # twice the HEAD
    planner.cluster.answers_to_lose = 2
    end = planner.plan(rows_max=2)[0]
    assert len(of.records()) == 2 + 3 * 2
    assert end == 4
    assert of.reader().ranges(end) == [("c", 0, 2), ("c", 2, 4)]
    of.write(of.clicks, 1)
    more = planner.plan({0: end})[0]
    assert more == 9
    second = of.planner().take_over(2, {0: end})
    assert second.plan({0: end}) == {0: more}
    assert second.ranges(more, 0, end) == [("c", 4, 5)]


def test_a_planner_that_gave_up_an_append_finds_it(of, monkeypatch):
    """Asked again it plans the very same, which is void; its end is that of the copy that counts."""
    of.write(of.clicks, 4)
    planner = of.planner().take_over(1)
    monkeypatch.setattr("semel.spark.sink_log.APPEND_TIMEOUT_MS", -1)
    planner.cluster.answers_to_lose = 1
    with pytest.raises(ConnectionLost):
        planner.plan()
    of.write(of.clicks, 3)
    assert planner.plan() == {0: 2}
    assert planner.ranges(2) == [("c", 0, 4)]
    end = planner.plan({0: 2})[0]
    assert of.reader().ranges(end) == [("c", 0, 4), ("c", 4, 7)]


def test_copies_that_come_late_are_void_wherever_they_stand(of):
    of.write(of.clicks, 4)
    planner = of.planner().take_over(1)
    end = planner.plan(rows_max=2)[0]
    for value in of.values():
        of.append(of.tp(), value)
    of.write(of.clicks, 2)
    more = planner.plan({0: end})[0]
    assert of.reader().ranges(more) == [("c", 0, 2), ("c", 2, 4), ("c", 4, 6)]
    assert of.reader().ranges(more, 0, end) == [("c", 4, 6)]


def test_what_is_of_no_planner_is_passed_over_and_told(of, caplog):
    of.write(of.clicks, 4)
    planner = of.planner().take_over(1)
    of.append(of.tp(), b"hello", b"world")
    with caplog.at_level(logging.WARNING, "semel.flow"):
        end = planner.plan()[0]
    assert "2 records of no planner, the first at offset 1" in caplog.text
    assert planner.ranges(end) == [("c", 0, 4)]


def test_what_may_be_a_planners_and_cannot_be_read_stops_it(of):
    planner = of.planner().take_over(1)
    of.append(of.tp(), b'{"v":2,"kind":"entry"}')
    of.write(of.clicks, 1)
    with pytest.raises(ReplayUnprovable, match=r"-0@1 cannot be read: it is of format 2"):
        planner.plan()


# -- killed ----------------------------------------------------------------------------------------------------

_PLANNING = """
import sys
from semel.flow.merge_log import MergeLog
from semel.spark.options import Connection
bootstrap, topic, epoch, decided, *inputs = sys.argv[1:]
log = MergeLog(Connection(bootstrap), topic, inputs)
ends = dict(enumerate(map(int, decided.split())))
log.take_over(ends, int(epoch))
while True:
    ends = log.plan(ends, rows_max=7, entries_max=3)
    print(*ends.values(), flush=True)
"""


@pytest.mark.thorough
def test_a_planner_killed_anywhere_leaves_a_log_that_goes_on(merging):
    """Each begins at what the one before told last; what it had recorded beyond that stays as it is."""
    of = merging(2)
    written = 0
    told: list[str] = []
    for epoch in range(8):
        command = [sys.executable, "-c", _PLANNING, of.bootstrap, of.topic, str(epoch)]
        command += [told[-1] if told else "0 0", *of.inputs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                for _ in range(5):
                    for topic, partition in itertools.product(of.inputs, (0, 1)):
                        of.write(topic, 11, partition)
                    written += 11
                    told.append(process.stdout.readline())
                time.sleep(0.0007 * epoch)  # another moment each time
            finally:
                process.kill()
            told += [line for line in process.stdout if line.endswith("\n")]
    planner = of.planner().take_over(8)
    last = planner.plan(entries_max=10_000)
    for partition in (0, 1):
        entries = planner.entries(partition, 0, last[partition])
        known = dict.fromkeys(of.inputs, 0)
        for each in itertools.chain.from_iterable(entry.ranges for entry in entries):
            assert each.from_offset == known[each.topic]
            known[each.topic] = each.end_offset
        assert known == dict.fromkeys(of.inputs, written)
        for end in {int(line.split()[partition]) for line in told[:: max(1, len(told) // 20)]}:
            before = of.reader().entries(partition, 0, end)
            assert before + of.reader().entries(partition, end, last[partition]) == entries


def test_a_server_killed_between_and_during_appends(semel_server):
    with (
        closing(Cluster(semel_server.bootstrap)) as cluster,
        closing(Merging(semel_server.bootstrap, cluster, 2)) as of,
    ):
        of.write(of.clicks, 5)
        planner = of.planner().take_over(1)
        ends = planner.plan()
        of.write(of.users, 5, 1)
        semel_server.crash()
        semel_server.restart()
        more = planner.plan(ends)
        assert planner.ranges(more[1], 1) == [("u", 0, 5)]
        assert of.planner().take_over(2, ends).plan(ends) == more


# -- inputs that are not what they were ------------------------------------------------------------------------


def test_an_input_trimmed_beyond_what_was_recorded_stops_it(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    of.write(of.clicks, 5)
    of.cluster.delete_records({TopicPartition(of.clicks, 0): 7})
    before = of.values()
    with pytest.raises(DataLoss, match=r"offsets 5 to 6 of topic 'clicks-.*retention or a trim") as lost:
        planner.plan({0: end})
    assert (lost.value.partition, lost.value.lost_from, lost.value.lost_to_end) == (
        TopicPartition(of.clicks, 0),
        5,
        7,
    )
    with pytest.raises(DataLoss, match="retention or a trim"):
        of.planner().take_over(2, {0: end})
    assert of.values() == before


def test_an_input_trimmed_up_to_what_was_recorded_is_no_loss(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    of.cluster.delete_records({TopicPartition(of.clicks, 0): 5})
    of.write(of.clicks, 1)
    assert planner.ranges(planner.plan({0: end})[0], 0, end) == [("c", 5, 6)]


@pytest.mark.parametrize("rows", [3, 9])
def test_an_input_made_anew_stops_it_however_long_it_is(of, rows):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    of.cluster.delete_topics([of.clicks])
    of.create(of.clicks)
    of.write(of.clicks, rows)
    before = of.values()
    with pytest.raises(DataLoss, match=r"made anew" if rows > 5 else "the log ends before them"):
        planner.plan({0: end})
    with pytest.raises(DataLoss, match=r"deleted and made anew"):
        of.planner().take_over(2, {0: end})
    with pytest.raises(DataLoss, match=r"deleted and made anew"):
        of.planner().take_over(2)
    assert of.values() == before


def test_an_input_made_anew_beside_one_that_has_something_new_stops_it(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    of.cluster.delete_topics([of.clicks])
    of.create(of.clicks)
    of.write(of.clicks, 5)
    assert planner.plan({0: end}) == {0: end}  # nothing new: nothing is asked
    of.write(of.users, 1)
    with pytest.raises(DataLoss, match=r"'clicks-.*made anew"):
        planner.plan({0: end})


def test_an_input_that_is_deleted_stops_it(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    of.cluster.delete_topics([of.clicks])
    with pytest.raises(DataLoss, match=r"'clicks-.*the topic was deleted"):
        planner.plan({0: end})


def test_an_input_that_never_was_is_named(of):
    with pytest.raises(UnknownTopic, match="'nowhere'"):
        of.planner(inputs=(of.clicks, "nowhere")).take_over(1)


def test_an_input_that_was_grown_stops_it(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    end = planner.plan()[0]
    of.cluster.add_partitions({of.users: 2})
    of.write(of.users, 5)
    before = of.values()
    with pytest.raises(PlanNotSupported, match=r"'users-.*has 2 partitions"):
        planner.plan({0: end})
    with pytest.raises(PlanNotSupported, match=r"'users-.*has 2 partitions"):
        of.planner().take_over(2, {0: end})
    assert of.values() == before


def test_inputs_of_other_numbers_of_partitions_are_refused(merging):
    of = merging(2)
    of.create("other-" + of.topic, 3)
    with pytest.raises(PlanNotSupported, match=r"'other-.*has 3 partitions"):
        of.planner(inputs=(of.clicks, "other-" + of.topic)).take_over(1)


def test_an_input_more_begins_at_its_start_and_the_others_go_on(of):
    of.write(of.clicks, 5)
    end = of.planner(inputs=(of.clicks,)).take_over(1).plan()
    of.write(of.users, 3)
    planner = of.planner().take_over(2, end)
    assert planner.ranges(planner.plan(end)[0], 0, end[0]) == [("u", 0, 3)]


# -- a merge log that is not what it was -----------------------------------------------------------------------


def test_it_is_made_to_be_kept(of):
    config = of.cluster.describe_configs([of.topic])[of.topic]
    assert {name: config[name].value for name in ("cleanup.policy", "retention.ms", "retention.bytes")} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
    of.planner().ensure(1)
    with pytest.raises(PlanNotSupported, match="has 1 partition, and its stage 2"):
        of.planner().ensure(2)


def test_one_that_is_not_kept_is_refused(of):
    of.cluster.alter_configs({of.topic: {"retention.ms": "1000000"}})
    with pytest.raises(PlanNotSupported, match=r"kept for a while only \(retention.ms=1000000\)"):
        of.planner().take_over(1)


def test_one_that_has_lost_what_is_needed_stops_it(of):
    of.write(of.clicks, 5)
    end = of.planner().take_over(1).plan()
    with pytest.raises(DataLoss, match=r"offsets 2 to 2 of topic 'visits-.*it has lost its end"):
        of.planner().take_over(2, {0: 3})
    with pytest.raises(ReplayUnprovable, match=r"no entry ends at offset 1 of"):
        of.planner().take_over(2, {0: 1})
    with pytest.raises(ReplayUnprovable, match=r"no entry ends at offset 1 of"):
        of.reader().entries(0, 1, 2)
    of.cluster.delete_records({of.tp(): 2})
    with pytest.raises(DataLoss, match=r"of topic 'visits-.*trimmed.*recorded order"):
        of.planner().take_over(2, end)


def test_one_that_was_trimmed_below_the_decided_end_goes_on(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    planner.plan(rows_max=2)
    decided = {0: 3}
    of.cluster.delete_records({of.tp(): 2})
    second = of.planner().take_over(2, decided)
    assert second.ranges(second.plan(decided)[0], 0, 3) == [("c", 4, 5)]


def test_one_that_was_made_anew_is_never_read_for_the_one_before(merging):
    of = merging(2)
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    ends = planner.plan()
    topic_id = planner.log.topic_id
    of.cluster.delete_topics([of.topic])
    of.planner().ensure(2)
    of.planner().take_over(1).plan()
    of.write(of.clicks, 5)
    with pytest.raises(DataLoss, match=r"'visits-.*made anew"):
        planner.plan(ends)
    reader = of.reader()
    reader.log._topic_id = topic_id
    with pytest.raises(DataLoss, match=r"'visits-.*made anew"):
        reader.entries(0, 0, ends[0])


def test_a_position_that_is_no_planned_end_is_refused(of):
    of.write(of.clicks, 5)
    planner = of.planner().take_over(1)
    with pytest.raises(ReplayUnprovable, match="no entry ends at offset 9"):
        planner.plan({0: 9})
