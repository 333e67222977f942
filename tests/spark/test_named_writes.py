"""``txnAppId`` and ``txnVersion`` in foreachBatch: what is skipped is proven to be decided, and ways out are exact."""

from __future__ import annotations

import shutil

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


@pytest.fixture
def copy_all(log, stream, tmp_path):
    """``copy_all(source, sink, app, checkpoint)``: the documented recipe, over a shuffle, to the end of what is there.

    ``change`` is put between the micro-batch and its write.
    """

    def run(source, sink, app, checkpoint="ck", change=lambda frame: frame.orderBy("value"), **options):
        def write(batch, batch_id):
            writer = change(batch.select("value")).write.format("semel")
            writer = writer.option("kafka.bootstrap.servers", log.bootstrap).option("topic", sink)
            writer.option("txnAppId", app).option("txnVersion", batch_id).mode("append").save()

        query = stream(source, **options).writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", str(tmp_path / checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    return run


def test_a_lost_checkpoint_loses_no_row_and_each_way_out_is_exact(log, copy_all, tmp_path):
    """New micro-batches had the numbers of decided ones, and were skipped: all new rows were lost."""
    source, sink, anew = log.topic("in"), log.topic("out"), log.topic("anew")
    log.write(source, numbers(0, 5))
    copy_all(source, sink, sink)
    log.write(source, numbers(5, 10))
    copy_all(source, sink, sink)
    log.write(source, numbers(10, 13))
    behind = f'{{"{source}": {{"0": 10}}}}'
    with pytest.raises(Exception, match=r"ReplayDiffers.*up to version 1.*newest checkpoint back"):
        copy_all(source, sink, sink, "lost", startingOffsets=behind)
    assert log.values(sink) == numbers(0, 10)

    copy_all(source, sink, sink)  # the checkpoint, put back
    assert log.values(sink) == numbers(0, 13)
    copy_all(source, anew, anew, "anew", startingOffsets="earliest")  # a new topic
    assert log.values(anew) == numbers(0, 13)
    log.write(source, numbers(13, 20))
    behind = f'{{"{source}": {{"0": 13}}}}'
    copy_all(source, sink, f"{sink}.2", "behind", startingOffsets=behind)  # exactly behind the last row
    assert log.values(sink) == numbers(0, 20)


def test_an_older_checkpoint_that_was_put_back(log, copy_all, tmp_path):
    """The same query plans the same micro-batch with more rows."""
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 5))
    copy_all(source, sink, sink)
    shutil.copytree(tmp_path / "ck", tmp_path / "older")
    log.write(source, numbers(5, 10))
    copy_all(source, sink, sink)
    log.write(source, numbers(10, 13))
    with pytest.raises(
        Exception, match=r"ReplayDiffers.*decided with 5 rows, and these are 8: an older checkpoint"
    ):
        copy_all(source, sink, sink, "older")
    assert log.values(sink) == numbers(0, 10)
    copy_all(source, sink, sink)
    assert log.values(sink) == numbers(0, 13)


def test_a_replay_is_skipped_in_whatever_order_and_pieces_its_rows_come(log, copy_all, tmp_path):
    source, sink = log.topic("in", 2), log.topic("out", 2)
    log.write(source, numbers(0, 40))
    copy_all(source, sink, sink, change=lambda frame: frame.coalesce(1))
    for entry in (tmp_path / "ck" / "commits").glob("*"):
        entry.unlink()
    copy_all(
        source, sink, sink, change=lambda frame: frame.repartition(3, "value").sortWithinPartitions("value")
    )
    assert log.values(sink) == numbers(0, 40)


def test_one_name_is_not_for_two_writes(log, copy_all, tmp_path):
    """The second write of a micro-batch, under the name of the first, was skipped without a word."""
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 5))

    def other_half(frame):
        first = frame.where("value < '0002'").write.format("semel").option("topic", sink)
        first = first.option("kafka.bootstrap.servers", log.bootstrap).option("txnAppId", sink)
        first.option("txnVersion", 0).mode("append").save()
        return frame.where("value >= '0002'")

    with pytest.raises(Exception, match=r"ReplayDiffers.*decided with 2 rows, and these are 3"):
        copy_all(source, sink, sink, change=other_half)
    assert log.values(sink) == numbers(0, 2)


def test_what_a_lost_query_began_is_not_taken_for_rows_of_a_new_one(log, spark, copy_all):
    """Equal rows: those of the new query would have been dropped as stored already."""
    source, sink = log.topic("in"), log.topic("out")
    rows = [b"x" * 4000] * 100
    log.write(source, rows)

    def half(frame):
        return frame.coalesce(1).mapInArrow(fails_behind_its_third_batch, "value binary")

    def fails_behind_its_third_batch(batches):
        for number, batch in enumerate(batches):
            if number == 3:
                raise RuntimeError("on purpose")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        with pytest.raises(Exception, match="on purpose"):
            copy_all(source, sink, sink, change=half)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    stored = len(log.values(sink))
    assert 0 < stored < 100
    log.write(source, rows)
    with pytest.raises(Exception, match=r"ReplayDiffers.*another query or job began this version"):
        copy_all(source, sink, sink, "lost", startingOffsets=f'{{"{source}": {{"0": 100}}}}')
    assert len(log.values(sink)) == stored
    copy_all(source, sink, sink)  # that one finishes it
    assert len(log.values(sink)) == 200
