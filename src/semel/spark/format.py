"""``format("semel")``: the data source that Spark finds by its name."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from semel.core.sink.task import whole_result
from semel.errors import ConfigError
from semel.spark.batch_sink import SemelWriter
from semel.spark.in_worker import in_worker
from semel.spark.letters import letters_rule
from semel.spark.options import SinkOptions, check_security, sink_options, source_options
from semel.spark.output import check_columns, routing_of
from semel.spark.refusing import allow
from semel.spark.source import SemelReader, SemelStreamReader, chosen_columns, columns_of
from semel.spark.stream_sink import SemelStreamWriter


class SemelDataSource(DataSource):
    """A log that speaks Kafka's protocol (semel's own, or Apache Kafka), as source and as sink."""

    @in_worker
    def __init__(self, options: dict[str, str]) -> None:
        """At ``load()``, ``save()`` and ``start()``, before anything runs; of what is wrong, only what is for all."""
        super().__init__(options)
        check_security(options)

    @classmethod
    def name(cls) -> str:
        """As in ``format("semel")``."""
        return "semel"

    def schema(self) -> str:
        """The connector's columns; ``headers`` only when it is asked for."""
        return ", ".join(f"{name} {of_type}" for name, of_type in columns_of(self.options).items())

    @in_worker
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch query."""
        options = source_options(self.options, streaming=False)
        return SemelReader(options, chosen_columns(schema, self.options))

    @in_worker
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming query."""
        options = source_options(self.options, streaming=True)
        return SemelStreamReader(options, chosen_columns(schema, self.options))

    @in_worker
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        options = self._sink_options(schema, streaming=False)
        if overwrite:
            raise ConfigError('a log can only be appended to: use mode("append")')
        return SemelWriter(options)

    @in_worker
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A micro-batch of a streaming query."""
        options = self._sink_options(schema, streaming=True)
        if overwrite:
            allow(whole_result())
        checkpoint, name = self.options.get("checkpointLocation", ""), self.options.get("queryName", "")
        return SemelStreamWriter(options, checkpoint, name)

    def _sink_options(self, schema: StructType, *, streaming: bool) -> SinkOptions:
        options = sink_options(self.options, streaming=streaming)
        check_columns(schema, has_topic=options.topic is not None)
        return replace(options, routing=routing_of(schema, options.topic, letters_rule(options)))
