"""What a data folder does with blocks of ids that come from elsewhere, in time, late or never."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.core.identity import BLOCK_IDS, IdBlock, Refused
from semel.errors import ErrorCode
from semel.server.storage.storage import Storage
from semel.types import LEASED_IDS_FROM, Lease, ProducerGrant, TopicPartition

NOW_MS = 1_000_000
TPS = (TopicPartition("t", 0),)


class Elsewhere:
    """Gives what the test puts in, and notes what was asked for."""

    def __init__(self) -> None:
        self.ready: list[IdBlock] = []
        self.floors: list[int] = []

    def claim_ahead(self, floor_id: int) -> None:
        self.floors.append(floor_id)

    def take(self, floor_id: int) -> IdBlock | None:
        return self.ready.pop(0) if self.ready else None


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def storage(tmp_path: Path, elsewhere: Elsewhere) -> Storage:
    return Storage.open(tmp_path / "data", now_ms=NOW_MS, id_blocks=elsewhere)


def code(response: object) -> ErrorCode:
    assert isinstance(response, Refused)
    return response.error_code


def fresh(storage: Storage) -> int:
    granted = storage.init_producer(now_ms=NOW_MS).response
    assert isinstance(granted, ProducerGrant)
    return granted.producer_id


def test_the_first_block_is_asked_for_at_once(storage: Storage, elsewhere: Elsewhere) -> None:
    assert elsewhere.floors == [0]


def test_without_a_block_whoever_needs_a_fresh_id_is_told_to_come_again(
    storage: Storage, elsewhere: Elsewhere
) -> None:
    again = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code(storage.init_producer(now_ms=NOW_MS).response) is again
    assert code(storage.init_producer(lease_partitions=TPS, now_ms=NOW_MS).response) is again
    elsewhere.ready = [IdBlock(700, 800)]
    assert fresh(storage) == 700
    lease = storage.init_producer(lease_partitions=TPS, now_ms=NOW_MS).response
    assert isinstance(lease, Lease)
    assert lease.producer_id == LEASED_IDS_FROM + 701


def test_who_goes_on_with_an_id_needs_no_fresh_one(storage: Storage, elsewhere: Elsewhere) -> None:
    elsewhere.ready = [IdBlock(0, 2)]
    assert fresh(storage) == 0
    lease = storage.init_producer(lease_partitions=TPS, now_ms=NOW_MS).response
    assert isinstance(lease, Lease)
    assert storage.init_producer(0, 0, now_ms=NOW_MS).response == ProducerGrant(0, 1)
    resumed = storage.init_producer(lease.producer_id, lease.producer_epoch, TPS, now_ms=NOW_MS)
    assert isinstance(resumed.response, Lease)
    assert resumed.response.producer_epoch == lease.producer_epoch + 1


def test_the_next_block_is_asked_for_when_half_is_used(storage: Storage, elsewhere: Elsewhere) -> None:
    elsewhere.ready = [IdBlock(0, BLOCK_IDS)]
    for _ in range(BLOCK_IDS // 2 - 1):
        fresh(storage)
    assert elsewhere.floors == [0]
    fresh(storage)
    assert elsewhere.floors == [0, BLOCK_IDS], "from the end of the one in use on"


def test_a_restart_asks_for_more_than_it_had(storage: Storage, elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.ready = [IdBlock(700, 800)]
    fresh(storage)
    storage.close(now_ms=NOW_MS)
    Storage.open(tmp_path / "data", now_ms=NOW_MS, id_blocks=elsewhere).close(now_ms=NOW_MS)
    assert elsewhere.floors[-1] == 800


def test_alone_again_a_folder_goes_on_from_its_own_log(
    storage: Storage, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    elsewhere.ready = [IdBlock(700, 800)]
    fresh(storage)
    storage.close(now_ms=NOW_MS)
    alone = Storage.open(tmp_path / "data", now_ms=NOW_MS)
    assert fresh(alone) == 800
    alone.close(now_ms=NOW_MS)
