"""A flow's rows are the same in any Spark session."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.flow.flowing import put, rows

from semel.errors import ConfigError, FlowError
from semel.flow import source
from semel.flow.frame_session import FRAME_SETTINGS, active, frame_session, refuse_unrecorded
from semel.flow.frames import KEY_COLUMN, columns_read, frame_of
from semel.flow.replay import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

OTHERS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.legacy.sizeOfNull": "true",  # pinned by nobody: Spark's default counts
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "true",
}


ISOLATION = "spark.sql.artifact.isolation.enabled"


@pytest.fixture
def other(spark):
    """A session with all that an expression can see set otherwise."""
    session = spark.newSession()
    for name, value in OTHERS.items():
        session.conf.set(name, value)
    return session


def local_days(frame):
    """Columns by a function of Spark's, which asks the session that is active."""
    from pyspark.sql import functions as F

    return frame.select("k", F.expr("date_format(at, 'yyyy-MM-dd HH:mm')").alias("day"), "more")


MORE = """concat_ws(' ', hour(at), typeof(timestamp '2026-01-01 00:00:00'), size(cast(null as array<int>)),
 try_to_timestamp('2026-1-1x', 'yyyy-MM-dd'), '\\\\', typeof(cast(1 as decimal(38, 10)) * cast(1 as decimal(38, 10))),
 current_timezone(), K) AS more"""


DAYS = source("in", json="k string, at timestamp").select(
    "k", "at", MORE, schema="k string, at timestamp, more string"
)


def test_expressions_are_the_same_in_any_session(spark, other):
    (stage,) = DAYS.apply(local_days, schema="k string, day string, more string").to("out").plan().stages
    given = pa.table({"k": ["a"], "at": pa.array([datetime(2026, 1, 1, 20, tzinfo=UTC)]), KEY_COLUMN: [b"k"]})

    def made(session):
        with active(session):
            return frame_of(stage, session.createDataFrame(given, columns_read(stage))).toArrow().to_pylist()

    assert made(frame_session(spark)) == made(frame_session(other)) == made(frame_session(spark.newSession()))
    assert made(frame_session(other))[0]["day"] == "2026-01-01 20:00"
    with pytest.raises(FlowError, match="`K` cannot be resolved"):
        made(other)
    assert {name: other.conf.get(name) for name in OTHERS} == OTHERS  # the user's is as it was


def test_rows_are_the_same_in_any_session(spark, other, semel_server, tmp_path):
    days = DAYS.apply(local_days, schema="k string, day string, more string").to("out")
    bootstrap = semel_server.bootstrap
    put(bootstrap, "in", {"k": "a", "at": "2026-01-01T20:00:00Z"})
    days.run(bootstrap, once=True, spark=other, store=tmp_path)
    put(bootstrap, "in", {"k": "a", "at": "2026-01-01T20:00:00Z"})
    days.run(bootstrap, once=True, spark=spark, store=tmp_path)
    made, again = rows(bootstrap, "out")
    assert made == again
    assert replay(days.plan(), bootstrap, spark=other).holds
    assert type(spark).active() is spark


@pytest.mark.everyday
def test_what_a_session_may_have_of_its_own_is_kept(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.mine", "x")
    session.range(3).createOrReplaceTempView("three")
    clone = frame_session(session)
    assert clone.conf.get("spark.sql.shuffle.partitions") == "3"
    assert clone.conf.get("spark.mine") == "x"
    assert clone.table("three").count() == 3
    assert {name: clone.conf.get(name) for name in FRAME_SETTINGS} == FRAME_SETTINGS
    with active(clone):
        assert type(spark).active() is clone
    assert type(spark).active() is not clone
    of_a_query = type(spark)(
        spark.sparkContext, clone._jsparkSession.cloneSession()
    )  # as each query makes one
    assert of_a_query.conf.get(ISOLATION) == spark.conf.get(ISOLATION) == "false"
    assert daemon_of(of_a_query) == daemon_of(spark), "Python workers are shared, and what was added for them"


def daemon_of(session):
    """The process that workers are forked from."""

    def parent(batches):
        import os

        for _ in batches:
            yield pa.record_batch({"pid": [os.getppid()]})

    return session.range(1).mapInArrow(parent, "pid bigint").collect()[0].pid


@pytest.mark.everyday
def test_a_stage_of_unknown_settings_goes_on_where_nothing_else_is_set(spark, other):
    old, new = '{"steps":[{"step":"where"}]} codec 1', '{"settings":{},"steps":[{"step":"where"}]} codec 1'
    refuse_unrecorded("f", "s", '{"steps":[{"step":"map"}]} codec 1', other)
    refuse_unrecorded("f", "s", old, spark)
    refuse_unrecorded("f", "s", new, other)
    refuse_unrecorded("f", "s", "", other)
    with pytest.raises(ConfigError, match="timeZone=Asia/Tokyo"):
        refuse_unrecorded("f", "s", old, other)
