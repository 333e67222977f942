"""Second act: a Spark driver is killed in mid-batch, the next goes on, and under it the server is killed.

A kill counts only if it fell in the middle of a micro-batch, which the sink's journal tells afterwards. One
that missed is repeated a bounded number of times; then the demo goes on without it, and says so.
"""

from __future__ import annotations

import time
from math import ceil
from typing import Final

from semel.demo.child import Child
from semel.demo.lives import Life, Part
from semel.demo.scene import SILENCE_S_MAX, Scene
from semel.demo.sink_journal import SinkJournal
from semel.demo.story import INPUT_TOPIC, OUTPUT_TOPIC
from semel.demo.timeline import Sample

SINK_ID: Final = "demo"
MICRO_BATCHES: Final = 8
KILL_TRIES_MAX: Final = 3  # of the driver, and of the server
DRIVERS_MAX: Final = KILL_TRIES_MAX + 3  # one that ends well, and two that give up without their server
_AMID: Final = 1.4  # micro-batches after a driver's first row: one is decided, two fifths of the next stored


def play_streaming(scene: Scene) -> None:
    """Drivers until one comes to the end."""
    began = time.monotonic()
    story = scene.story
    journal = SinkJournal(scene.cluster, SINK_ID)
    tries = 0
    while not story.undecided_at_driver_kill:
        if tries == KILL_TRIES_MAX:
            scene.missed(f"no kill of the driver fell in mid-batch, in {tries} tries")
            break
        tries += 1
        with _next_driver(scene) as driver:
            if not _is_mid_batch(scene, driver):
                driver.check()
                scene.timeline.ends(Part.DRIVER)
                scene.missed(
                    f"driver {story.drivers} came to the end before it could be killed in mid-batch: more --rows "
                    "give it time"
                )
                break
            driver.kill()
            killed = scene.timeline.ends(Part.DRIVER, killed=True)
            story.undecided_at_driver_kill = journal.undecided_rows(scene.end_offsets(OUTPUT_TOPIC))
        _tell(scene, killed, story.undecided_at_driver_kill)
    tries = 0
    while True:
        with _next_driver(scene) as driver:
            while (
                not story.undecided_at_server_kill and tries < KILL_TRIES_MAX and _is_mid_batch(scene, driver)
            ):
                tries += 1
                _kill_server(scene, journal)
            scene.timeline.wait_for_end_of(driver, SILENCE_S_MAX)
            scene.timeline.ends(Part.DRIVER)
            if driver.exit_code == 0:
                break
            if story.drivers == DRIVERS_MAX:
                driver.check()
        scene.screen.step("the driver gave up while the server was gone; start it again")
    if not story.undecided_at_server_kill:
        scene.missed(f"no kill of the server fell in mid-batch, in {tries} tries")
    journal.read()
    story.found_stored_by_sink = journal.rows_found_stored
    story.stream_s = time.monotonic() - began


def _next_driver(scene: Scene) -> Child:
    story = scene.story
    story.drivers += 1
    scene.screen.step(f"stream through Spark: driver {story.drivers}")
    arguments = ["--bootstrap", scene.log.bootstrap, "--input", INPUT_TOPIC, "--output", OUTPUT_TOPIC]
    arguments += ["--sink-id", SINK_ID, "--checkpoint", str(scene.folder / "checkpoint")]
    arguments += ["--rows-per-batch", str(_rows_per_batch(scene)), "--scratch", str(scene.folder / "spark")]
    driver = Child(f"driver-{story.drivers}", "semel.demo.stream", arguments, scene.folder)
    scene.timeline.begins(Part.DRIVER)
    return driver


def _is_mid_batch(scene: Scene, driver: Child) -> bool:
    """Waits until rows of the second micro-batch from now are coming in; False when the driver ends first."""
    rows_per_batch = _rows_per_batch(scene)
    target = int((scene.timeline.last.output_rows // rows_per_batch + _AMID) * rows_per_batch)

    def amid(before: Sample, last: Sample) -> bool:
        return last.output_rows > max(before.output_rows, target)

    return scene.timeline.wait_for(amid, driver, SILENCE_S_MAX)


def _kill_server(scene: Scene, journal: SinkJournal) -> None:
    output_ends = scene.timeline.output_ends
    killed = scene.kill_server()
    scene.story.undecided_at_server_kill = journal.undecided_rows(output_ends)
    _tell(scene, killed, scene.story.undecided_at_server_kill)


def _tell(scene: Scene, killed: Life, undecided_rows: int) -> None:
    killed.evidence = (
        f"in mid-batch, {undecided_rows:,} rows stored, undecided"
        if undecided_rows
        else "between two micro-batches: once more"
    )
    scene.screen.step(f"{killed.part} killed {killed.evidence}")


def _rows_per_batch(scene: Scene) -> int:
    return ceil(scene.story.row_count / MICRO_BATCHES)
