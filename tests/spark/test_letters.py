"""Rows that no log can take are rows of the dead letters: decided with their micro-batch, once."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from tests.spark.driving import SOURCE

from semel.core.log.names import topic_name_error
from semel.core.sink.ranges import SourceRange
from semel.core.sink.routing import Routing
from semel.core.sink.task import Attempted
from semel.errors import ConfigError, ReplayDiffers
from semel.record.columnar import row_sizes_max
from semel.spark.commit import decide_batch
from semel.spark.letters import letters_of, letters_rule, unwritable
from semel.spark.options import Connection, SinkOptions, sink_options
from semel.spark.output import Incoming, rows_of
from semel.spark.runs import plan_batch
from semel.spark.task_write import TaskWrite

pytestmark = pytest.mark.usefixtures("own_caches")
SIZE_MAX = 5_000


def options_of(
    log, out: str | None, letters: str | None, sink_id: str, size_max: int = SIZE_MAX
) -> SinkOptions:
    bare = SinkOptions(
        Connection(log.bootstrap, uuid.uuid4().hex), out, sink_id, dead_letter_topic=letters,
        batch_bytes_max=size_max,
    )  # fmt: skip
    routing = Routing(out, ("key", "partition"), "murmur2" + letters_rule(bare))
    return SinkOptions(
        bare.connection, out, sink_id, dead_letter_topic=letters, batch_bytes_max=size_max, routing=routing
    )


def attempt(
    options: SinkOptions, rows: list[tuple], cut: int, *, batch_id: int = 0, is_decided: bool
) -> None:
    """One micro-batch of the rows (topic, partition, value), in two of Spark's batches."""
    columns = ("topic", "partition", "value")
    types = (pa.string(), pa.int32(), pa.binary())
    batches = [
        pa.record_batch(
            {
                name: pa.array([row[n] for row in some], kind)
                for n, (name, kind) in enumerate(zip(columns, types, strict=True))
            }
        )
        for some in (rows[:cut], rows[cut:])
        if some
    ]
    ticket = plan_batch(options, options.connection.client_id)
    source_range = SourceRange(SOURCE, 0, 100)
    task = TaskWrite(options, ticket, source_range.writer, source_range, 1, 0, "q")
    report = task.run(iter(batches))
    if is_decided:
        decide_batch(options, ticket, [Attempted(report, task.duplicates)], "q", batch_id)


def rows_for(out: str) -> list[tuple]:
    return [
        (out, 0, b"0"),
        (None, 0, b"1"),
        (out, 7, b"2"),
        (out, 1, b"3"),
        ("no topic", 0, b"4"),
        (out, None, b"5" * (SIZE_MAX + 1)),
        (out, 1, b"6"),
        (None, None, None),
    ]


def told(record) -> tuple[bytes | None, str]:
    headers = dict(record.headers)
    return record.value and record.value[:1], headers["semel-why"].decode()


def incoming_of(rows: list[tuple]) -> Incoming:
    topics, partitions, values = zip(*rows, strict=True)
    columns = {"topic": pa.array(topics, pa.string()), "partition": pa.array(partitions, pa.int32())}
    return rows_of(pa.record_batch(columns | {"value": pa.array(values, pa.binary())}), 40)


def test_what_makes_a_letter_of_a_row_is_in_the_row() -> None:
    options = SinkOptions(
        Connection("h:1", "c"), None, "s", dead_letter_topic="bad", batch_bytes_max=SIZE_MAX
    )
    asked: list[str] = []

    def partition_count_of(topic: str) -> int:
        asked.append(topic)
        return 2

    incoming = incoming_of(rows_for("out"))
    reasons = unwritable(incoming, options, partition_count_of)
    assert list(reasons) == [1, 2, 4, 5, 7]
    assert asked == ["out"], "never of what can be no topic"
    letters = letters_of(incoming, reasons, "in-0", SIZE_MAX)
    assert [value and value[:1] for value in letters.rows.values.to_pylist()] == [
        b"1",
        b"2",
        b"4",
        b"5",
        None,
    ]
    headers = [{one["key"]: one["value"] for one in each} for each in letters.rows.headers.to_pylist()]
    assert [one["semel-at"] for one in headers] == [
        b"in-0/41",
        b"in-0/42",
        b"in-0/44",
        b"in-0/45",
        b"in-0/47",
    ]
    sizes = row_sizes_max(letters.rows.keys, letters.rows.values, letters.rows.headers)
    assert max(sizes) <= SIZE_MAX, "they fit themselves"
    assert unwritable(incoming.take([0, 3, 6]), options, lambda _: 2) == {}


def test_each_is_a_row_of_the_letters_once_however_often_it_is_tried(log) -> None:
    out, letters = log.topic("out", 2), log.topic("bad")
    options, rows = options_of(log, None, letters, f"s-{letters}"), rows_for(out)
    attempt(options, rows[:5], 2, is_decided=False)  # and the driver dies
    attempt(options_of(log, None, letters, options.sink_id), rows, 6, is_decided=True)
    assert log.values(out) == [b"0", b"3", b"6"]
    found = log.read(letters)
    size = SIZE_MAX + 1
    assert [value for value, _ in map(told, found)] == [b"1", b"2", b"4", b"5", None]
    assert [why for _, why in map(told, found)] == [
        "column topic is null",
        f"column partition names 7, and topic {out!r} has 2",
        f"column topic: {topic_name_error('no topic')}",
        f"it has up to {size + 36} bytes, and kafka.max.request.size is {SIZE_MAX}",
        "column topic is null",
    ]
    at = [dict(record.headers)["semel-at"].decode().rpartition("/")[2] for record in found]
    assert at == ["1", "2", "4", "5", "7"], "which rows of the range they were"
    (cut,) = [dict(record.headers)["semel-cut"] for record in found if "semel-cut" in dict(record.headers)]
    assert cut.endswith(b"of %d" % size)


def test_which_rows_are_letters_is_part_of_what_undecided_rows_were_written_by(log) -> None:
    out, letters = log.topic("out", 2), f"bad-{uuid.uuid4().hex[:8]}"
    rows = rows_for(out)
    attempt(options_of(log, None, letters, f"s-{letters}"), rows, 3, is_decided=False)
    with pytest.raises(ReplayDiffers, match=f"have over {SIZE_MAX} bytes, to '{letters}'"):
        attempt(options_of(log, None, letters, f"s-{letters}", SIZE_MAX + 1000), rows, 3, is_decided=True)


@pytest.mark.parametrize(
    ("out", "letters", "words"),
    [("t", "t", "a topic of its own"), (None, "no topic", "deadLetterTopic")],
)
def test_a_topic_that_cannot_hold_them_is_refused(out: str | None, letters: str, words: str) -> None:
    given = {"kafka.bootstrap.servers": "h:1", "sinkId": "s", "deadLetterTopic": letters}
    with pytest.raises(ConfigError, match=words):
        sink_options(given | ({} if out is None else {"topic": out}), streaming=True)


def test_rows_that_name_the_topic_of_the_letters_are_refused(log) -> None:
    letters = log.topic("bad")
    with pytest.raises(ConfigError, match="is that of the dead letters"):
        attempt(options_of(log, None, letters, f"s-{letters}"), [(letters, 0, b"0")], 1, is_decided=True)
