"""Leases in a data folder: over at any sequence, over for ever, room kept, one length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.server.storage.conftest import Fence

from semel.core.identity import Refused
from semel.core.lease import STARTING_EPOCHS
from semel.core.producer_state.verdict import APPEND, Duplicate, LeaseExpired, UnknownProducer
from semel.errors import ErrorCode, StorageError
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import LEASED_IDS_FROM, Lease, ProducerGrant, TopicPartition

NOW_MS = 1_000_000
LEASE_MS = 1_000
TPS = (TopicPartition("t", 0), TopicPartition("t", 1))


class Leasing:
    """A data folder, a clock that only goes forward, and whoever serves the folder now."""

    def __init__(self, folder: Path, *, seed: int = 1, **settings: int) -> None:
        self.folder = folder
        self.settings = {"producer_lease_ms": LEASE_MS} | settings
        self.clock_ms = 50
        self.random = Random(seed)
        self.storage = self._open()
        if self.storage.topics.get("t") is None:
            at_once(self.storage.create_topic("t", 2, now_ms=NOW_MS))

    def _open(self) -> Storage:
        return Storage.open(
            self.folder,
            None,
            StorageSettings(**self.settings),  # type: ignore[arg-type]
            now_ms=NOW_MS,
            new_uuid=lambda: UUID(int=self.random.getrandbits(128)),
            monotonic_ms=lambda: self.clock_ms,
        )

    def restart(self, **settings: int) -> None:
        self.storage.close(now_ms=NOW_MS)
        self.settings |= settings
        self.storage = self._open()

    def __getitem__(self, number: int) -> Partition:
        found = self.storage.partition("t", number)
        assert found is not None
        return found

    def ask(self, partitions: tuple[TopicPartition, ...] = TPS, before: tuple[int, int] = (-1, -1)) -> Any:
        submitted = self.storage.init_producer(*before, partitions, now_ms=NOW_MS)
        assert submitted.error_message is None
        return submitted.response

    def lease(self, *asked: Any) -> Lease:
        granted = self.ask(*asked)
        assert isinstance(granted, Lease), granted
        return granted

    def expire(self) -> None:
        ids = self.storage.producer_ids
        to_sync = ids.expire_leases(NOW_MS)
        if to_sync is not None:
            to_sync.partition.sync()
            ids.judge_by_log()


@pytest.fixture
def leasing(tmp_path: Path) -> Leasing:
    return Leasing(tmp_path / "data")


Send = Callable[..., Any]


@pytest.fixture
def send(make_batch: Any) -> Iterator[Send]:
    def append(partition: Partition, grant: Lease | ProducerGrant, base_sequence: int) -> Any:
        batch, headers = make_batch(
            base_sequence, producer_id=grant.producer_id, epoch=grant.producer_epoch, timestamp_ms=NOW_MS
        )
        return partition.append(batch, headers, NOW_MS)

    yield append


def test_a_lease_begins_at_0_in_a_random_epoch_with_an_id_that_says_so(leasing: Leasing, send: Send) -> None:
    leases = [leasing.lease() for _ in range(8)]
    ids = [lease.producer_id for lease in leases]
    assert ids == sorted(set(ids))
    assert min(ids) >= LEASED_IDS_FROM
    epochs = {lease.producer_epoch for lease in leases}
    assert len(epochs) > 1
    assert epochs <= set(range(STARTING_EPOCHS))
    assert send(leasing[0], leases[0], 0).verdict is APPEND
    assert send(leasing[0], leases[0], 0).verdict == Duplicate(0)


def test_over_means_over_at_any_sequence_before_and_after_its_entry_went(
    leasing: Leasing, send: Send
) -> None:
    """First batch stored, answer lost, lease over: the late copy starts at 0 and would else be new."""
    lease = leasing.lease()
    send(leasing[0], lease, 0)
    leasing.clock_ms += LEASE_MS - 1
    leasing.expire()
    assert send(leasing[0], lease, 1).verdict is APPEND
    leasing.clock_ms += 1
    leasing.expire()
    over = LeaseExpired(lease.producer_id, lease.producer_id + 1)

    def all_refused() -> None:
        for sequence in (0, 1, 2):
            outcome = send(leasing[0], lease, sequence)
            assert outcome.verdict == over
            assert outcome.error_code is ErrorCode.UNKNOWN_PRODUCER_ID
            assert "over" in outcome.error_message
        assert send(leasing[1], lease, 0).verdict == over, "where it never wrote"

    all_refused()
    assert leasing.storage.producer_count == 1
    leasing.storage.maintain(NOW_MS)
    assert leasing.storage.producer_count == 0
    all_refused()
    leasing.restart()
    all_refused()
    assert leasing[0].log_end_offset == 2


def test_an_id_that_nobody_was_leased_is_refused_at_0_too(leasing: Leasing, send: Send) -> None:
    lease = leasing.lease()
    forged = ProducerGrant(lease.producer_id + 1, 0)
    assert send(leasing[0], forged, 0).verdict == UnknownProducer(forged.producer_id, 0)
    leasing.restart()
    assert send(leasing[0], forged, 0).error_code is ErrorCode.UNKNOWN_PRODUCER_ID


def test_an_id_that_nobody_was_leased_is_refused_below_later_leases_too(
    leasing: Leasing, send: Send, fence: Fence
) -> None:
    """Stock ids, and what is left of a block after a crash, leave gaps among the leased ids."""
    stock = leasing.storage.init_producer(now_ms=NOW_MS).response
    assert isinstance(stock, ProducerGrant)
    lease = leasing.lease()
    forged = ProducerGrant(LEASED_IDS_FROM + stock.producer_id, 0)
    assert forged.producer_id < lease.producer_id

    def all_refused() -> None:
        for sequence in (0, 1):
            outcome = send(leasing[0], forged, sequence)
            assert outcome.verdict == UnknownProducer(forged.producer_id, sequence)
            assert "was never leased" in outcome.error_message
        assert fence(leasing[0], forged.producer_id, 1).verdict == UnknownProducer(forged.producer_id, -1)

    all_refused()
    leasing.restart()
    all_refused()
    assert leasing[0].log_end_offset == 0
    assert send(leasing[0], lease, 0).verdict is APPEND


def test_a_lease_beyond_its_room_is_no_forgery(leasing: Leasing, send: Send) -> None:
    lease = leasing.lease(TPS[:1])
    assert [send(leasing[number], lease, 0).verdict for number in (0, 1)] == [APPEND, APPEND]


def test_leases_that_begin_in_one_write_take_the_room_that_was_kept_for_them(
    tmp_path: Path, make_batch: Any
) -> None:
    """Counted twice, as known and as kept for, it was in the way of the next of the same write."""
    leasing = Leasing(tmp_path / "data", producers_max=2)
    lease = leasing.lease(TPS[:1])
    began = [(lease.producer_id, lease.producer_epoch), (1, 0), (2, 0)]
    group = [Incoming(*make_batch(0, producer_id=n, epoch=epoch, timestamp_ms=NOW_MS)) for n, epoch in began]
    codes = [outcome.error_code for outcome in leasing[0].append_all(group, NOW_MS)]
    assert codes == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert leasing.storage.producer_count == 2


def test_stock_ids_are_no_leases(leasing: Leasing, send: Send) -> None:
    stock = leasing.storage.init_producer(now_ms=NOW_MS).response
    assert isinstance(stock, ProducerGrant)
    leasing.lease()
    assert send(leasing[0], stock, 0).verdict is APPEND
    leasing.clock_ms += 10 * LEASE_MS
    leasing.expire()
    leasing.storage.maintain(NOW_MS)
    assert send(leasing[0], stock, 1).verdict is APPEND, "an active one would outlive any lease"


def test_a_silent_lease_outlives_the_memory_of_silent_producers(tmp_path: Path, send: Send) -> None:
    leasing = Leasing(tmp_path / "data", producer_id_expiration_ms=10)
    lease = leasing.lease()
    send(leasing[0], lease, 0)
    leasing.storage.maintain(NOW_MS + 500)
    assert send(leasing[0], lease, 0).verdict == Duplicate(0)


def test_nobody_judges_by_an_expiry_that_is_not_durable(leasing: Leasing, send: Send) -> None:
    lease = leasing.lease()
    leasing.clock_ms += LEASE_MS
    to_sync = leasing.storage.producer_ids.expire_leases(NOW_MS)
    assert to_sync is not None
    leasing.storage.producer_ids.judge_by_log()
    assert send(leasing[0], lease, 0).verdict is APPEND
    assert leasing.storage.producer_ids.expire_leases(NOW_MS) is to_sync, "it asks until it is synced"
    to_sync.partition.sync()
    assert leasing.storage.producer_ids.expire_leases(NOW_MS) is None
    assert isinstance(send(leasing[0], lease, 1).verdict, LeaseExpired)


def test_an_end_that_is_not_durable_leaves_nothing_of_a_life(leasing: Leasing) -> None:
    """Else its holder was told of a whole life more, and a lease would be over here before it is there."""
    ids = leasing.storage.producer_ids
    lease = leasing.lease()
    assert ids.lease_remaining_ms(lease.producer_id) == LEASE_MS
    leasing.clock_ms += LEASE_MS
    to_sync = ids.expire_leases(NOW_MS)
    assert to_sync is not None
    assert ids.lease_remaining_ms(lease.producer_id) == 0
    to_sync.partition.sync()
    ids.judge_by_log()
    assert ids.lease_remaining_ms(lease.producer_id) == 0


def test_a_disk_slower_than_the_clock_of_leases_does_not_put_the_end_off(leasing: Leasing) -> None:
    """Every sync ends after the next leases are over; each still ends those that were over when it began."""
    ids = leasing.storage.producer_ids
    leases = [leasing.lease()]
    for _ in range(4):
        leasing.clock_ms += LEASE_MS // 2
        leases.append(leasing.lease())
    ended = []
    for _ in range(5):
        to_sync = ids.expire_leases(NOW_MS)
        assert to_sync is not None
        leasing.clock_ms += LEASE_MS // 2
        assert ids.expire_leases(NOW_MS) is to_sync
        to_sync.partition.sync()
        ids.judge_by_log()
        ended.append(ids.live_leases.expired_below)
        if ended[-1] > leases[-1].producer_id:
            break
    assert ended == sorted(set(ended)), "each sync ended some"
    assert ended[0] > leases[0].producer_id
    assert ended[-1] > leases[-1].producer_id


def test_lives_begin_again_with_a_restart(leasing: Leasing, send: Send) -> None:
    lease = leasing.lease()
    send(leasing[0], lease, 0)
    leasing.clock_ms += LEASE_MS
    leasing.restart()
    leasing.expire()
    assert send(leasing[0], lease, 1).verdict is APPEND
    assert leasing.lease(TPS, (lease.producer_id, lease.producer_epoch)).remaining_ms == LEASE_MS


def test_a_resumed_lease_is_the_same_lease_whoever_asks_how(leasing: Leasing, send: Send) -> None:
    lease = leasing.lease()
    send(leasing[0], lease, 0)
    by_number = leasing.storage.init_producer(lease.producer_id, lease.producer_epoch, now_ms=NOW_MS)
    assert isinstance(by_number.response, Lease)
    resumed = by_number.response
    assert (resumed.producer_id, resumed.producer_epoch) == (lease.producer_id, lease.producer_epoch + 1)
    twin = leasing.ask(TPS, (lease.producer_id, lease.producer_epoch))
    assert isinstance(twin, Refused)
    assert twin.error_code is ErrorCode.PRODUCER_FENCED
    assert send(leasing[0], resumed, 0).verdict is APPEND
    assert send(leasing[0], lease, 1).error_code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_stock_id_is_resumed_as_what_it_is(leasing: Leasing) -> None:
    stock = leasing.storage.init_producer(now_ms=NOW_MS).response
    assert isinstance(stock, ProducerGrant)
    assert leasing.ask(TPS, (stock.producer_id, 0)) == ProducerGrant(stock.producer_id, 1)


def test_a_lease_finds_the_room_that_it_asked_for(tmp_path: Path, send: Send) -> None:
    leasing = Leasing(tmp_path / "data", producers_max=3)
    bound = leasing.storage.producer_ids._bound
    lease = leasing.lease(TPS)
    assert bound.free == 1
    too_large = leasing.ask(TPS)
    assert isinstance(too_large, Refused)
    assert too_large.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert leasing.storage.producer_ids.leases_refused == 1
    assert send(leasing[0], ProducerGrant(1, 0), 0).verdict is APPEND
    assert send(leasing[0], ProducerGrant(2, 0), 0).error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert send(leasing[0], lease, 0).verdict is APPEND
    leasing.restart()
    bound = leasing.storage.producer_ids._bound
    assert (bound.known, bound.reserved, bound.free) == (2, 1, 0)
    assert send(leasing[1], lease, 0).verdict is APPEND
    assert (bound.known, bound.reserved) == (3, 0)

    leasing.clock_ms += LEASE_MS
    leasing.expire()
    leasing.storage.maintain(NOW_MS)
    assert bound.free == 2
    assert isinstance(leasing.ask(TPS), Lease)


def test_a_lease_that_names_more_when_it_is_resumed_finds_room_there_too(tmp_path: Path, send: Send) -> None:
    leasing = Leasing(tmp_path / "data", producers_max=3)
    bound = leasing.storage.producer_ids._bound
    lease = leasing.lease(TPS[:1])
    assert send(leasing[0], lease, 0).verdict is APPEND
    other = leasing.lease(TPS)
    in_the_way = leasing.ask(TPS, (lease.producer_id, lease.producer_epoch))
    assert isinstance(in_the_way, Refused)
    assert in_the_way.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert send(leasing[0], lease, 1).verdict is APPEND, "refused, it goes on as it was"
    leasing.restart(producers_max=4)
    bound = leasing.storage.producer_ids._bound
    resumed = leasing.lease(TPS, (lease.producer_id, lease.producer_epoch))
    assert (bound.known, bound.reserved, bound.free) == (1, 3, 0)
    leasing.restart()
    bound = leasing.storage.producer_ids._bound
    assert (bound.known, bound.reserved, bound.free) == (1, 3, 0)
    assert send(leasing[0], ProducerGrant(1, 0), 0).error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert send(leasing[1], resumed, 0).verdict is APPEND
    assert send(leasing[1], other, 0).verdict is APPEND
    leasing.clock_ms += LEASE_MS
    leasing.expire()
    leasing.storage.maintain(NOW_MS)
    assert (bound.known, bound.reserved) == (0, 0)


def test_room_that_was_not_used_is_free_once_the_lease_is_over(tmp_path: Path) -> None:
    leasing = Leasing(tmp_path / "data", producers_max=2)
    leasing.lease(TPS)
    assert isinstance(leasing.ask(()), Refused)
    leasing.clock_ms += LEASE_MS
    leasing.expire()
    assert isinstance(leasing.ask(()), Lease)


def test_room_that_was_used_is_there_at_once_when_the_lease_is_over(tmp_path: Path, send: Send) -> None:
    """Nobody lives: whoever comes must not wait for the next upkeep."""
    leasing = Leasing(tmp_path / "data", producers_max=2)
    for _ in range(3):
        lease = leasing.lease(TPS)
        assert [send(leasing[number], lease, 0).verdict for number in (0, 1)] == [APPEND, APPEND]
        assert isinstance(leasing.ask(()), Refused)
        assert leasing.storage.producer_count == 2
        leasing.clock_ms += LEASE_MS
        leasing.expire()
    stock = ProducerGrant(1, 0)
    assert send(leasing[0], stock, 0).verdict is APPEND
    assert isinstance(leasing.ask(TPS), Refused), "who lives is never forgotten"
    assert isinstance(leasing.ask(TPS[:1]), Lease)


@pytest.mark.parametrize("first", ["a lease", "a batch", "a fence"])
def test_whoever_wants_room_finds_what_leases_that_are_over_have_used(
    tmp_path: Path, send: Send, fence: Fence, first: str
) -> None:
    """Also in the first moment after their end, and after a restart that found their rows in the logs."""
    leasing = Leasing(tmp_path / "data", producers_max=4)
    ended = [leasing.lease(TPS) for _ in range(2)]
    for lease in reversed(ended):
        for number in (0, 1):
            assert send(leasing[number], lease, 0).verdict is APPEND
    leasing.clock_ms += LEASE_MS
    to_sync = leasing.storage.producer_ids.expire_leases(NOW_MS)
    assert to_sync is not None
    assert isinstance(leasing.ask(()), Refused), "not durable, so not over"
    to_sync.partition.sync()
    leasing.restart()
    assert leasing.storage.producer_count == 4
    if first == "a lease":
        assert isinstance(leasing.ask(TPS), Lease)
    elif first == "a batch":
        assert send(leasing[0], ProducerGrant(1, 0), 0).verdict is APPEND
    else:
        assert fence(leasing[0], 1, 1).error_code is ErrorCode.NONE
    bound = leasing.storage.producer_ids._bound
    known = [producer_id for partition in leasing.storage for producer_id, _ in partition.producers()]
    assert bound.known == len(known) < 4
    for lease in ended:
        assert isinstance(send(leasing[0], lease, 1).verdict, LeaseExpired)


def test_the_clock_of_leases_gives_their_memory_back(leasing: Leasing, send: Send) -> None:
    lease = leasing.lease(TPS)
    assert send(leasing[0], lease, 0).verdict is APPEND
    leasing.clock_ms += LEASE_MS
    leasing.expire()
    leasing.expire()
    assert leasing.storage.producer_count == 0


def test_a_fence_of_a_lease_that_is_over_has_nothing_to_do(leasing: Leasing, fence: Fence) -> None:
    lease = leasing.lease()
    leasing.clock_ms += LEASE_MS
    leasing.expire()

    assert fence(leasing[0], lease.producer_id, 1).error_code is ErrorCode.NONE
    assert fence(leasing[0], lease.producer_id + 1, 1).error_code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert leasing[0].log_end_offset == 0
    live = leasing.lease()
    assert fence(leasing[0], live.producer_id, 1).error_code is ErrorCode.NONE
    assert leasing[0].log_end_offset == 1


def test_the_length_stays_as_long_as_a_lease_lives(leasing: Leasing) -> None:
    leasing.lease()
    with pytest.raises(StorageError, match=rf"is 5000, and leases of {LEASE_MS} ms live"):
        leasing.restart(producer_lease_ms=5_000)
    leasing.restart(producer_lease_ms=LEASE_MS)
    leasing.clock_ms += LEASE_MS
    leasing.expire()
    leasing.restart(producer_lease_ms=5_000)
    assert leasing.lease().length_ms == 5_000


def test_an_old_copy_of_the_folder_gives_an_id_out_again_at_another_epoch(
    tmp_path: Path, crashed: Callable[[Storage, str], Path], send: Send
) -> None:
    """The id block is in the copy, so both give out the same id; one of the two holders is fenced for good."""
    leasing = Leasing(tmp_path / "data")
    leasing.lease()
    copy = Leasing(crashed(leasing.storage, "copy"), seed=2)
    again = copy.lease()
    while (first := leasing.lease()).producer_id < again.producer_id:
        pass
    assert first.producer_id == again.producer_id
    older, newer = sorted((first, again), key=lambda lease: lease.producer_epoch)
    assert older.producer_epoch < newer.producer_epoch, "for all but one of 16,384 pairs of seeds"
    assert send(leasing[0], older, 0).verdict is APPEND
    assert send(leasing[0], newer, 0).verdict is APPEND
    assert send(leasing[0], older, 1).error_code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_leases_survive_a_compaction_of_their_log(leasing: Leasing, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = [leasing.lease(()) for _ in range(1200)]
    log = leasing.storage.metadata_log
    log.partition.sync()
    log._compact_above_bytes = 0
    assert at_once(log.compact_if_large(NOW_MS))
    before = list(leasing.storage.producer_ids.leases)
    leasing.restart()
    assert list(leasing.storage.producer_ids.leases) == before
    assert [one.producer_id for one in before] == [lease.producer_id for lease in leases]
