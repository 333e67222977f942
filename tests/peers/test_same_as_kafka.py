"""The cases of ``tools/same_as_kafka.py``, one test each, and what the comparison makes of what it sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.same_as_kafka.__main__ import main, report
from tests.peers.same_as_kafka.comparing import Case, Compared, Crashed, all_cases, differences, look
from tests.peers.same_as_kafka.wire import NODE_ID

from semel.local import LocalLog


@pytest.fixture(scope="module")
def semel_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    """A semel whose node has the id of Apache Kafka's."""
    with LocalLog(tmp_path_factory.mktemp("same"), broker_id=NODE_ID) as log:
        yield log


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_both_answer_the_same(case: Case, semel_log: LocalLog, apache_kafka: ApacheKafka) -> None:
    found = Compared(case, look(case, semel_log.bootstrap), look(case, apache_kafka.bootstrap))
    assert found.verdict != "differs", found.what_differs


def _verdict(semel: object, kafka: object, *, explains: Case | None = None) -> str:
    return Compared(explains or Case("theme.name", str), semel, kafka).verdict


def test_only_what_holds_on_both_sides_explains_a_difference() -> None:
    assert _verdict(1, 1) == "same"
    assert _verdict(1, 2) == "differs"
    known = Case("theme.name", str, because="they count from elsewhere", semel=1, kafka=2)
    assert _verdict(1, 2, explains=known) == "explained"
    assert _verdict(3, 2, explains=known) == "differs"
    assert _verdict(1, 3, explains=known) == "differs"
    assert _verdict(2, 2, explains=known) == "differs", "what it explains is gone"


def test_a_difference_is_printed_in_full_and_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    same = Compared(Case("theme.same", str), [1], [1])
    known = Case("theme.known", str, because="they count from elsewhere", semel=1, kafka=2)
    assert report([same, Compared(known, 1, 2)]) == 0
    assert "theme.known: they count from elsewhere" in capsys.readouterr().out
    other = Compared(Case("theme.other", str), "x" * 500, "[bold]")
    assert report([same, other]) == 1
    printed = capsys.readouterr().out
    assert "x" * 500 in printed
    assert "[bold]" in printed
    assert "1 same, 0 explained, 1 differs" in printed


def test_a_difference_is_found_where_it_lies() -> None:
    semel = {"a": [1, {"b": (2, 3)}], "c": [1]}
    kafka = {"a": [1, {"b": (2, 4)}], "c": [1, 2]}
    assert list(differences(semel, kafka)) == [("['a'][1]['b'][1]", 3, 4), ("['c']", [1], [1, 2])]
    assert list(differences(semel, semel)) == []


def test_a_word_that_no_case_has_in_its_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing of this name"]) == 2
    assert "no case has nothing of this name" in capsys.readouterr().err


def test_a_crash_on_both_sides_is_not_the_same() -> None:
    assert _verdict(Crashed("closed"), Crashed("closed")) == "differs"
