"""First act: a loader is killed half-way and resumed with another batch size; under it the server is killed."""

from __future__ import annotations

import time
from typing import Final

from semel.demo.child import Child
from semel.demo.lives import Part
from semel.demo.scene import SILENCE_S_MAX, Scene
from semel.demo.story import INPUT_TOPIC

FIRST_BATCH_BYTES: Final = 16_384
SECOND_BATCH_BYTES: Final = 100_000
_PRODUCER_DIES_AT: Final = 0.5  # of all rows
_SERVER_DIES_AT: Final = 0.7


def play_loading(scene: Scene) -> None:
    """All flights are in the input topic when it returns, whether once is for the proof to say."""
    story, timeline = scene.story, scene.timeline
    began = time.monotonic()
    scene.screen.step(f"load {story.row_count:,} flights")
    with _loader(scene, "loader-1", FIRST_BATCH_BYTES) as first:
        half = int(story.row_count * _PRODUCER_DIES_AT)
        reached = timeline.wait_for(lambda _, last: last.input_rows >= half, first, SILENCE_S_MAX)
        first.check()
        first.kill()
        killed = timeline.ends(Part.PRODUCER, killed=True)
        if not reached or first.exit_code == 0:
            scene.missed("the loader was done before it could be killed: more --rows give it time", killed)
    story.stored_at_producer_kill = sum(scene.end_offsets(INPUT_TOPIC).values())
    killed.evidence = f"{story.stored_at_producer_kill:,} of {story.row_count:,} flights stored"
    scene.screen.step(f"producer killed with {story.stored_at_producer_kill:,} flights stored; resume it")
    with _loader(scene, "loader-2", SECOND_BATCH_BYTES) as second:
        most = int(story.row_count * _SERVER_DIES_AT)
        if timeline.wait_for(lambda _, last: last.input_rows >= most, second, SILENCE_S_MAX):
            stored = timeline.last.input_rows
            scene.kill_server().evidence = f"{stored:,} stored, the producer sending on"
            scene.screen.step("server killed under the producer; started again")
        timeline.wait_for_end_of(second, SILENCE_S_MAX)
        timeline.ends(Part.PRODUCER)
        story.dropped_by_resume = int(second.answer()["dropped"])
    story.load_s = time.monotonic() - began


def _loader(scene: Scene, name: str, batch_bytes: int) -> Child:
    arguments = ["--bootstrap", scene.log.bootstrap, "--topic", INPUT_TOPIC]
    arguments += ["--identity-store", str(scene.folder / "loader.identity")]
    arguments += ["--batch-bytes", str(batch_bytes), "--rows", str(scene.story.row_count)]
    scene.timeline.begins(Part.PRODUCER)
    return Child(name, "semel.demo.load", arguments, scene.folder)
