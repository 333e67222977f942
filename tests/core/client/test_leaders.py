"""When a topic's leaders are asked for: once at a time, and not in a busy loop."""

from semel.core.client.leaders import Leaders
from semel.types import TopicPartition

PAUSE_MS = 50
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_one_question_a_topic_is_open_at_a_time() -> None:
    leaders = Leaders(PAUSE_MS)
    assert leaders.next_question_ms("t") == 0
    assert leaders.ask_if_due("t", 1_000)
    assert leaders.next_question_ms("t") is None
    assert not leaders.ask_if_due("t", 2_000)
    assert leaders.ask_if_due("another", 2_000)


def test_a_partition_without_a_leader_is_asked_about_again_after_a_pause() -> None:
    leaders = Leaders(PAUSE_MS)
    assert leaders.ask_if_due("t", 1_000)
    leaders.take({"t"}, {T0: 7}, 1_010)
    assert (leaders.of(T0), leaders.of(T1)) == (7, None)
    assert leaders.next_question_ms("t") == 1_010 + PAUSE_MS
    assert not leaders.ask_if_due("t", 1_010 + PAUSE_MS - 1)
    assert leaders.ask_if_due("t", 1_010 + PAUSE_MS)


def test_what_is_in_doubt_is_forgotten_and_the_rest_is_kept() -> None:
    leaders = Leaders(PAUSE_MS)
    leaders.take({"t"}, {T0: 7, T1: 8}, 0)
    leaders.forget(T0)
    leaders.forget(T0)
    assert (leaders.of(T0), leaders.of(T1)) == (None, 8)
