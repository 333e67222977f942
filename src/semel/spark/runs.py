"""The planner: before every micro-batch, the run that this process holds goes on, or a new one begins.

A run lives in the planner process between micro-batches. Spark pools these processes, so a run may find itself
in another one, or taken over by another planner of its own query; a new run is always the way out.
"""

from __future__ import annotations

from dataclasses import replace

from semel.core.sink.run import Planned, Ticket, next_in_run
from semel.spark.options import SinkOptions
from semel.spark.process import this_process
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, history_of, planning_query, sweep
from semel.spark.takeover import begin_run, stop_if_not_resumable


def plan_batch(options: SinkOptions, checkpoint: str) -> Ticket:
    """The ticket of the next micro-batch: of the run that this process holds, or of a new one."""
    assert options.sink_id is not None
    log = SinkLog(options.connection, options.sink_id)
    runs = this_process().runs
    key = (options.connection, options.sink_id, checkpoint)  # another query begins a run of its own
    query = planning_query(checkpoint)
    held = runs.pop(key, None)  # gone, should anything below fail: a new run is always safe
    history = history_of(log, options.connection)
    now_ms = this_process().clock.elapsed_ms()
    ticket = None if held is None else allow(next_in_run(held, history, query, now_ms))
    begun_ms = now_ms if held is None else held.begun_ms
    if ticket is None or _is_changed(ticket, options):
        # Judged before the fence, so that who cannot go on disturbs nobody, and after it.
        stop_if_not_resumable(options, history, query)
        ticket = begin_run(options, log, query=query)
        history = history_of(log, options.connection)
        begun_ms = now_ms
    else:
        ticket = sweep(log, ticket, history, this_process().swept_at)
    ticket = replace(ticket, planned_ms=this_process().clock.now_ms())
    runs[key] = Planned(ticket, history.decision, begun_ms)
    return ticket


def _is_changed(ticket: Ticket, options: SinkOptions) -> bool:
    """Whether the run is another's; nothing of it is undecided, so that it may change."""
    ran = (ticket.routing, ticket.plan, ticket.state_plan)
    return ran != (options.routing, options.plan, options.state_plan)
