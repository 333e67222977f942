"""``semel flow test FILE``: the functions ``test_*`` of a file, each with what it asks for by name.

``run`` (or ``semel_flow``, as pytest's fixture is called) runs a flow on rows: see :class:`semel.flow.trial.Trials`.
A log server of the file's own is started while the file is read, and a Spark session only where a flow asks for one;
both are shared by the file's tests, and each run of a flow has topics of its own.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TextIO

from semel.errors import ConfigError, SemelError, StepFailed
from semel.flow.files import load_module
from semel.flow.trial import NotTheSame, Outcome, Trials, record
from semel.local import LocalLog, starting_log
from semel.wording import counted

__all__ = ["NotTheSame", "Outcome", "record", "run_tests", "trials"]

GIVEN_NAMES: Final = ("run", "semel_flow")
_ASIDE_SHOWN: Final = 3
_SPARK: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class _Result:
    name: str
    took_s: float
    failure: str = ""  # in words, with the line


def run_tests(path: Path, out: TextIO | None = None, *, server: Future[LocalLog] | None = None) -> bool:
    """Run them, and write what came of each, like pytest; whether all passed.

    ``server`` is one that the caller has begun to start; else one is started here.

    :class:`~semel.errors.ConfigError`: there is no such file, or no test in it; other errors of the file as of
    :func:`semel.flow.files.load_flows`.
    """
    told = _Told(out or sys.stdout)
    begun = time.monotonic()
    with ExitStack() as stack:
        starting = server or stack.enter_context(starting_log(durability="page-cache"))
        module = load_module(path, shows_asserts=True)
        tests = _tests_of(module)
        if not tests:
            raise ConfigError(f"{path} has no test: a test is a function whose name begins with test_")
        given: list[Trials] = []

        def run() -> Trials:
            if not given:
                given.append(stack.enter_context(trials(starting.result().bootstrap)))
            return given[0]

        told.line(f"{path}: {counted(len(tests), 'test')}")
        results = [_run_test(name, test, run, path, told) for name, test in tests]
    failures = [result for result in results if result.failure]
    for result in failures:
        told.failure(result)
    told.summary(len(results) - len(failures), len(failures), time.monotonic() - begun)
    return not failures


@contextmanager
def trials(bootstrap: str, name: str = "") -> Iterator[Trials]:
    """What ``run`` is, on a server of the caller's; ``name`` keeps its topics apart from others'."""
    sessions: list[Any] = []

    def spark() -> Any:
        if not sessions:
            sessions.append(_session())
        return sessions[0]

    with tempfile.TemporaryDirectory(prefix="semel-flow-test-") as folder:
        yield Trials(bootstrap, Path(folder), spark, name)


def _session() -> Any:
    from semel.spark.session import session

    return session("semel-flow-test", "local[2]", _SPARK)


def _tests_of(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    found = [
        (name, value) for name, value in vars(module).items() if name.startswith("test_") and callable(value)
    ]
    return [(name, value) for name, value in found if getattr(value, "__module__", None) == module.__name__]


# --- one test -----------------------------------------------------------------------------------------------


def _run_test(
    name: str, test: Callable[..., Any], run: Callable[[], Trials], path: Path, told: _Told
) -> _Result:
    told.begin(name)
    begun = time.monotonic()
    failure, trials_used = "", None
    try:
        asked = list(inspect.signature(test).parameters)
        unknown = [each for each in asked if each not in GIVEN_NAMES]
        if unknown:
            raise ConfigError(
                f"{name} asks for {', '.join(unknown)}: a test may ask for run, which runs a flow on rows, and no more"
            )
        if asked:
            trials_used = run()
            trials_used.last_outcome = None
        if inspect.iscoroutinefunction(test):
            raise ConfigError(f"{name} is async: a test is a plain function")
        test(**dict.fromkeys(asked, trials_used))
    except Exception as error:
        failure = _told_failure(error, str(path))
        if trials_used is not None and trials_used.last_outcome is not None:
            failure += _asides(trials_used.last_outcome)
    result = _Result(name, time.monotonic() - begun, failure)
    told.end(result)
    return result


def _told_failure(error: BaseException, file: str) -> str:
    """The lines of the file that it came by, and what it says."""
    lines = _lines_in(error, file)
    cause: Any = error.cause if isinstance(error, StepFailed) else None
    if isinstance(cause, BaseException):
        lines += _lines_in(cause, file)
    text = str(error)
    if isinstance(error, AssertionError):
        head = "" if isinstance(error, NotTheSame) or text else "it does not hold"
    elif isinstance(error, SemelError):
        head = f"{type(error).__name__}: "
    else:
        head = f"{type(error).__name__}{': ' if text else ''}"
    shown = "\n".join(f"    {line}" for line in f"{head}{text}".splitlines())
    return "\n".join([*lines, shown])


def _lines_in(error: BaseException, file: str) -> list[str]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return [f"  {frame.filename}:{frame.lineno}: {(frame.line or '').strip()}" for frame in frames]


def _asides(outcome: Outcome) -> str:
    told = ""
    for kind, rows in (("bad", outcome.bad), ("late", outcome.late)):
        if rows:
            told += f"\n  {counted(len(rows), 'row')} went to the {kind} ones:"
            told += "".join(f"\n    {row.at}: {row.value!r}: {row.why}" for row in rows[:_ASIDE_SHOWN])
            told += "\n    ..." if len(rows) > _ASIDE_SHOWN else ""
    return told


# --- what is shown ------------------------------------------------------------------------------------------


class _Told:
    """Writes results; in colours on a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._has_colours = out.isatty()

    def line(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

    def begin(self, name: str) -> None:
        self._out.write(f"  {name} ")
        self._out.flush()

    def end(self, result: _Result) -> None:
        dots = "." * max(2, 60 - len(result.name))
        verdict = self._coloured("FAILED", "31;1") if result.failure else self._coloured("ok", "32")
        self.line(f"{dots} {verdict} {result.took_s:.1f} s")

    def failure(self, result: _Result) -> None:
        self.line(f"\n{self._coloured(result.name, '1')}\n{result.failure}")

    def summary(self, passed: int, failures: int, took_s: float) -> None:
        parts = [f"{passed} passed"] if passed or not failures else []
        parts += [f"{failures} failed"] if failures else []
        text = f"{', '.join(parts)} in {took_s:.1f} s"
        self.line(
            f"\n{self._coloured(text, '31;1' if failures else '32')}"
            if failures
            else self._coloured(text, "32")
        )

    def _coloured(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._has_colours else text
