"""PySpark source and sink of semel (``format("semel")``), and a session builder that finds its own Java.

This package speaks to the log through ``semel.client`` only; every decision of the sink is in
``semel.core.sink``. It imports pyspark, which ``import semel`` alone never does.
"""

from semel.spark.session import session

__all__ = ["session"]
