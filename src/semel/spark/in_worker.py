"""What PySpark prints of our work in its workers: an error in its own words, and nothing of work that went well.

An error of :mod:`semel.errors` says what happened and what to do. PySpark hands it to the driver behind twenty lines
of frames, its own and ours, unless the worker's environment asks for the words alone.

Workers are pooled, and Spark closes the socket of one that had no work for a minute, or when it stops. The worker
takes that for an error, and wants to say so through the same socket. Over TCP these words are lost in silence. Over a
Unix socket (:func:`semel.spark.session` asks for them) writing them fails, and ``pyspark.daemon`` prints a traceback
of a ``BrokenPipeError``, of work that was done long before.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from semel.errors import SemelError

_P = ParamSpec("_P")
_T = TypeVar("_T")

_HIDES_FRAMES: Final = "SPARK_HIDE_TRACEBACK"
_DAEMON: Final = "pyspark.daemon"


def in_worker(work: Callable[_P, _T]) -> Callable[_P, _T]:
    """For what Spark calls in a worker; elsewhere it changes nothing."""
    if inspect.isgeneratorfunction(work):

        @wraps(work)
        def generator(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[Any]:
            with _plain_words():
                yield from work(*args, **kwargs)

        return cast("Callable[_P, _T]", generator)

    @wraps(work)
    def function(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _plain_words():
            return work(*args, **kwargs)

    return function


@contextmanager
def _plain_words() -> Iterator[None]:
    try:
        yield
    except SemelError:
        if _main_module().startswith("pyspark."):
            os.environ[_HIDES_FRAMES] = "1"  # of nobody else's error: PySpark ends the process with this one
        raise


def _main_module() -> str:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else str(spec.name)


def leave_out_closed_sockets() -> None:
    """In a worker of a pool: whatever there imports anything of ours imports this module."""
    daemon: Any = sys.modules["__main__"]
    if _main_module() == _DAEMON and getattr(daemon, "traceback", None) is traceback:
        daemon.traceback = _TracebacksOfDaemon()


class _TracebacksOfDaemon:
    """The module ``traceback``, as a worker's daemon uses it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


leave_out_closed_sockets()
