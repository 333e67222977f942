"""What a torn checkpoint may plan again."""

from __future__ import annotations

import pytest

from semel.sim.sinks.checkpoint import Checkpoint
from semel.types import TopicPartition

SOURCE = TopicPartition("in.k0", 0)


@pytest.mark.parametrize("offsets_too", [False, True])
@pytest.mark.parametrize("goes_on_elsewhere", [False, True])
def test_a_torn_checkpoint_is_old_if_the_whole_one_has_planned_more_or_will(offsets_too, goes_on_elsewhere):
    whole = Checkpoint("q", {SOURCE: 0}, "k0", ends=[{SOURCE: 2}, {SOURCE: 5}], commits=2)
    torn = whole.torn(offsets_too=offsets_too, goes_on_elsewhere=goes_on_elsewhere)
    assert (len(torn.ends), torn.commits) == (1 if offsets_too else 2, 1)
    assert torn.is_old == (offsets_too or goes_on_elsewhere)
