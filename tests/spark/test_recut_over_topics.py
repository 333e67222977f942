"""A writer's rows go to several topics, its query begins anew with another id, and its micro-batches are cut elsewhere.

So it is with a stage of a flow, which trusts no checkpoint: what an earlier query has left undecided is met by ranges
that end before it, in some topics wholly, in some in part, and in some not at all. Keys, none, or a named partition
say where a row goes. No Spark: planner, tasks and commit are called as Spark calls them.
"""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

from semel.core.sink.ranges import SourceRange
from semel.core.sink.routing import Routing
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.sink_log import SinkLog
from semel.spark.task_write import write_range
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")

SOURCES = [TopicPartition("in", number) for number in range(2)]
END = 24  # of each source partition
_NUMBERS = itertools.count()


class _Died(Exception):
    pass


def _rows_of(source: TopicPartition, offset: int, topics: tuple[str, str, str]) -> pa.RecordBatch:
    """What a row of the source becomes: none to five rows, as its place says and nothing else."""
    choice = random.Random(f"{source} {offset}")
    main, changes, late = topics
    rows = []
    for index in range(choice.randrange(4)):
        key = None if choice.random() < 0.4 else b"%d" % choice.randrange(5)
        rows.append((main, None, key, index))
    if offset >= 7:  # a topic that comes up late, and names its partition
        rows.append((changes, source.partition, b"state", len(rows)))
    if offset % 11 == 10:
        rows.append((late, None, None, len(rows)))
    return pa.record_batch(
        {
            "topic": pa.array([topic for topic, *_ in rows], pa.string()),
            "partition": pa.array([partition for _, partition, *_ in rows], pa.int32()),
            "key": pa.array([key for *_, key, _ in rows], pa.binary()),
            "value": pa.array([_value(source, offset, index) for *_, index in rows], pa.binary()),
        }
    )


def _value(source: TopicPartition, offset: int, index: int) -> bytes:
    return b"%d %03d %d" % (source.partition, offset, index)


class _Query:
    """From its start to its end, in a process of its own."""

    def __init__(self, bootstrap: str, sink_id: str, topics: tuple[str, str, str]) -> None:
        self.surplus = 0  # outputs whose stored rows a micro-batch left for later ones
        self.topics, self.query_id = topics, f"q{next(_NUMBERS)}"
        self.connection = Connection(bootstrap, f"client-{self.query_id}")
        routing = Routing(None, ("key", "partition"), "murmur2")
        self.options = SinkOptions(self.connection, None, sink_id, batch_bytes_max=150, routing=routing)

    def run(self, choice: random.Random, survives: bool) -> None:
        """To the end of the sources, or to its death; from the decided ends."""
        decided = SinkLog(self.connection, self.options.sink_id).history().decision
        ends = dict.fromkeys(SOURCES, 0) | ({} if decided is None else dict(decided.source_ends))
        for batch_id in itertools.count():
            planned = {tp: min(END, end + choice.choice((1, 2, 9, 15))) for tp, end in ends.items()}
            if planned == ends:
                return
            self._micro_batch(batch_id, ends, planned, choice, survives)
            ends = planned

    def _micro_batch(self, batch_id, begun, planned, choice, survives):
        ticket = plan_batch(self.options, self.query_id)
        busy = [tp for tp in SOURCES if begun[tp] < planned[tp]]
        idle = tuple((tp, planned[tp]) for tp in SOURCES if tp not in busy)
        attempted = []
        for number, source in enumerate(busy):
            source_range = SourceRange(
                source, begun[source], planned[source], idle_ends=idle if source == busy[0] else ()
            )
            dies_at = None if survives or choice.random() < 0.3 else choice.randrange(begun[source], END + 1)
            attempted.append(
                write_range(
                    self.options,
                    ticket,
                    source_range,
                    self._batches(source_range, dies_at),
                    query_id=self.query_id,
                    task_attempt_id=number,
                    attempt_number=0,
                )
            )
        if not survives and choice.random() < 0.6:
            raise _Died
        reports = [output for one in attempted for output in one.report.outputs.values()]
        self.surplus += sum(output.surplus_from is not None for output in reports)
        decide_batch(self.options, ticket, attempted, self.query_id, batch_id)

    def _batches(self, source_range: SourceRange, dies_at: int | None):
        for offset in range(source_range.batch_from, source_range.batch_end):
            if offset == dies_at:
                raise _Died
            batch = _rows_of(source_range.source, offset, self.topics)
            if batch.num_rows:
                yield batch


@pytest.mark.parametrize("seed", range(4))
def test_rows_left_in_several_topics_are_met_by_any_cut(log, seed):
    choice = random.Random(seed)
    topics = log.topic("main", 3), log.topic("changes", 2), log.topic("late")
    deaths = surplus = 0
    for life in range(12):
        query = _Query(log.bootstrap, f"recut-{topics[0]}", topics)
        try:
            query.run(choice, survives=life == 11)
        except _Died:
            deaths += 1
        surplus += query.surplus
    assert deaths > 2 and surplus
    expected = [
        _rows_of(source, offset, topics).select(["topic", "value"]).to_pylist()
        for source in SOURCES
        for offset in range(END)
    ]
    for topic in topics:
        wanted = sorted(row["value"] for rows in expected for row in rows if row["topic"] == topic)
        assert log.values(topic) == wanted
        of_writers = {}
        for record in log.read(topic):
            of_writers.setdefault((record.value[:1], record.key), []).append(record.value)
        for (_, key), values in of_writers.items():
            assert key is None or values == sorted(values)
