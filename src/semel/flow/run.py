"""Running a flow: on Spark, or in this process; with its progress shown, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from semel.errors import ConfigError, SemelError
from semel.flow.changing import check_changed
from semel.flow.here import check_runs_here, run_here
from semel.flow.plan import Plan, StageKind
from semel.flow.shown import Shown, shown_here
from semel.flow.slots import default_folder
from semel.flow.stage_ranges import Cuts
from semel.flow.topics import found_topics
from semel.flow.watch import LOOK_S, Look, Watch
from semel.signals import stopped_by_signals
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.versions import unsupported

_WAKE_S: Final = 0.2  # a signal's handler runs in the main thread once that wakes up
_QUIET: Final = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}  # or it draws over ours


class Running:
    """A flow at work in threads of this process, or on Spark: :meth:`wait` for its end, or :meth:`stop` it."""

    def __init__(
        self,
        plan: Plan,
        bootstrap: str,
        work: Callable[[threading.Event], None],
        *,
        shown: Shown | None = None,
        metrics: str | None = None,
    ) -> None:
        """``work`` runs the flow until the event is set, or to its end."""
        self._plan, self._bootstrap, self._shown = plan, bootstrap, shown
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._newest: Look | None = None
        self._close_metrics = self._serve(metrics)
        self._worker = threading.Thread(
            target=self._work, args=(work,), name=f"semel-flow-{plan.flow}", daemon=True
        )
        self._watcher = threading.Thread(target=self._watch, name=f"semel-watch-{plan.flow}", daemon=True)
        self._is_over = threading.Event()
        self._watched = Watch(plan, bootstrap)
        is_watched = shown is not None or metrics is not None
        if is_watched:
            self._look()  # what is decided from here on is counted
            self._watcher.start()
        self._worker.start()

    def progress(self) -> Look:
        """What each stage does: rows, lag, state; not older than a second where it is shown, else as of now."""
        if self._newest is not None:
            return self._newest
        watch = Watch(self._plan, self._bootstrap)
        try:
            return watch.look()
        finally:
            watch.close()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it has ended, or for ``timeout_s``: whether it has. Raises what it was stopped by."""
        self._worker.join(timeout_s)
        if self._worker.is_alive():
            return False
        self._end()
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        return True

    def ask_to_stop(self) -> None:
        """Have it end behind the micro-batches that it is in."""
        self._stop.set()

    def stop(self) -> None:
        """End it behind the micro-batches that it is in: all that it has begun is decided then."""
        self.ask_to_stop()
        self.wait()

    def _work(self, work: Callable[[threading.Event], None]) -> None:
        try:
            work(self._stop)
        except BaseException as error:
            self._failed = error
        finally:
            self._is_over.set()

    def _end(self) -> None:
        if self._watcher.ident is not None:
            self._watcher.join()
        if self._close_metrics is not None:
            self._close_metrics()
            self._close_metrics = None

    def _serve(self, metrics: str | None) -> Callable[[], None] | None:
        if metrics is None:
            return None
        from semel.flow.metrics import serve_metrics

        return serve_metrics(metrics, lambda: self._newest)

    def _watch(self) -> None:
        try:
            while not self._is_over.wait(LOOK_S):
                self._look()
            self._look()
        finally:
            self._watched.close()
            if self._shown is not None:
                self._shown.end()

    def _look(self) -> None:
        # A server that restarts, or a topic that is not there yet: the flow waits for it, or says why it does not.
        with suppress(SemelError):
            self._newest = self._watched.look()
            if self._shown is not None:
                self._shown.show(self._newest)


def start_flow(
    plan: Plan,
    bootstrap: str,
    *,
    spark: Any = None,
    here: bool = False,
    once: bool = False,
    show: bool = False,
    metrics: str | None = None,
    store: Path | None = None,
    cuts: Cuts | None = None,
) -> Running:
    """Start it: until it is stopped, or with ``once`` to the end of what its topics have now.

    ``here``: in this process, without Spark; where none is installed, a flow that needs none runs so by itself.
    ``spark``: the session to run it in; else the running one, or a new one.
    ``store``: the folder for large state, on each machine that has tasks. Where a flow runs, and how its micro-batches
    are cut, changes nothing of what it writes. ``show``: a line for each stage, on the terminal's stderr or in the
    notebook; ``metrics``: the same for Prometheus, on ``host:port``.
    """
    shown = shown_here() if show else None
    if here or (spark is None and runs_here(plan)):
        check_runs_here(plan)
        folder = store or default_folder()

        def work(stop: threading.Event) -> None:
            run_here(plan, bootstrap, store=folder, until_idle=once, cuts=cuts, stop=stop)

        return Running(plan, bootstrap, work, shown=shown, metrics=metrics)
    if spark is None:
        _refuse_before_spark(plan, Connection(bootstrap, f"semel-flow-{plan.flow}"))
    from semel.flow.on_spark import FlowOnSpark
    from semel.spark.session import session

    spark = spark or session(f"semel-{plan.flow}", conf=_QUIET if show else None)
    on_spark = FlowOnSpark(plan, bootstrap, spark, cuts=cuts, store=store)

    def work_on_spark(stop: threading.Event) -> None:
        on_spark.run(stop, once=once)

    return Running(plan, bootstrap, work_on_spark, shown=shown, metrics=metrics)


def runs_here(plan: Plan) -> bool:
    """Whether a flow that is to run on Spark runs in this process: it needs no Spark, and there is none.

    :class:`~semel.errors.ConfigError` for one that needs it.
    """
    why_not = unsupported()
    if why_not is None:
        return False
    if plan.needs_spark:
        check_has_spark(plan)
    return True


def check_has_spark(plan: Plan) -> None:
    """``ConfigError`` for a flow with steps of Spark's where there is no Spark that runs them."""
    why_not = unsupported()
    frames = [stage.name for stage in plan.stages if stage.kind is StageKind.FRAME]
    if frames and why_not is not None:
        raise ConfigError(
            f"flow {plan.flow!r} has steps of Spark's (where, select, apply) in {', '.join(frames)}, and {why_not}; or "
            f"say them in Python (filter, map, flat_map): a flow of Python's steps needs no Spark"
        )


def _refuse_before_spark(plan: Plan, connection: Connection) -> None:
    """What would be refused once Spark is there, which may be half a minute later."""
    check_changed(plan, connection)
    found_topics(connect(connection), plan)


def run_flow(plan: Plan, bootstrap: str, **options: Any) -> bool:
    """:func:`start_flow`, and wait: whether it came to its end. ``False``: SIGTERM or Ctrl-C has stopped it.

    It ends behind the micro-batches that it is in. A second signal does not wait for that.
    """
    running = start_flow(plan, bootstrap, **options)
    with stopped_by_signals(running.ask_to_stop) as was_stopped:
        while not running.wait(_WAKE_S):
            pass
    return not was_stopped()
