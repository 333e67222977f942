"""One flow, run for a test: rows in, a run to the end, rows out; and once more, to see whether it comes out the same.

The flow runs on a real server, in topics of its own, with the same tasks and decisions as anywhere. The first run gives
the rows; it does each part of what is given in one go. The second one has the same rows under other circumstances: in
two halves, in small micro-batches and small entries, and each stage is killed in front of its first decision and
started again. What has to be the same (:mod:`semel.flow.sameness`) and is not fails the test: a step is no function of
its rows. Then each stage of the second run is held against a replay of what it has recorded, in one piece: there
everything has to be the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from semel.core.dead_letter import AT_HEADER, WHY_HEADER
from semel.core.flow.codec import decode_rows, key_bytes, keys_of_rows
from semel.core.flow.pieces import STEP_HEADER
from semel.core.flow.record import Record as StepRecord
from semel.core.sink.own_topics import OWN_TOPIC_CONFIGS
from semel.errors import BrokerError, ConfigError, ErrorCode, FlowStopped, NonDeterministicReplay, StepFailed
from semel.flow.here import StageHere
from semel.flow.plan import PARTITION_COUNT, Input, Plan, Stage, StageKind
from semel.flow.replay import replay
from semel.flow.rows_out import RECORD_OVERHEAD_BYTES
from semel.flow.run import check_has_spark
from semel.flow.sameness import Keyed, Sameness, differences, sameness
from semel.flow.stage_ranges import Cuts
from semel.flow.topics import MESSAGE_BYTES_MAX, made_topics, sized_configs
from semel.flow.value import Flow
from semel.record.batch import Record, decode_records, encode_batch
from semel.record.columnar import BATCH_BYTES_MAX
from semel.record.partitioner import partition_for_key
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.reading import read_range
from semel.spark.sink_log import produce_until_answered
from semel.types import LATEST_TIMESTAMP, TopicPartition
from semel.wording import counted

Given = Mapping[str, Sequence[Any]]

_BATCH_ROWS: Final = 10_000
_ROW_BYTES: Final = 64  # of a record, beside key and value
_PARTS: Final = 4  # micro-batches, and entries, that the second run makes of what a stage finds
_DIFFERENCES_SHOWN: Final = 3


class NotTheSame(AssertionError):
    """A flow gave other rows for the same rows: a step of it is no function of them."""


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """What :func:`record` gives."""

    value: Any
    key: Any
    partition: int | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


def record(
    value: Any,
    *,
    key: Any = None,
    partition: int | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    timestamp_ms: int | None = None,
) -> GivenRecord:
    """A row with more than its value: ``record(None, key="ann")``, ``record({"user": "ann"}, partition=1)``.

    ``key`` is text, bytes, or a value for each column of the source's key. Rows without ``timestamp_ms`` have the time
    at which the test runs them.
    """
    return GivenRecord(value, key, partition, tuple(headers), timestamp_ms)


@dataclass(frozen=True, slots=True)
class Aside:
    """A row that went to the bad or the late ones."""

    value: Any
    why: str
    step: str
    at: str  # which row of its topic it is: topic/partition/offset


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Mapping[str, list[Any]]):
    """What a flow wrote: ``outcome["visits"]`` are the rows of a topic, as dicts.

    They come partition after partition: rows of one key are in the order in which they were written, and nothing says
    which of two keys comes first, but that it is the same in every run. ``bad`` and ``late`` are the rows that no step
    took, with the reason.
    """

    topics: Mapping[str, list[Any]]
    records: Mapping[str, list[StepRecord]] = field(default_factory=dict)  # of these rows: key, time, headers
    bad: list[Aside] = field(default_factory=list)
    late: list[Aside] = field(default_factory=list)

    def __getitem__(self, topic: str) -> list[Any]:
        if topic not in self.topics:
            raise KeyError(f"the flow writes {', '.join(self.topics)}, and not {topic}")
        return self.topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)

    def __repr__(self) -> str:
        told = [f"{topic}: {counted(len(rows), 'row')}" for topic, rows in self.topics.items()]
        return f"<{', '.join(told)}, {len(self.bad)} bad, {len(self.late)} late>"

    def last(self, topic: str, *columns: str) -> dict[Any, Any]:
        """The last row of each value of ``columns`` (a tuple of values, of several), as a table has it."""
        if not columns:
            raise ConfigError('last(topic, "column") names the columns of the key')
        return {
            row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns): row
            for row in self[topic]
        }


class Trials:
    """``trials(flow, {"clicks": [...]})``: runs flows for tests on one server, each time in topics of their own.

    ``spark`` gives the session for flows that have steps of Spark's; it is asked for once one comes.
    """

    def __init__(self, bootstrap: str, folder: Path, spark: Callable[[], Any], name: str = "") -> None:
        self._bootstrap, self._folder, self._spark, self._name = bootstrap, folder, spark, name
        self._count = 0
        self.now_ms = 0  # of the rows of both runs: a step may look at it
        self.last_outcome: Outcome | None = None

    def __call__(self, flow: Flow, *given: Given) -> Outcome:
        """Put rows into the sources, run the flow to its end, and return what it wrote.

        ``given`` is rows by source topic: dicts, dataclasses, a value as text or bytes, ``None``, or :class:`record`.
        Several are put and worked on one after the other. Sources have one partition, so that rows keep their order;
        those that are declared with a key have four, and rows get the key of their columns.

        It is run twice, under other circumstances, and :class:`NotTheSame` is raised where that changes its rows.
        """
        if not isinstance(flow, Flow):
            raise TypeError(
                f"run(flow, rows) takes a flow, and this is a {type(flow).__name__}: end it with .to(...)"
            )
        plan = flow.plan()
        check_has_spark(plan)
        _refuse_unknown(plan, given)
        self._count += 1
        self.now_ms = this_process().clock.now_ms()
        first = _Run(self, plan, f"semel-test-{self._name}{self._count}-")
        for part in given:
            first.put(part)
            first.run_on()
        if not given:
            first.run_on()
        outcome = self.last_outcome = first.outcome()
        second = _Run(self, plan, f"semel-test-{self._name}{self._count}-again-")
        try:
            for part in given:
                for half in _halves(part):
                    second.put(half)
                    second.run_otherwise()
        except _Differs as differs:
            raise _differs_from_itself(plan.stage(differs.stage), first, second) from differs
        _refuse_other(plan, first, second)
        second.refuse_other_replay(plan)
        return outcome


class _Run:
    """One run of a plan, in topics whose names begin with ``prefix``."""

    def __init__(self, trials: Trials, plan: Plan, prefix: str) -> None:
        self._trials, self._prefix, self._named = trials, prefix, plan
        self._connection = Connection(trials._bootstrap, f"semel-flow-test-{prefix}")
        self.cluster = connect(self._connection)
        counts = _source_counts(_prefixed(plan, prefix))
        self.plan = _prefixed(plan, prefix).with_partition_counts(counts)
        self.partition_counts = counts | {own.name: own.partition_count for own in self.plan.own_topics}
        self._sources = {read.topic: read for stage in self.plan.stages for read in reversed(stage.inputs)}
        self._killed: set[str] = set()
        self._make_topics()

    def _make_topics(self) -> None:
        """By one request, which is faster than one after the other; of a user's outputs any number will do."""
        own = [each.name for each in self.plan.own_topics]
        outputs = dict.fromkeys(self.plan.output_topics, PARTITION_COUNT)
        sized = sized_configs(MESSAGE_BYTES_MAX)
        configs = {name: {**OWN_TOPIC_CONFIGS, **sized} for name in own} | dict.fromkeys(outputs, sized)
        self.cluster.create_topics(outputs | self.partition_counts, configs=configs)
        self.plan = made_topics(self.cluster, self.plan)

    def prefixed(self, topic: str) -> str:
        """The run's own topic for one of the plan's."""
        return self._prefix + topic

    # -- rows in ---------------------------------------------------------------------------------------------

    def put(self, given: Given) -> None:
        """One record for each row."""
        waiting: dict[TopicPartition, list[Record]] = {}
        for name, rows in given.items():
            topic = self._prefix + name
            for row in rows:
                partition, made = self._record(self._sources[topic], row)
                waiting.setdefault(TopicPartition(topic, partition), []).append(made)
        for tp, records in waiting.items():
            for batch in self._batches(tp.topic, records):
                answer = produce_until_answered(self.cluster, {tp: bytes(batch)})[tp]
                if answer.error_code:
                    topic = tp.topic.removeprefix(self._prefix)
                    raise BrokerError(
                        ErrorCode.of(answer.error_code), f"putting the rows given for {topic!r}"
                    )

    def _batches(self, topic: str, records: Sequence[Record]) -> Iterator[bytearray]:
        """As a producer would cut them: a row that no topic takes is told, and not left out of a run."""
        waiting: list[Record] = []
        size_bytes = 0
        for each in records:
            row_bytes = len(each.key or b"") + len(each.value or b"")
            row_bytes += sum(len(name) + len(value or b"") for name, value in each.headers)
            if row_bytes + RECORD_OVERHEAD_BYTES > BATCH_BYTES_MAX:
                raise ConfigError(
                    f"a row given for source {topic.removeprefix(self._prefix)!r} is of {row_bytes} bytes, key and "
                    f"value, and the topics of a test take rows of up to {BATCH_BYTES_MAX - RECORD_OVERHEAD_BYTES}"
                )
            if len(waiting) == _BATCH_ROWS or size_bytes + row_bytes + _ROW_BYTES > BATCH_BYTES_MAX:
                yield encode_batch(waiting)
                waiting, size_bytes = [], 0
            waiting.append(each)
            size_bytes += row_bytes + _ROW_BYTES
        yield encode_batch(waiting)

    def _record(self, read: Input, row: Any) -> tuple[int, Record]:
        given = row if isinstance(row, GivenRecord) else record(row)
        value = _bytes_of(given.value)
        count = self.partition_counts[read.topic]
        key = _key_of(read, given, value)
        partition = given.partition
        if partition is None:
            partition = 0 if key is None else partition_for_key(key, count)
        if not 0 <= partition < count:
            raise ConfigError(
                f"source {read.topic.removeprefix(self._prefix)!r} has {counted(count, 'partition')} in a test, and a "
                f"row is for {partition}"
            )
        time_ms = self._trials.now_ms if given.timestamp_ms is None else given.timestamp_ms
        return partition, Record(0, time_ms, key, value, given.headers)

    # -- running ---------------------------------------------------------------------------------------------

    def run_on(self) -> None:
        """To the end of what there is; a stage with steps of Spark's on Spark."""
        with _named_as_written(self._prefix):
            for stage in self.plan.stages:
                if stage.kind is StageKind.FRAME:
                    self._on_spark(stage, Cuts())
                else:
                    self._here(stage, Cuts())

    def run_otherwise(self) -> None:
        """The same in small pieces; the first time, each stage is killed in front of its first decision."""
        with _named_as_written(self._prefix):
            for stage in self.plan.stages:
                if stage.kind is StageKind.FRAME:
                    self._on_spark(stage, Cuts())  # each start takes seconds: the halves are its pieces
                    continue
                cuts = self._small(stage)
                if stage.name not in self._killed and self._stage(stage, cuts).step(is_killed=True):
                    self._killed.add(stage.name)
                try:
                    self._here(stage, cuts)
                except NonDeterministicReplay as differs:
                    raise _Differs(stage.name) from differs

    def _stage(self, stage: Stage, cuts: Cuts) -> StageHere:
        return StageHere(stage, self._connection, cuts, self._trials._folder)

    def _here(self, stage: Stage, cuts: Cuts) -> None:
        running = self._stage(stage, cuts)
        while running.step() is not None:
            pass

    def _on_spark(self, stage: Stage, cuts: Cuts) -> None:
        from semel.flow.on_spark import FlowOnSpark

        plan = dataclasses.replace(self.plan, stages=(stage,))
        spark = self._trials._spark()
        store = self._trials._folder
        FlowOnSpark(plan, self._connection.bootstrap, spark, cuts=cuts, store=store).run_to_the_end()

    def _small(self, stage: Stage) -> Cuts:
        ends = self._ends([read.topic for read in stage.inputs])
        return Cuts(
            rows_max=max(1, ceil(sum(ends.values()) / _PARTS)),
            entries_max=1,
            entry_rows_max=max(1, ceil(max(ends.values(), default=0) / _PARTS)),
        )

    def _ends(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        partitions = [
            TopicPartition(topic, number)
            for topic in dict.fromkeys(topics)
            for number in sorted(self.cluster.topic(topic).partitions)
        ]
        listed = self.cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {tp: each.offset for tp, each in listed.items()}

    # -- rows out --------------------------------------------------------------------------------------------

    def records(self, topic: str) -> Iterator[Record]:
        """All of a topic, partition after partition."""
        for tp, end in self._ends([topic]).items():
            for batches in read_range(self.cluster, tp, 0, end):
                for batch, header in batches:
                    if not header.is_control:
                        yield from decode_records(batch)

    def keyed(self, topic: str) -> list[Keyed]:
        """Their keys and values."""
        return [(each.key, each.value) for each in self.records(topic)]

    def refuse_other_replay(self, plan: Plan) -> None:
        """Of the recorded entries each stage gives the same rows and the same state, however it came to them.

        Stages with steps of Spark's are left out: they have no state, and were compared.
        """
        for replayed in replay(self.plan, self._connection.bootstrap).stages:
            if not replayed.holds:
                told = [str(each).replace(self._prefix, "") for each in replayed.differences]
                raise _not_the_same(plan.stage(replayed.stage), "replayed from what it has recorded", told)

    def outcome(self) -> Outcome:
        """What the test is given."""
        return Outcome(
            {
                topic: [_read(each.value) for each in self.records(self._prefix + topic)]
                for topic in self._named.output_topics
            },
            {
                topic: [
                    StepRecord(each.key, each.timestamp_ms, each.headers)
                    for each in self.records(self._prefix + topic)
                ]
                for topic in self._named.output_topics
            },
            [self._aside(each) for each in self.records(self.plan.bad_topic)],
            [self._aside(each) for each in self.records(self.plan.late_topic)],
        )

    def _aside(self, row: Record) -> Aside:
        headers = {name: (value or b"").decode(errors="replace") for name, value in row.headers}
        at = headers.get(AT_HEADER, "").removeprefix(self._prefix)
        return Aside(_read(row.value), headers.get(WHY_HEADER, ""), headers.get(STEP_HEADER, ""), at)


# --- plans --------------------------------------------------------------------------------------------------


def _prefixed(plan: Plan, prefix: str) -> Plan:
    """The same flow under another name, with other topics."""

    def named(topic: str) -> str:
        return prefix + topic

    def every(topics: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(named, topics))

    stages = tuple(
        dataclasses.replace(
            stage,
            flow=prefix + stage.flow,
            inputs=tuple(dataclasses.replace(read, topic=named(read.topic)) for read in stage.inputs),
            output=dataclasses.replace(stage.output, topic=named(stage.output.topic)),
            partitions_like=None if stage.partitions_like is None else named(stage.partitions_like),
        )
        for stage in plan.stages
    )
    own = tuple(
        dataclasses.replace(each, name=named(each.name), like=None if each.like is None else named(each.like))
        for each in plan.own_topics
    )
    together = tuple(
        dataclasses.replace(group, external=every(group.external), internal=every(group.internal))
        for group in plan.together
    )
    return dataclasses.replace(
        plan, flow=prefix + plan.flow, stages=stages, own_topics=own, together=together
    )


def _source_counts(plan: Plan) -> dict[str, int]:
    """One partition, so that rows keep their order; more where they have a key; equal ones where topics meet."""
    keyed = {read.topic for stage in plan.stages for read in stage.inputs if read.is_promised}
    counts = {topic: PARTITION_COUNT if topic in keyed else 1 for topic in plan.source_topics}
    fixed: dict[str, int] = {}
    for _ in range(len(plan.together) + 1):
        for group in plan.together:
            if not group.external:
                continue
            known = [fixed[topic] for topic in group.external if topic in fixed]
            if group.partition_count is not None or known:
                count = known[0] if group.partition_count is None else group.partition_count
                fixed |= dict.fromkeys(group.external, count)
            else:
                count = min(counts[topic] for topic in group.external)
            counts |= dict.fromkeys(group.external, count)
    return counts | fixed


def _refuse_unknown(plan: Plan, given: Sequence[Given]) -> None:
    for part in given:
        if not isinstance(part, Mapping):
            raise TypeError(
                f'run(flow, {{"topic": [rows]}}) takes rows by topic, and this is a {type(part).__name__}'
            )
        for topic in part:
            if topic not in plan.source_topics:
                raise ConfigError(
                    f"flow {plan.flow!r} reads {', '.join(plan.source_topics)}, and rows were given for {topic!r}"
                )


# --- rows ---------------------------------------------------------------------------------------------------


def _bytes_of(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _key_of(read: Input, given: GivenRecord, value: bytes | None) -> bytes | None:
    key = given.key
    if key is None:
        return _key_in(read, value)
    if isinstance(key, bytes):
        return key
    return (
        key.encode()
        if isinstance(key, str)
        else key_bytes(read.key, key if isinstance(key, tuple) else (key,))
    )


def _key_in(read: Input, value: bytes | None) -> bytes | None:
    """Of a source that promises that its key is in its columns."""
    if not read.is_promised or read.schema is None or value is None:
        return None
    names = tuple(each.name for each in read.key)
    columns = read.schema.select(names)  # its other columns may be bad
    rows = decode_rows(columns, pa.array([value], pa.binary())).rows
    made: bytes | None = keys_of_rows(columns, names, rows)[0].as_py() if rows else None
    return made


def _read(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def _halves(given: Given) -> list[Given]:
    """The rows of each topic in two parts; those that are few, in one."""
    if all(len(rows) < 2 for rows in given.values()):
        return [given]
    return [
        {topic: rows[: ceil(len(rows) / 2)] for topic, rows in given.items()},
        {topic: rows[ceil(len(rows) / 2) :] for topic, rows in given.items()},
    ]


# --- the same? ----------------------------------------------------------------------------------------------


class _Differs(Exception):
    """The sink has found that a stage gives other rows than those of it that are stored."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


def _differs_from_itself(stage: Stage, first: _Run, second: _Run) -> NotTheSame:
    """What stands there of the killed attempt may show it beside the first run; of the second one nothing is stored."""
    one, other = (run.keyed(run.prefixed(stage.output.topic)) for run in (first, second))
    found = [each for each in differences(Sameness.IN_ORDER, one, other) if not each.is_missing]
    return _not_the_same(stage, "killed and started again on the same rows", list(map(str, found)))


def _refuse_other(plan: Plan, first: _Run, second: _Run) -> None:
    same = sameness(first.plan, first.partition_counts)
    for stage in plan.stages:
        topic = stage.output.topic
        owed = same[first.prefixed(topic)]
        if owed is Sameness.NONE:
            continue
        one, other = (run.keyed(run.prefixed(topic)) for run in (first, second))
        found = differences(owed, one, other)
        if found:
            raise _not_the_same(stage, "run on the same rows in other pieces", list(map(str, found)))


def _not_the_same(stage: Stage, how: str, told: Sequence[str]) -> NotTheSame:
    steps = ", ".join(step.name for step in stage.steps)
    lines = [
        f"stage {stage.name} ({steps or 'no steps'}; {stage.site}) is not deterministic: {how}, it wrote other rows to "
        f"{stage.output.topic}{':' if told else '.'}",
        *(f"  {each}" for each in told[:_DIFFERENCES_SHOWN]),
    ]
    if len(told) > _DIFFERENCES_SHOWN:
        lines.append(f"  and {counted(len(told) - _DIFFERENCES_SHOWN, 'difference')} more")
    lines.append(
        "A step is a function of its rows, and of its state where it has one: no clock, no random numbers, no order "
        "of a set, nothing that is remembered between calls. One on Arrow tables answers each row by itself: where a "
        "table ends means nothing."
    )
    return NotTheSame("\n".join(lines))


@contextmanager
def _named_as_written(prefix: str) -> Iterator[None]:
    """What stops a flow speaks of topics as the test has them."""
    try:
        yield
    except StepFailed as failed:
        cause = failed.cause if isinstance(failed.cause, BaseException) else None
        raise StepFailed(failed.step, failed.position.replace(prefix, ""), failed.cause) from cause
    except FlowStopped as stopped:
        raise FlowStopped(str(stopped).replace(prefix, "")) from stopped.__cause__
