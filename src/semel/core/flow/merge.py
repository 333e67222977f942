"""The merge log: the order in which a stage reads its inputs, as records that count by their place in the log alone.

A stateful stage depends on how its inputs interleave and on where they are cut, so both are written down before a row
is read. Partition p of the merge log belongs to partition p of every input. Its records:

- HEAD: a planner takes the partition over. It counts if its epoch is above that of every HEAD before it that counts.
  The epoch is that of the FENCE by which the same driver took the stage's sink over before: who is fenced there can
  never take the merge log from who fenced it, however late its HEAD comes.
- ENTRY: a range of offsets of each input that had something new, or a TICK, which is a time and no range. It counts
  if it is of the newest HEAD's epoch, has the number that comes next, and goes on exactly where each input ended.

No record has a producer identity, and none is needed: what does not count is void for every reader, for ever,
because all read the same log in the same order. Hence, whatever is appended twice, late, or by a planner that was
overtaken:

- the entries that count are without a gap or an overlap for each input: each offset is in exactly one of them;
- a record that counts goes on to count, and one that is void stays void, when the log grows;
- an entry carries all that is known behind it, so that reading may begin behind any entry that counts, at the *planned
  end* ``its offset + 1``, and gives the same as reading from the start.

Offsets of the merge log are the stage's offsets: an entry belongs to ``[from, end)`` if its own offset does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from semel.core.sink.refusal import Reason, Refusal
from semel.wording import counted

FORMAT_VERSION: Final = 1
ENTRY_ROWS_MAX: Final = 65_536  # offsets of an entry, over all of its inputs
ENTRIES_MAX: Final = 64  # of a micro-batch, for each partition
INPUTS_MAX: Final = 64  # topics that a merge log ever had as inputs
NO_EPOCH: Final = -1  # of a partition that nobody has taken over


class InputTopic(NamedTuple):
    """A topic that is merged. One that was made anew under the name is another one."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class MergeInput:
    """An input as the planner of a HEAD found it."""

    topic: str
    topic_id: str
    partition_count: int

    @property
    def key(self) -> InputTopic:
        """What its offsets are known by."""
        return InputTopic(self.topic, self.topic_id)


@dataclass(frozen=True, slots=True)
class Head:
    """A planner took this partition over. ``owner`` says who, for the error of the one that it overtakes."""

    epoch: int  # the sink's, of the planner's driver
    owner: str
    inputs: tuple[MergeInput, ...]
    starts: Mapping[
        InputTopic, int
    ]  # where inputs begin that were never seen before: their log start offsets


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Offsets ``from_offset`` to ``end_offset`` (exclusive) of an input; never empty."""

    topic: str
    topic_id: str
    from_offset: int
    end_offset: int

    @property
    def key(self) -> InputTopic:
        """Which input."""
        return InputTopic(self.topic, self.topic_id)


@dataclass(frozen=True, slots=True)
class Entry:
    """The next ranges, to be read one after the other; or a TICK: no range, and a time."""

    epoch: int
    number: int  # how many entries that count stand before it
    ranges: tuple[EntryRange, ...]
    ends: Mapping[InputTopic, int]  # of every input ever seen, behind this entry
    tick_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry that counts, and where it stands."""

    offset: int
    entry: Entry


MergeRecord = Head | Entry


@dataclass(slots=True)
class MergeHistory:
    """What the records of one partition say, taken in in log order."""

    epoch: int = NO_EPOCH
    owner: str = ""  # of the newest HEAD; empty where reading began behind it
    entry_count: int = 0
    ends: dict[InputTopic, int] = field(default_factory=dict)
    planned_end: int = 0  # behind the last entry that counts

    @classmethod
    def at(cls, placed: PlacedEntry) -> MergeHistory:
        """As it is behind an entry that counts, whatever stands before it."""
        entry = placed.entry
        return cls(entry.epoch, "", entry.number + 1, dict(entry.ends), placed.offset + 1)

    def apply(self, offset: int, record: MergeRecord) -> bool:
        """Take the next record in; ``False`` for one that is void."""
        match record:
            case Head():
                if not self._takes_over(record):
                    return False
                self.epoch, self.owner = record.epoch, record.owner
                for each in record.inputs:
                    if each.key not in self.ends:
                        self.ends[each.key] = record.starts[each.key]
            case Entry():
                if not self._goes_on(record):
                    return False
                self.entry_count += 1
                self.ends = dict(record.ends)
                self.planned_end = offset + 1
        return True

    def _takes_over(self, head: Head) -> bool:
        ids = {known.topic: known.topic_id for known in self.ends}
        for each in head.inputs:
            if ids.setdefault(each.topic, each.topic_id) != each.topic_id:
                return False  # made anew: whoever sees it has to stop
            if each.key not in self.ends and each.key not in head.starts:
                return False
        return head.epoch > self.epoch and len(ids) <= INPUTS_MAX

    def _goes_on(self, entry: Entry) -> bool:
        if entry.epoch == NO_EPOCH or entry.epoch != self.epoch or entry.number != self.entry_count:
            return False
        if bool(entry.ranges) == (entry.tick_ms is not None):
            return False
        ends = dict(self.ends)
        for each in entry.ranges:
            # Once for each input: a second range of one does not begin where the input ended before the entry.
            if self.ends.get(each.key) != each.from_offset or each.end_offset <= each.from_offset:
                return False
            ends[each.key] = each.end_offset
        return len({each.key for each in entry.ranges}) == len(entry.ranges) and ends == entry.ends


def begun_behind(planned_end: int, records: Iterator[tuple[int, MergeRecord]]) -> MergeHistory | None:
    """The history at ``planned_end``, by the first of ``records``, which is to be the entry right before it; ``None``:
    there is none, so that this is no planned end."""
    offset, record = next(records, (None, None))
    if offset != planned_end - 1 or not isinstance(record, Entry):
        return None
    return MergeHistory.at(PlacedEntry(planned_end - 1, record))


def entries_between(
    records: Iterable[tuple[int, MergeRecord]], from_offset: int, end_offset: int
) -> list[PlacedEntry] | None:
    """The entries of ``[from_offset, end_offset)`` that count.

    ``records`` begin right before ``from_offset``, a planned end, or with the log itself where that is 0. ``None``:
    there stands no entry.
    """
    rest = iter(records)
    history = begun_behind(from_offset, rest) if from_offset else MergeHistory()
    if history is None:
        return None
    return [
        PlacedEntry(offset, record)
        for offset, record in rest
        if offset < end_offset and history.apply(offset, record) and isinstance(record, Entry)
    ]


# -- planning ------------------------------------------------------------------------------------------------


def next_head(
    history: MergeHistory,
    epoch: int,
    owner: str,
    inputs: Sequence[MergeInput],
    log_starts: Mapping[InputTopic, int],
) -> Head | InputLoss | Refusal | None:
    """The HEAD that takes the partition over for the driver of ``epoch``; ``None``: its HEAD is in the log already."""
    stop = (
        overtaken(history, epoch)
        or made_anew(history, inputs)
        or trimmed(history, log_starts)
        or _too_many(history, inputs)
    )
    if stop is not None:
        return stop
    starts = {each.key: log_starts[each.key] for each in inputs if each.key not in history.ends}
    if history.epoch != epoch:
        return Head(epoch, owner, tuple(inputs), starts)
    if not starts:
        return None
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"this driver, with epoch {epoch}, took the merge log over with other inputs: a flow that is "
        f"changed is started again",
    )


def plan_entries(
    history: MergeHistory,
    inputs: Sequence[InputTopic],
    latest: Mapping[InputTopic, int],
    epoch: int,
    *,
    rows_max: int = ENTRY_ROWS_MAX,
    entries_max: int = ENTRIES_MAX,
    tick_ms: int | None = None,
) -> list[Entry]:
    """What comes next: entries up to ``latest``, in proportion to what waits in each input.

    ``epoch`` is the planner's own. The ranges of an entry stand in the order of ``inputs``. A TICK comes last, and only
    where nothing is left to read: rows that wait would otherwise be late by it.
    """
    ends = dict(history.ends)
    entries: list[Entry] = []

    def add(ranges: tuple[EntryRange, ...], tick_ms: int | None = None) -> None:
        entries.append(Entry(epoch, history.entry_count + len(entries), ranges, dict(ends), tick_ms))

    while len(entries) < entries_max:
        backlog = {key: latest[key] - ends[key] for key in inputs if latest[key] > ends[key]}
        if not backlog:
            if tick_ms is not None:
                add((), tick_ms)
            break
        ranges = []
        for key, share in shares(backlog, rows_max).items():
            ranges.append(EntryRange(*key, ends[key], ends[key] + share))
            ends[key] += share
        add(tuple(ranges))
    return entries


def shares(backlog: Mapping[InputTopic, int], rows_max: int) -> dict[InputTopic, int]:
    """``rows_max`` in all, in proportion; who has anything gets at least 1, so that a slow input never waits for a
    fast one."""
    total = sum(backlog.values())
    if total <= rows_max:
        return dict(backlog)
    rest_max, rest = rows_max - len(backlog), total - len(backlog)
    if rest_max < 0:
        raise ValueError(f"{counted(rows_max, 'row')} cannot be shared by {counted(len(backlog), 'input')}")
    given, found = 0, {}
    before = 0
    for key, waiting in backlog.items():
        before += waiting - 1
        share = before * rest_max // rest - given  # rounded as a sum, so that nothing is left over
        found[key], given = 1 + share, given + share
    return found


# -- what stops it -------------------------------------------------------------------------------------------


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
            return InputLoss(each.topic, end, end + 1, Lost.MADE_ANEW)
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


def _too_many(history: MergeHistory, inputs: Iterable[MergeInput]) -> Refusal | None:
    count = len({*history.ends, *(each.key for each in inputs)})
    if count <= INPUTS_MAX:
        return None
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"a stage merges at most {INPUTS_MAX} topics, those counted that it has merged before, and these are {count}",
    )


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


# -- bytes ---------------------------------------------------------------------------------------------------


def encode(record: MergeRecord) -> tuple[bytes, bytes]:
    """Key and value."""
    match record:
        case Head():
            key: list[Any] = ["head", record.epoch]
            body: dict[str, Any] = {
                "owner": record.owner,
                "inputs": [[each.topic, each.topic_id, each.partition_count] for each in record.inputs],
                "starts": _offsets(record.starts),
            }
        case Entry():
            key = ["entry", record.epoch, record.number]
            body = {
                "number": record.number,
                "ranges": [
                    [each.topic, each.topic_id, each.from_offset, each.end_offset] for each in record.ranges
                ],
                "ends": _offsets(record.ends),
                "tick_ms": record.tick_ms,
            }
    return _json(key), _json({"v": FORMAT_VERSION, "kind": key[0], "epoch": record.epoch} | body)


def read_record(value: bytes | None) -> MergeRecord | None:
    """The record; ``None`` for one that cannot be a planner's, ``ValueError`` for one that may be and cannot be read.

    Anybody may write to the topic. What is of a planner, in this format or a later one, is a JSON object with the
    format's number.
    """
    try:
        body = None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or "v" not in body:
        return None
    if body["v"] != FORMAT_VERSION:
        raise ValueError(f"it is of format {body['v']}, and this semel knows {FORMAT_VERSION}")
    if body.get("kind") not in ("head", "entry"):
        raise ValueError(f"its kind {body.get('kind')!r} is not known")
    try:
        return _read(body)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its fields are not those of format {FORMAT_VERSION} ({error!r})") from None


def _read(body: dict[str, Any]) -> MergeRecord:
    epoch = _number(body["epoch"])
    if body["kind"] == "head":
        inputs = tuple(
            MergeInput(topic, topic_id, _number(count)) for topic, topic_id, count in body["inputs"]
        )
        return Head(epoch, body["owner"], inputs, _read_offsets(body["starts"]))
    ranges = tuple(
        EntryRange(topic, topic_id, _number(from_offset), _number(end_offset))
        for topic, topic_id, from_offset, end_offset in body["ranges"]
    )
    tick_ms = body["tick_ms"] if body["tick_ms"] is None else _number(body["tick_ms"])
    return Entry(epoch, _number(body["number"]), ranges, _read_offsets(body["ends"]), tick_ms)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no number")
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _offsets(offsets: Mapping[InputTopic, int]) -> list[list[Any]]:
    return [[key.topic, key.topic_id, offset] for key, offset in sorted(offsets.items())]


def _read_offsets(rows: list[list[Any]]) -> dict[InputTopic, int]:
    return {InputTopic(topic, topic_id): _number(offset) for topic, topic_id, offset in rows}
