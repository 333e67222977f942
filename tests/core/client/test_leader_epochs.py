"""Which news of a leader is older than what is known."""

from uuid import UUID

from semel.core.client.leader_epochs import LeaderEpochs
from semel.types import NO_LEADER_EPOCH, TopicPartition

T0, T1, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("other", 0)
ID, ANOTHER_ID = UUID(int=1), UUID(int=2)


def known(**epochs: int) -> LeaderEpochs:
    found = LeaderEpochs()
    found.see_topic("t", ID)
    for number, leader_epoch in epochs.items():
        assert found.takes(TopicPartition("t", int(number[1:])), 1, leader_epoch)
    return found


def test_leader_epoch_never_falls() -> None:
    epochs = known(p0=7, p1=2)
    assert not epochs.takes(T0, 2, 6), "of a broker that does not know its successor"
    assert epochs.takes(T0, 1, 7) and epochs.takes(T0, 3, 8)
    assert (epochs.of(T0), epochs.of(T1), epochs.of(OTHER)) == (8, 2, NO_LEADER_EPOCH)


def test_news_of_an_election_that_has_no_winner_yet_counts() -> None:
    epochs = known(p0=7)
    assert epochs.takes(T0, -1, 8)
    assert not epochs.takes(T0, 1, 7), "who was deposed there"


def test_a_topic_that_is_made_anew_begins_again() -> None:
    epochs = known(p0=7, p1=9)
    epochs.see_topic("other", UUID(int=3))
    assert epochs.takes(OTHER, 1, 4)
    epochs.see_topic("t", ID)
    assert not epochs.takes(T0, 1, 0)
    epochs.see_topic("t", ANOTHER_ID)
    assert epochs.takes(T0, 1, 0)
    assert (epochs.of(T0), epochs.of(T1), epochs.of(OTHER)) == (0, NO_LEADER_EPOCH, 4)


def test_a_broker_without_topic_ids_makes_no_topic_new() -> None:
    epochs = known(p0=7)
    epochs.see_topic("t", None)
    assert not epochs.takes(T0, 1, 6)


def test_a_broker_without_leader_epochs_is_believed() -> None:
    epochs = known(p0=7)
    assert epochs.takes(T0, -1, NO_LEADER_EPOCH)
    assert epochs.of(T0) == 7, "nobody was named"
    assert epochs.takes(T0, 2, NO_LEADER_EPOCH)
    assert epochs.of(T0) == NO_LEADER_EPOCH


def test_of_another_cluster_nothing_is_known() -> None:
    epochs = known(p0=7)
    epochs.forget()
    epochs.see_topic("t", ID)
    assert epochs.takes(T0, 1, 1)
