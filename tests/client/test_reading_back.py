"""What a log holds of a producer, read back from a real one: nothing of the producer can come in after that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest

import semel
from semel.client.cluster import Cluster, Isolation
from semel.client.model import ListedOffset
from semel.client.reading_back import read_back
from semel.client.resuming import scan
from semel.core.client.events import LastStored, LogAnswered, ReadBack
from semel.errors import BrokerError, CannotKnow, ErrorCode
from semel.record.batch import Record, encode_batch, scan_batches
from semel.types import LATEST_TIMESTAMP, Lease, ProducerGrant, TopicPartition

TP = TopicPartition("t", 0)
TRIES_MAX = 200


async def send(cluster: Cluster, grant: ProducerGrant, base_sequence: int, rows: int = 1) -> ErrorCode:
    batch = encode_batch(
        [Record(0, 0, b"key", b"row")] * rows,
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=base_sequence,
    )
    return (await cluster.produce({TP: batch}))[TP].error_code


def with_rows(
    log: semel.LocalLog, work: Callable[[Cluster, ProducerGrant], Awaitable[LogAnswered]]
) -> LogAnswered:
    """Sequences 0, 1 and 2 to 4 of one lease at offsets 0, 1 and 3 to 5; somebody else's row at 2."""

    async def run() -> LogAnswered:
        cluster = Cluster(log.bootstrap)
        try:
            await cluster.create_topics({"t": 1})
            lease, other = await cluster.lease_producer_id([TP]), await cluster.init_producer_id()
            assert isinstance(lease, Lease)
            assert await send(cluster, lease.grant, 0) is ErrorCode.NONE
            assert await send(cluster, lease.grant, 1) is ErrorCode.NONE
            assert await send(cluster, other, 0) is ErrorCode.NONE
            assert await send(cluster, lease.grant, 2, rows=3) is ErrorCode.NONE
            return await work(cluster, lease.grant)
        finally:
            await cluster.close()

    return asyncio.run(run())


def test_the_last_sequence_is_found_and_a_late_copy_comes_in_no_more(semel_server: semel.LocalLog) -> None:
    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        ask = ReadBack(TP, grant, LastStored(2, grant, 1))
        answer = await read_back(cluster, ask)
        assert await send(cluster, grant, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await read_back(cluster, ask) == answer, "a second time"
        return answer

    answer = with_rows(semel_server, work)
    assert (answer.last_sequence, answer.is_final, answer.is_cut) == (4, True, False)


def test_what_can_be_read_is_found_without_shutting_anybody_out(semel_server: semel.LocalLog) -> None:
    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        behind = LastStored(6, grant, 4)
        nothing_yet = await read_back(cluster, ReadBack(TP, grant, behind, shuts_out=False))
        assert (nothing_yet.last_sequence, nothing_yet.is_final) == (4, False)
        assert await send(cluster, grant, 5) is ErrorCode.NONE, "it was not shut out"
        with pytest.raises(BrokerError, match="OFFSET_NOT_AVAILABLE"):  # of a leader that lags behind
            await read_back(cluster, ReadBack(TP, grant, LastStored(9, grant, 7), shuts_out=False))
        return await read_back(cluster, ReadBack(TP, grant, behind, shuts_out=False))

    answer = with_rows(semel_server, work)
    assert (answer.last_sequence, answer.is_final, answer.is_cut) == (5, False, False)


def test_of_a_producer_that_never_wrote_nothing_is_found(semel_server: semel.LocalLog) -> None:
    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        lease = await cluster.lease_producer_id([TP])
        assert isinstance(lease, Lease)
        return await read_back(cluster, ReadBack(TP, lease.grant, None))

    answer = with_rows(semel_server, work)
    assert (answer.last_sequence, answer.is_final, answer.is_cut) == (None, True, False)


def test_a_log_that_loses_its_end_meanwhile_is_not_read_for_ever(semel_server: semel.LocalLog) -> None:
    class EndsBehindItsRecords(Cluster):
        """What the partition's leader says just before it is another that lacks the last rows."""

        async def list_offsets(
            self, timestamps: Mapping[TopicPartition, int], isolation: Isolation = "read_committed"
        ) -> dict[TopicPartition, ListedOffset]:
            listed = await super().list_offsets(timestamps, isolation)
            if timestamps[TP] == LATEST_TIMESTAMP:
                listed[TP] = replace(listed[TP], offset=listed[TP].offset + 1)
            return listed

    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        later = EndsBehindItsRecords(semel_server.bootstrap, request_timeout_ms=500)
        try:
            with pytest.raises(BrokerError, match="ends at offset 7 now"):
                await read_back(later, ReadBack(TP, grant, LastStored(2, grant, 1)))
            with pytest.raises(BrokerError, match="OFFSET_NOT_AVAILABLE"):
                await scan(later, grant.producer_id, TP, 2, 8)
        finally:
            await later.close()
        return await read_back(cluster, ReadBack(TP, grant, LastStored(2, grant, 1)))

    assert with_rows(semel_server, work).last_sequence == 4


def test_a_log_that_was_trimmed_says_so(semel_server: semel.LocalLog) -> None:
    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        await cluster.delete_records({TP: 6})
        return await read_back(cluster, ReadBack(TP, grant, LastStored(2, grant, 1)))

    answer = with_rows(semel_server, work)
    assert (answer.last_sequence, answer.is_cut) == (None, True)


def test_a_log_that_is_another_by_now_says_so(semel_server: semel.LocalLog) -> None:
    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        await cluster.delete_topics(["t"])
        await cluster.create_topics({"t": 1})
        return await read_back(cluster, ReadBack(TP, grant, LastStored(6, grant, 4)))

    answer = with_rows(semel_server, work)
    assert (answer.last_sequence, answer.is_cut) == (None, True)


def test_a_log_that_is_another_and_as_long_again_is_read_from_its_start(semel_server: semel.LocalLog) -> None:
    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        await cluster.delete_topics(["t"])
        await cluster.create_topics({"t": 1})
        lease, other = await cluster.lease_producer_id([TP]), await cluster.init_producer_id()
        assert isinstance(lease, Lease)
        assert await send(cluster, lease.grant, 0) is ErrorCode.NONE
        assert await send(cluster, other, 0, rows=20) is ErrorCode.NONE
        return await read_back(cluster, ReadBack(TP, lease.grant, LastStored(6, grant, 4)))

    answer = with_rows(semel_server, work)
    assert (answer.last_sequence, answer.is_cut) == (0, True)


def test_a_log_that_was_compacted_behind_the_last_sequence_says_so(
    semel_server_factory: Callable[..., semel.LocalLog],
) -> None:
    async def overwrite(cluster: Cluster, grant: ProducerGrant) -> int | None:
        """Until nothing is left in front of the newest segment but what compaction keeps: up to which sequence?"""
        other = await cluster.init_producer_id()
        for sequence in range(0, 300, 3):
            assert await send(cluster, other, sequence, rows=3) is ErrorCode.NONE
        for _ in range(TRIES_MAX):
            fetched = await cluster.fetch({TP: 0}, isolation="read_uncommitted")
            headers = [header for _, header in scan_batches(fetched[TP].records, allow_partial_tail=True)]
            ours = [header for header in headers if header.producer_id == grant.producer_id]
            if not any(header.record_count for header in ours if not header.is_control):
                return max((header.last_sequence for header in ours if not header.is_control), default=None)
            await asyncio.sleep(0.05)
        raise AssertionError(headers)

    async def work(cluster: Cluster, grant: ProducerGrant) -> LogAnswered:
        assert await overwrite(cluster, grant) == 4, "kept while it may write, without rows"
        ask = ReadBack(TP, grant, LastStored(2, grant, 1))
        answer = await read_back(cluster, ask)
        assert answer.last_sequence in (4, None), "its fence may be compacted behind, before it reads"
        assert answer.is_compacted
        await overwrite(cluster, grant)
        end = (await cluster.list_offsets({TP: LATEST_TIMESTAMP}))[TP].offset
        for _ in range(TRIES_MAX):
            answer = await read_back(cluster, ask)
            if answer.last_sequence is None:
                break
            await overwrite(cluster, grant)
        with pytest.raises(CannotKnow, match="t-0 was compacted from offset 0 on"):
            await scan(cluster, grant.producer_id, TP, 0, end)
        return answer

    log = semel_server_factory(
        log_segment_bytes=2_000, log_cleanup_policy="compact", log_cleaner_backoff_ms=20
    )
    answer = with_rows(log, work)
    assert (answer.last_sequence, answer.is_compacted) == (None, True)
