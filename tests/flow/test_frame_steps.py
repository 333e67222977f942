"""What is judged of Spark's SQL before Spark sees it: plain nonsense only."""

from __future__ import annotations

import pytest

from semel.core.flow.schema import parse_schema
from semel.flow.frame_steps import Apply, Select, Where, item_name, misspelled_column

COLUMNS = parse_schema("user string, url string, at timestamp, amount double, urls string")


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("usr = 'a'", "usr"),
        ("url IS NOT NULL AND ammount > 1", "ammount"),
        ("length(urll) > 3", "urll"),
        ("`usr` = 1", "usr"),
        ("case when amonut > 1 then 1 end", "amonut"),
    ],
)
def test_a_word_that_is_nearly_a_column_is_one_that_is_spelled_wrong(expression: str, word: str) -> None:
    assert (misspelled_column(expression, COLUMNS) or ("", ""))[0] == word


@pytest.mark.parametrize(
    "expression",
    [
        "user = 'usr' AND url <> \"ulr\" AND url like 'it''s usr'",
        "USER IS NOT NULL",
        "upper(user) = 'A' and amount between 1 and 2",
        "at > current_timestamp - interval 10 minutes",
        "cast(amount as int) > 1 and date(at) = date '2020-01-01'",
        "exists(split(urls, ','), x -> x = 'a')",
        "filter(split(urls, ','), ur -> ur = 'a') is not null",
        "nothing_like_it > 1",
        "t.usr = 1",
        "usr(1) = 2",
        "case when amount > 1 then true else false end",
    ],
)
def test_what_may_be_right_is_left_to_spark(expression: str) -> None:
    assert misspelled_column(expression, COLUMNS) is None


@pytest.mark.parametrize(
    ("item", "name", "source"),
    [
        ("user", "user", "user"),
        (" `user` ", "user", "user"),
        ("user AS name", "name", "user"),
        ("user as `name`", "name", "user"),
        ("length(url) AS size", "size", None),
        ("length(url)", None, None),
        ("cast(amount as int)", None, None),
        ("cast(amount as int) as n", "n", None),
        ("1", None, None),
    ],
)
def test_an_item_of_a_selection_says_its_name(item: str, name: str | None, source: str | None) -> None:
    assert item_name(item) == (name, source)


def test_steps_of_spark_say_what_a_replay_has_to_find() -> None:
    assert Where("a > 1").plan_parts() == {"step": "where", "condition": "a > 1"}
    select = Select(("user", "amount AS n"), parse_schema("user string, n double"))
    assert select.plan_parts()["columns"] == ["user", "amount AS n"]
    assert select.output_schema(COLUMNS).names == ("user", "n")
    apply = Apply(str, "str", "1", COLUMNS)
    assert apply.plan_parts()["version"] == "1"
    assert not any(step.is_stateful or step.state_parts() for step in (Where("a"), select, apply))
