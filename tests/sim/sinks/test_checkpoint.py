"""Which checkpoints may plan a micro-batch again with other ends."""

from __future__ import annotations

from semel.sim.sinks.checkpoint import Checkpoint
from semel.types import TopicPartition

SOURCE = TopicPartition("in.k0", 0)


def planned(*ends: int) -> Checkpoint:
    return Checkpoint("q", {SOURCE: 0}, "k0", ends=[{SOURCE: end} for end in ends], commits=len(ends))


def test_a_backup_is_old() -> None:
    assert planned(2, 5).copy().is_old


def test_without_its_last_offsets_entry_it_is_old() -> None:
    torn = planned(2, 5).torn(offsets_too=True)
    assert (torn.ends, torn.commits, torn.is_old) == ([{SOURCE: 2}], 1, True)


def test_without_its_last_commit_entry_it_is_old_once_somebody_plans_on_with_the_whole_one() -> None:
    whole = planned(2, 5)
    torn = whole.torn(offsets_too=False)
    torn_again = torn.torn(offsets_too=False)
    assert (len(torn.ends), torn.commits) == (2, 1)
    torn.ends.append({SOURCE: 9})
    assert not torn.is_old
    whole.ends.append({SOURCE: 22})
    assert torn.is_old
    assert torn_again.is_old
    assert not whole.is_old
