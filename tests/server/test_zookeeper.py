"""Ids from a real ZooKeeper: shared, killed, frozen past the session, restored from a copy; none given twice."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.peers.cable import Cable
from tests.peers.zookeeper import TICK_MS, ZooKeeper

from semel.client.blocking import Cluster
from semel.core.identity import BLOCK_IDS, IdBlock
from semel.core.log.names import CLEAN_SHUTDOWN
from semel.errors import ErrorCode, SemelError, StorageError
from semel.local import LocalLog
from semel.server.zookeeper.id_blocks import LENGTH_PATH, ZooKeeperIdBlocks
from semel.types import LEASED_IDS_FROM, Lease, TopicPartition

pytestmark = pytest.mark.zookeeper

SESSION_MS = 4 * TICK_MS
LEASE_MS = 3_600_000
CHROOT = "/some/cluster"
_DEADLINE_S = 60.0

Start = Callable[..., LocalLog]


@pytest.fixture
def start(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Start]:
    """``start(name, …)``: a server with a data folder of that name, on the test's ZooKeeper."""
    started: list[LocalLog] = []

    def begin(name: str, **settings: int) -> LocalLog:
        log = LocalLog(
            tmp_path / name,
            zookeeper_connect=zookeeper.connect + CHROOT,
            zookeeper_session_timeout_ms=SESSION_MS,
            **settings,
        )
        started.append(log)
        return log

    yield begin
    for log in started:
        log.crash()


def take(log: LocalLog, count: int) -> list[int]:
    """Ids as any client gets them: told that none is at hand, it asks again."""
    with Cluster(log.bootstrap) as cluster:
        return [cluster.init_producer_id().producer_id for _ in range(count)]


def take_what_is_there(log: LocalLog) -> list[int]:
    """Ids until the server says that it has none at hand."""
    ids: list[int] = []
    with Cluster(log.bootstrap, request_timeout_ms=2000) as cluster:
        while True:
            try:
                ids.append(cluster.init_producer_id().producer_id)
            except SemelError as error:
                assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name in str(error), error
                return ids


def test_two_servers_share_one_sequence(start: Start) -> None:
    logs = [start("one"), start("other")]
    with ThreadPoolExecutor() as pool:
        ids = [producer_id for some in pool.map(take, logs, [3 * BLOCK_IDS] * 2) for producer_id in some]
    assert len(set(ids)) == len(ids) == 6 * BLOCK_IDS
    assert max(ids) < 10 * BLOCK_IDS, "each server has one block in use, and one ahead"


def test_leases_come_from_the_same_sequence(start: Start) -> None:
    one, other = start("one"), start("other")
    ids: list[int] = []
    for log in (one, other, one):
        with Cluster(log.bootstrap) as cluster:
            lease = cluster.lease_producer_id([TopicPartition("t", 0)])
            assert isinstance(lease, Lease)
            ids.append(lease.producer_id - LEASED_IDS_FROM)
            ids.append(cluster.init_producer_id().producer_id)
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_kill_9_of_the_server_wastes_a_block_and_repeats_no_id(start: Start) -> None:
    log, ids = start("one"), []
    for _ in range(3):
        ids += take(log, BLOCK_IDS + 7)
        log.crash()
        log.start()
    ids += take(log, 1)
    assert ids == sorted(set(ids))


def test_without_zookeeper_there_are_ids_until_both_blocks_are_used(
    start: Start, zookeeper: ZooKeeper
) -> None:
    log = start("one")
    ids = take(log, BLOCK_IDS // 2 + 1)
    zookeeper.kill()
    ids += take_what_is_there(log)
    assert BLOCK_IDS <= len(ids) <= 2 * BLOCK_IDS
    with Cluster(log.bootstrap) as cluster:
        assert cluster.init_producer_id(None, ids[0], 0).producer_id == ids[0], (
            "a resumed id needs no fresh one"
        )
    zookeeper.start()
    ids += take(log, BLOCK_IDS)
    assert ids == sorted(set(ids))


@pytest.mark.slow
def test_kill_9_of_zookeeper_amid_claims(start: Start, zookeeper: ZooKeeper) -> None:
    one, other = start("one"), start("other")
    ids: list[int] = []
    for _ in range(2):
        ids += take(one, BLOCK_IDS // 2) + take(other, BLOCK_IDS)
        zookeeper.kill()  # also while a claim is under way: each asks for one at half a block
        ids += take_what_is_there(one)
        zookeeper.start()
    ids += take(one, BLOCK_IDS) + take(other, BLOCK_IDS)
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_a_session_that_is_over_costs_a_new_one(start: Start, zookeeper: ZooKeeper) -> None:
    log = start("one")
    ids = take(log, 1)
    zookeeper.freeze()
    ids += take_what_is_there(log)
    frozen_at_s = time.monotonic()
    while time.monotonic() - frozen_at_s < 2 * SESSION_MS / 1000:  # what must pass is time itself
        assert take_what_is_there(log) == []
        time.sleep(0.1)
    zookeeper.thaw()
    ids += take(log, 2 * BLOCK_IDS)
    assert ids == sorted(set(ids))


def test_a_restored_zookeeper_gives_no_id_again(start: Start, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    log = start("one")
    ids = take(log, 1)
    zookeeper.kill()
    copy = tmp_path / "copy"
    shutil.copytree(zookeeper.data_dir, copy)
    zookeeper.start()
    ids += take(log, 5 * BLOCK_IDS)
    log.crash()
    zookeeper.kill()
    shutil.rmtree(zookeeper.data_dir)
    copy.rename(zookeeper.data_dir)
    zookeeper.start()
    log.start()
    ids += take(log, 2 * BLOCK_IDS)
    assert ids == sorted(set(ids))


def wait_for_block(blocks: ZooKeeperIdBlocks, floor_id: int) -> IdBlock:
    deadline_s = time.monotonic() + _DEADLINE_S
    while (block := blocks.take(floor_id)) is None:
        assert time.monotonic() < deadline_s
        blocks.claim_ahead(floor_id)
        time.sleep(0.002)
    return block


def test_a_write_whose_answer_is_lost_is_read_back(zookeeper: ZooKeeper) -> None:
    """Every answer to a write is lost, the node's making included; no block is wasted and none given twice."""
    with contextlib.closing(Cable(zookeeper.connect)) as cable:
        blocks = ZooKeeperIdBlocks(cable.address + CHROOT, SESSION_MS, LEASE_MS)
        end_id = 0
        for cuts in range(4):
            cable.cut_after(b'"written_by"')
            block = wait_for_block(blocks, end_id)
            assert block == IdBlock(end_id, end_id + BLOCK_IDS)
            assert cable.answers_swallowed == cuts + 1
            end_id = block.end_id
        blocks.close()


@contextlib.contextmanager
def talking(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_servers_that_share_ids_have_leases_of_one_length(start: Start, zookeeper: ZooKeeper) -> None:
    """The first one's, also after it was stopped; and another one only once nobody says this one any more."""
    one = start("one", producer_lease_ms=LEASE_MS)
    same = start("same", producer_lease_ms=LEASE_MS)
    for log in (one, same):
        with Cluster(log.bootstrap) as cluster:
            lease = cluster.lease_producer_id([])
            assert isinstance(lease, Lease)
            assert lease.length_ms == LEASE_MS
    with pytest.raises(StorageError, match=f"producer.lease.ms is 1000 here and {LEASE_MS} for the servers"):
        start("other", producer_lease_ms=1_000)
    one.stop()
    same.stop()
    with pytest.raises(StorageError, match=f"start with producer.lease.ms={LEASE_MS}"):
        start("other", producer_lease_ms=1_000)
    with talking(zookeeper) as client:
        client.delete(CHROOT + LENGTH_PATH)
    assert take(start("other", producer_lease_ms=1_000), 1)
    with pytest.raises(StorageError, match=f"producer.lease.ms is {LEASE_MS} here and 1000 for the servers"):
        same.start()


def test_of_two_first_servers_one_says_the_length(zookeeper: ZooKeeper) -> None:
    lengths = [LEASE_MS + n for n in range(6)]
    servers = [ZooKeeperIdBlocks(zookeeper.connect, SESSION_MS, length) for length in lengths]
    with ThreadPoolExecutor(len(servers)) as pool:
        refusals = list(pool.map(lambda server: server.refusal(), servers))
    assert refusals.count(None) == 1
    agreed_ms = lengths[refusals.index(None)]
    for length, refusal in zip(lengths, refusals, strict=True):
        assert refusal is None or f"{length} here and {agreed_ms} for the servers" in refusal
    for server in servers:
        server.claim_ahead(0)
    assert wait_for_block(servers[refusals.index(None)], 0) == IdBlock(0, BLOCK_IDS), "the others claim none"
    for server in servers:
        server.close()


def test_a_length_whose_answer_is_lost_is_read_back(zookeeper: ZooKeeper) -> None:
    with contextlib.closing(Cable(zookeeper.connect)) as cable:
        cable.cut_after(b'"lease_ms"')
        blocks = ZooKeeperIdBlocks(cable.address, SESSION_MS, LEASE_MS)
        assert wait_for_block(blocks, 0) == IdBlock(0, BLOCK_IDS)
        assert cable.answers_swallowed == 1
        assert blocks.refusal() is None
        blocks.close()


def test_a_length_that_is_another_is_found_later_if_zookeeper_was_away(zookeeper: ZooKeeper) -> None:
    """Nothing else waits for it, so the server is up by then; it gives no ids."""
    first = ZooKeeperIdBlocks(zookeeper.connect, SESSION_MS, LEASE_MS)
    assert first.refusal() is None
    first.close()
    zookeeper.kill()
    late = ZooKeeperIdBlocks(zookeeper.connect, SESSION_MS, 1_000)
    late.claim_ahead(0)
    assert late.refusal() is None, "it may start"
    zookeeper.start()
    until_s = time.monotonic() + _DEADLINE_S
    while late.refusal() is None:
        assert time.monotonic() < until_s
    assert late.take(0) is None
    late.close()


def test_a_node_that_is_no_length_is_a_refusal(start: Start, zookeeper: ZooKeeper) -> None:
    with talking(zookeeper) as client:
        client.create(CHROOT + LENGTH_PATH, b"a day", makepath=True)
    with pytest.raises(StorageError, match="/some/cluster/semel/producer_lease is no length of leases"):
        start("one")


def test_a_node_that_is_no_counter_gives_none_until_it_is_mended(zookeeper: ZooKeeper) -> None:
    with talking(zookeeper) as client:
        client.create("/semel/producer_ids", b"what?", makepath=True)
    blocks = ZooKeeperIdBlocks(zookeeper.connect, SESSION_MS, LEASE_MS)
    blocks.claim_ahead(0)
    assert blocks.take(0) is None
    with talking(zookeeper) as client:
        client.set("/semel/producer_ids", b'{"version":1,"next":4200,"written_by":"an operator"}')
    assert wait_for_block(blocks, 0) == IdBlock(4200, 4300)
    blocks.close()


def test_a_server_that_never_reached_zookeeper_stops_cleanly(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    zookeeper.kill()
    log = LocalLog(tmp_path / "data", zookeeper_connect=zookeeper.connect)
    assert take_what_is_there(log) == []
    log.close()
    assert (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
