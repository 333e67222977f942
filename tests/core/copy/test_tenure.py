"""Who may take a job over from itself."""

from __future__ import annotations

import pytest

from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Begun, Entry, Held
from semel.core.copy.tenure import Tenure
from semel.types import ProducerGrant

OLDER, OWN, NEWER, ELSEWHERE = (
    ProducerGrant(7, 3),
    ProducerGrant(7, 4),
    ProducerGrant(7, 6),
    ProducerGrant(9, 0),  # the name was forgotten meanwhile
)


def held(grant: ProducerGrant) -> Entry:
    return Held(grant, "somebody", 0)


def is_over(*journal: Entry, is_begun: bool = False) -> bool:
    history = CopyHistory()
    for entry in journal:
        history.apply(entry)
    return Tenure({OWN}, is_begun).is_over(history)


def is_set_back(*journal: Entry, is_begun: bool = False) -> bool:
    history = CopyHistory()
    for entry in journal:
        history.apply(entry)
    return Tenure({OWN}, is_begun).is_set_back(history)


def test_nobody_came_since() -> None:
    assert not is_over(held(OLDER), held(OWN), is_begun=True)


@pytest.mark.parametrize("newer", [NEWER, ELSEWHERE])
@pytest.mark.parametrize("is_begun", [True, False])  # False: its answer was lost
def test_a_newer_copy_holds_it(newer: ProducerGrant, is_begun: bool) -> None:
    assert is_over(held(OLDER), held(OWN), held(newer), is_begun=is_begun)


@pytest.mark.parametrize("newer", [NEWER, ELSEWHERE])
def test_a_newer_copy_has_cut_the_journal(newer: ProducerGrant) -> None:
    assert is_over(Begun(newer, "somebody", ()), is_begun=True)


def test_the_newer_epoch_is_newer_though_nothing_of_the_own_is_left() -> None:
    assert is_over(Begun(NEWER, "somebody", ()))


@pytest.mark.parametrize("journal", [(held(OLDER),), (Begun(OLDER, "somebody", ()),), ()])
def test_an_older_holder_or_none_is_a_journal_that_has_lost_its_end(journal: tuple[Entry, ...]) -> None:
    assert is_set_back(*journal, is_begun=True)
    assert not is_set_back(*journal)  # the own HELD may never have come there


@pytest.mark.parametrize(
    "journal",
    [
        (held(OWN),),
        (held(OWN), held(NEWER)),
        (held(OWN), held(OLDER)),  # it came late, to a log that had forgotten the epoch
        (Begun(NEWER, "somebody", ()),),
        (Begun(ELSEWHERE, "somebody", ()),),  # older or newer, nobody knows
    ],
)
def test_a_holder_that_may_be_newer_shows_no_lost_end(journal: tuple[Entry, ...]) -> None:
    assert not is_set_back(*journal, is_begun=True)


def test_what_this_process_held_under_an_earlier_id_counts() -> None:
    history = CopyHistory()
    history.apply(held(OLDER))
    assert Tenure({OWN, ELSEWHERE}, is_begun=True).is_set_back(history)


@pytest.mark.parametrize(
    ("journal", "is_known"),
    [((held(OWN), held(ELSEWHERE)), True), ((held(NEWER),), True), ((held(ELSEWHERE),), False)],
)
def test_whether_the_holder_is_newer_is_known_by_the_own_epoch(
    journal: tuple[Entry, ...], is_known: bool
) -> None:
    history = CopyHistory()
    for entry in journal:
        history.apply(entry)
    assert Tenure({OWN}, is_begun=True).is_behind(history) is is_known


def test_who_never_held_it_takes_it_over_as_a_first_start_does() -> None:
    assert not is_over()
    assert not is_over(held(OLDER))
    assert not is_over(held(ELSEWHERE))
