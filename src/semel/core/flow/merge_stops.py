"""Why a merge log is not gone on with: another driver has it, or its topics are not what they were.

Each is a value with its evidence; nothing was recorded where one is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from semel.core.flow.merge import INPUTS_MAX, MergeHistory
from semel.core.flow.merge_records import InputTopic, MergeInput, PlacedEntry
from semel.core.sink.refusal import Reason, Refusal
from semel.wording import counted


class Lost(Enum):
    """How offsets that were to be read next have gone."""

    TRIMMED = "retention or a trim took them before they were read"
    BEHIND_END = "the log ends before them: it has lost its end"
    MADE_ANEW = "the topic was deleted and made anew, and these are offsets of the one before"
    DELETED = "the topic was deleted"


@dataclass(frozen=True, slots=True)
class InputLoss:
    """Offsets ``lost_from`` to ``lost_end`` (exclusive) of an input's partition are gone."""

    topic: str
    lost_from: int
    lost_end: int
    how: Lost


def overtaken(history: MergeHistory, epoch: int) -> Refusal | None:
    """Whether a newer driver's planner has the partition; ``None``: not that it is known."""
    if history.epoch <= epoch:
        return None
    by = f" ({history.owner})" if history.owner else ""
    return Refusal(
        Reason.SINK_FENCED,
        f"another driver{by} took the merge log over, with epoch {history.epoch}; this one has {epoch}. What this one "
        f"appended behind that counts for nobody, and what it recorded before stays",
    )


def made_anew(history: MergeHistory, inputs: Iterable[MergeInput]) -> InputLoss | None:
    """The first input whose name is that of another topic by now."""
    known = {key.topic: key for key in history.ends}
    for each in inputs:
        before = known.get(each.topic)
        if before is not None and before != each.key:
            end = history.ends[before]
            return InputLoss(each.topic, end, end, Lost.MADE_ANEW)
    return None


def trimmed(history: MergeHistory, log_starts: Mapping[InputTopic, int]) -> InputLoss | None:
    """The first input that begins behind what was planned of it."""
    for key, log_start in log_starts.items():
        end = history.ends.get(key)
        if end is not None and end < log_start:
            return InputLoss(key.topic, end, log_start, Lost.TRIMMED)
    return None


def behind_end(history: MergeHistory, latest: Mapping[InputTopic, int]) -> InputLoss | None:
    """The first input that ends before what was planned of it."""
    for key, log_end in latest.items():
        end = history.ends.get(key)
        if end is not None and log_end < end:
            return InputLoss(key.topic, log_end, end, Lost.BEHIND_END)
    return None


def too_many(history: MergeHistory, inputs: Iterable[MergeInput]) -> Refusal | None:
    """Whether an entry would have to tell of more inputs than there is room for; ``None``: not."""
    count = len({*history.ends, *(each.key for each in inputs)})
    if count <= INPUTS_MAX:
        return None
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"a stage merges at most {INPUTS_MAX} topics, those counted that it has merged before, and these are {count}",
    )


def left_out(entries: Iterable[PlacedEntry], topics: Collection[str]) -> Refusal | None:
    """Whether what is recorded and not decided has rows of a topic that the stage reads no more; ``None``: not.

    An entry is read as it was recorded or not at all, whoever wrote it.
    """
    for placed in entries:
        for each in placed.entry.ranges:
            if each.topic not in topics:
                return Refusal(
                    Reason.PLAN_NOT_SUPPORTED,
                    f"entry {placed.offset} of the merge log has rows of topic {each.topic!r}, and is not decided, and "
                    f"the stage does not read that topic any more: the flow was changed. Nothing was written. Run it "
                    f"as it was until it is at rest (--once), and then change it",
                )
    return None


def pairs(merge_topic: str, partition_count: int, inputs: Sequence[MergeInput]) -> Refusal | None:
    """Whether partition p of the merge log has one of every input beside it, as when it was made; ``None``: it has.

    A topic that was grown moves keys to other partitions, away from their state and from what they are joined with.
    """
    others = [each for each in inputs if each.partition_count != partition_count]
    if not others:
        return None
    said = " and ".join(f"{each.topic!r} has {counted(each.partition_count, 'partition')}" for each in others)
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"topic {merge_topic!r} records the order of {counted(partition_count, 'partition')}, and of its inputs "
        f"{said}. What is merged has one number of partitions, and keeps it: a topic that was grown has its keys "
        f"elsewhere by now. Nothing was recorded. Copy the input into a topic of {partition_count} with key_by, or run "
        f"the flow under another name, with topics made anew",
    )


def whole(topics: Mapping[str, Mapping[str, str | None]], merge_topic: str) -> Refusal | None:
    """Whether what is recorded stays what it is, by the settings of the inputs and of the merge log itself."""
    compacted = [name for name, config in topics.items() if "compact" in (config.get("cleanup.policy") or "")]
    if compacted:
        said = " and ".join(repr(name) for name in compacted)
        return Refusal(
            Reason.PLAN_NOT_SUPPORTED,
            f"{said}: cleanup.policy=compact takes rows from under a recorded range, so that reading it again would "
            f"give others. Nothing was recorded. Copy what is compacted into a topic that is not, and read that one",
        )
    config = topics.get(merge_topic, {})
    finite = [
        f"{name}={value}"
        for name in ("retention.ms", "retention.bytes")
        if (value := config.get(name)) is not None and int(value) >= 0
    ]
    if not finite:
        return None
    options = " ".join(f"-c {each.partition('=')[0]}=-1" for each in finite)
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"topic {merge_topic!r} is kept for a while only ({' and '.join(finite)}), and without the order that it "
        f"records nothing can be read again as it was. Nothing was recorded now. Set it with `semel topic "
        f"alter-config {merge_topic} {options}`",
    )
