"""Third act: ``semel copy`` brings the topic to a second log, and is killed twice with a part of it there."""

from __future__ import annotations

import time
from typing import Final

from semel.demo.child import Child
from semel.demo.lives import Part
from semel.demo.scene import Scene
from semel.demo.story import SECOND_PREFIX

_DIES_AT: Final = (0.3, 0.6)  # of all rows
_WHOLE_S: Final = 2.0  # for all rows, at a rate that leaves something for kills to fall into
_ROW_BYTES: Final = 150  # about


def play_copying(scene: Scene) -> None:
    """The whole topic is in the second log when it returns; whether once is for the proof to say."""
    began = time.monotonic()
    story = scene.story
    show = scene.screen.bar("copied", story.row_count)
    scene.screen.step(f"copy {story.last_topic} to a second log")
    for dies_at in _DIES_AT:
        least = int(story.row_count * dies_at)

        def is_there(least: int = least) -> bool:
            there = scene.second_offsets()
            show(there)
            return there >= least

        with _next_copy(scene) as copy:
            reached = scene.wait_for(is_there, copy)
            copy.check()
            copy.kill()
            killed = scene.timeline.ends(Part.COPY, killed=True)
        rows = scene.second_rows()
        if not reached or copy.exit_code == 0 or rows >= story.row_count:
            words = "the copy was done before it could be killed: more --rows give it time"
            scene.missed(words, killed if copy.exit_code == 0 else None)
            killed.evidence = f"all {rows:,} rows in the second log"
            break
        killed.evidence = f"{rows:,} of {story.row_count:,} rows in the second log"
        scene.screen.step(f"copy killed with {rows:,} rows in the second log; start it again")
    with _next_copy(scene) as copy:
        scene.wait_for(lambda: show(scene.second_offsets()), copy)
        copy.check()
        scene.timeline.ends(Part.COPY)
    story.copy_s = time.monotonic() - began


def _next_copy(scene: Scene) -> Child:
    story = scene.story
    story.copies += 1
    arguments = ["copy", "--from", scene.log.bootstrap, "--to", scene.second.bootstrap, story.last_topic]
    arguments += ["--prefix", SECOND_PREFIX, "--until-end", "--quiet"]
    arguments += ["--rate", str(int(story.row_count * _ROW_BYTES / _WHOLE_S))]
    scene.timeline.begins(Part.COPY)
    return Child(f"copy-{story.copies}", "semel.cli", arguments, scene.folder)
