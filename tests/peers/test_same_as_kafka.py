"""The cases of ``tools/same_as_kafka.py``, one test each, and what the comparison makes of what it sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.same_as_kafka import golden
from tests.peers.same_as_kafka.__main__ import main, report
from tests.peers.same_as_kafka.comparing import Case, Compared, Crashed, all_cases, differences, look
from tests.peers.same_as_kafka.wire import NODE_ID

from semel.local import LocalLog


@pytest.fixture(scope="module")
def semel_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    """A semel whose node has the id of Apache Kafka's."""
    with LocalLog(tmp_path_factory.mktemp("same"), broker_id=NODE_ID) as log:
        yield log


@pytest.fixture(scope="module")
def as_recorded() -> dict[str, object]:
    """What each case saw of Apache Kafka when it was asked last."""
    version, observations = golden.read()
    assert version == golden.kafka_version(), f"recorded of {version}: python tools/same_as_kafka.py --record"
    return observations


@pytest.mark.slow
@pytest.mark.xdist_group("same_as_kafka")
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_semel_answers_what_kafka_answered(
    case: Case, semel_log: LocalLog, as_recorded: dict[str, object]
) -> None:
    found = Compared(case, look(case, semel_log.bootstrap), as_recorded[case.name])
    assert found.verdict != "differs", found.what_differs


@pytest.mark.kafka
@pytest.mark.thorough
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_kafka_answers_as_it_did(
    case: Case, apache_kafka: ApacheKafka, as_recorded: dict[str, object]
) -> None:
    seen = look(case, apache_kafka.bootstrap)
    assert not list(differences(as_recorded[case.name], seen)), "python tools/same_as_kafka.py --record"


def test_what_was_recorded_is_of_the_cases_that_there_are() -> None:
    _, observations = golden.read()
    assert observations.keys() == {case.name for case in all_cases()}


def test_what_cannot_be_read_back_is_not_recorded() -> None:
    with pytest.raises(ValueError, match=r"theme\.name: .* cannot be read back"):
        golden.write({"theme.name": Case("theme.name", str)})


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
