"""The second opinion on the room of leases knows of no grant that a crash undid."""

from __future__ import annotations

from semel.sim.server.lease_rooms import RoomLedger
from semel.types import LEASED_IDS_FROM, TopicPartition

LEASE = LEASED_IDS_FROM
FIRST, SECOND, THIRD = (TopicPartition("events", number) for number in range(3))


def resumed_ledger() -> RoomLedger:
    """Of a lease that asked for one partition at epoch 7, and for two more when it was resumed."""
    ledger = RoomLedger()
    ledger.issued(LEASE, 7, 1)
    ledger.wrote(LEASE, FIRST)
    ledger.resumed(LEASE, 8, [FIRST, SECOND, THIRD])
    assert ledger.left(LEASE) == 2
    return ledger


def test_a_lease_resumed_has_room_for_what_it_names() -> None:
    ledger = resumed_ledger()
    ledger.restarted(LEASE + 1, {LEASE: 8})
    assert ledger.left(LEASE) == 3  # until the partitions say where it has written
    ledger.wrote(LEASE, FIRST)
    assert ledger.left(LEASE) == ledger.kept == 2


def test_a_resume_that_a_crash_undid_has_no_room() -> None:
    ledger = resumed_ledger()
    ledger.restarted(LEASE + 1, {LEASE: 7})
    ledger.wrote(LEASE, FIRST)
    assert ledger.left(LEASE) == ledger.kept == 0
    assert ledger.lacks(LEASE, [FIRST, SECOND]) == 1


def test_a_grant_that_a_crash_undid_has_no_room() -> None:
    ledger = resumed_ledger()
    ledger.restarted(LEASE, {})
    assert ledger.kept == 0


def test_a_lease_that_a_restart_does_not_find_keeps_its_claim() -> None:
    ledger = resumed_ledger()
    ledger.restarted(LEASE + 1, {})
    assert ledger.kept == 3
