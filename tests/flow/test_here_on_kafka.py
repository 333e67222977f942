"""Flows in this process on a real Apache Kafka: only the address changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest
from tests.flow.flowing import put, records, rows, run

from semel.flow import source
from semel.flow.stage_ranges import Cuts

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CHILD = """
import sys
from pathlib import Path
from semel.flow.here import run_here
from semel.flow.stage_ranges import Cuts
from tests.flow.test_here_on_kafka import counting
run_here(counting(sys.argv[3]).plan(), sys.argv[1], store=Path(sys.argv[2]), cuts=Cuts(40, 1))
"""


def counting(name):
    people = source(f"people-{name}", json="name string")
    return people.filter(lambda row: row.name != "nobody").key_by("name").count().to(f"counts-{name}")


def test_killed_and_cut_otherwise_it_counts_each_row_once(apache_kafka, tmp_path):
    bootstrap, name = apache_kafka.bootstrap, uuid.uuid4().hex[:8]
    sent = 0
    for turn in range(4):
        put(
            bootstrap,
            f"people-{name}",
            *({"name": f"p{n % 7}"} for n in range(210)),
            {"name": "nobody"},
            b"{",
        )
        sent += 210
        child = subprocess.Popen([sys.executable, "-c", CHILD, bootstrap, str(tmp_path), name])
        time.sleep(1.5 + 0.4 * turn)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    run(counting(name), bootstrap, tmp_path)
    found = {row["name"]: row["count"] for row in rows(bootstrap, f"counts-{name}")}
    assert found == {f"p{n}": sent // 7 for n in range(7)}
    assert len(records(bootstrap, f"counts-{name}.bad")) == 4


def test_a_large_state_goes_on_from_its_changelog(apache_kafka, tmp_path):
    bootstrap, name = apache_kafka.bootstrap, uuid.uuid4().hex[:8]
    names = [f"{n:04} {'x' * 30}" for n in range(2000)]
    for turn in range(3):
        put(bootstrap, f"people-{name}", *({"name": each} for each in names))
        run(counting(name), bootstrap, tmp_path / f"store-{turn}", Cuts(rows_max=900, entries_max=2))
    found = {row["name"]: row["count"] for row in rows(bootstrap, f"counts-{name}")}
    assert found == dict.fromkeys(names, 3)
