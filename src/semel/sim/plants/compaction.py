"""The planted bugs of compaction: what must stay goes, what went comes back, or the log is not what it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from semel.core.log import cleaning_pass
from semel.core.log.cleaning import Fate
from semel.core.log.cleaning_pass import Checked, CleaningPass, Kept
from semel.core.producer_state.entry import ProducerEntry
from semel.record.batch import BatchHeader
from semel.record.index import Int64s
from semel.server.storage.cleaning import Cleaning
from semel.server.storage.segment import Segment
from semel.sim.plants.planting import DEFINITE, DENSE, ONCE, OPENS, REPLAYED, Patches, plant
from semel.sim.server.compaction import seed_is_compacted

NEWEST, ADDS = "newest_of_each_key_survives", "compaction_adds_nothing"

compaction_plant = partial(plant, may_show=seed_is_compacted)


# -- which records stay -------------------------------------------------------------------------------------


@compaction_plant("where a key is written twice in one pass, the older record stays", "here", NEWEST)
def compaction_keeps_the_oldest(patch: Patches) -> None:
    def stays(offset: Int64s, *rest: Any, **more: Any) -> npt.NDArray[np.bool_]:
        kept: npt.NDArray[np.bool_] = original(offset, *rest, **more)
        newest, read_to = rest[2], rest[3]
        return np.where((offset < read_to) & (newest >= 0), offset < newest, kept)

    original = patch.set(cleaning_pass, "records_that_stay", stays)


@compaction_plant("a tombstone goes with the first pass that sees it", "KIP-534", NEWEST)
def compaction_takes_tombstones_at_once(patch: Patches) -> None:
    def keeps(header: BatchHeader, now_ms: int) -> bool:
        return False

    patch.set(cleaning_pass, "keeps_tombstones", keeps)


@compaction_plant("what no longer fits into the map counts as read", "here", NEWEST)
def compaction_believes_a_full_map(patch: Patches) -> None:
    def reads(under_way: CleaningPass, batches: Sequence[Checked]) -> bool:
        original(under_way, batches)
        under_way.read_to = batches[-1][1].last_offset + 1
        return True

    original = patch.set(CleaningPass, "read", reads)


# -- whose they are -----------------------------------------------------------------------------------------


@compaction_plant("a producer's last batches go when their rows are old", "KIP-98", REPLAYED, DEFINITE, ONCE)
def compaction_forgets_windows(patch: Patches) -> None:
    def fate(header: BatchHeader, entry: ProducerEntry | None) -> Fate:
        return Fate()

    patch.set(cleaning_pass, "fate_of", fate)


@compaction_plant("a fence goes as a row without a key does", "here", REPLAYED, DEFINITE, ONCE)
def compaction_takes_fences(patch: Patches) -> None:
    def fate(
        header: BatchHeader, coordinator_epoch: int, entry: ProducerEntry | None, newest_offset: int | None
    ) -> Fate:
        return Fate(has_a_say=False)

    patch.set(cleaning_pass, "fate_of_marker", fate)


# -- the log itself -----------------------------------------------------------------------------------------


@compaction_plant("a compacted segment counts before it is synced", "here", NEWEST, OPENS, DENSE, ADDS)
def compaction_does_not_sync(patch: Patches) -> None:
    def ends(under_way: Cleaning, fresh: Segment, kept: Iterator[Kept]) -> None:
        under_way._write(fresh, kept)
        fresh.flush_indexes()
        fresh.freeze()

    patch.set(Cleaning, "_end", ends)
