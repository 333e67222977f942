"""The records of the decision log (topic ``__semel_sinks``), their bytes, and their keys.

A driver's records (FENCE, BEGIN, DECISION) carry the sink's own producer id and epoch, so the log itself
refuses an older driver once a newer FENCE is in. A task's claims (WRITER, OUTPUT), of which the first one counts,
carry a producer id of their own: a shared sequence would be answered "duplicate" and not be stored, and without any a
copy of the first one would be stored behind the second. Of its ATTEMPTs and CUTs it does not matter which copy is read.

The topic is compacted, and a record's key is its own identity (format 2): its kind, its sink, its run, and what tells
it from all others. So no record replaces another one, least of all one that counts for nothing
(:mod:`semel.core.sink.history`) one that counts; a copy of itself may, and says the same. What is settled goes by a
tombstone that the holder of the sink puts (:mod:`semel.core.sink.litter`). Of format 1, whose keys name a kind and a
sink, the last of a key may count for nothing: a topic that holds such records must be kept whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Final, NamedTuple

from semel.core.sink.committed_state import CommittedState, read_states, states_body
from semel.core.sink.digest import Digest
from semel.core.sink.epochs import generation_of
from semel.core.sink.output_marks import OutputMark, OutputMarks
from semel.core.sink.ranges import writers_of
from semel.core.sink.routing import Routing
from semel.types import NO_PRODUCER_ID, TopicPartition
from semel.types import SINKS_TOPIC as SINKS_TOPIC

FORMAT_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, FORMAT_VERSION)


@dataclass(frozen=True, slots=True)
class Fence:
    """A driver took over. ``owner`` says who, for the error of the one that it fences.

    ``query`` is the same for every planner process of one running query, and empty where that is not known.
    ``producer_id`` is that of the sink's identity: another one under the same name means that the name was
    forgotten, and that its epochs began anew.
    """

    sink_id: str
    sink_epoch: int
    owner: str
    query: str = ""
    producer_id: int = NO_PRODUCER_ID  # not known

    def follows(self, before: Fence | None) -> bool:
        """Whether it counts behind ``before``: in a later generation, or by a later grant of the same identity."""
        if before is None:
            return True
        if generation_of(self.sink_epoch) != generation_of(before.sink_epoch):
            return self.sink_epoch > before.sink_epoch
        is_same = self.producer_id == before.producer_id or NO_PRODUCER_ID in (
            self.producer_id,
            before.producer_id,
        )
        return is_same and self.sink_epoch > before.sink_epoch


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of one writer in one output partition that stand in the log undecided."""

    digest: Digest
    end_offset: int  # after the last of them


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """The output as this run sees it; a run never spreads rows over partitions that came later."""

    topic: str
    topic_id: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """WRITER: a task's proposal of a producer id for a writer; the first of a name wins for every attempt."""

    sink_id: str
    writer: str
    producer_id: int
    sink_epoch: int


@dataclass(frozen=True, slots=True)
class OutputClaim:
    """OUTPUT: a task met a topic that its run did not know; the first of a name wins for every task.

    ``starts`` are the topic's ends at that time: the rows that this sink has in it stand at or after them.
    """

    sink_id: str
    sink_epoch: int
    output: OutputTopic
    starts: Mapping[TopicPartition, int]
    task_attempt_id: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a task is about to write that may not be the only one: whoever decides has to look."""

    sink_id: str
    writer: str
    sink_epoch: int
    task_attempt_id: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The range of a source partition, durable before its first row, where more depends on it than is written.

    Where splits begin depends on where the range ends, so a writer "1 of 2" of another range has other rows. And
    where another query writes than decided last, that one may come back and find more rows than it has.
    """

    sink_id: str
    sink_epoch: int
    source: TopicPartition
    batch_from: int
    batch_end: int
    split_count: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class WriterOutput:
    """One writer in one output partition, as of a decision."""

    next_sequence: int  # at the run's writer epoch
    digest: Digest  # of the decided micro-batch's rows
    surplus_from: int | None = None  # rows from this offset on are stored but belong to a later micro-batch


@dataclass(frozen=True, slots=True)
class WriterState:
    """One writer as of a decision; writers that were idle in it are carried forward."""

    producer_id: int
    rows_total: (
        int  # that have no numbers of their own, over all decided micro-batches: those of null-key rows go on
    )
    outputs: Mapping[TopicPartition, WriterOutput]


@dataclass(frozen=True, slots=True)
class NamedWrite:
    """A version of named batch writes: whose rows it has, and which."""

    version: int
    query_id: str | None  # None: a batch job's, of no streaming query
    batch_id: int | None
    row_count: int = 0
    row_hash: int = 0  # whatever their order


@dataclass(frozen=True, slots=True)
class Decision:
    """The micro-batch is in the output, and will not be written again."""

    sink_id: str
    sink_epoch: int
    query_id: str
    batch_id: int
    source_ends: Mapping[TopicPartition, int]
    row_count: int
    row_hash: int
    writers: Mapping[str, WriterState]
    output_ends: Mapping[TopicPartition, int]
    closed: bool = False  # the run ended with it: the next planner begins a new one
    txn_version: int | None = None
    source_ids: Mapping[str, str] = field(default_factory=dict)  # by topic, of ``source_ends``; where known
    versions: tuple[NamedWrite, ...] = ()  # the last so many that were decided, this one at the end
    states: Mapping[str, CommittedState] = field(default_factory=dict)  # as of ``source_ends``, by writer
    state_plan: str = ""  # what made the states; empty: the sink keeps none
    sequence: int = (
        -1
    )  # of the record, under the run's identity: later ones have higher ones. -1: of format 1
    # Leader epochs under which the sources had all rows up to ``source_ends``; where known.
    source_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    output_marks: OutputMarks = field(default_factory=dict)  # where known; also of earlier micro-batches

    def follows(self, before: Decision | None) -> bool:
        """Whether it counts behind ``before``: in a later run, or later in the same one."""
        if before is None or self.sink_epoch != before.sink_epoch:
            return before is None or self.sink_epoch > before.sink_epoch
        return self.sequence < 0 or self.sequence > before.sequence

    def covers(self, before: Decision) -> bool:
        """Whether nothing that ``before`` settled would be open again without it."""
        topics = {tp.topic for tp in before.source_ends}
        return (
            self.sink_epoch == before.sink_epoch
            and self.txn_version is before.txn_version is None
            and all(self.source_ends.get(tp, -1) >= end for tp, end in before.source_ends.items())
            and all(self.source_ids.get(topic) == before.source_ids.get(topic) for topic in topics)
        )

    @property
    def is_reset(self) -> bool:
        """Nothing before it matters (``semel sink reset``)."""
        return self.batch_id < 0


@dataclass(frozen=True, slots=True)
class Carried:
    """What the decision log said of the sink when a run's driver had read it behind its FENCE.

    Whoever reads the BEGIN needs nothing that stands in front of it: neither what was swept nor what is left of it, of
    which some may now seem to count that never did.
    """

    fence: Fence  # the run's own
    other_fence: Fence | None = None
    former_id: int = NO_PRODUCER_ID
    writers: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # producer ids by generation
    cuts: tuple[Cut, ...] = ()
    decision: Decision | None = None  # the newest
    has_decision: bool = (
        True  # False: too large to be written twice, so what stands in front of BEGIN goes on to count
    )


@dataclass(frozen=True, slots=True)
class Begin:
    """Rows of run ``sink_epoch`` follow: durable before the first of them."""

    sink_id: str
    sink_epoch: int
    outputs: tuple[OutputTopic, ...]  # every topic that the sink has ever written, and the option's
    scanned_from: Mapping[TopicPartition, int]
    have: Mapping[tuple[str, TopicPartition], Stored] = field(default_factory=dict)
    routing: Routing | None = None  # None: no row is written in this run
    plan: str = ""  # of a flow's stage: what its rows are made by. It binds as long as rows are undecided
    carried: Carried | None = None  # None: of format 1

    @property
    def is_whole(self) -> bool:
        """Whether nothing in front of it matters any more."""
        return self.carried is not None and self.carried.has_decision

    def has_rows_of(self, source: TopicPartition) -> bool:
        """Whether undecided rows of ``source`` were found."""
        return any(writer.startswith(writers_of(source)) for writer, _ in self.have)


JournalRecord = Fence | Begin | WriterClaim | OutputClaim | Attempt | Cut | Decision
_KINDS: Final[Mapping[type[JournalRecord], str]] = {
    Fence: "fence",
    Begin: "begin",
    WriterClaim: "writer",
    OutputClaim: "output",
    Attempt: "attempt",
    Cut: "cut",
    Decision: "decision",
}


class Entry(NamedTuple):
    """A record as it lies in the log."""

    key: bytes
    sink_id: str
    record: JournalRecord | None  # None: a tombstone
    format_version: int = FORMAT_VERSION


def encode(record: JournalRecord) -> tuple[bytes, bytes]:
    """Key and value."""
    match record:
        case Fence():
            names: list[Any] = [record.producer_id]
            body = _fence_body(record)
        case Begin():
            names = [] if record.carried is None else [record.carried.fence.producer_id]
            body = {
                "outputs": [_output_body(output) for output in record.outputs],
                "scanned_from": _offsets(record.scanned_from),
                "have": [
                    [writer, *tp, stored.digest.to_list(), stored.end_offset]
                    for (writer, tp), stored in sorted(record.have.items())
                ],
                "routing": record.routing and astuple(record.routing),
            }
            if record.plan:
                body["plan"] = record.plan
            if record.carried is not None:
                body["carried"] = _carried_body(record.carried)
        case WriterClaim():
            names = [record.producer_id, record.writer]
            body = {"writer": record.writer, "producer_id": record.producer_id}
        case OutputClaim():
            names = [record.task_attempt_id, record.output.topic]
            body = {
                "output": _output_body(record.output),
                "starts": _offsets(record.starts),
                "task_attempt_id": record.task_attempt_id,
            }
        case Attempt():
            names = [record.task_attempt_id, record.writer]
            body = {"writer": record.writer, "task_attempt_id": record.task_attempt_id}
        case Cut():
            body = _cut_body(record)
            names = list(body.values())
        case Decision():
            names = [record.sequence]
            body = _decision_body(record)
    kind = _KINDS[type(record)]
    key = [kind, record.sink_id, record.sink_epoch, *names]
    head = {"v": FORMAT_VERSION, "kind": kind, "sink_id": record.sink_id, "sink_epoch": record.sink_epoch}
    return _json(key), _json(head | body)


def is_fence_of(key: bytes | None, sink_id: str) -> bool:
    """Whether it is the key of a FENCE of ``sink_id``, of any format."""
    fields = _parsed(key)
    return isinstance(fields, list) and fields[:2] == ["fence", sink_id]


def read_entry(key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> Entry | None:
    """The record; ``None`` for one that cannot be ours, ``ValueError`` for one that may be and cannot be read.

    Anybody may write to the topic. Ours, of this format and of any later one, have a key that is a JSON list of kind
    and sink id, and a value that is a JSON object with the format's number. A batch whose bytes have changed is
    refused by its CRC before this, so what has neither was never ours, and holds no decision: it may be passed over.
    What has one of them may be a decision, and is never passed over.
    """
    sink_id = _sink_of(key)
    if value is None:
        return None if key is None or sink_id is None else Entry(key, sink_id, None)
    if sink_id is None and not _has_our_head(value):
        return None
    try:
        body = json.loads(value)
        record = _record_of(body, producer_id)
        return Entry(key or b"", record.sink_id, record, body["v"])
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its fields are not those of format {FORMAT_VERSION} ({error!r})") from None


def _sink_of(key: bytes | None) -> str | None:
    """Whose record has this key; ``None``: nobody's."""
    fields = _parsed(key)
    is_ours = (
        isinstance(fields, list) and len(fields) >= 2 and all(isinstance(field, str) for field in fields[:2])
    )
    return fields[1] if is_ours else None


def _has_our_head(value: bytes) -> bool:
    body = _parsed(value)
    return isinstance(body, dict) and "v" in body


def _parsed(text: bytes | None) -> Any:
    """JSON; ``None`` for what is none."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def decode(value: bytes, producer_id: int = NO_PRODUCER_ID) -> JournalRecord:
    """The record; ``ValueError`` for one of a later format, which must not be guessed at.

    ``producer_id`` is the one of its batch: a FENCE that does not name it was written under that one.
    """
    return _record_of(json.loads(value), producer_id)


def _record_of(body: Any, producer_id: int) -> JournalRecord:
    if body["v"] not in READABLE_VERSIONS:
        raise ValueError(
            f"a record of format {body['v']} in {SINKS_TOPIC}: this semel knows those up to {FORMAT_VERSION}"
        )
    sink_id, sink_epoch = body["sink_id"], body["sink_epoch"]
    if not isinstance(sink_id, str) or not isinstance(sink_epoch, int):
        raise TypeError("its sink id is no text, or its epoch no number")
    match body["kind"]:
        case "fence":
            return _read_fence(sink_id, sink_epoch, body, producer_id)
        case "begin":
            return Begin(
                sink_id,
                sink_epoch,
                tuple(OutputTopic(*output) for output in body["outputs"]),
                _read_offsets(body["scanned_from"]),
                {
                    (writer, TopicPartition(topic, number)): Stored(Digest.from_list(digest), end_offset)
                    for writer, topic, number, digest, end_offset in body["have"]
                },
                _read_routing(body.get("routing")),
                body.get("plan", ""),
                None if "carried" not in body else _read_carried(sink_id, sink_epoch, body["carried"]),
            )
        case "writer":
            return WriterClaim(sink_id, body["writer"], body["producer_id"], sink_epoch)
        case "output":
            return OutputClaim(
                sink_id,
                sink_epoch,
                OutputTopic(*body["output"]),
                _read_offsets(body["starts"]),
                body["task_attempt_id"],
            )
        case "attempt":
            return Attempt(sink_id, body["writer"], sink_epoch, body["task_attempt_id"])
        case "cut":
            return _read_cut(sink_id, sink_epoch, body)
        case "decision":
            return _read_decision(sink_id, sink_epoch, body)
        case kind:
            raise ValueError(f"a record of unknown kind {kind!r} in {SINKS_TOPIC}")


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _output_body(output: OutputTopic) -> list[Any]:
    return [output.topic, output.topic_id, output.partition_count]


def _offsets(offsets: Mapping[TopicPartition, int]) -> list[list[Any]]:
    return [[tp.topic, tp.partition, offset] for tp, offset in sorted(offsets.items())]


def _read_routing(row: list[Any] | None) -> Routing | None:
    return None if row is None else Routing(row[0], tuple(row[1]), row[2])


def _read_offsets(rows: list[list[Any]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): offset for topic, number, offset in rows}


def _read_versions(body: Mapping[str, Any]) -> tuple[NamedWrite, ...]:
    """An older DECISION says of its own version only how many rows it has, and proves nothing by that."""
    if "versions" not in body and body["txn_version"] is not None:
        return (NamedWrite(body["txn_version"], None, None, body["row_count"], -1),)
    return tuple(NamedWrite(*write) for write in body.get("versions", ()))


def _decision_body(record: Decision) -> dict[str, Any]:
    body = {
        "query_id": record.query_id,
        "batch_id": record.batch_id,
        "source_ends": _offsets(record.source_ends),
        "source_ids": dict(sorted(record.source_ids.items())),
        "row_count": record.row_count,
        "row_hash": record.row_hash,
        "writers": {name: _writer_body(state) for name, state in sorted(record.writers.items())},
        "output_ends": _offsets(record.output_ends),
        "closed": record.closed,
        "txn_version": record.txn_version,
        "versions": [astuple(write) for write in record.versions],
        "sequence": record.sequence,
    }
    if record.source_epochs:
        body["source_epochs"] = _offsets(record.source_epochs)
    if record.output_marks:
        body["output_marks"] = [[*tp, *mark] for tp, mark in sorted(record.output_marks.items())]
    if record.state_plan:
        body["state_plan"] = record.state_plan
    if record.states:
        body["states"] = states_body(record.states)
    return body


def _read_decision(sink_id: str, sink_epoch: int, body: Mapping[str, Any]) -> Decision:
    return Decision(
        sink_id,
        sink_epoch,
        body["query_id"],
        body["batch_id"],
        _read_offsets(body["source_ends"]),
        body["row_count"],
        body["row_hash"],
        {name: _read_writer(state) for name, state in body["writers"].items()},
        _read_offsets(body["output_ends"]),
        body["closed"],
        body["txn_version"],
        body.get("source_ids", {}),
        _read_versions(body),
        read_states(body.get("states", {})),
        body.get("state_plan", ""),
        body.get("sequence", -1),
        _read_offsets(body.get("source_epochs", [])),
        {
            TopicPartition(topic, number): OutputMark(end_offset, leader_epoch)
            for topic, number, end_offset, leader_epoch in body.get("output_marks", ())
        },
    )


def _fence_body(record: Fence) -> dict[str, Any]:
    return {"owner": record.owner, "query": record.query, "producer_id": record.producer_id}


def _read_fence(sink_id: str, sink_epoch: int, body: Mapping[str, Any], producer_id: int) -> Fence:
    return Fence(sink_id, sink_epoch, body["owner"], body["query"], body.get("producer_id", producer_id))


def _cut_body(record: Cut) -> dict[str, Any]:
    return {
        "source": [*record.source],
        "batch_from": record.batch_from,
        "batch_end": record.batch_end,
        "split_count": record.split_count,
        "topic_id": record.topic_id,
    }


def _read_cut(sink_id: str, sink_epoch: int, body: Mapping[str, Any]) -> Cut:
    return Cut(
        sink_id,
        sink_epoch,
        TopicPartition(*body["source"]),
        body["batch_from"],
        body["batch_end"],
        body["split_count"],
        body.get("topic_id"),
    )


def _carried_body(carried: Carried) -> dict[str, Any]:
    """Records of the same sink, each with its run's epoch; of the run's own FENCE that is BEGIN's."""
    other, decision = carried.other_fence, carried.decision
    body: dict[str, Any] = {
        "fence": _fence_body(carried.fence),
        "other_fence": other and [other.sink_epoch, _fence_body(other)],
        "former_id": carried.former_id,
        "writers": {
            name: [[*each] for each in sorted(ids.items())] for name, ids in sorted(carried.writers.items())
        },
        "cuts": [[cut.sink_epoch, _cut_body(cut)] for cut in carried.cuts],
    }
    if carried.has_decision:
        body["decision"] = decision and [decision.sink_epoch, _decision_body(decision)]
    return body


def _read_carried(sink_id: str, sink_epoch: int, body: Mapping[str, Any]) -> Carried:
    other, decision = body["other_fence"], body.get("decision")
    return Carried(
        _read_fence(sink_id, sink_epoch, body["fence"], NO_PRODUCER_ID),
        other and _read_fence(sink_id, other[0], other[1], NO_PRODUCER_ID),
        body["former_id"],
        {name: dict(ids) for name, ids in body["writers"].items()},
        tuple(_read_cut(sink_id, cut_epoch, cut) for cut_epoch, cut in body["cuts"]),
        decision and _read_decision(sink_id, decision[0], decision[1]),
        "decision" in body,
    )


def _writer_body(state: WriterState) -> dict[str, Any]:
    return {
        "producer_id": state.producer_id,
        "rows_total": state.rows_total,
        "outputs": [
            [*tp, output.next_sequence, output.digest.to_list(), output.surplus_from]
            for tp, output in sorted(state.outputs.items())
        ],
    }


def _read_writer(body: dict[str, Any]) -> WriterState:
    return WriterState(
        body["producer_id"],
        body["rows_total"],
        {
            TopicPartition(topic, number): WriterOutput(next_sequence, Digest.from_list(digest), surplus_from)
            for topic, number, next_sequence, digest, surplus_from in body["outputs"]
        },
    )
