from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import ANN, BOB, GROUP, KEY, NEWER, OLDER, note, stored, story, wrote

from semel.core.group.records import CommittedOffset, StoredGroup
from semel.sim.groups.checkers import OlderGenerationNeverCommits
from semel.sim.groups.story import Who

TOOL = Who(GROUP, "tool", "")


def commit(text: str, *before: StoredGroup, refused_from: int | None = None) -> None:
    """It is written behind these."""
    of = wrote(story(), *before)
    of.log.refused_from = refused_from
    OlderGenerationNeverCommits().offset_written(of, KEY, CommittedOffset(5, metadata=text))


def test_a_member_commits_in_its_generation() -> None:
    commit(note(ANN, 2), stored(1, ANN), stored(2, ANN, BOB))


@pytest.mark.parametrize("generation_id", [1, 3])
def test_in_no_other(breaks: Breaks, generation_id: int) -> None:
    with breaks():
        commit(note(ANN, generation_id), stored(1, ANN), stored(2, ANN, BOB))


def test_who_is_no_member_of_it_does_not(breaks: Breaks) -> None:
    with breaks():
        commit(note(BOB, 2), stored(1, ANN, BOB), stored(2, ANN))


def test_who_was_fenced_does_not(breaks: Breaks) -> None:
    with breaks():
        commit(note(OLDER, 1), stored(1, OLDER), stored(1, NEWER))


def test_nobody_commits_for_a_group_that_is_not_there(breaks: Breaks) -> None:
    with breaks():
        commit(note(ANN, 1))


@pytest.mark.parametrize("before", [(), (stored(1, ANN), stored(2))])
def test_a_tool_commits_where_nobody_is(before: tuple[StoredGroup, ...]) -> None:
    commit(note(TOOL, -1), *before)


def test_a_tool_does_not_beside_members(breaks: Breaks) -> None:
    with breaks():
        commit(note(TOOL, -1), stored(1, ANN))


def test_what_the_disk_has_refused_the_log_does_not_know() -> None:
    commit(note(TOOL, -1), stored(1, ANN), refused_from=1)


def test_it_knows_again_behind_the_next_record(breaks: Breaks) -> None:
    with breaks():
        commit(note(TOOL, -1), stored(1), stored(2, ANN), refused_from=1)


def test_of_who_writes_no_note_nothing_is_known() -> None:
    commit("", stored(1, ANN))
