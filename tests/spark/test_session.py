"""Defaults of the session that depend on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from semel.spark.session import _unix_sockets

ENABLED = "spark.python.unix.domain.socket.enabled"


def test_unix_sockets_are_used_where_their_names_fit() -> None:
    assert _unix_sockets("/tmp") == {ENABLED: "true", "spark.python.unix.domain.socket.dir": "/tmp"}
    assert _unix_sockets("/" + 59 * "x")[ENABLED] == "true"
    assert _unix_sockets("/" + 60 * "x") == {ENABLED: "false"}


TOLD = """
from semel.spark import session

spark = session("told", conf={"spark.ui.showConsoleProgress": "false"})
names = "spark.sql.session.timeZone", "spark.ui.enabled"
print("TOLD", spark.sparkContext.master, *map(spark.conf.get, names))
spark.stop()
"""


def _told(program: list[str], script: Path, **environment: str) -> str:
    from semel.spark.java import java_home

    done = subprocess.run(
        [*program, str(script)],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable} | environment,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
    assert lines, done.stdout + done.stderr
    return lines[0]


@pytest.mark.spark
@pytest.mark.slow
def test_what_spark_submit_is_given_wins_over_the_defaults(tmp_path: Any) -> None:
    script = tmp_path / "told.py"
    script.write_text(textwrap.dedent(TOLD))
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[1]"]
    given = ["--conf", "spark.sql.session.timeZone=Europe/Vienna", "--conf", "spark.driver.host=127.0.0.1"]
    assert _told([*submit, *given], script) == "TOLD local[1] Europe/Vienna false"
    assert _told([sys.executable], script) == "TOLD local[*] UTC false"
