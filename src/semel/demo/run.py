"""Plays the story: load with a kill, stream with two kills, prove, report.

Every kill happens where it hurts: the producer half-way, driver and server while rows of a micro-batch
are coming in. What the pipeline had to turn away is counted from what it says itself: the producer counts
the rows that it drops on resume, and each run of the sink writes into its journal which rows of its
predecessor it found undecided.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.audit.read import read_batches
from semel.client.blocking import Cluster
from semel.core.sink.journal import SINKS_TOPIC, Begin, decode
from semel.demo.child import Child
from semel.demo.data import data_folder
from semel.demo.proof import Proof, prove
from semel.demo.timeline import Sample, Timeline
from semel.errors import ConfigError, SemelError
from semel.local import LocalLog
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from semel.demo.summary import Screen

FLIGHTS_IN_ALL: Final = 336_776
INPUT_TOPIC: Final = "flights"
OUTPUT_TOPIC: Final = "flights-enriched"
PARTITION_COUNT: Final = 4
SINK_ID: Final = "demo"
FIRST_BATCH_BYTES: Final = 16_384
SECOND_BATCH_BYTES: Final = 100_000
MICRO_BATCHES: Final = 8
DRIVERS_MAX: Final = 5  # two killed, one that ends well, and two to spare
STEP_TIMEOUT_S: Final = 300.0  # of silence on a busy machine, before the demo calls itself stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """What was asked for."""

    report_path: Path
    row_count_max: int | None = None
    folder: Path | None = None  # None: a scratch folder that goes when all is well
    with_spark: bool = True


@dataclass(slots=True)
class Story:
    """What was measured on the way; the summary and the report tell nothing else."""

    row_count: int
    timeline: Timeline
    stored_at_producer_kill: int = 0
    turned_away_by_producer: int = 0
    turned_away_by_sink: int = 0
    drivers: int = 0
    micro_batches: int = 0
    load_s: float = 0.0
    stream_s: float = 0.0
    prove_s: float = 0.0
    total_s: float = 0.0
    partitions: dict[str, dict[int, int]] = field(default_factory=dict)


def run_demo(plan: DemoPlan) -> bool:
    """Play it all; whether the proof holds. The scratch folder is kept when it does not."""
    from semel.demo.report import write_report
    from semel.demo.summary import Screen

    data_folder()  # refuses before anything is started
    if plan.with_spark:
        _check_spark()
    folder = plan.folder or Path(tempfile.mkdtemp(prefix="semel-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "data").exists():
        raise ConfigError(f"{folder} holds an earlier run: name an empty folder with --dir")
    began = time.monotonic()
    screen = Screen()
    try:
        story, proof = _play(plan, folder, screen)
    except SemelError:
        screen.close()
        raise
    story.total_s = time.monotonic() - began
    write_report(plan.report_path, story, proof)
    screen.summary(story, proof, plan.report_path)
    if plan.folder is None and proof.holds:
        shutil.rmtree(folder, ignore_errors=True)
    elif not proof.holds:
        screen.step(f"the evidence is kept in {folder}")
    return proof.holds


def _play(plan: DemoPlan, folder: Path, screen: Screen) -> tuple[Story, Proof]:
    row_count = plan.row_count_max or FLIGHTS_IN_ALL
    screen.step(f"a log server in {folder}")
    with LocalLog(folder / "data") as log, Cluster(log.bootstrap, client_id="semel-demo") as cluster:
        cluster.create_topics({INPUT_TOPIC: PARTITION_COUNT, OUTPUT_TOPIC: PARTITION_COUNT})
        with Timeline(log.bootstrap, INPUT_TOPIC, OUTPUT_TOPIC, PARTITION_COUNT) as timeline:
            story = Story(row_count, timeline)
            _load(plan, log, folder, story, screen)
            if plan.with_spark:
                _stream(log, cluster, folder, story, screen)
        screen.step("prove: the file against the input, the input against the output")
        began = time.monotonic()
        output = OUTPUT_TOPIC if plan.with_spark else None
        proof = prove(cluster, INPUT_TOPIC, output, plan.row_count_max)
        story.prove_s = time.monotonic() - began
        if proof.piped is not None:
            story.partitions = {topic.topic: dict(topic.partition_rows) for topic in proof.piped.topics}
    return story, proof


def _load(plan: DemoPlan, log: LocalLog, folder: Path, story: Story, screen: Screen) -> None:
    timeline = story.timeline

    def loader(name: str, batch_bytes: int) -> Child:
        arguments = ["--bootstrap", log.bootstrap, "--topic", INPUT_TOPIC]
        arguments += ["--identity-store", str(folder / "loader.identity"), "--batch-bytes", str(batch_bytes)]
        if plan.row_count_max is not None:
            arguments += ["--rows", str(plan.row_count_max)]
        return Child(name, "semel.demo.load", arguments, folder)

    began = time.monotonic()
    screen.step(f"load {story.row_count:,} flights")
    with loader("first loader", FIRST_BATCH_BYTES) as first:
        half = story.row_count // 2
        if timeline.wait_for(
            lambda _, last: last.input_rows >= half, lambda: first.is_running, STEP_TIMEOUT_S
        ):
            first.kill()
            timeline.mark("kill -9 producer", is_kill=True)
        first_ended = first.exit_code == 0
        if not first_ended and not timeline.events:
            first.check()
    if first_ended:
        raise SemelError("the loader was done before it could be killed: give --rows a larger number")
    story.stored_at_producer_kill = _settled_rows(log, INPUT_TOPIC)
    screen.step(f"producer killed with {story.stored_at_producer_kill:,} flights stored; resume it")
    with loader("second loader", SECOND_BATCH_BYTES) as second:
        timeline.mark("resume")
        timeline.wait_for(lambda *_: False, lambda: second.is_running, STEP_TIMEOUT_S)
        counts = second.answer()
    story.turned_away_by_producer = int(counts["dropped"])
    story.load_s = time.monotonic() - began


def _stream(log: LocalLog, cluster: Cluster, folder: Path, story: Story, screen: Screen) -> None:
    """Drivers until one ends well: the first is killed in mid-batch, under the second the server is."""
    began = time.monotonic()
    timeline, rows = story.timeline, story.row_count
    rows_per_batch = max(1, rows // MICRO_BATCHES)
    arguments = ["--bootstrap", log.bootstrap, "--input", INPUT_TOPIC, "--output", OUTPUT_TOPIC]
    arguments += ["--sink-id", SINK_ID, "--checkpoint", str(folder / "checkpoint")]
    arguments += ["--rows-per-batch", str(rows_per_batch)]

    def rising_above(share: float) -> Callable[[Sample, Sample], bool]:
        """Rows of a micro-batch are coming in right now, and the topic is filled to this share."""
        return lambda before, last: last.output_rows > max(before.output_rows, share * rows)

    server_was_killed = False
    while story.drivers < DRIVERS_MAX:
        story.drivers += 1
        screen.step(f"stream through Spark: driver {story.drivers}")
        with Child(f"driver {story.drivers}", "semel.demo.stream", arguments, folder) as driver:
            timeline.mark("driver starts" if story.drivers == 1 else "driver restarts")
            running = lambda: driver.is_running  # noqa: E731 - used within this round only
            if story.drivers == 1:
                if timeline.wait_for(rising_above(0.2), running, STEP_TIMEOUT_S):
                    driver.kill()
                    timeline.mark("kill -9 driver", is_kill=True)
                    screen.step("driver killed in mid-batch")
                    continue
            elif not server_was_killed and timeline.wait_for(rising_above(0.55), running, STEP_TIMEOUT_S):
                log.crash()
                timeline.mark("kill -9 server", is_kill=True)
                screen.step("server killed in mid-batch; start it again")
                log.restart()
                timeline.mark("server restarts")
                server_was_killed = True
            timeline.wait_for(lambda *_: False, running, STEP_TIMEOUT_S)
            if driver.exit_code == 0:
                story.micro_batches = len(driver.answer()["batches"])
                break
            if not server_was_killed or story.drivers == DRIVERS_MAX:
                driver.check()  # nobody had touched it: this is a defect, and the demo says so
            screen.step("the driver gave up with the server gone; start it again")
    story.turned_away_by_sink = _undecided_rows_found(cluster)
    story.stream_s = time.monotonic() - began


def _settled_rows(log: LocalLog, topic: str) -> int:
    """Rows of a topic that nobody writes to any more."""
    with Cluster(log.bootstrap, client_id="semel-demo") as cluster:
        partitions = [TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
        listed = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    return sum(at.offset for at in listed.values())


def _undecided_rows_found(cluster: Cluster) -> int:
    """Rows that runs of the sink found already stored by a run that was killed, and did not write again."""
    described = cluster.metadata([SINKS_TOPIC]).topics[SINKS_TOPIC]
    partitions = [TopicPartition(SINKS_TOPIC, number) for number in described.partitions]
    first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
    end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    found = 0
    for _, _, records in read_batches(
        cluster,
        {partition: at.offset for partition, at in first.items()},
        {partition: at.offset for partition, at in end.items()},
    ):
        for record in records:
            entry = None if record.value is None else decode(record.value)
            if isinstance(entry, Begin) and entry.sink_id == SINK_ID:
                found += sum(stored.digest.count for stored in entry.have.values())
    return found


def _check_spark() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise ConfigError("the demo streams through Spark: pip install 'semel[spark]', or say --no-spark")
