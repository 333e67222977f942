"""The one error of a flow that stops, from what Spark says of a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semel.errors import ConnectionLost, FlowStopped
from semel.flow import source
from semel.flow.settling import Settled
from semel.flow.stopping import is_rows_fault, why_stopped
from semel.spark.reasons import reason_of

PLAN = source("in", json="n bigint").where("n > 0").to("out").plan()
STAGE = PLAN.stages[0].name
OF_SPARK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Traceback (most recent call last):
  File "worker.py", line 1, in main
semel.errors.SinkFenced: sink 'out/in' was taken over by
another driver
\tat org.apache.spark.Some.method(Some.scala:1)

  File "elsewhere", line 2
"""
# As told of a query whose planner was killed.
OF_A_LOST_PROCESS = """Broken pipe
=== Streaming Query ===
Identifier: out/in [id = 1, runId = 2]
Current Committed Offsets: {org.apache.spark.Some@143214a8: {"in": {"0": 17}}}

Current State: ACTIVE
Thread State: RUNNABLE

Logical Plan:
WriteToMicroBatchDataSource semel-out-in-d16a3939
+- ~StreamingDataSourceV2ScanRelation[name#19, n#20L] semel-out-in-d16a3939
"""

OF_JAVA = """An error occurred while calling o89.start.
: java.io.IOException: Cannot run program "chmod": Exec failed
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.lang.IllegalStateException: error 2
\tat java.base/java.lang.ProcessImpl.forkAndExec(Native Method)
\t... 19 more
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (OF_A_LOST_PROCESS, ("", "Broken pipe")),
        (OF_SPARK, ("SinkFenced", "sink 'out/in' was taken over by another driver")),
        ("a\nTraceback\n  ValueError: no\n\tat x", ("", "ValueError: no")),
        ("[CAST_INVALID_INPUT] no number", ("", "[CAST_INVALID_INPUT] no number")),
        (
            OF_JAVA,
            (
                "",
                'java.io.IOException: Cannot run program "chmod": Exec failed, '
                "caused by java.lang.IllegalStateException: error 2",
            ),
        ),
        ("java.lang.StackOverflowError\n\tat a.b(C.java:1)", ("", "java.lang.StackOverflowError")),
        ("gone\n\tat a.b(C.java:1)\n\t... 1 more", ("", "gone")),
        ("", ("", "no reason was given")),
    ],
)
def test_the_reason_is_found_in_sparks_words(text: str, found: tuple[str, str]) -> None:
    assert reason_of(text) == found


def test_only_what_may_be_a_rows_fault_is_looked_for_among_the_rows() -> None:
    assert is_rows_fault(RuntimeError("[DIVIDE_BY_ZERO] by zero"))
    assert not is_rows_fault(RuntimeError(OF_SPARK))
    assert not is_rows_fault(ConnectionLost("gone"))


def test_it_says_where_why_what_is_stored_and_what_to_do() -> None:
    text = str(why_stopped(PLAN, STAGE, RuntimeError(OF_SPARK)))
    assert text.startswith(f"flow 'out' stopped at stage {STAGE!r}: SinkFenced: sink 'out/in' was taken over")
    assert "What its stages have decided is stored and stays" in text
    assert text.endswith("Start it again: it goes on where it has decided to.")
    found = Settled("topic 'in', partition 0, offset 7", RuntimeError("[DIVIDE_BY_ZERO] by zero"), True)
    text = str(why_stopped(PLAN, STAGE, RuntimeError("a task failed"), found))
    assert f"at stage {STAGE!r} at topic 'in', partition 0, offset 7: [DIVIDE_BY_ZERO] by zero." in text
    assert "What comes before that row is stored and stays" in text
    assert "Mend that and start it again" in text
    left = Settled(None, None, False)
    assert "it has to run once more as it is" in str(why_stopped(PLAN, STAGE, RuntimeError("x"), left))


@pytest.mark.parametrize(
    "words",
    [
        OF_A_LOST_PROCESS,
        "Job aborted: Lost task 0.0: SparkException: Python worker exited unexpectedly (crashed)",
        "Job aborted: Lost task 0.0: SparkException: Python worker failed to connect back.",
        "Traceback (most recent call last):\n  File 'worker.py', line 1, in main\nEOFError",
        "Job aborted: Lost task 0.0: ExecutorLostFailure (executor 1 exited)",
    ],
)
def test_where_spark_lost_a_process_there_is_nothing_to_mend(words: str) -> None:
    text = str(why_stopped(PLAN, STAGE, RuntimeError(words)))
    assert f"stopped at stage {STAGE!r}: Spark lost one of its processes: " in text
    assert text.endswith("stopped too. Start it again: it goes on where it has decided to.")


def test_a_row_that_ends_the_process_is_to_be_mended() -> None:
    crashed = RuntimeError("SparkException: Python worker exited unexpectedly (crashed)")
    found = Settled("topic 'in', partition 0, offset 7", crashed, True)
    text = str(why_stopped(PLAN, STAGE, crashed, found))
    assert (
        f"at stage {STAGE!r} at topic 'in', partition 0, offset 7: SparkException: Python worker exited"
        in text
    )
    assert "Mend that and start it again" in text


def test_a_stage_that_fails_between_two_looks_has_not_come_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from semel.flow import on_spark

    class FailsNow:
        """A streaming query that fails once it was seen at work."""

        looks = 0

        @property
        def isActive(self) -> bool:
            self.looks += 1
            return self.looks == 1

        def exception(self) -> Any:
            return ConnectionLost("the server is gone")

        def stop(self) -> None: ...

    monkeypatch.setattr(on_spark, "frame_session", lambda spark: spark)  # there is none to clone
    running = on_spark.FlowOnSpark(PLAN, "127.0.0.1:1", None, store=tmp_path)
    running._queries[STAGE] = FailsNow()
    with pytest.raises(FlowStopped, match="the server is gone"):
        running.wait()
