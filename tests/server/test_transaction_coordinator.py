"""The coordinator over a real data folder: driven step by step, killed between any two of them, and started again."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.server.carrying_out import carry_out
from tests.server.failing_disk import Disk

from semel.config import Address, ServerSettings
from semel.core.group.requests import CommitOffsets, OffsetToCommit
from semel.core.log.watermarks import FetchIsolation
from semel.core.transaction.requests import AddPartitions, Refused
from semel.core.transaction.states import TransactionState
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_records, encode_batch, scan_batches
from semel.server.broker import Broker
from semel.server.operation import Steps, Synced
from semel.server.outcome import Answer, Call
from semel.server.router import handle
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import PRODUCER_EPOCH_MAX, ProducerGrant, TopicPartition
from semel.wire import messages, produce
from semel.wire.api import ApiKey

NOW_MS = 1_700_000_000_000
OUTPUTS = [TopicPartition("a", 0), TopicPartition("b", 0)]
GROUP = "g"

T = TypeVar("T")


SERVERS: list[Server] = []


class Server:
    """A broker over a folder, without sockets; ``begun`` is what it does by itself."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.now_ms = 0
        self.storage = Storage.open(
            folder, self.disk, StorageSettings(), now_ms=NOW_MS, monotonic_ms=lambda: self.now_ms
        )
        self.broker = Broker(ServerSettings(), self.storage)
        self.coordinator = self.broker.transactions
        self.begun: list[Steps[None]] = []
        SERVERS.append(self)
        self.coordinator.carry_out_by(self.begun.append)

    def recover(self) -> None:
        self.coordinator.recover(self.storage, NOW_MS)
        self.carry_on()

    def carry_on(self) -> None:
        while self.begun:
            self.run(self.begun.pop(0))

    def run(self, steps: Steps[T]) -> T:
        """To its end, wherever it has got to."""
        while True:
            try:
                awaited = steps.send(None)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            assert isinstance(awaited, Synced), "nobody else ends it"
            for partition in awaited.partitions:
                partition.sync()

    def init(self, name: str = "t") -> ProducerGrant:
        granted = self.run(self.coordinator.init(name, 60_000, -1, -1, NOW_MS))
        assert isinstance(granted, ProducerGrant), granted
        return granted

    def end(self, grant: ProducerGrant, *, is_commit: bool, name: str = "t") -> ProducerGrant | Refused:
        return self.run(self.ending(grant, is_commit=is_commit, name=name))

    def ending(
        self, grant: ProducerGrant, *, is_commit: bool, name: str = "t"
    ) -> Steps[ProducerGrant | Refused]:
        return self.coordinator.end(
            name, grant.producer_id, grant.producer_epoch, NOW_MS, is_commit=is_commit, client_version=2
        )

    def write(
        self,
        grant: ProducerGrant,
        value: bytes,
        partition: TopicPartition,
        sequence: int = 0,
        *,
        name: str | None = "t",
        version: int = 12,
        synced: bool = True,
        rows_synced: bool = True,
    ) -> ErrorCode:
        batch = encode_batch(
            [Record(0, NOW_MS, None, value)],
            producer_id=grant.producer_id,
            producer_epoch=grant.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        item = produce.ProducePartition(partition.topic, partition.partition, memoryview(batch))
        body = bytearray().join(
            produce.encode_request(version, produce.ProduceRequest(name, -1, 1000, [item]))
        )
        outcome = self.ask(ApiKey.PRODUCE, version, memoryview(body))
        if not isinstance(outcome, Answer):
            if not synced:
                return ErrorCode.NONE
            for log in (*outcome.partitions, *(outcome.later if rows_synced else ())):
                log.sync()
            outcome = outcome.finish() if outcome.finish is not None else outcome.answer
        (result,), _ = produce.decode_response(version, b"".join(map(bytes, outcome.parts)))
        return ErrorCode(result.error_code)

    def commit_offset(self, grant: ProducerGrant, offset: int) -> ErrorCode:
        fields = {
            "transactional_id": "t",
            "group_id": GROUP,
            "producer_id": grant.producer_id,
            "producer_epoch": grant.producer_epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": "a",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        }
        body = messages.encode_request(ApiKey.TXN_OFFSET_COMMIT, 5, fields)
        outcome = self.ask(ApiKey.TXN_OFFSET_COMMIT, 5, body)
        answer = messages.decode_response(
            ApiKey.TXN_OFFSET_COMMIT, 5, b"".join(map(bytes, carry_out(outcome).answer.parts))
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        call = Call(int(api_key), version, "test", Address("127.0.0.1", 9092), NOW_MS, lambda: 10**7)
        return handle(self.broker, call, body)

    def log(self, name: TopicPartition) -> Partition:
        found = self.storage.find(name)
        assert found is not None
        return found

    def committed(self, name: TopicPartition) -> list[bytes]:
        """What a reader of what is committed sees; all of it, where nothing is open."""
        log = self.log(name)
        found = log.read(0, 10**7, FetchIsolation.TXN_COMMITTED)
        assert isinstance(found, Slice)
        aborted = sorted(log.aborted_in(0, found), key=lambda one: one[1])
        gone: set[int] = set()
        values = []
        for batch, header in scan_batches(found.read()):
            while aborted and aborted[0][1] <= header.base_offset:
                gone.add(aborted.pop(0)[0])
            if header.is_control:
                gone.discard(header.producer_id)
            elif header.producer_id not in gone:
                values += [record.value for record in decode_records(batch)]
        return [value for value in values if value is not None]

    def state(self, name: str = "t") -> TransactionState:
        known = self.storage.transactions.get(name)
        assert known is not None
        return known.state

    def offset(self) -> int | None:
        found = self.storage.groups.offsets(GROUP).get(TopicPartition("a", 0))
        return None if found is None else found.committed_offset


class FullOnceOpen(Disk):
    """Full from when the server has opened its files."""

    def full(self) -> None:
        self.write_error = OSError(errno.ENOSPC, "no room")


@pytest.fixture(autouse=True)
def nothing_is_left_begun() -> Iterator[None]:
    yield
    for one in SERVERS:
        for steps in one.begun:
            steps.close()
    SERVERS.clear()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data")
    for name in OUTPUTS:
        at_once(server.broker.create_topic(name.topic, 1, {}, NOW_MS))
    server.recover()
    yield server


@pytest.fixture
def restarted(tmp_path: Path) -> Callable[..., Server]:
    """What the next start makes of the files as a kill leaves them now."""
    count = 0

    def restart(server: Server, disk: Disk | None = None, *, is_killed_at_once: bool = False) -> Server:
        nonlocal count
        count += 1
        folder = tmp_path / f"copy-{count}"
        shutil.copytree(server.storage.data_dir, folder)
        again = Server(folder, disk)
        if isinstance(disk, FullOnceOpen):
            disk.full()
        if not is_killed_at_once:
            again.recover()
        return again

    return restart


def lose(server: Server, folder: str, size_bytes: int, *, as_zeros: bool = False) -> None:
    """What the disk has not kept behind ``size_bytes`` of the only log file of ``folder``."""
    file = next((server.storage.data_dir / folder).glob("*.log"))
    content = file.read_bytes()
    file.write_bytes(content[:size_bytes] + bytes((len(content) - size_bytes) * as_zeros))


def fail_to_sync(server: Server, partition: Partition) -> None:
    server.disk.sync_error = OSError(errno.EIO, "input/output error")
    partition.sync()
    server.disk.sync_error = None


def register(server: Server, grant: ProducerGrant, *partitions: TopicPartition) -> None:
    """Beforehand, as by the older protocol."""
    request = AddPartitions("t", grant.producer_id, grant.producer_epoch, frozenset(partitions), 0)
    assert server.run(server.coordinator.add(request, NOW_MS)) is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_is_all_or_nothing(server: Server, is_commit: bool) -> None:
    grant = server.init()
    for name in OUTPUTS:
        assert server.write(grant, b"row", name) is ErrorCode.NONE
        assert server.committed(name) == []
    assert server.commit_offset(grant, 7) is ErrorCode.NONE
    assert server.offset() is None
    assert server.storage.groups.is_unstable(GROUP, OUTPUTS[0])
    after = server.end(grant, is_commit=is_commit)
    assert after == ProducerGrant(grant.producer_id, grant.producer_epoch + 1)
    assert [server.committed(name) for name in OUTPUTS] == [[b"row"] * is_commit] * 2
    assert server.offset() == (7 if is_commit else None)
    assert not server.storage.groups.is_unstable(GROUP, OUTPUTS[0])
    for name in OUTPUTS:
        log = server.log(name)
        assert log.last_stable_offset == log.log_end_offset == 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_killed_between_any_two_steps_of_its_end_it_is_all_or_nothing(
    server: Server, restarted: Callable[[Server], Server], is_commit: bool
) -> None:
    grant = server.init()
    for name in OUTPUTS:
        server.write(grant, b"row", name)
    server.commit_offset(grant, 7)
    steps = server.ending(grant, is_commit=is_commit)
    outcomes = []
    while True:
        again = restarted(server)
        if again.state() is TransactionState.ONGOING:
            assert all(not again.committed(name) for name in OUTPUTS)
            again.init()  # whoever comes next aborts it
            outcome = False
        else:
            outcome = again.state() is TransactionState.COMPLETE_COMMIT
        assert [again.committed(name) for name in OUTPUTS] == [[b"row"] * outcome] * 2
        assert again.offset() == (7 if outcome else None)
        for name in OUTPUTS:
            assert again.log(name).last_stable_offset == again.log(name).log_end_offset
        outcomes.append(outcome)
        try:
            awaited = steps.send(None)
        except StopIteration:
            break
        for partition in awaited.partitions:  # type: ignore[union-attr]
            partition.sync()
    assert len(outcomes) >= 3, "there is something between its begin and its end"
    assert outcomes[-1] is is_commit
    assert outcomes == sorted(outcomes), "what was decided stays so"


def test_what_is_open_in_a_partition_goes_on_after_a_start(
    server: Server, restarted: Callable[[Server], Server]
) -> None:
    """The record of it is lost, the row is not: nobody was told of it yet."""
    grant = server.init()
    server.storage.transaction_log.partition.sync()
    size_bytes = server.storage.transaction_log.partition.size_bytes
    server.write(grant, b"row", OUTPUTS[0], synced=False)
    lose(server, "__transaction_state-0", size_bytes)
    again = restarted(server)
    assert again.state() is TransactionState.ONGOING
    assert again.end(grant, is_commit=True) == ProducerGrant(grant.producer_id, grant.producer_epoch + 1)
    assert again.committed(OUTPUTS[0]) == [b"row"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_begins_behind_an_end_does_not_end_with_it(
    server: Server, restarted: Callable[..., Server], is_commit: bool
) -> None:
    """A power cut takes that the one was complete, and that the next began, but not the next one's row."""
    grant = server.init()
    server.write(grant, b"first", OUTPUTS[0])
    steps = server.ending(grant, is_commit=is_commit)
    decided = steps.send(None)
    size_bytes = server.storage.transaction_log.partition.size_bytes
    decided.partitions[0].sync()  # type: ignore[union-attr]
    following = server.run(steps)
    assert isinstance(following, ProducerGrant)
    for name in OUTPUTS:
        server.write(following, b"second", name, synced=False)
    lose(server, "__transaction_state-0", size_bytes)
    first = [b"first"] * is_commit
    killed = restarted(server)
    assert killed.state() is TransactionState.ONGOING
    assert [killed.committed(name) for name in OUTPUTS] == [first, []]
    killed.end(following, is_commit=True)
    assert [killed.committed(name) for name in OUTPUTS] == [[*first, b"second"], [b"second"]]
    cut = restarted(server, Disk(boot="the second"))
    assert cut.state() is TransactionState.COMPLETE_ABORT
    assert isinstance(cut.end(following, is_commit=True), Refused)
    assert [cut.committed(name) for name in OUTPUTS] == [first, []]


def test_nothing_begins_before_the_log_takes_what_a_start_has_found(
    server: Server, restarted: Callable[..., Server]
) -> None:
    """Else a commit could leave out what was found."""
    grant = server.init()
    server.storage.transaction_log.partition.sync()
    size_bytes = server.storage.transaction_log.partition.size_bytes
    server.write(grant, b"row", OUTPUTS[0], synced=False)
    lose(server, "__transaction_state-0", size_bytes)
    again = restarted(server, FullOnceOpen())
    assert again.state() is TransactionState.EMPTY, "the log has not taken it"
    refused = again.end(grant, is_commit=False)
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert again.write(grant, b"more", OUTPUTS[1]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again.disk.write_error = None
    again.coordinator.tick(NOW_MS)
    assert again.state() is TransactionState.ONGOING
    again.end(grant, is_commit=True)
    assert again.committed(OUTPUTS[0]) == [b"row"]


@pytest.mark.parametrize("is_second_kept", [True, False])
@pytest.mark.parametrize("version", [12, 11])
def test_what_a_power_cut_may_have_taken_rows_of_is_aborted(
    server: Server, restarted: Callable[..., Server], version: int, is_second_kept: bool
) -> None:
    """They were acknowledged: its client would go on, and commit what is left."""
    grant = server.init()
    if version < 12:
        register(server, grant, *OUTPUTS)
    assert server.write(grant, b"first", OUTPUTS[0], version=version) is ErrorCode.NONE
    server.log(OUTPUTS[0]).sync()
    size_bytes = server.log(OUTPUTS[0]).size_bytes
    assert server.write(grant, b"second", OUTPUTS[0], 1, version=version, rows_synced=False) is ErrorCode.NONE
    assert server.log(OUTPUTS[0]).high_watermark == 1, "it is not durable"
    if not is_second_kept:
        lose(server, "a-0", size_bytes)
    again = restarted(server, Disk(boot="the second"))
    refused = again.end(grant, is_commit=True)
    assert isinstance(refused, Refused)
    assert again.write(grant, b"third", OUTPUTS[0], 2, version=version) is not ErrorCode.NONE
    assert again.committed(OUTPUTS[0]) == []
    assert again.log(OUTPUTS[0]).last_stable_offset == again.log(OUTPUTS[0]).log_end_offset
    after = again.init()
    for sequence, row in enumerate((b"first", b"second")):
        assert again.write(after, row, OUTPUTS[0], sequence) is ErrorCode.NONE
    again.end(after, is_commit=True)
    assert again.committed(OUTPUTS[0]) == [b"first", b"second"]


def test_what_is_begun_after_a_power_cut_outlives_a_kill(
    server: Server, restarted: Callable[..., Server]
) -> None:
    again = restarted(server, Disk(boot="the second"))
    grant = again.init()
    again.write(grant, b"row", OUTPUTS[0])
    killed = restarted(again, Disk(boot="the second"))
    killed.end(grant, is_commit=True)
    assert killed.committed(OUTPUTS[0]) == [b"row"]


def test_the_boot_is_noted_once_what_was_lost_is_aborted(
    server: Server, restarted: Callable[..., Server]
) -> None:
    """A server that is killed before leaves it to the next one, which finds the same boot."""
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    full = FullOnceOpen(boot="the second")
    refused = restarted(server, full).end(grant, is_commit=True)
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again = restarted(SERVERS[-1], Disk(boot="the second"))
    assert again.state() is TransactionState.COMPLETE_ABORT


def test_after_a_clean_stop_nothing_was_lost(server: Server, restarted: Callable[..., Server]) -> None:
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    server.storage.close(now_ms=NOW_MS)
    again = restarted(server, Disk(boot="the second"))
    again.end(grant, is_commit=True)
    assert again.committed(OUTPUTS[0]) == [b"row"]


def with_a_row_that_is_not_durable(server: Server) -> tuple[ProducerGrant, int]:
    """An open transaction with two acknowledged rows, and the size of the log with the durable one."""
    grant = server.init()
    assert server.write(grant, b"first", OUTPUTS[0]) is ErrorCode.NONE
    size_bytes = server.log(OUTPUTS[0]).size_bytes
    assert server.write(grant, b"second", OUTPUTS[0], 1, rows_synced=False) is ErrorCode.NONE
    return grant, size_bytes


@pytest.mark.parametrize("as_zeros", [True, False])
@pytest.mark.parametrize("is_full", [True, False])
def test_what_a_failed_sync_may_have_taken_rows_of_is_aborted(
    server: Server, restarted: Callable[..., Server], as_zeros: bool, is_full: bool
) -> None:
    """In the boot that it was, and however often a start is killed before the abort is written."""
    grant, size_bytes = with_a_row_that_is_not_durable(server)
    fail_to_sync(server, server.log(OUTPUTS[0]))
    lose(server, "a-0", size_bytes, as_zeros=as_zeros)
    if is_full:
        again = restarted(restarted(server, FullOnceOpen()))
    else:
        again = restarted(restarted(server, is_killed_at_once=True))
    assert isinstance(again.end(grant, is_commit=True), Refused)
    assert again.committed(OUTPUTS[0]) == []


def test_an_abort_that_a_failed_sync_has_taken_comes_again(
    server: Server, restarted: Callable[..., Server]
) -> None:
    """The boot was noted by then."""
    grant, size_bytes = with_a_row_that_is_not_durable(server)
    lose(server, "a-0", size_bytes)
    states_bytes = server.storage.transaction_log.partition.size_bytes
    cut = restarted(server, Disk(boot="the second"), is_killed_at_once=True)
    cut.coordinator.recover(cut.storage, NOW_MS)
    fail_to_sync(cut, cut.storage.transaction_log.partition)
    lose(cut, "__transaction_state-0", states_bytes, as_zeros=True)
    again = restarted(cut, Disk(boot="the second"))
    assert isinstance(again.end(grant, is_commit=True), Refused)


@pytest.mark.parametrize("is_all_lost", [True, False])
def test_a_clean_stop_hides_nothing_that_was_not_settled(
    server: Server, restarted: Callable[..., Server], is_all_lost: bool
) -> None:
    grant, size_bytes = with_a_row_that_is_not_durable(server)
    lose(server, "a-0", 0 if is_all_lost else size_bytes)
    if is_all_lost:
        (server.storage.data_dir / "a-0" / "recovery-point").unlink()
    full = FullOnceOpen(boot="the second")
    cut = restarted(server, full)
    full.write_error = None
    assert not cut.storage.close(now_ms=NOW_MS)
    again = restarted(cut, Disk(boot="the second"))
    assert isinstance(again.end(grant, is_commit=True), Refused)


def test_what_a_kill_tears_was_acknowledged_to_nobody(
    server: Server, restarted: Callable[..., Server]
) -> None:
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0], rows_synced=False)
    size_bytes = server.log(OUTPUTS[0]).size_bytes
    server.write(grant, b"torn", OUTPUTS[0], 1, rows_synced=False)
    lose(server, "a-0", size_bytes + 40)
    again = restarted(server)
    assert again.end(grant, is_commit=True) == ProducerGrant(grant.producer_id, grant.producer_epoch + 1)
    assert again.committed(OUTPUTS[0]) == [b"row"]


def test_offsets_of_others_keep_no_commit(server: Server) -> None:
    """They move the end of the log on that all offsets are in, as fast as it is synced."""
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    assert server.commit_offset(grant, 7) is ErrorCode.NONE
    offsets = CommitOffsets("other", [OffsetToCommit(OUTPUTS[1], 1, -1, "")])
    server.storage.group_log.submit(server.storage.groups.commit(offsets, 0, NOW_MS), NOW_MS)
    steps = server.ending(grant, is_commit=True)
    awaited = steps.send(None)
    assert [log.name.topic for log in awaited.partitions] == ["__transaction_state"]  # type: ignore[union-attr]
    assert server.state() is TransactionState.PREPARE_COMMIT
    server.run(steps)


def test_an_end_that_waits_for_rows_does_not_meet_the_next_transaction(server: Server) -> None:
    """Of the older protocol, whose transactions have one epoch: its client has asked once more meanwhile."""

    def ending() -> Steps[ProducerGrant | Refused]:
        return server.coordinator.end("t", *asked, NOW_MS, is_commit=True, client_version=0)

    grant = server.init()
    asked = grant.producer_id, grant.producer_epoch
    register(server, grant, *OUTPUTS)
    for name in OUTPUTS:
        server.write(grant, b"one", name, version=11, rows_synced=name == OUTPUTS[1])
    first = ending()
    first.send(None)
    at_once(server.broker.delete_topic("a", NOW_MS))
    assert isinstance(server.run(ending()), ProducerGrant)
    register(server, grant, OUTPUTS[1])
    server.write(grant, b"two", OUTPUTS[1], 1, version=11)
    refused = server.run(first)
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert server.committed(OUTPUTS[1]) == [b"one"]


def test_a_commit_waits_for_its_rows(server: Server, restarted: Callable[..., Server]) -> None:
    grant = server.init()
    for name in OUTPUTS:
        assert server.write(grant, b"row", name, rows_synced=False) is ErrorCode.NONE
    steps = server.ending(grant, is_commit=True)
    rows = steps.send(None)
    assert [log.name for log in rows.partitions] == OUTPUTS  # type: ignore[union-attr]
    assert server.state() is TransactionState.ONGOING
    server.log(OUTPUTS[0]).sync()
    assert server.write(grant, b"late", OUTPUTS[0], 1, rows_synced=False) is ErrorCode.NONE
    server.log(OUTPUTS[1]).sync()
    late = steps.send(None)
    assert [log.name for log in late.partitions] == OUTPUTS[:1]  # type: ignore[union-attr]
    assert isinstance(server.run(steps), ProducerGrant)
    assert [server.committed(name) for name in OUTPUTS] == [[b"row", b"late"], [b"row"]]


def test_rows_of_a_deleted_topic_keep_no_commit(server: Server) -> None:
    grant = server.init()
    for name in OUTPUTS:
        server.write(grant, b"row", name, rows_synced=False)
    steps = server.ending(grant, is_commit=True)
    steps.send(None)
    at_once(server.broker.delete_topic("a", NOW_MS))
    assert isinstance(server.run(steps), ProducerGrant)
    assert server.committed(OUTPUTS[1]) == [b"row"]


@pytest.mark.parametrize("version", [12, 11])
def test_what_a_failed_sync_has_lost_rows_of_is_not_committed(server: Server, version: int) -> None:
    grant = server.init()
    if version < 12:
        register(server, grant, *OUTPUTS)
    for name in OUTPUTS:
        assert server.write(grant, b"row", name, version=version, rows_synced=False) is ErrorCode.NONE
    fail_to_sync(server, server.log(OUTPUTS[0]))
    refused = server.end(grant, is_commit=True)
    assert isinstance(refused, Refused)
    server.carry_on()
    assert server.state() is TransactionState.PREPARE_ABORT, "the one partition takes no marker now"
    assert server.committed(OUTPUTS[1]) == []


def test_what_nobody_has_under_way_does_not_hold_readers_back(
    server: Server, restarted: Callable[[Server], Server]
) -> None:
    """The log of transactions is put back from an older copy."""
    folder = server.storage.data_dir / "__transaction_state-0"
    older = {file: file.read_bytes() for file in folder.iterdir()}
    server.write(server.init(), b"row", OUTPUTS[0])
    for file in folder.iterdir():
        file.write_bytes(older.get(file, b""))
    again = restarted(server)
    assert again.committed(OUTPUTS[0]) == []
    log = again.log(OUTPUTS[0])
    assert log.last_stable_offset == log.log_end_offset == 2


def put_back(server: Server, work: Callable[[], object]) -> None:
    """The log of transactions as it was before the work."""
    folder = server.storage.data_dir / "__transaction_state-0"
    older = {file: file.read_bytes() for file in folder.iterdir()}
    work()
    for file in folder.iterdir():
        file.write_bytes(older.get(file, b""))


def test_what_nobody_has_under_way_is_aborted_once_there_is_room(
    server: Server, restarted: Callable[..., Server]
) -> None:
    put_back(server, lambda: server.write(server.init(), b"row", OUTPUTS[0]))
    again = restarted(server, FullOnceOpen())
    due: list[int] = []
    again.coordinator.when_due(due.append)
    assert due
    assert again.log(OUTPUTS[0]).last_stable_offset == 0
    again.disk.write_error = None
    again.coordinator.tick(NOW_MS)
    again.carry_on()
    log = again.log(OUTPUTS[0])
    assert log.last_stable_offset == log.log_end_offset == 2


def test_a_topic_that_is_deleted_to_make_room_for_what_a_start_has_found(
    server: Server, restarted: Callable[..., Server]
) -> None:
    kept = server.init("kept")

    def work() -> None:
        server.write(server.init("lost"), b"row", OUTPUTS[0], name="lost")
        server.write(kept, b"row", OUTPUTS[1], name="kept")

    put_back(server, work)
    again = restarted(server, FullOnceOpen())
    again.disk.write_error = None
    at_once(again.broker.delete_topic(OUTPUTS[0].topic, NOW_MS))
    again.coordinator.tick(NOW_MS)
    again.carry_on()
    assert again.end(kept, is_commit=True, name="kept") == ProducerGrant(
        kept.producer_id, kept.producer_epoch + 1
    )
    assert again.committed(OUTPUTS[1]) == [b"row"]


def test_who_comes_anew_waits_for_the_abort_and_the_older_one_is_fenced(server: Server) -> None:
    zombie = server.init()
    server.write(zombie, b"lost", OUTPUTS[0])
    fresh = server.init()
    assert fresh == ProducerGrant(zombie.producer_id, zombie.producer_epoch + 2)
    assert server.log(OUTPUTS[0]).last_stable_offset == 2
    assert server.write(zombie, b"late", OUTPUTS[0], 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    ended = server.end(zombie, is_commit=True)
    assert isinstance(ended, Refused)
    assert ended.error_code is ErrorCode.PRODUCER_FENCED
    assert server.write(fresh, b"new", OUTPUTS[0]) is ErrorCode.NONE
    server.end(fresh, is_commit=True)
    assert server.committed(OUTPUTS[0]) == [b"new"]


def test_what_takes_too_long_is_aborted_and_holds_readers_back_no_longer(server: Server) -> None:
    due: list[int] = []
    server.coordinator.when_due(due.append)
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    assert 0 < due[-1] <= 60_000
    server.now_ms = 59_999
    server.coordinator.tick(NOW_MS)
    server.carry_on()
    assert server.state() is TransactionState.ONGOING
    server.now_ms = 60_000
    server.coordinator.tick(NOW_MS)
    server.carry_on()
    assert server.state() is TransactionState.COMPLETE_ABORT
    assert server.committed(OUTPUTS[0]) == []
    assert server.log(OUTPUTS[0]).last_stable_offset == 2
    assert server.write(grant, b"late", OUTPUTS[0], 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_that_the_disk_refuses_is_written_once_there_is_room(server: Server) -> None:
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    steps = server.ending(grant, is_commit=True)
    awaited = steps.send(None)
    for partition in awaited.partitions:  # type: ignore[union-attr]
        partition.sync()  # it is decided
    server.disk.write_error = OSError(errno.ENOSPC, "no room")
    assert server.run(steps) == ProducerGrant(grant.producer_id, grant.producer_epoch + 1)
    assert server.state() is TransactionState.PREPARE_COMMIT
    assert server.committed(OUTPUTS[0]) == []
    refused = server.write(ProducerGrant(grant.producer_id, grant.producer_epoch + 1), b"next", OUTPUTS[0])
    assert refused is ErrorCode.CONCURRENT_TRANSACTIONS
    server.disk.write_error = None
    server.coordinator.tick(NOW_MS)
    server.carry_on()
    assert server.state() is TransactionState.COMPLETE_COMMIT
    assert server.committed(OUTPUTS[0]) == [b"row"]


def test_what_is_decided_is_not_decided_again(server: Server) -> None:
    """Its client was told, and goes on, while a marker is still to be written."""
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    steps = server.ending(grant, is_commit=True)
    steps.send(None).partitions[0].sync()  # type: ignore[union-attr]
    server.disk.write_error = OSError(errno.ENOSPC, "no room")
    following = server.run(steps)
    assert isinstance(following, ProducerGrant)
    server.disk.write_error = None
    for is_commit in (False, True):
        refused = server.end(following, is_commit=is_commit)
        assert isinstance(refused, Refused)
        assert refused.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    server.coordinator.tick(NOW_MS)
    server.carry_on()
    assert server.committed(OUTPUTS[0]) == [b"row"]


def test_who_has_another_id_from_now_on_waits_for_the_markers_too(server: Server) -> None:
    """Its epochs are used up, and the disk refuses the last transaction's marker."""
    last = ProducerGrant(1 << 40, PRODUCER_EPOCH_MAX - 1)
    transactions = server.storage.transactions
    server.storage.transaction_log.submit(transactions.take_over([("t", last, NOW_MS)]), NOW_MS)
    server.write(last, b"row", OUTPUTS[0])
    steps = server.ending(last, is_commit=True)
    while transactions.get("t").state is not TransactionState.PREPARE_COMMIT:  # type: ignore[union-attr]
        steps.send(None).partitions[0].sync()  # type: ignore[union-attr]
    server.disk.write_error = OSError(errno.ENOSPC, "no room")
    following = server.run(steps)
    assert isinstance(following, ProducerGrant)
    assert following.producer_id != last.producer_id
    server.disk.write_error = None
    assert server.write(following, b"next", OUTPUTS[0]) is ErrorCode.CONCURRENT_TRANSACTIONS
    refused = server.end(following, is_commit=False)
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    server.coordinator.tick(NOW_MS)
    server.carry_on()
    assert server.write(following, b"next", OUTPUTS[0]) is ErrorCode.NONE
    server.end(following, is_commit=True)
    assert server.committed(OUTPUTS[0]) == [b"row", b"next"]


def test_a_partition_that_cannot_be_opened_has_no_marker(
    server: Server, restarted: Callable[..., Server]
) -> None:
    grant = server.init()
    for name in OUTPUTS:
        server.write(grant, b"row", name)
    steps = server.ending(grant, is_commit=True)
    steps.send(None).partitions[0].sync()  # type: ignore[union-attr]
    again = restarted(server, Disk(bad_folder="b-0"))
    assert again.state() is TransactionState.PREPARE_COMMIT
    again = restarted(again)
    assert again.state() is TransactionState.COMPLETE_COMMIT
    assert [again.committed(name) for name in OUTPUTS] == [[b"row"]] * 2


def test_a_row_is_acknowledged_once_it_is_durable_that_it_is_in_the_transaction(
    server: Server, restarted: Callable[..., Server]
) -> None:
    """Else a start that cannot open its partition would let the transaction be committed without it."""
    grant = server.init()
    states = server.storage.transaction_log.partition
    for name in OUTPUTS:
        server.write(grant, b"row", name)
        assert not states.needs_sync
    assert server.commit_offset(grant, 7) is ErrorCode.NONE
    assert not states.needs_sync


def test_an_id_is_granted_once_the_claim_of_it_is_durable(server: Server) -> None:
    """It goes into another log, which a power cut could leave alone."""
    steps = server.coordinator.init("t", 60_000, -1, -1, NOW_MS)
    claims = server.storage.metadata_log.partition
    awaited = steps.send(None)
    assert [*awaited.partitions] == [claims]  # type: ignore[union-attr]
    assert "t" not in server.storage.transactions
    claims.sync()
    assert isinstance(server.run(steps), ProducerGrant)


def test_a_topic_that_is_deleted_meanwhile_keeps_nobody(server: Server) -> None:
    grant = server.init()
    for name in OUTPUTS:
        server.write(grant, b"row", name)
    at_once(server.storage.delete_topic("a", now_ms=NOW_MS))
    assert isinstance(server.end(grant, is_commit=True), ProducerGrant)
    assert server.committed(OUTPUTS[1]) == [b"row"]


def test_two_ask_for_the_same_end_at_once(server: Server) -> None:
    grant = server.init()
    server.write(grant, b"row", OUTPUTS[0])
    first, second = (server.ending(grant, is_commit=True) for _ in range(2))
    first.send(None)
    second.send(None)
    server.storage.transaction_log.partition.sync()
    markers = first.send(None)
    waits = second.send(None)
    assert not hasattr(waits, "partitions"), "it waits for the other"
    markers.partitions[0].sync()  # type: ignore[union-attr]
    for steps in (first, second):
        with pytest.raises(StopIteration) as ended:
            waits.happened = True  # type: ignore[union-attr]
            steps.send(None)
        assert ended.value.value == ProducerGrant(grant.producer_id, grant.producer_epoch + 1)
    assert server.log(OUTPUTS[0]).log_end_offset == 2, "one marker"


def test_a_batch_outside_a_transaction_does_not_enter_an_open_one(server: Server) -> None:
    grant = server.init()
    nameless = server.write(grant, b"row", OUTPUTS[0], name=None)
    assert nameless is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert server.write(grant, b"row", OUTPUTS[0], version=10) is ErrorCode.INVALID_TXN_STATE
    assert server.write(grant, b"row", OUTPUTS[0], version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert server.write(grant, b"row", OUTPUTS[0], name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert server.log(OUTPUTS[0]).log_end_offset == 0


def mark(server: Server, grant: ProducerGrant, partition: TopicPartition, *, ahead: int = 0) -> ErrorCode:
    """WriteTxnMarkers as a client sends it: an abort of an epoch that is so far ahead of the grant."""
    marker = {
        "producer_id": grant.producer_id,
        "producer_epoch": grant.producer_epoch + ahead,
        "transaction_result": False,
        "topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}],
        "coordinator_epoch": 0,
    }
    body = messages.encode_request(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [marker]})
    outcome = server.ask(ApiKey.WRITE_TXN_MARKERS, 1, body)
    answered = b"".join(map(bytes, carry_out(outcome).answer.parts))
    answer = messages.decode_response(ApiKey.WRITE_TXN_MARKERS, 1, answered)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_nobody_else_marks_what_the_coordinator_has_under_way(server: Server, ahead: int) -> None:
    """It would be aborted in one partition, and committed in the other."""
    server.init()
    grant = server.init()
    for partition in OUTPUTS:
        assert server.write(grant, b"row", partition) is ErrorCode.NONE
    assert mark(server, grant, OUTPUTS[0], ahead=ahead) is ErrorCode.INVALID_TXN_STATE
    ending = server.ending(grant, is_commit=True)
    ending.send(None)  # it is decided, and not yet durable
    assert mark(server, grant, OUTPUTS[0], ahead=ahead) is ErrorCode.INVALID_TXN_STATE
    server.run(ending)
    assert [server.committed(partition) for partition in OUTPUTS] == [[b"row"], [b"row"]]


def test_what_is_not_of_the_transaction_can_be_fenced(server: Server) -> None:
    """In other partitions, and once it has ended."""
    grant = server.init()
    assert server.write(grant, b"row", OUTPUTS[0]) is ErrorCode.NONE
    assert mark(server, grant, OUTPUTS[1], ahead=1) is ErrorCode.NONE
    ended = server.end(grant, is_commit=True)
    assert isinstance(ended, ProducerGrant)
    assert mark(server, ended, OUTPUTS[0], ahead=1) is ErrorCode.NONE
    assert server.write(ended, b"late", OUTPUTS[0]) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_pattern_of_a_stranger_is_matched_in_linear_time(server: Server) -> None:
    """Python's ``re`` would not come back: the server would hang."""
    server.init("a" * 1000)
    for pattern, found in (("(a+)+x", 0), ("(a|a)*", 1)):
        fields = {"state_filters": [], "producer_id_filters": [], "transactional_id_pattern": pattern}
        body = messages.encode_request(ApiKey.LIST_TRANSACTIONS, 2, fields)
        answered = carry_out(server.ask(ApiKey.LIST_TRANSACTIONS, 2, body)).answer.parts
        listed = messages.decode_response(ApiKey.LIST_TRANSACTIONS, 2, b"".join(map(bytes, answered)))
        assert ErrorCode(listed.error_code) is ErrorCode.NONE
        assert len(listed.transaction_states) == found


def test_names_of_a_folder_of_format_2_move_to_the_log_of_transactions(tmp_path: Path) -> None:
    from semel.core.decision import Decision, StateRecord

    older = Server(tmp_path / "data")
    record = StateRecord(b"identity/sink", b'{"v":1,"id":3,"epoch":9,"granted_ms":5}')
    older.storage.metadata_log.submit(Decision((record,), None), NOW_MS)
    older.storage.close(now_ms=NOW_MS)
    properties = tmp_path / "data" / "meta.properties"
    properties.write_text(properties.read_text().replace("semel.format.version=3", "semel.format.version=2"))
    server = Server(tmp_path / "data")
    assert server.storage.producer_ids.identities.named == {}
    assert server.init("sink") == ProducerGrant(3, 10)
    assert "semel.format.version=3" in properties.read_text()
    assert server.init("sink") == ProducerGrant(3, 11)
