"""Found by PySpark: ``format("semel")`` needs no registration once this package is installed.

PySpark imports every top-level module named ``pyspark_*`` and takes its ``DefaultSource``. Should any such
module fail to import, Spark finds none of them: so this one never does. On a PySpark that is too old it brings
a source that says so; and where another package's fails, ``semel.spark.register(spark)`` is the way.
"""

from pyspark.sql.datasource import DataSource

from semel.errors import ConfigError
from semel.spark.versions import unsupported

_why_not = unsupported()


class TooOldForSemel(DataSource):
    """In place of the format, on a PySpark that is too old for it."""

    def __init__(self, options: dict[str, str]) -> None:
        raise ConfigError(str(_why_not))

    @classmethod
    def name(cls) -> str:
        """As in ``format("semel")``."""
        return "semel"


def _source() -> type[DataSource]:
    if _why_not is not None:
        return TooOldForSemel
    from semel.spark.format import SemelDataSource

    return SemelDataSource


DefaultSource = _source()

__all__ = ["DefaultSource"]
