"""The proof of the proof: each known bug, switched on, is found within 100 seeds, and by whom it should be."""

from collections.abc import Callable

import pytest

from semel.core.log import recovery
from semel.core.producer_state import entry as entry_of
from semel.core.producer_state import snapshot, verdict
from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.core.producer_state.state import ProducerState
from semel.record.batch import decode_header
from semel.server.storage import opening, snapshots
from semel.server.storage.partition import Partition
from semel.sim.disk import SimulatedFile
from semel.sim.swarm import run_seeds

SEEDS_MAX = 300
Plant = Callable[[pytest.MonkeyPatch], None]


def ack_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "high_watermark", property(lambda partition: partition.log_end_offset))


def sync_that_does_not(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedFile, "fdatasync", lambda file: None)


def window_of_four(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(entry_of, "WINDOW_BATCHES_MAX", 4)


def snapshot_without_window(patch: pytest.MonkeyPatch) -> None:
    original = snapshot.encode_snapshot

    def last_batch_only(state: ProducerState) -> bytes:
        entries = {
            producer_id: entry._replace(window=entry.window[-1:]) for producer_id, entry in list(state)
        }
        return original(ProducerState(entries, end_offset=state.end_offset))

    patch.setattr(snapshots, "encode_snapshot", last_batch_only)


def wrap_by_magnitude(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdict, "distance", lambda newer, older: newer - older)


def append_on_gap(patch: pytest.MonkeyPatch) -> None:
    original = ProducerState.judge

    def lenient(state: ProducerState, *arguments: object) -> object:
        found = original(state, *arguments)  # type: ignore[arg-type]
        return verdict.APPEND if isinstance(found, verdict.OutOfOrderSequence) else found

    patch.setattr(ProducerState, "judge", lenient)


def unknown_producer_appends(patch: pytest.MonkeyPatch) -> None:
    original = ProducerState.judge

    def kafkas(state: ProducerState, *arguments: object) -> object:
        found = original(state, *arguments)  # type: ignore[arg-type]
        return verdict.APPEND if isinstance(found, verdict.UnknownProducer) else found

    patch.setattr(ProducerState, "judge", kafkas)


def epochs_not_fenced(patch: pytest.MonkeyPatch) -> None:
    original = ProducerState.judge

    def lenient(state: ProducerState, *arguments: object) -> object:
        found = original(state, *arguments)  # type: ignore[arg-type]
        return verdict.APPEND if isinstance(found, verdict.InvalidProducerEpoch) else found

    patch.setattr(ProducerState, "judge", lenient)


def recovery_trusts_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "validate_batch", decode_header)  # the header, without the CRC


def recovery_forgets_the_producers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        opening, "_replay", lambda segment, state, now_ms: setattr(state, "end_offset", segment.end_offset)
    )


def first_duplicate_offset(patch: pytest.MonkeyPatch) -> None:
    """The wrong batch of the window answers (rp5356)."""

    def shifted(
        self: ProducerEntry, producer_epoch: int, span: BatchSpan, timestamp_ms: int
    ) -> ProducerEntry:
        wrong = span._replace(base_offset=span.base_offset + 1)
        return original(self, producer_epoch, wrong, timestamp_ms)

    original = ProducerEntry.with_batch
    patch.setattr(ProducerEntry, "with_batch", shifted)


PLANTS = [
    (ack_before_sync, {"acknowledged_is_stored", "one_value_per_offset", "high_watermark_rises"}),
    (sync_that_does_not, None),  # a loss, or a log that is damaged below its recovery point
    (window_of_four, {"answers_are_definite", "recovered_state_equals_replay"}),
    (snapshot_without_window, {"answers_are_definite", "recovered_state_equals_replay"}),
    (wrap_by_magnitude, {"answers_are_definite"}),
    (append_on_gap, {"answers_are_definite"}),
    (unknown_producer_appends, {"answers_are_definite"}),
    (epochs_not_fenced, {"answers_are_definite"}),
    (recovery_trusts_a_torn_tail, None),  # it ends in whatever reads the garbage first
    (recovery_forgets_the_producers, {"recovered_state_equals_replay"}),
    (first_duplicate_offset, {"answers_are_definite", "recovered_state_equals_replay"}),
]


@pytest.mark.parametrize(("plant", "by"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_planted_bug_is_found(plant: Plant, by: set[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    report = run_seeds(0, SEEDS_MAX, stop_at_first=True)
    assert report.failures, f"{plant.__name__} was not found in {SEEDS_MAX} seeds"
    violation = report.failures[0].violation
    assert violation is not None
    if by is not None:
        assert violation.split(":")[0] in by, violation
