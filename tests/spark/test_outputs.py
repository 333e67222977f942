"""Where rows go is part of the plan; and a plan that will not do leaves nothing behind."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


FAILING = (
    "CASE WHEN CAST(value AS STRING) LIKE '0299%' THEN CAST(raise_error('on purpose') AS BINARY) "
    "ELSE value END AS value"
)


@pytest.fixture
def left_undecided(log, stream, run_to_end, tmp_path):
    """``left_undecided(sink_id)``: the source, the output and its frame; most rows stand there undecided."""

    def leave(sink_id):
        source, sink = log.topic("in"), log.topic("out")
        for first in (0, 200):  # more than the buffers on the way hold
            log.write(source, [number + b"x" * 4000 for number in numbers(first, min(first + 200, 300))])
        frame = stream(source)
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        try:
            with pytest.raises(Exception, match="on purpose"):
                run_to_end(frame.selectExpr(FAILING), sink, tmp_path / "ck", sink_id)
        finally:
            frame.sparkSession.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert 0 < len(log.values(sink)) < 300
        return source, sink, frame.selectExpr("value")

    return leave


def test_the_option_topic_changed_in_the_first_micro_batch(log, stream, run_to_end, tmp_path, left_undecided):
    source, sink, frame = left_undecided("s-moved")
    other = log.topic("other")
    with pytest.raises(Exception, match=rf"ReplayDiffers.*were written to topic '{sink}'"):
        run_to_end(frame, other, tmp_path / "ck", "s-moved")
    assert log.values(other) == []
    run_to_end(frame, sink, tmp_path / "ck", "s-moved")
    assert len(log.values(sink)) == 300
    log.write(source, numbers(300, 310))
    run_to_end(frame, other, tmp_path / "ck", "s-moved")
    assert (len(log.values(sink)), log.values(other)) == (300, numbers(300, 310))


def test_a_column_topic_changed_in_the_first_micro_batch(log, run_to_end, tmp_path, left_undecided):
    _source, sink, frame = left_undecided("s-renamed")
    other = log.topic("other")
    with pytest.raises(Exception, match="ReplayDiffers"):
        run_to_end(frame.selectExpr("value", f"'{other}' AS topic"), None, tmp_path / "ck", "s-renamed")
    run_to_end(frame, sink, tmp_path / "ck", "s-renamed")
    assert (len(log.values(sink)), log.values(other)) == (300, [])


def test_an_output_that_nobody_made_is_made_by_the_first_row(log, stream, run_to_end, tmp_path):
    source = log.topic("in", 3)
    for number in range(3):
        log.write(source, numbers(number * 5, number * 5 + 5), number)
    run_to_end(stream(source).select("value"), f"{source}.copy", tmp_path / "ck", "s-made")
    log.write(source, numbers(15, 20))
    run_to_end(stream(source).select("value"), f"{source}.copy", tmp_path / "ck", "s-made")
    assert log.values(f"{source}.copy") == numbers(0, 20)
