"""PySpark source and sink of semel (``format("semel")``), and a session builder that finds its own Java.

This package speaks to the log through ``semel.client`` only; every decision of the sink is in
``semel.core.sink``. Only the modules of the format itself import pyspark.
"""

from semel.spark.known_sinks import SinkReset, known_sinks, reset_sink
from semel.spark.lineage import lineage
from semel.spark.session import register, session

__all__ = ["SinkReset", "known_sinks", "lineage", "register", "reset_sink", "session"]
