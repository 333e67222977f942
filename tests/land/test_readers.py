"""Others read what was landed: DuckDB, pandas, Polars, pyarrow and Spark see the same rows in both formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.land.landed import DELTA, land, produce, read

from semel.audit.identity import IdentityRule
from semel.audit.run import AuditPlan, audit
from semel.audit.tables import TableFiles
from semel.client.blocking import Cluster
from semel.land import dataset, files_of, read_manifest
from semel.land.formats import TableFormat, ValueFormat
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

SETTINGS: dict[str, Any] = {
    "value_format": ValueFormat.JSON,
    "schema": "user string, n long",
    "partition_by": "user",
}
WANTED = [("ann", 0, 0), ("b c/d", 1, 1), ("ann", 2, 2), (None, 3, 3)]

TEXT_STAYS_TEXT = "spark.sql.sources.partitionColumnTypeInference.enabled"  # in folders, when it is off

Reader = Callable[[Path, TableFormat], pa.Table]  # all rows, by offset


@pytest.fixture
def landed(log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat) -> Path:
    for user, n, _ in WANTED:
        name = "null" if user is None else f'"{user}"'
        produce(cluster, topic, 0, [b'{"user":%s,"n":%d}' % (name.encode(), n)])
        land(log.bootstrap, table, table_format, topic, **SETTINGS)
    (table / "user=ann" / "semel-land-9-99.parquet").write_bytes(b"half a file")  # of a copy at work
    return table


def files(table: Path, table_format: TableFormat) -> list[str]:
    if table_format is DELTA:
        return [uri.removeprefix("file://") for uri in DeltaTable(table).file_uris()]
    return [str(path) for path in files_of(table)]


def by_pyarrow(table: Path, table_format: TableFormat) -> pa.Table:
    its = DeltaTable(table).to_pyarrow_dataset() if table_format is DELTA else dataset(table)
    return its.to_table().sort_by("_offset")


def by_duckdb(table: Path, table_format: TableFormat) -> pa.Table:
    with duckdb.connect() as database:
        if table_format is DELTA:
            database.register("landed", DeltaTable(table).to_pyarrow_dataset())
            found = database.sql("select * from landed where _offset >= 0 order by _offset")
        else:
            found = database.sql(
                "select * from read_parquet($files, hive_partitioning = true, hive_types_autocast = false,"
                " union_by_name = true) order by _offset",
                params={"files": files(table, table_format)},
            )
        return found.to_arrow_table()


def by_pandas(table: Path, table_format: TableFormat) -> pa.Table:
    frame = DeltaTable(table).to_pandas() if table_format is DELTA else dataset(table).to_table().to_pandas()
    return pa.Table.from_pandas(frame.sort_values("_offset"))


def by_polars(table: Path, table_format: TableFormat) -> pa.Table:
    if table_format is DELTA:
        return pl.scan_delta(str(table)).sort("_offset").collect().to_arrow()
    landed = read_manifest(table)
    by = landed.partition_by
    is_text = by is not None and pa.types.is_string(landed.schema.field(by).type)
    in_files = pa.schema([field for field in landed.schema if field.name != landed.partition_by])
    scan = pl.scan_parquet(
        files(table, table_format),
        schema=pl.DataFrame(in_files.empty_table()).schema,
        missing_columns="insert",
        hive_partitioning=True,
        hive_schema={by: pl.String} if is_text and by is not None else None,
    )
    return scan.sort("_offset").collect().to_arrow()


def by_spark(spark: Any, table: Path, table_format: TableFormat) -> Any:
    """A frame of Spark's, over the files that the table lists."""
    reader = spark.read.option("basePath", str(table)).option("mergeSchema", "true")
    spark.conf.set(TEXT_STAYS_TEXT, False)
    try:
        return reader.parquet(*files(table, table_format)).orderBy("_offset")
    finally:
        spark.conf.unset(TEXT_STAYS_TEXT)


READERS: list[Reader] = [by_pyarrow, by_duckdb, by_pandas, by_polars]
in_each = pytest.mark.parametrize("reader", READERS)


@in_each
def test_others_read_the_same_rows(landed: Path, table_format: TableFormat, reader: Reader) -> None:
    rows = reader(landed, table_format).select(["user", "n", "_offset"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == WANTED


# Each list alone looks like whole numbers, fractions, booleans, dates.
LIKE_OTHERS: list[list[str | None]] = [
    ["007", "00701", "701", None],
    ["1e3", "1000.0"],
    ["true"],
    ["2024-01-02"],
]
text_in_folders = pytest.mark.parametrize("texts", LIKE_OTHERS, ids=["whole", "fraction", "boolean", "date"])


@pytest.fixture
def by_text(
    log: LocalLog,
    cluster: Cluster,
    topic: str,
    table: Path,
    table_format: TableFormat,
    texts: list[str | None],
) -> Path:
    produce(cluster, topic, 0, [json.dumps({"user": text}).encode() for text in texts])
    land(log.bootstrap, table, table_format, topic, **SETTINGS)
    return table


@text_in_folders
def test_a_text_in_folders_stays_a_text(
    by_text: Path, table_format: TableFormat, texts: list[str | None]
) -> None:
    for reader in READERS:
        assert reader(by_text, table_format).column("user").to_pylist() == texts, reader


@pytest.mark.spark
@pytest.mark.slow
@text_in_folders
def test_a_text_in_folders_stays_a_text_in_spark(
    spark: Any, by_text: Path, table_format: TableFormat, texts: list[str | None]
) -> None:
    assert [row.user for row in by_spark(spark, by_text, table_format).collect()] == texts


YEAR_1_MS = -62_135_596_800_000
NO_DATE_MS = 1_700_000_000_000_000  # microseconds, sent as milliseconds: the year 55840
NO_TIME_MS = 1_700_000_000_000_000_000  # nanoseconds: more than a column of microseconds holds
TIMES_MS = [1_000, YEAR_1_MS, NO_DATE_MS, NO_TIME_MS, -NO_TIME_MS, 2_000]
WANTED_US = [None if abs(time) == NO_TIME_MS else time * 1_000 for time in TIMES_MS]


@pytest.mark.parametrize("compact_every", [None, 1])
@pytest.mark.parametrize("by", [None, "day"])
@pytest.mark.parametrize("value", ["raw", "json"])
def test_a_record_with_an_odd_time_is_a_row_that_others_read(
    log: LocalLog,
    cluster: Cluster,
    topic: str,
    table: Path,
    table_format: TableFormat,
    value: str,
    by: str | None,
    compact_every: int | None,
) -> None:
    settings = {"value_format": ValueFormat.JSON, "schema": "n long"} if value == "json" else {}
    settings |= {"partition_by": by, "compact_every": compact_every}
    cluster.alter_configs({topic: {"message.timestamp.after.max.ms": str(2**63 - 1)}})
    for times in (TIMES_MS, [0]):
        batch = encode_batch([Record(0, time, None, b'{"n":%d}' % time) for time in times])
        cluster.produce({TopicPartition(topic, 0): batch})
        done = land(log.bootstrap, table, table_format, topic, **settings)
        assert (done.rows, done.bad_rows) == (len(times), 0)
    for reader in READERS:
        times_us = reader(table, table_format).column("_timestamp").cast(pa.int64()).to_pylist()
        assert times_us == [*WANTED_US, 0], reader
    rows = read(table, table_format).sort_by("_offset")
    if value == "json":
        assert rows.column("n").to_pylist() == [*TIMES_MS, 0]
    if by == "day":
        days = rows.column("_day").to_pylist()
        assert days == [date(1970, 1, 1), date(1, 1, 1), None, None, None, date(1970, 1, 1), date(1970, 1, 1)]
    if (
        table_format is DELTA and compact_every is None
    ):  # it skips files by bounds; delta-rs's own OPTIMIZE has none
        late = pl.scan_delta(str(table)).filter(pl.col("_timestamp").cast(pl.Int64) > NO_DATE_MS)
        assert late.collect().height == 1
        early = (
            DeltaTable(table)
            .to_pyarrow_dataset()
            .to_table(filter=pc.field("_timestamp") < pa.scalar(0, pa.timestamp("us", "UTC")))
        )
        assert early.column("_offset").to_pylist() == [1]


HEADERS = [("trace", b"1"), ("trace", b"2"), ("none", None)]  # a key may come twice, and a value be null


@pytest.fixture(params=[None, 1], ids=["as-written", "compacted"])
def with_headers(
    log: LocalLog,
    cluster: Cluster,
    topic: str,
    table: Path,
    table_format: TableFormat,
    request: pytest.FixtureRequest,
) -> Path:
    """Landed without them first: they are a new column then. The last row has none."""
    produce(cluster, topic, 0, [b"0"])
    land(log.bootstrap, table, table_format, topic)
    for headers in (tuple(HEADERS), ()):
        batch = encode_batch([Record(0, 1_000, b"k", b"v", headers)])
        cluster.produce({TopicPartition(topic, 0): batch})
        land(log.bootstrap, table, table_format, topic, with_headers=True, compact_every=request.param)
    return table


@in_each
def test_others_read_the_same_headers(with_headers: Path, table_format: TableFormat, reader: Reader) -> None:
    assert reader(with_headers, table_format).column("headers").to_pylist() == [
        None,
        [{"key": key, "value": value} for key, value in HEADERS],
        None,
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_the_headers(spark: Any, with_headers: Path, table_format: TableFormat) -> None:
    frame = by_spark(spark, with_headers, table_format)
    assert frame.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    rows = [row.headers for row in frame.collect()]
    assert rows[0] is None and rows[2] is None
    assert [(each.key, each.value) for each in rows[1]] == HEADERS


@pytest.mark.parametrize("value", ["raw", "json"])
def test_an_audit_holds_a_table_with_headers_against_its_topic(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, value: str
) -> None:
    batch = encode_batch([Record(0, 1_000, b"k", b'{"n":%d}' % n, (("h", b"x"),)) for n in range(9)])
    cluster.produce({TopicPartition(topic, 0): batch})
    settings = {"value_format": ValueFormat.JSON, "schema": "n long"} if value == "json" else {}
    land(log.bootstrap, table, table_format, topic, with_headers=True, **settings)
    files_of_table = TableFiles(table_format.value, table)
    assert files_of_table.raw == ("_value" if value == "raw" else None)
    assert audit(cluster, AuditPlan(output_table=files_of_table, input_topic=topic)).holds
    if value == "json":
        plan = AuditPlan(
            output_table=files_of_table,
            input_topic=topic,
            input_identity=IdentityRule.of("n", None),
            output_identity=IdentityRule.of("n", None),
        )
        assert audit(cluster, plan).holds


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_the_files_that_the_table_lists(
    spark: Any, landed: Path, table_format: TableFormat
) -> None:
    frame = by_spark(spark, landed, table_format)
    rows = frame.select("user", "n", "_offset", "_timestamp").collect()
    assert [(row[0], row[1], row[2]) for row in rows] == WANTED
    assert {row[3].timestamp() for row in rows} == {1.0}


def test_a_file_alone_is_plain_parquet(landed: Path, table_format: TableFormat) -> None:
    rows = pq.ParquetFile(files(landed, table_format)[0]).read()
    assert rows.column_names == [
        "n",
        "_topic",
        "_partition",
        "_offset",
        "_timestamp",
        "_key",
        "_value",
        "_error",
    ]
