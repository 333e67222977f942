"""The highest leader epoch that is known of each partition, and which news of a leader is older than it.

A broker that is cut off from its controller, but not from clients, goes on to name itself leader. Whoever has heard
of its successor does not believe it (KAFKA-7738): what names a lower epoch is passed over, and requests carry the
epoch that is known, so that a leader of another one refuses them (KIP-320). Whoever has heard of nobody else cannot
tell; what must not be missed is then read up to a batch that is known to be there.

Invariant ``leader_epoch_never_falls``: of one topic id, what is taken of a partition names the epoch that is known,
or a higher one. A topic that is made anew has another id, and begins again.

Follows ``Metadata.updateLatestMetadata`` of Kafka's Java client.
"""

from __future__ import annotations

from uuid import UUID

from semel.types import NO_LEADER_EPOCH, TopicPartition


class LeaderEpochs:
    """One number a partition, as long as the client lives."""

    __slots__ = ("_known", "_topic_ids")

    def __init__(self) -> None:
        self._known: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID] = {}

    def of(self, tp: TopicPartition) -> int:
        """The highest known; ``NO_LEADER_EPOCH``: any leader may answer."""
        return self._known.get(tp, NO_LEADER_EPOCH)

    def see_topic(self, topic: str, topic_id: UUID | None) -> None:
        """Before its partitions are: whether it is another topic of that name. ``None``: its broker has no ids."""
        if topic_id is None or self._topic_ids.get(topic) == topic_id:
            return
        self._topic_ids[topic] = topic_id
        for tp in [tp for tp in self._known if tp.topic == topic]:
            del self._known[tp]

    def takes(self, tp: TopicPartition, leader: int, leader_epoch: int) -> bool:
        """Whether this news of ``tp`` is to be believed; if so, its epoch is the known one from now on.

        Brokers that have no epochs are believed, and then none is known. Without a leader either it says nothing.
        """
        if leader_epoch == NO_LEADER_EPOCH:
            if leader >= 0:
                self._known.pop(tp, None)
            return True
        if leader_epoch < self.of(tp):
            return False
        self._known[tp] = leader_epoch
        return True

    def forget(self) -> None:
        """All of it: another cluster answers at the address, or the only broker there is."""
        self._known.clear()
        self._topic_ids.clear()
