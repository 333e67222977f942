"""Errors of Spark's in a driver, and of ours in a worker: what is printed of them."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import traceback
import types

import pytest
from pyspark.errors import AnalysisException

from semel.errors import SemelError
from semel.spark.in_worker import in_worker, leave_out_closed_sockets
from semel.spark.reasons import reason_of, say_reason_last
from semel.spark.session import register

OF_A_READ = (
    "[PYTHON_DATA_SOURCE_ERROR] Failed: semel.errors.DataLoss: offsets 0 to 4 are gone. Go on SQLSTATE: 38000"
)


@in_worker
def plan(*, fails: bool = True) -> None:
    if fails:
        raise SemelError("in its words")


@in_worker
def rows():
    plan()
    yield


@pytest.fixture
def main(monkeypatch):
    """``main(name)``: the program that this process runs, as PySpark's workers and others have it."""
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    monkeypatch.setitem(os.environ, "SPARK_HIDE_TRACEBACK", "")

    def become(name: str) -> types.ModuleType:
        module = types.ModuleType("__main__")
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.traceback = traceback
        monkeypatch.setitem(sys.modules, "__main__", module)
        return module

    return become


@pytest.mark.parametrize("work", [plan, lambda: list(rows())])
@pytest.mark.parametrize(
    ("name", "hides"),
    [
        ("pyspark.daemon", "1"),
        ("pyspark.sql.streaming.python_streaming_source_runner", "1"),
        ("my_job", ""),
    ],
)
def test_an_error_of_ours_hides_its_frames_in_a_worker_alone(main, work, name, hides):
    main(name)
    plan(fails=False)
    assert os.environ["SPARK_HIDE_TRACEBACK"] == ""
    with pytest.raises(SemelError):
        work()
    assert os.environ["SPARK_HIDE_TRACEBACK"] == hides


def test_a_socket_that_spark_has_closed_is_no_news(main, capsys):
    """Spark closes it when a worker had nothing to do for a minute: a program that went well printed tracebacks."""
    daemon = main("pyspark.daemon")
    leave_out_closed_sockets()
    for error in (BrokenPipeError(32, "Broken pipe"), ValueError("of somebody else")):
        try:
            raise error
        except Exception:
            daemon.traceback.print_exc()
    printed = capsys.readouterr().err
    assert "ValueError: of somebody else" in printed
    assert "BrokenPipe" not in printed
    assert daemon.traceback.format_exc is traceback.format_exc


def test_a_program_that_ends_with_an_error_of_sparks_says_its_reason_last(monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    say_reason_last()
    hook = sys.excepthook
    say_reason_last()
    assert sys.excepthook is hook
    hook(AnalysisException, AnalysisException(OF_A_READ), None)
    assert capsys.readouterr().err.endswith("\nsemel: DataLoss: offsets 0 to 4 are gone. Go on\n")
    hook(ValueError, ValueError(OF_A_READ), None)
    assert "semel: " not in capsys.readouterr().err


@pytest.mark.spark
def test_so_does_a_program_with_a_session_of_its_own(spark, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    register(spark.newSession())
    assert sys.excepthook is not sys.__excepthook__


OF_A_PLANNER = """[STREAM_FAILED] Query terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed: \
_pickle.PicklingError: Could not serialize object: {}: no way
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1]

Current State: ACTIVE"""


def test_what_spark_adds_is_no_part_of_the_reason():
    assert reason_of(OF_A_READ) == ("DataLoss", "offsets 0 to 4 are gone. Go on")
    assert reason_of(OF_A_PLANNER.format("PlanNotSupported")) == ("PlanNotSupported", "no way")
    assert reason_of(OF_A_PLANNER.format("TypeError"))[0] == ""
