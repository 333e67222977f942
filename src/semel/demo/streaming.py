"""Second act: a Spark driver is killed in mid-batch, the next goes on, and under it the server is killed.

A kill counts only if it fell in the middle of a micro-batch, which the sink's journal tells afterwards. One
that missed is repeated a bounded number of times; a demo whose kills all missed fails and says so.
"""

from __future__ import annotations

import time
from typing import Final

from semel.demo.child import Child
from semel.demo.scene import SILENCE_S_MAX, Scene
from semel.demo.sink_journal import SinkJournal
from semel.demo.story import INPUT_TOPIC, OUTPUT_TOPIC
from semel.demo.timeline import Sample
from semel.errors import SemelError

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
            raise SemelError(f"no kill of the driver fell in mid-batch, in {tries} tries: run the demo again")
        tries += 1
        with _next_driver(scene) as driver:
            _await_mid_batch(scene, driver)
            driver.kill()
            scene.timeline.mark("kill -9 driver", is_kill=True)
            story.undecided_at_driver_kill = journal.undecided_rows(scene.end_offsets(OUTPUT_TOPIC))
        _tell(scene, "driver", story.undecided_at_driver_kill)
    while True:
        with _next_driver(scene) as driver:
            if not story.undecided_at_server_kill:
                _kill_server_in_mid_batch(scene, driver, journal)
            scene.timeline.wait_for_end_of(driver, SILENCE_S_MAX)
            if driver.exit_code == 0:
                break
            if story.drivers == DRIVERS_MAX:
                driver.check()
        scene.screen.step("the driver gave up while the server was gone; start it again")
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
    scene.timeline.mark("driver starts" if story.drivers == 1 else "driver restarts")
    return driver


def _await_mid_batch(scene: Scene, driver: Child) -> None:
    """Until rows of the second micro-batch from now are coming in."""
    rows_per_batch = _rows_per_batch(scene)
    target = int((scene.timeline.last.output_rows // rows_per_batch + _AMID) * rows_per_batch)

    def amid(before: Sample, last: Sample) -> bool:
        return last.output_rows > max(before.output_rows, target)

    if not scene.timeline.wait_for(amid, driver, SILENCE_S_MAX):
        driver.check()
        raise SemelError(
            f"driver {scene.story.drivers} came to the end before a kill fell in mid-batch: "
            "give --rows a larger number"
        )


def _kill_server_in_mid_batch(scene: Scene, driver: Child, journal: SinkJournal) -> None:
    for _ in range(KILL_TRIES_MAX):
        _await_mid_batch(scene, driver)
        output_ends = scene.timeline.output_ends
        scene.kill_server()
        scene.story.undecided_at_server_kill = journal.undecided_rows(output_ends)
        _tell(scene, "server", scene.story.undecided_at_server_kill)
        if scene.story.undecided_at_server_kill:
            return
    raise SemelError(
        f"no kill of the server fell in mid-batch, in {KILL_TRIES_MAX} tries: run the demo again"
    )


def _tell(scene: Scene, who: str, undecided_rows: int) -> None:
    if undecided_rows:
        scene.screen.step(f"{who} killed in mid-batch, with {undecided_rows:,} undecided rows stored")
    else:
        scene.screen.step(f"{who} killed between two micro-batches, which proves too little: once more")


def _rows_per_batch(scene: Scene) -> int:
    return max(1, scene.story.row_count // MICRO_BATCHES)
