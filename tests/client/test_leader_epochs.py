"""What the client believes of leaders, and what it is answered where an epoch is not the leader's.

The answers are a real server's; what a broker that is behind would have said otherwise is put into them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from tests.client.test_cluster import batch_of

import semel
from semel.client.brokers import BOOTSTRAP
from semel.client.cluster import Cluster
from semel.errors import BrokerError, ErrorCode
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from semel.wire.api import ApiKey

TP = TopicPartition("t", 0)
BEHIND, CURRENT = 7, 8  # node ids
T = TypeVar("T")


class TwoBrokers(Cluster):
    """One server as two brokers, of which one says of leaders what it heard an epoch ago; it answers at first."""

    behind = (BOOTSTRAP, BEHIND)
    asked: list[int]

    async def _cold(self, node_id: int, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        if api_key is not ApiKey.METADATA:
            return await super()._cold(node_id, api_key, fields)
        answer = await super()._cold(BOOTSTRAP, api_key, fields)
        self.asked.append(node_id)
        (broker,) = answer.brokers
        brokers = tuple(replace(broker, node_id=type(broker.node_id)(each)) for each in (BEHIND, CURRENT))
        is_behind = node_id in self.behind
        topics = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(
                        each,
                        leader_id=type(each.leader_id)(BEHIND if is_behind else CURRENT),
                        leader_epoch=type(each.leader_epoch)(each.leader_epoch - is_behind),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in answer.topics
        )
        return replace(answer, brokers=brokers, topics=topics)


class Late(Cluster):
    """The leader does not know its end yet (KIP-207) the first ``times`` that it is asked."""

    times = 3

    async def _cold(self, node_id: int, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        answer = await super()._cold(node_id, api_key, fields)
        if api_key is not ApiKey.LIST_OFFSETS or not self.times:
            return answer
        self.times -= 1
        refused = [
            replace(each, error_code=type(each.error_code)(78), offset=type(each.offset)(0))
            for each in answer.topics[0].partitions
        ]
        return replace(answer, topics=(replace(answer.topics[0], partitions=tuple(refused)),))


def run(
    log: semel.LocalLog,
    work: Callable[[Any], Awaitable[T]],
    kind: type[Cluster] = Cluster,
    patience_ms: int = 30_000,
) -> T:
    """``patience_ms``: for how long what is refused is asked again; answers have their time in any case."""

    async def main() -> T:
        async with kind(log.bootstrap) as cluster:
            cluster.request_timeout_ms = patience_ms
            return await work(cluster)

    return asyncio.run(main())


@pytest.fixture
def log(semel_server: semel.LocalLog) -> semel.LocalLog:
    async def fill(cluster: Cluster) -> None:
        await cluster.create_topics({"t": 1})
        await cluster.produce({TP: batch_of("a", "b", "c")})

    run(semel_server, fill)
    return semel_server


@pytest.fixture
def second_epoch(log: semel.LocalLog) -> semel.LocalLog:
    """A server whose partitions had another leader epoch before."""
    log.restart()
    return log


def test_who_is_behind_is_passed_over_and_another_is_asked(second_epoch: semel.LocalLog) -> None:
    async def work(cluster: TwoBrokers) -> None:
        cluster.behind, cluster.asked = (), []
        assert (await cluster.leaders(["t"])) == {TP: CURRENT}
        known = cluster.leader_epochs.of(TP)
        cluster.behind = (BOOTSTRAP, BEHIND)
        cluster.asked.clear()
        found = (await cluster.topic("t")).partitions[0]
        assert (found.leader, found.leader_epoch) == (CURRENT, known)
        assert cluster.asked[0] == BOOTSTRAP and cluster.asked[-1] == CURRENT and len(cluster.asked) <= 3
        cluster.asked.clear()
        await cluster.metadata(["t"])
        assert cluster.asked == [CURRENT], "who was not behind is asked from now on"

    run(second_epoch, work, TwoBrokers)


def test_where_all_are_behind_the_leader_that_is_known_is_asked(second_epoch: semel.LocalLog) -> None:
    async def work(cluster: TwoBrokers) -> None:
        cluster.behind, cluster.asked = (), []
        await cluster.leaders(["t"])
        cluster.behind = (BOOTSTRAP, BEHIND, CURRENT)
        assert (await cluster.leaders(["t"])) == {TP: CURRENT}
        assert (await cluster.list_offsets({TP: LATEST_TIMESTAMP}))[TP].offset == 3

    run(second_epoch, work, TwoBrokers)


def test_a_leader_that_is_lost_is_not_replaced_by_an_older_one(second_epoch: semel.LocalLog) -> None:
    async def work(cluster: TwoBrokers) -> None:
        cluster.behind, cluster.asked = (), []
        await cluster.leaders(["t"])
        cluster.behind = (BOOTSTRAP, BEHIND, CURRENT)
        cluster._leaders.clear()
        with pytest.raises(BrokerError, match=r"LEADER_NOT_AVAILABLE.*no broker names a leader of epoch"):
            await cluster.list_offsets({TP: LATEST_TIMESTAMP})

    run(second_epoch, work, TwoBrokers, patience_ms=200)


def test_a_server_that_starts_again_is_another_leader_for_those_who_know_the_one_before(
    log: semel.LocalLog,
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.leaders(["t"])
        before = cluster.leader_epochs.of(TP)
        await asyncio.to_thread(log.restart)
        refused = await cluster.fetch({TP: 0}, max_wait_ms=10)
        assert refused[TP].error_code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE)
        assert (await cluster.list_offsets({TP: LATEST_TIMESTAMP}))[TP].offset == 3
        assert cluster.leader_epochs.of(TP) > before
        assert (await cluster.fetch({TP: 0}, max_wait_ms=10))[TP].high_watermark == 3

    run(log, work)


def test_the_only_broker_is_believed_whatever_its_epoch(log: semel.LocalLog) -> None:
    """It was put back from an older copy of its folder: what it has lost is for who reads to find."""

    async def work(cluster: Cluster) -> None:
        await cluster.leaders(["t"])
        current = cluster.leader_epochs.of(TP)
        cluster.leader_epochs.takes(TP, 0, current + 1)
        assert (await cluster.list_offsets({TP: LATEST_TIMESTAMP}))[TP].offset == 3
        assert cluster.leader_epochs.of(TP) == current

    run(log, work)


def test_a_leader_of_an_older_epoch_than_is_known_answers_nothing(log: semel.LocalLog) -> None:
    async def work(cluster: TwoBrokers) -> None:
        cluster.behind, cluster.asked = (), []
        await cluster.leaders(["t"])
        cluster.leader_epochs.takes(TP, 0, cluster.leader_epochs.of(TP) + 1)
        fetched = (await cluster.fetch({TP: 0}, max_wait_ms=10))[TP]
        assert (fetched.error_code, bytes(fetched.records)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, b"")
        for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, 5):
            with pytest.raises(BrokerError, match=r"UNKNOWN_LEADER_EPOCH|LEADER_NOT_AVAILABLE"):
                await cluster.list_offsets({TP: which})

    run(log, work, TwoBrokers, patience_ms=100)


def test_a_reader_is_told_of_a_leader_that_stays_behind(log: semel.LocalLog) -> None:
    async def work(_: Cluster) -> None:
        async with semel.aio.Consumer(log.bootstrap) as consumer:
            await consumer.assign({TP: "earliest"})
            assert len(await consumer.poll(20)) == 3
            consumer.cluster.request_timeout_ms = 100
            known = consumer.cluster.brokers.addresses  # and one more broker
            known[BEHIND] = replace(next(iter(known.values())), node_id=BEHIND)
            epochs = consumer.cluster.leader_epochs
            epochs.takes(TP, 0, epochs.of(TP) + 1)
            with pytest.raises(BrokerError, match=r"UNKNOWN_LEADER_EPOCH|LEADER_NOT_AVAILABLE"):
                while True:
                    assert await consumer.poll(0.2) == []

    run(log, work)


@pytest.mark.parametrize("which", [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, 1_001])
def test_an_end_that_a_new_leader_does_not_know_yet_is_asked_for_again(
    log: semel.LocalLog, which: int
) -> None:
    async def work(cluster: Late) -> tuple[int, int]:
        return cluster.times, (await cluster.list_offsets({TP: which}))[TP].offset

    expected = {EARLIEST_TIMESTAMP: 0, LATEST_TIMESTAMP: 3, 1_001: 1}
    assert run(log, work, Late) == (3, expected[which])


def test_and_is_never_taken_for_an_end(log: semel.LocalLog) -> None:
    async def work(cluster: Late) -> None:
        cluster.times = 10_000
        with pytest.raises(BrokerError, match="OFFSET_NOT_AVAILABLE"):
            await cluster.list_offsets({TP: LATEST_TIMESTAMP}, "read_uncommitted")

    run(log, work, Late, patience_ms=200)
