"""What a strict producer counts as stored, whatever the order of its answers."""

from semel.core.client.fate import Stored
from semel.core.client.progress import Progress
from semel.core.client.saved import SavedIdentity, SavedPartition
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("events", 0)
GRANT = ProducerGrant(7, 0)


def progress_of(rows: int) -> Progress:
    progress = Progress(SavedIdentity("loader", 7, 0), save_interval_ms=0)
    progress.note_topic("events", {0: SavedPartition(0, 0, 0, 0)})
    for row in range(rows):
        progress.at(row, row)
        assert progress.hand(TP)
    progress.mark(rows)
    return progress


def test_an_answer_vouches_for_all_sequences_before_it() -> None:
    """Found by seed 100: the answers of 0 and 1 were lost with their connection, that of 2 came over a new one.

    Saved then, "one row, up to sequence 2" let a restarted copy send the last two rows again.
    """
    progress = progress_of(3)
    progress.stored(TP, Stored(GRANT, 2, 12, -1), 1)
    saved = progress.to_save()
    assert saved is not None
    assert (saved.partitions[TP].stored, saved.partitions[TP].last_sequence) == (3, 2)
    assert (saved.partitions[TP].counted, saved.partitions[TP].counted_to_offset) == (3, 13)


def test_a_late_answer_of_an_earlier_batch_changes_nothing() -> None:
    progress = progress_of(3)
    progress.stored(TP, Stored(GRANT, 2, 12, -1), 1)
    progress.stored(TP, Stored(GRANT, 0, 10, -1), 2)
    saved = progress.to_save()
    assert saved is not None
    assert (saved.partitions[TP].stored, saved.partitions[TP].last_sequence) == (3, 2)
    assert saved.partitions[TP].counted_to_offset == 13
