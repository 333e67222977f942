"""A defect in the real shell costs one connection there, and a line in the log; a simulated history ends with it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            raise record.exc_info[1]


@contextmanager
def defects_raise() -> Iterator[None]:
    """What the server would log with its traceback is raised where that happens; other lines are nobody's."""
    log, handler = logging.getLogger("semel.server"), _Raising()
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
