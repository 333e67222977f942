"""What each kind of audit says that it did not compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from semel.audit.checks import Comparison, Uniqueness
from semel.audit.gaps import not_compared
from semel.audit.identity import By, IdentityRule, KeyFrom
from semel.audit.report import TopicAudit
from semel.audit.run import AuditPlan
from semel.audit.sequences import SequenceCheck
from semel.audit.transactions import TransactionVerdict

KEY = IdentityRule(KeyFrom.KEY)
TOPIC = TopicAudit("t", {0: 5}, {0: 0}, {0: 5}, SequenceCheck().verdict())
COMPARED = Comparison(5, 5, 5, 0, 2, (), unordered_rows=1)
OF_TOPIC: dict[str, Any] = {"output_topic": "out", "input_topic": "in"}


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (OF_TOPIC, "headers and timestamps of rows, and the partitions that they lie in"),
        (OF_TOPIC, "the order of rows of different keys, and of 1 row without one"),
        ({**OF_TOPIC, "order": None}, "the order of rows"),
        (
            {**OF_TOPIC, "output_identity": KEY, "input_identity": KEY},
            "what rows hold beside what names them (key)",
        ),
        ({**OF_TOPIC, "subset": True}, "whether a row of the input is missing, as --subset allows"),
        (
            {**OF_TOPIC, "input_value": "upper(value)"},
            "the input's values as they are: --input-value makes upper(value)",
        ),
        ({**OF_TOPIC, "by": By.LINEAGE}, "what rows hold: a lineage header says which input row"),
        ({**OF_TOPIC, "by": By.LINEAGE}, "how many rows came of each input row"),
        ({**OF_TOPIC, "by": By.LINEAGE}, "the order of rows"),
    ],
)
def test_of_an_output_with_an_input(plan: dict[str, Any], said: str) -> None:
    found = not_compared(AuditPlan(**plan), TOPIC, TOPIC, COMPARED)
    assert any(each.startswith(said) for each in found), found


@pytest.mark.parametrize(
    ("plan", "result", "said"),
    [
        (
            {},
            Uniqueness(5, ()),
            "what should be there: without an input, a row that never came, and one that was sent twi",
        ),
        ({}, Uniqueness(5, (), 2), "2 rows that equal an earlier one, each sent by itself"),
        (
            {"named": True},
            Uniqueness(5, ()),
            "what should be there: without an input, a row that never came is not seen",
        ),
        (
            {"group": "g"},
            Uniqueness(5, ()),
            "what group g has made of the rows: only that its positions lie in the log",
        ),
    ],
)
def test_of_an_output_alone(plan: dict[str, Any], result: Uniqueness, said: str) -> None:
    found = not_compared(AuditPlan(output_topic="t", **plan), None, TOPIC, result)
    assert any(each.startswith(said) for each in found), found


@pytest.mark.parametrize(
    ("has", "said"),
    [
        (
            {"log_start_offsets": {0: 3}},
            "what was before the start of t, which begins at 0@3 (partition@offset): it is gone",
        ),
        ({"other_rows": 1}, "1 row of t that came of other topics"),
        ({"is_compacted": True}, "what compaction took of t"),
        ({"transactions": TransactionVerdict(0, 9, 1, 2, 0, ())}, "1 row of open transactions in t"),
        ({"transactions": TransactionVerdict(0, 9, 1, 2, 0, ())}, "2 rows behind an open transaction in t"),
    ],
)
def test_of_a_topic_on_either_side(has: dict[str, Any], said: str) -> None:
    plan, topic = AuditPlan(**OF_TOPIC), replace(TOPIC, **has)
    assert said in not_compared(plan, topic, TOPIC, COMPARED)
    assert said in not_compared(plan, TOPIC, topic, COMPARED)
