"""Which leader wrote what: (leader epoch, its first offset), rising in both (KIP-101).

Follows Kafka's ``LeaderEpochFileCache``. The text form is its ``leader-epoch-checkpoint``: version, count,
one "epoch offset" a line.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from semel.types import NO_LEADER_EPOCH

UNDEFINED_OFFSET: Final = -1
LEADER_EPOCH_MAX: Final = 2**31 - 1
_STEP_MAX: Final = 1024
_CLOCK_FROM_MS: Final = 1_735_689_600_000  # 2025-01-01 UTC: in seconds the clock fits until 2093


class LeaderEpoch(NamedTuple):
    leader_epoch: int
    start_offset: int


LeaderEpochs: TypeAlias = tuple[LeaderEpoch, ...]


def next_leader_epoch(before: int, now_ms: int, random: int) -> int:
    """The leader epoch of a server that starts, above ``before``, which its data folder had last.

    A folder that is put back from an older copy has an older number. With a step of one, other rows at the same offsets
    would come under the same epoch. So epochs follow the clock: what starts later has a higher one, and a reader of
    what is lost is told where the two logs part. The step is drawn for what starts within one second, or with a clock
    that was set back.
    """
    clock_s = max(0, now_ms - _CLOCK_FROM_MS) // 1000
    return min(max(before, clock_s) + 2 + random % (_STEP_MAX - 1), LEADER_EPOCH_MAX)


def unsaved_leader_epoch(before: int) -> int:
    """The same where it cannot be saved: the next start's is above it all the same."""
    return min(before + 1, LEADER_EPOCH_MAX)


def assign(epochs: LeaderEpochs, leader_epoch: int, start_offset: int) -> LeaderEpochs:
    """``epochs`` after the leader of ``leader_epoch`` began to write at ``start_offset``."""
    if epochs and epochs[-1].leader_epoch >= leader_epoch:
        return epochs
    kept = tuple(one for one in epochs if one.start_offset < start_offset)
    return (*kept, LeaderEpoch(leader_epoch, start_offset))


def cut_end(epochs: LeaderEpochs, end_offset: int) -> LeaderEpochs:
    """``epochs`` of a log that was truncated to ``end_offset``."""
    return tuple(one for one in epochs if one.start_offset < end_offset)


def cut_start(epochs: LeaderEpochs, start_offset: int) -> LeaderEpochs:
    """``epochs`` of a log that now begins at ``start_offset``."""
    below = [one for one in epochs if one.start_offset <= start_offset]
    above = tuple(one for one in epochs if one.start_offset > start_offset)
    return (LeaderEpoch(below[-1].leader_epoch, start_offset), *above) if below else above


def end_offset_of(epochs: LeaderEpochs, leader_epoch: int, log_end_offset: int) -> LeaderEpoch:
    """The end of the largest known epoch at or below ``leader_epoch`` (OffsetForLeaderEpoch's answer)."""
    if not epochs or leader_epoch > epochs[-1].leader_epoch or leader_epoch < 0:
        return LeaderEpoch(NO_LEADER_EPOCH, UNDEFINED_OFFSET)
    if leader_epoch == epochs[-1].leader_epoch:
        return LeaderEpoch(leader_epoch, log_end_offset)
    known = bisect_right(epochs, leader_epoch, key=lambda one: one.leader_epoch)
    return LeaderEpoch(epochs[known - 1].leader_epoch if known else leader_epoch, epochs[known].start_offset)


def epoch_at(epochs: LeaderEpochs, offset: int) -> int | None:
    """Which epoch wrote ``offset``; ``None``: one that the log has forgotten."""
    begun = bisect_right(epochs, offset, key=lambda one: one.start_offset)
    return epochs[begun - 1].leader_epoch if begun else None


def parted(
    epochs: LeaderEpochs, last_fetched_epoch: int, fetch_offset: int, log_end_offset: int
) -> LeaderEpoch | None:
    """The end of what the log has in common with who has read up to ``fetch_offset``, of the epoch of the row in front;
    ``None``: all of it.

    Undefined where the log knows nothing of that epoch. Kafka's ``Partition.readRecords`` (KIP-595).
    """
    end = end_offset_of(epochs, last_fetched_epoch, log_end_offset)
    has_all = end.leader_epoch == last_fetched_epoch and fetch_offset <= end.start_offset
    return None if has_all else end


def encode_checkpoint(epochs: LeaderEpochs) -> bytes:
    lines = [f"{one.leader_epoch} {one.start_offset}\n" for one in epochs]
    return "".join(["0\n", f"{len(epochs)}\n", *lines]).encode()


def decode_checkpoint(content: bytes) -> LeaderEpochs | None:
    """The epochs in a checkpoint; ``None`` when it is not one."""
    try:
        version, count, *lines, behind = content.decode("ascii").split("\n")
        epochs = tuple(LeaderEpoch(*map(int, line.split(" "))) for line in lines)
        if int(version) != 0 or int(count) != len(epochs) or behind:
            return None
    except (ValueError, TypeError):
        return None
    rising = all(a < b and a[1] <= b[1] for a, b in pairwise(epochs))
    return epochs if rising else None
