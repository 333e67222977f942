"""Found by PySpark: ``format("semel")`` needs no registration once this package is installed.

PySpark imports every top-level module named ``pyspark_*`` and takes its ``DefaultSource``. Should another
such module fail to import, Spark finds none of them: then call ``spark.dataSource.register(DefaultSource)``.
"""

from semel.spark.format import SemelDataSource as DefaultSource

__all__ = ["DefaultSource"]
