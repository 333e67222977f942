"""The header by which a reader takes once what a writer at least once may write twice.

A streaming query that writes with Spark's own Kafka connector, or with any sink but the sequenced one, writes its last
micro-batch again when it is started again. If each row says which row it came of, a flow takes each once:
``source("dirty", dedupe="lineage")``. For this the query has to

- write each row in the task that read the source's partition, in the order of its offsets: no shuffle, no sort, and no
  option that cuts a partition in several (``minPartitions``, ``maxRecordsPerPartition``);
- give each row a key, or name its partition: written again, it has to come to the partition where it was;
- write with an idempotent producer (Spark's connector does), or with one request in flight.
"""

from __future__ import annotations

from typing import Any

from semel.core.flow.lineage import LINEAGE_HEADER
from semel.spark.options import Connection
from semel.spark.process import connect


def lineage(bootstrap: str, *topics: str, index: Any = None) -> Any:
    """A column for ``headers``, of rows with ``topic``, ``partition`` and ``offset`` as a source of Kafka's has them.

    ``topics``: all that the query reads, on the server at ``bootstrap``. Their ids go into the header, for a topic that
    is made anew under its name begins again at offset 0. ``index`` is a column that counts the rows that are made of
    one, from 0: as ``posexplode`` gives it.

    >>> rows.select("key", "value", lineage("localhost:9092", "clicks").alias("headers"))  # doctest: +SKIP
    """
    from pyspark.sql import functions as F

    if not topics:
        raise ValueError("name the topics that the query reads")
    cluster = connect(Connection(bootstrap))
    ids = [F.lit(part) for topic in topics for part in (topic, f"{topic}@{cluster.topic(topic).topic_id}")]
    # A topic that is not among them fails in its first row: a header without the id would be another source.
    of = F.coalesce(
        F.create_map(*ids)[F.col("topic")],
        F.raise_error(F.concat(F.lit("no lineage is known for topic "), F.col("topic"))),
    )
    number = F.lit(0) if index is None else index
    text = F.concat_ws(
        "/", of, *(each.cast("string") for each in (F.col("partition"), F.col("offset"), number))
    )
    value = F.encode(text, "UTF-8")
    return F.array(F.struct(F.lit(LINEAGE_HEADER).alias("key"), value.alias("value")))
