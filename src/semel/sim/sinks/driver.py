"""One life of a streaming query: Spark's micro-batch loop, as far as a sink can tell.

Write the offsets of the next micro-batch into the checkpoint, plan, run the tasks, commit, write the commit
entry; after a restart, again whatever has an offsets entry and no commit entry. The driver may die between any
two of these, and what it has started may outlive it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, ClassVar, Final

from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted
from semel.errors import SemelError
from semel.sim.sinks.checkpoint import Checkpoint, Offsets
from semel.sim.sinks.life import Life
from semel.sim.sinks.mix import SinkMix
from semel.sim.sinks.story import SinkStory
from semel.sim.sinks.task_set import RangeTaskSet, TaskFailed
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.sinks.worker import Worker, connection_of
from semel.sim.world.faults import Fault
from semel.sim.world.fiber import FiberClock, Pending
from semel.sim.world.surroundings import Surroundings
from semel.spark import commit, runs, sink_log
from semel.spark.options import SinkOptions
from semel.spark.planning import left_of_topics, limit, made_anew, range_topics, split
from semel.spark.reading import another_topic

TRIGGER_MS: Final = (5, 250)


class RunsElsewhere(SemelError):
    """Spark's own check: somebody else has written this micro-batch's offsets entry."""


class SimulatedDriver(Life):
    """``on_end`` gets the error that it ended with, or ``None`` when all rows are decided."""

    SPARKS_OWN: ClassVar = (RunsElsewhere, TaskFailed)

    def __init__(
        self,
        story: SinkStory,
        name: str,
        checkpoint: Checkpoint,
        splits: int,
        random: Random,
        around: Surroundings,
        mix: Callable[[], SinkMix],
        on_end: Callable[[SimulatedDriver, SemelError | None], None],
    ) -> None:
        self.story: Final = story
        self.checkpoint: Final = checkpoint
        self.splits: Final = splits  # minPartitions, in pieces of a source partition
        topic = story.topics[0] if len(story.topics) == 1 else None
        self.options: Final = SinkOptions(connection_of(), topic, checkpoint.sink_id)
        self.rows_per_batch_max = random.choice(story.rows_per_batch)  # maxOffsetsPerTrigger
        self.rows_per_arrow_batch = random.randint(1, 6)
        super().__init__(name, random, around, mix, attempts_max=random.randint(1, 4))
        self.is_tampered = False  # its checkpoint does not say what this sink has done
        self.started_ms = story.elapsed_ms()
        self.has_committed = False  # a micro-batch, in this life
        self._on_end = on_end
        self._first_batch_id = checkpoint.next_batch_id
        self._planner = self.new_worker("planner")
        self._spare_planner: Worker | None = None
        self._committer = self.new_worker("commit")
        story.drivers.append(self)

    def new_worker(self, kind: str) -> Worker:
        worker = super().new_worker(kind)
        worker.memory.swept_at = self.story.swept_at
        return worker

    # -- what its parts ask ----------------------------------------------------------------------------

    @property
    def is_planning(self) -> bool:
        """It takes the sink over, scans its outputs, or looks whether its run goes on."""
        planners = (self._planner, self._spare_planner)
        return self.process.alive and any(worker is not None and worker.is_busy for worker in planners)

    @property
    def is_deciding(self) -> bool:
        """Its tasks have reported, and their rows are not known to be decided."""
        return self.process.alive and self._committer.is_busy

    def version_of_rows(self, attempt_number: int, random: Random) -> int:
        """Which rows an attempt gives: always the same, unless the query is one that must not be."""
        if self.story.rows_differ and self.bites(Fault.SINK_OTHER_ROWS, self.mix.other_rows):
            return random.randint(1, 3)
        return 0

    def _kept(self) -> tuple[Worker | None, ...]:
        return self._planner, self._spare_planner, self._committer

    def _ended(self, error: SemelError | None) -> None:
        self._on_end(self, error)

    # -- Spark's loop ----------------------------------------------------------------------------------

    def _live(self) -> None:
        checkpoint, clock = self.checkpoint, FiberClock(self.process)
        if checkpoint.start is None:
            decided, topic_ids = self._decided_ends()
            if checkpoint.start is None:  # no other driver on it was faster
                checkpoint.start = {tp: decided.get(tp, 0) for tp in self.story.sources}
                now = self.story.source_topics[-1].topic_id
                checkpoint.start_topic_id = topic_ids.get(self.story.sources[0].topic, now)
            self.trace_note(f"starts at {list(checkpoint.start.values())}")
        batch_id = self._first_batch_id
        while True:
            ends = self._offsets_of(batch_id)
            if ends is not None:
                self._micro_batch(batch_id, checkpoint.starts_of(batch_id), ends)
                self.has_committed = True
                checkpoint.commits = max(checkpoint.commits, batch_id + 1)
                self.story.back_up(checkpoint)
                batch_id += 1
            elif self.story.is_closed:
                return
            clock.pause(self._random.randint(*TRIGGER_MS))

    def _decided_ends(self) -> tuple[Offsets, Mapping[str, str]]:
        """Of the sink; of the one that it has taken over for, as long as it has decided nothing itself."""
        sink_ids = self.story.sink_ids
        for sink_id in reversed(sink_ids[: sink_ids.index(self.checkpoint.sink_id) + 1]):
            ask = partial(sink_log.decided_ends, self.options.connection, sink_id)
            decided, topic_ids, _ = self._call(self._planner, ask)
            if decided:
                return decided, topic_ids
        return {}, {}

    def _offsets_of(self, batch_id: int) -> Offsets | None:
        """Where the micro-batch ends: as planned before, or planned now; ``None`` when there is no row."""
        checkpoint = self.checkpoint
        if batch_id < len(checkpoint.ends):
            if batch_id > self._first_batch_id:
                raise RunsElsewhere(f"{self.name}: micro-batch {batch_id} is planned already")
            return checkpoint.ends[batch_id]
        story, starts = self.story, checkpoint.starts_of(batch_id)
        topic_id = story.source_topics[-1].topic_id
        others = made_anew(self._ids(checkpoint.topic_id_of(batch_id)), self._ids(topic_id))
        if others:
            self._accept_another(starts)
        begun = dict.fromkeys(starts, 0) if others else starts
        ends = limit(begun, story.heads(), self.rows_per_batch_max)
        if not others and ends == dict(starts):
            return None
        checkpoint.ends.append(ends)
        checkpoint.topic_ids.append(topic_id)
        self.story.planned(ends)
        return ends

    def _micro_batch(self, batch_id: int, starts: Offsets, ends: Offsets) -> None:
        story, checkpoint = self.story, self.checkpoint
        start_id, topic_id = checkpoint.topic_id_of(batch_id), checkpoint.topic_ids[batch_id]
        self.trace_note(
            f"micro-batch {batch_id}: {list(starts.values())} of {start_id} to {list(ends.values())} of {topic_id}"
        )
        name, now = story.sources[0].topic, self._ids(story.source_topics[-1].topic_id)
        topics = range_topics([name], self._ids(start_id), self._ids(topic_id), now, [name])
        if topics[name].is_replaced or topics[name].is_another:
            self._accept_another(starts)
        if self._random.random() < self.mix.other_planner:
            self._replace_planner()
        ticket = self._call(self._planner, self._plan)
        self._around.counts.operations += sum(max(0, ends[tp] - starts[tp]) for tp in ends)
        self._around.watchers.of(SinkWatcher).sink_planned(ticket)
        partitions_min = self.splits * len(ends) if self.splits > 1 else None
        left_from = left_of_topics(ends, topics, dict.fromkeys(ends, 0))
        ranges = split(starts, ends, partitions_min, left_from=left_from, topics=topics)
        try:
            attempted = self._run_tasks(ticket, ranges)
            if attempted:
                self._call(self._committer, lambda: self._commit(ticket, attempted, batch_id))
        except SemelError:
            self._abort(ticket)
            raise
        story.decided(topic_id, ends)
        self._around.counts.verdict("sink: micro-batch committed")
        skipped = sum(entry.report.skipped for entry in attempted)
        if skipped:
            self._around.counts.verdict("sink: range skipped, decided already")
        outputs = [output for entry in attempted for output in entry.report.outputs.values()]
        if any(output.surplus_from is not None for output in outputs):
            self._around.counts.verdict("sink: stored rows left to a later micro-batch")

    def _ids(self, topic_id: str | None) -> dict[str, str]:
        return {} if topic_id is None else {self.story.sources[0].topic: topic_id}

    def _accept_another(self, starts: Offsets) -> None:
        """As the source's option says."""
        if self.story.fails_on_data_loss:
            first = min(starts)
            raise another_topic(first, starts[first], 0)
        self._around.counts.verdict("sink: source made anew, read from its beginning")

    def _plan(self) -> Ticket:
        return runs.plan_batch(self.options, self.checkpoint.query_id)

    def _run_tasks(self, ticket: Ticket, ranges: Any) -> list[Attempted]:
        done: Pending[list[Attempted]] = Pending()
        RangeTaskSet(self, ticket, ranges, self.checkpoint.query_id, self._random, done).start()
        return done.result()

    def _commit(self, ticket: Ticket, attempted: list[Attempted], batch_id: int) -> None:
        self._around.watchers.of(SinkWatcher).sink_commits(ticket, batch_id)
        commit.decide_batch(self.options, ticket, attempted, self.checkpoint.query_id, batch_id)

    def _abort(self, ticket: Ticket) -> None:
        """Spark calls it when a micro-batch fails; the sink does nothing then."""

    def _replace_planner(self) -> None:
        """Spark pools the processes: another query's turn, or a minute of rest, and it is another one."""
        self._spare_planner, self._planner = self._planner, self._spare_planner or self.new_worker("planner2")
