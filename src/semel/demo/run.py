"""Plays the story: load, stream, copy and land, each with two kills; prove, report.

Every kill happens where it hurts: the producer half-way, the server under the resumed producer, driver and
server while rows of a micro-batch are coming in, the copy with a part of the topic in the second log, the landing
with a file of rows that is in no commit. What had to be turned away is counted from what the parts
say themselves: the producer counts the rows that it drops on resume, the server its "duplicate" verdicts, and
each run of the sink writes into its journal which undecided rows of its predecessor it found.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from semel.client.blocking import Cluster
from semel.demo.copying import play_copying
from semel.demo.data import data_folder
from semel.demo.landing import play_landing
from semel.demo.lives import Part
from semel.demo.loading import play_loading
from semel.demo.proof import Proof, prove, prove_copy, prove_table
from semel.demo.scene import Scene
from semel.demo.story import INPUT_TOPIC, OUTPUT_TOPIC, PARTITION_COUNT, DemoPlan, Story
from semel.demo.streaming import play_streaming
from semel.demo.summary import Screen
from semel.demo.timeline import Timeline
from semel.demo.verdicts import VerdictCounts, free_address
from semel.errors import ConfigError, SemelError
from semel.local import LocalLog
from semel.wording import INSTALL_SPARK

# Small answers: a copy or a landing of few rows takes several, so that a kill comes between two.
_FETCH_BYTES_MAX: Final = 512 * 1024


def run_demo(plan: DemoPlan) -> bool:
    """Play it all; whether the proof holds. The scratch folder is kept when it does not."""
    from semel.demo.report import write_report

    data_folder()  # refuses before anything is started
    if plan.with_spark:
        _check_spark()
    if not plan.report_path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder for the report {plan.report_path}")
    folder = plan.folder or Path(tempfile.mkdtemp(prefix="semel-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "data").exists():
        raise ConfigError(f"{folder} holds an earlier run: name an empty folder with --dir")
    began = time.monotonic()
    keep_evidence = plan.folder is not None
    with Screen() as screen:
        try:
            story, proof = _play(plan, folder, screen)
            keep_evidence |= not proof.holds
        except SemelError as error:
            keep_evidence = True
            raise SemelError(f"{error} (the logs are kept in {folder})") from error
        finally:
            if not keep_evidence:
                shutil.rmtree(folder, ignore_errors=True)
    story.total_s = time.monotonic() - began
    write_report(plan.report_path, story, proof)
    screen.summary(story, proof, plan.report_path)
    if not proof.holds:
        screen.step(f"the evidence is kept in {folder}")
    return proof.holds


def _play(plan: DemoPlan, folder: Path, screen: Screen) -> tuple[Story, Proof]:
    screen.step(f"two log servers in {folder}")
    metrics = free_address()
    with (
        LocalLog(folder / "data", metrics=metrics, fetch_max_bytes=_FETCH_BYTES_MAX) as log,
        LocalLog(folder / "second", fetch_max_bytes=_FETCH_BYTES_MAX) as second,
        Cluster(log.bootstrap, client_id="semel-demo") as cluster,
        Cluster(second.bootstrap, client_id="semel-demo") as second_cluster,
    ):
        cluster.create_topics({INPUT_TOPIC: PARTITION_COUNT, OUTPUT_TOPIC: PARTITION_COUNT})
        verdicts = VerdictCounts(metrics)
        timeline = Timeline(log.bootstrap, INPUT_TOPIC, OUTPUT_TOPIC, PARTITION_COUNT, began_s=screen.began_s)
        story = Story(plan.row_count, timeline, OUTPUT_TOPIC if plan.with_spark else INPUT_TOPIC)
        timeline.watcher = screen.watcher(story.row_count, plan.with_spark)
        with timeline:
            timeline.begins(Part.SERVER)
            scene = Scene(plan, folder, log, second, cluster, second_cluster, verdicts, story, screen)
            play_loading(scene)
            if plan.with_spark:
                play_streaming(scene)
            play_copying(scene)
            play_landing(scene)
            timeline.ends(Part.SERVER)
        verdicts.read()
        story.duplicate_batches = verdicts.duplicate_batches
        began = time.monotonic()
        proof = _prove(scene)
        story.prove_s = time.monotonic() - began
        if proof.piped is not None:
            story.partitions = {topic.topic: dict(topic.partition_rows) for topic in proof.piped.topics}
    return story, proof


def _prove(scene: Scene) -> Proof:
    plan, story = scene.plan, scene.story
    output = OUTPUT_TOPIC if plan.with_spark else None
    names = ["the file", INPUT_TOPIC] + [OUTPUT_TOPIC] * plan.with_spark + [story.second_topic]
    scene.screen.step("prove: " + " against ".join(names + ["the Delta table"] * story.has_landed))
    readings = 2 + plan.with_spark + 2 + 2 * story.has_landed
    progress = scene.screen.proof_progress(story.row_count * readings)
    proof = prove(scene.cluster, INPUT_TOPIC, output, plan.row_count, progress)
    copied = prove_copy(scene.cluster, scene.second_cluster, story.last_topic, story.second_topic, progress)
    landed = None
    if story.has_landed:
        landed = prove_table(scene.second_cluster, story.second_topic, scene.table, progress)
    return replace(proof, copied=copied, landed=landed)


def _check_spark() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise ConfigError(f"the demo streams through Spark: {INSTALL_SPARK}, or say --no-spark")
