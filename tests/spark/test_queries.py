"""Several queries at once, and the source's limits, as Spark drives them."""

from __future__ import annotations

import re
import time

import pytest

from semel.types import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


def wait_until(condition, what: str, seconds: float = 100) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def live(log, tmp_path):
    """``live(frame, topic, sink_id)``: a query that goes on until the test is over."""
    started = []

    def start(frame, topic, sink_id, checkpoint="older"):
        writer = frame.writeStream.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        writer = writer.options(topic=topic, sinkId=sink_id, checkpointLocation=str(tmp_path / checkpoint))
        started.append(writer.trigger(processingTime="0 seconds").start())
        return started[-1]

    yield start
    for query in started:
        query.stop()


def test_two_live_drivers_of_one_sink(log, stream, live):
    """The newer one goes on at the decided ends; the older one stops and says who took over.

    It finds the newer FENCE, or only what that query has decided. Where Spark has moved the older one's planner to
    another process, that takes the sink over once more: then the newer one stops, and so does the older one if the
    newer had decided before. Whoever stops says why, and each row is there once.
    """
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 5))
    older = live(stream(source).select("value"), sink, "s-two")
    # Rows are written before they are decided, and only what is decided says where to begin.
    wait_until(lambda: any(each.numInputRows for each in older.recentProgress), "the older driver's decision")
    assert log.values(sink) == numbers(0, 5)
    before = log.owners("s-two")
    newer = live(stream(source, startingOffsets="sink:s-two").select("value"), sink, "s-two", "newer")
    wait_until(
        lambda: log.owners("s-two") > before or newer.exception() is not None, "the newer driver's FENCE"
    )
    assert newer.exception() is None, newer.exception()
    log.write(source, numbers(5, 8))
    reasons = "was taken over by process|has decided up to . for another query"
    wait_until(lambda: older.exception() is not None or newer.exception() is not None, "one of them to stop")
    wait_until(lambda: log.values(sink) == numbers(0, 8), "the rows")
    log.write(source, numbers(8, 10))
    wait_until(
        lambda: log.values(sink) == numbers(0, 10) or not (older.isActive or newer.isActive), "more rows"
    )
    assert log.values(sink) in (numbers(0, 8), numbers(0, 10))
    for query in (older, newer):
        assert query.exception() is None or re.search(reasons, str(query.exception()))


def test_two_queries_of_one_session(log, stream, live):
    """Their planners share pooled processes, so that each query's runs move between them."""
    names = ["s-left", "s-right"]
    topics = {name: (log.topic("in"), log.topic("out")) for name in names}
    for name, (source, sink) in topics.items():
        live(stream(source).select("value"), sink, name, name)
    for turn in range(6):
        for source, _ in topics.values():
            log.write(source, numbers(turn, turn + 1))
        for _, sink in topics.values():
            wait_until(lambda at=(sink, turn + 1): len(log.values(at[0])) == at[1], f"row {turn}")
    assert all(log.values(sink) == numbers(0, 6) for _, sink in topics.values())


def test_limits_and_the_group_that_is_told(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 100))
    options = {"maxOffsetsPerTrigger": "40", "maxRecordsPerPartition": "15", "commitGroup": f"g-{source}"}
    frame = stream(source, **options).select("value")
    query = run_to_end(frame, sink, tmp_path / "ck", "s-limits")
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [40, 40, 20]
    assert log.values(sink) == numbers(0, 100)
    told = log.cluster.committed_offsets(f"g-{source}")
    assert told[TopicPartition(source, 0)].offset in (80, 100)
