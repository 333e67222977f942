"""The sink's columns, and where rows go, without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from semel.errors import ConfigError
from semel.record.batch import Record, decode_records, encode_batch
from semel.record.columnar import decode_table, encode_columns
from semel.spark.output import ROW_NUMBER, check_columns, rows_of, spread
from semel.spark.source import columns_of

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TYPES: dict[str, DataType] = {
    found.simpleString(): found
    for found in (
        BinaryType(),
        StringType(),
        IntegerType(),
        LongType(),
        TimestampType(),
        ArrayType(HEADER),
    )
}


def schema_of(**columns: str) -> StructType:
    return StructType([StructField(name, TYPES[type_name]) for name, type_name in columns.items()])


@pytest.mark.parametrize("include_headers", ["false", "true"])
def test_all_of_the_sources_columns_may_come_to_the_sink(include_headers: str) -> None:
    columns = columns_of({"includeHeaders": include_headers})
    for has_topic in (False, True):
        check_columns(schema_of(**columns), has_topic=has_topic)


@pytest.mark.parametrize(
    "columns, says",
    [
        ({"key": "binary"}, "needs a column 'value'"),
        ({"value": "binary"}, "give the option topic, or a column"),
        ({"value": "binary", "topic": "string", "tmestamp": "timestamp"}, "did you mean timestamp"),
        ({"value": "binary", "topic": "string", "price": "int"}, "'price' means nothing to the sink"),
        ({"value": "int", "topic": "string"}, "string or binary"),
        ({"value": "binary", "topic": "string", "partition": "bigint"}, "has to be int"),
        # Only the source's own: a column of that name which somebody else made was meant for something.
        ({"value": "binary", "topic": "string", "offset": "string"}, "'offset' is string"),
    ],
)
def test_a_frame_that_cannot_be_written_is_an_error_that_says_so(columns: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_columns(schema_of(**columns), has_topic=False)


def test_a_straight_copy_keeps_key_value_headers_partition_and_time() -> None:
    rows = [Record(at, 1_000 + at, b"k%d" % at, b"v%d" % at, (("h", b"%d" % at),)) for at in range(4)]
    table = decode_table([encode_batch(rows)], topic="in", partition=2, include_headers=True)
    (batch,) = table.combine_chunks().to_batches()
    ((topic, incoming),) = rows_of(batch, 0).by_topic("out")
    assert topic == "out"  # the option wins over the column, as in Spark's Kafka connector
    ((partition, copied),) = spread(incoming, "w", partition_count=3)
    assert partition == 2
    (encoded,) = encode_columns(copied.keys, copied.values, copied.timestamps, headers=copied.headers)
    assert decode_records(encoded) == rows
    ((topic, _),) = rows_of(batch, 0).by_topic(None)
    assert topic == "in"


def test_a_row_without_a_time_has_the_time_of_writing() -> None:
    """As a source gives one whose time no calendar holds: it must not stop a straight copy."""
    table = decode_table(
        [encode_batch([Record(0, 5, None, b"a"), Record(0, 2**62, None, b"b")])], topic="t", partition=0
    )
    (batch,) = table.combine_chunks().to_batches()
    rows = rows_of(batch, 0).rows
    (encoded,) = encode_columns(None, rows.values, rows.times(7))
    assert [record.timestamp_ms for record in decode_records(encoded)] == [5, 7]


def test_a_partition_that_the_output_lacks_is_an_error() -> None:
    table = decode_table([encode_batch([Record(0, 0, None, b"v")])], topic="in", partition=2)
    (batch,) = table.combine_chunks().to_batches()
    with pytest.raises(ConfigError, match="names 2, and the topic has 2"):
        dict(spread(rows_of(batch, 0), "w", partition_count=2))


def test_rows_that_bring_their_numbers_are_placed_by_them_wherever_they_are_cut():
    values = pa.array([b"%d" % number for number in range(6)])
    numbers = pa.array([0, 0, 5000, 5000, 9000, 9000])
    whole = pa.record_batch({"value": values, ROW_NUMBER: numbers})

    def placed(batches):
        found = {}
        for batch in batches:
            for partition, rows in spread(rows_of(batch, 777), "w", 5):
                found.setdefault(partition, []).extend(rows.values.to_pylist())
        return found

    assert placed([whole]) == placed([whole.slice(0, 1), whole.slice(1, 3), whole.slice(4)])
    assert len(placed([whole])) > 1
