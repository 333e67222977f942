"""A PySpark that the format does not run on is named, with the way out."""

from __future__ import annotations

import pytest

from semel.spark.versions import unsupported


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.1", "5.0.0.dev1"])
def test_versions_that_will_do(version):
    assert unsupported(version) is None


@pytest.mark.parametrize("version", ["3.5.9", "4.0.1", "4.1.4"])
def test_versions_that_are_too_old(version):
    assert unsupported(version) == (
        f"format('semel') needs PySpark 4.2 or later, and this is PySpark {version}: "
        "`pip install 'pyspark>=4.2,<4.4' 'pandas<3'`"
    )


def test_the_one_that_is_installed():
    assert unsupported() is None
