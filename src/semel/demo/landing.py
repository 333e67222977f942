"""Fourth act: ``semel land`` brings the copy into a Delta table, and is killed twice with a file in no commit.

A kill counts only if it left such a file: rows that were written, and of which the table must not know. One that
missed is repeated a bounded number of times.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from math import ceil
from typing import Final

from semel.demo.child import Child
from semel.demo.lives import Part
from semel.demo.scene import Scene
from semel.demo.story import NOT_LANDED

COMMITS: Final = 16
_DIES_BEHIND: Final = (3, 8)  # files
_TRIES_MAX: Final = 4  # of each kill


def play_landing(scene: Scene) -> None:
    """The whole copy is in the table when it returns; whether once is for the proof to say."""
    if find_spec("deltalake") is None:
        scene.screen.step(NOT_LANDED)
        return
    began = time.monotonic()
    scene.screen.step(f"land {scene.story.second_topic} in a Delta table")
    for least in _DIES_BEHIND:
        if not _killed_amid(scene, least):
            break
    with _next_landing(scene) as landing:
        scene.wait_for(lambda: False, landing)
        landing.check()
        scene.timeline.ends(Part.LANDING)
    scene.story.has_landed = True
    scene.story.land_s = time.monotonic() - began


def _killed_amid(scene: Scene, least: int) -> bool:
    """One kill, with so many files there, that leaves one which the table does not know.

    False when the landing was done before: a later kill would not come in time either.
    """
    row_count = scene.story.row_count
    for _ in range(_TRIES_MAX):
        counts = [len(_written(scene))]

        def is_amid(counts: list[int] = counts) -> bool:
            counts.append(len(_written(scene)))
            return counts[-1] > max(least, counts.pop(0))  # a file was just begun

        with _next_landing(scene) as landing:
            reached = scene.wait_for(is_amid, landing)
            landing.check()
            landing.kill()
            killed = scene.timeline.ends(Part.LANDING, killed=True)
        rows, loose = _left(scene)
        if not reached or landing.exit_code == 0 or rows >= row_count:
            words = "the landing was done before it could be killed: more --rows give it time"
            scene.missed(words, killed if landing.exit_code == 0 else None)
            killed.evidence = f"{rows:,} rows landed, which is all"
            return False
        killed.evidence = f"{rows:,} rows landed, " + (
            "a file in no commit" if loose else "between two commits: once more"
        )
        scene.screen.step(f"landing killed with {killed.evidence}; start it again")
        if loose:
            return True
    scene.missed(f"no kill of the landing left a file in no commit, in {_TRIES_MAX} tries")
    return True


def _next_landing(scene: Scene) -> Child:
    story = scene.story
    story.landings += 1
    arguments = ["land", story.second_topic, "--to", str(scene.table), "--until-end", "--quiet"]
    arguments += [
        "--commit-rows",
        str(ceil(story.row_count / COMMITS)),
        "--bootstrap",
        scene.second.bootstrap,
    ]
    scene.timeline.begins(Part.LANDING)
    return Child(f"landing-{story.landings}", "semel.cli", arguments, scene.folder)


def _written(scene: Scene) -> set[str]:
    """The Parquet files that lie in the table's folder."""
    return {path.name for path in scene.table.glob("*.parquet")}


def _left(scene: Scene) -> tuple[int, int]:
    """What a kill has left: rows in the table, and files that it does not know."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(scene.table)):
        return 0, len(_written(scene))
    table = DeltaTable(str(scene.table))
    committed = {uri.rpartition("/")[2] for uri in table.file_uris()}
    return int(table.to_pyarrow_dataset().count_rows()), len(_written(scene) - committed)
