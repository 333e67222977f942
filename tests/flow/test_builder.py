"""Each step that makes no sense is an error where it is written: which step, which line, what is wrong, what to do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.core.flow.schema import Kind
from semel.errors import FlowError, SemelError
from semel.flow import Keyed, Record, Stream, Table, checks, flow, source
from semel.flow.windowed import Windowed

CLICKS = "user string, url string, at timestamp, n int"
clicks = source("clicks", json=CLICKS)
recorded = source("clicks", json=CLICKS, record=True)
raw = source("raw")
users = source("users", json="user string, country string").as_table("user")
keyed = clicks.key_by("user")


@dataclass
class Word:
    word: str


def same(row: Any) -> Any:
    return row


def with_record(row: Any, record: Record) -> Any:
    return record.timestamp


def tables_with_record(rows: pa.Table, record: Record) -> pa.Table:
    return rows


def fold_rows(state: Any, row: Any) -> Any:
    return state, row


@dataclass
class Total:
    n: int = 0


def fold_totals(state: Total, row: Any) -> Any:
    return state, None


def tables(rows: pa.Table) -> pa.Table:
    return rows


def folded_tables(state: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    return state, rows


async def later(row: Any) -> Any:
    return row


ERRORS: dict[str, tuple[Callable[[], Any], str, str]] = {
    # columns
    "key_by names a column that is not there": (
        lambda: clicks.key_by("usr"),
        "there is no column 'usr' (did you mean 'user'?)",
        "The rows have: user string",
    ),
    "key_by names no column": (lambda: clicks.key_by(), "no column is named", "Name one or more"),
    "key_by names a column twice": (lambda: clicks.key_by("user", "user"), "named twice", "Name it once"),
    "key_by with something else": (lambda: clicks.key_by(3), "3 is no column's name", "'user', 'url'"),
    "no partitions": (lambda: clicks.key_by("user", partitions=0), "partitions=0", "Write 1 or more"),
    "key_by of bytes": (lambda: raw.key_by("user"), "the rows are bytes", "source(..., json="),
    "key_by of what a lambda returns": (
        lambda: clicks.map(lambda row: {"user": row.user}).key_by("user"),
        "what the step in front of it returns is not declared",
        'schema="name type, ..."',
    ),
    "select of a column that is not there": (
        lambda: clicks.select("usr"),
        "there is no column 'usr' (did you mean 'user'?)",
        "The rows have",
    ),
    "select of nothing": (lambda: clicks.select(), "nothing is selected", "Name the columns"),
    "select of all": (lambda: clicks.select("*"), "* is not taken", "Name the columns"),
    "select of an expression": (
        lambda: clicks.select("user", "length(url) AS size"),
        "the type of 'length(url) AS size' is not known before Spark runs",
        "schema=",
    ),
    "select of two under one name": (
        lambda: clicks.select("user", "url AS user"),
        "there are two columns 'user'",
        "Give each column a name",
    ),
    "select declares too few": (
        lambda: clicks.select("user", "length(url) AS size", schema="user string"),
        "2 columns are selected and 1 declared",
        "in order",
    ),
    "select declares another name": (
        lambda: clicks.select("length(url) AS size", schema="length int"),
        "column 'size' is declared as 'length'",
        "in the order",
    ),
    "where with a misspelled column": (
        lambda: clicks.where("usr IS NOT NULL AND n > 1"),
        "there is no column 'usr' (did you mean 'user'?)",
        "The rows have",
    ),
    "where with a function": (lambda: clicks.where(same), "is not a condition in SQL", "filter()"),
    "where with nothing": (lambda: clicks.where("  "), "a condition is missing", "Spark's SQL"),
    "where on bytes": (lambda: raw.where("value = 1"), "needs columns, and the rows are bytes", "json="),
    "apply on bytes": (lambda: raw.apply(same), "a DataFrame needs columns", "json="),
    "sum of text": (lambda: keyed.sum("url"), "column 'url' is string, and no number", "numbers"),
    "sum of nothing": (lambda: keyed.sum("m"), "there is no column 'm'", "The rows have"),
    "max of nothing": (lambda: keyed.max("uri"), "did you mean 'url'?", "The rows have"),
    "count in a key's column": (lambda: keyed.count("user"), "two columns 'user'", "Name the new column"),
    # schemas
    "a schema with a wrong type": (
        lambda: source("t", json="user strng"),
        "'strng' is no type; did you mean 'string'?",
        "name type",
    ),
    "a schema of a class without annotations": (
        lambda: source("t", json=int),
        "no annotations",
        "annotations",
    ),
    "map with a wrong schema": (
        lambda: clicks.map(same, schema="user"),
        "column 'user' has no type",
        "name type",
    ),
    # functions
    "filter with text": (lambda: clicks.filter("n > 1"), "'n > 1' is text", "where()"),
    "map with no function": (lambda: clicks.map(3), "3 cannot be called", "a function of a row"),
    "map with a function of three": (
        lambda: clicks.map(lambda row, record, more: row),
        "cannot be called with a row: it is <lambda>(row, record, more)",
        "nothing else",
    ),
    "map with a function of two": (
        lambda: clicks.map(fold_rows),
        "the function is of two, fold_rows(state",
        "Write it for a row alone. Of a source with record=True",
    ),
    "a record behind a step with state": (
        lambda: recorded.key_by("user").last().filter(with_record),
        "these rows carry none",
        "behind a step with state",
    ),
    "a record behind a join": (
        lambda: recorded.join(users).branch(with_record),
        "these rows carry none",
        "behind a step with state",
    ),
    "a record behind apply": (
        lambda: recorded.apply(same, schema=CLICKS).flat_map(with_record),
        "these rows carry none",
        "behind apply()",
    ),
    "a record where only one of two streams has it": (
        lambda: recorded.merge(clicks).filter(with_record),
        "these rows carry none",
        "record=True",
    ),
    "a record beside a table": (
        lambda: recorded.map(tables_with_record),
        "a function of Arrow tables sees columns, and no records",
        "map(lambda row, record: ...)",
    ),
    "a record in SQL without one": (
        lambda: clicks.where("n > 1 and _record.timestamp > at"),
        "it looks at _record, and these rows carry no record",
        "record=True",
    ),
    "a record in a selection behind a step with state": (
        lambda: recorded.key_by("user").last().select("`_RECORD`.key AS k", schema="k binary"),
        "these rows carry no record",
        "behind a step with state",
    ),
    "a column by the record's name": (
        lambda: source("t", json="_Record string", record=True),
        "column '_Record' has the name that the record has in SQL",
        "record=True",
    ),
    "a map that makes a column by the record's name": (
        lambda: recorded.map(same, schema="_record string"),
        "column '_record' has the name",
        "Name it otherwise",
    ),
    "map with an asynchronous function": (lambda: clicks.map(later), "asynchronous", "with def"),
    "fold that begins as a class": (
        lambda: keyed.fold(fold_totals, Total),
        "its state begins as <class 'tests.flow.test_builder.Total'>, which is no state of fold fold_totals",
        "init=Total()",
    ),
    "fold that begins as another type": (
        lambda: keyed.fold(fold_totals, 0),
        "its state begins as 0, which is no state of fold fold_totals: ",
        "annotates its first parameter with (Total)",
    ),
    "fold of a window that begins as another type": (
        lambda: keyed.tumbling("1 h", on="at").fold(fold_totals, "", schema="n int"),
        "its state begins as '', which is no state of",
        "(Total)",
    ),
    "fold with a function of one": (lambda: keyed.fold(same), "with a state and a row", "nothing else"),
    # keys
    "fold without key_by": (
        lambda: clicks.fold(fold_rows),
        "the rows have no key that the flow knows",
        'Put .key_by("user") in front of it',
    ),
    "count without key_by": (lambda: clicks.count(), "no key that the flow knows", "key_by"),
    "last of bytes": (lambda: raw.last(), "no key that the flow knows", 'key_by("...")'),
    "count behind apply": (lambda: keyed.apply(same).count(), "no key that the flow knows", "key_by"),
    "fold of tables without columns": (
        lambda: keyed.fold(folded_tables, state="total int"),
        "the columns of its rows are not declared",
        'state="name type, ..."',
    ),
    "fold of tables without its state": (
        lambda: keyed.fold(folded_tables, schema="n int"),
        "the columns of its state are not declared",
        'schema="name type, ..."',
    ),
    "fold of tables with a beginning": (
        lambda: keyed.fold(folded_tables, 0, schema="n int", state="total int"),
        "begins as a table without rows",
        "Leave init out",
    ),
    "fold of tables with a column of the key's name": (
        lambda: keyed.fold(folded_tables, schema="_key int", state="total int"),
        "column '_key' is the key's own",
        "otherwise",
    ),
    "fold of rows with a state that is declared": (
        lambda: keyed.fold(fold_rows, state="total int"),
        "whatever its function returns",
        "Leave state= out",
    ),
    "fold of tables in a window": (
        lambda: keyed.tumbling("1 h", on="at").fold(folded_tables, schema="n int"),
        "a window gathers row by row",
        "for one row",
    ),
    "a branch with a function of tables": (
        lambda: clicks.branch(tables),
        "a branch asks each row by itself",
        "one row",
    ),
    # several streams
    "join of no table": (
        lambda: keyed.join(clicks),
        "a Stream is no table",
        'other.as_table("column")',
    ),
    "join where the key is missing": (
        lambda: source("t", json="usr string").join(users),
        "there is no column 'user' (did you mean 'usr'?)",
        "The rows have",
    ),
    "join of bytes": (lambda: raw.join(users), "a join needs columns", "json="),
    "join on another type": (
        lambda: source("t", json="user int").join(users),
        "the key 'user' is int in the stream and string in the table",
        "one type",
    ),
    "join in another way": (
        lambda: keyed.join(users, how="outer"),
        "how='outer' is not known",
        "'inner', 'left'",
    ),
    "as_table without a key": (lambda: clicks.as_table(), "no column is named", "Name one"),
    "a step behind as_table": (
        lambda: users.where("n > 1"),
        "a table is joined, and has no other steps",
        "in front of .as_table",
    ),
    "merge with nothing": (lambda: clicks.merge(), "there is no other stream", "merge with"),
    "merge with a table": (lambda: clicks.merge(users), "a Table is no stream", "joined"),
    "merge with itself": (lambda: clicks.merge(clicks), "merged with itself", "flat_map"),
    "merge of other types": (
        lambda: clicks.merge(source("t", json="user string, n string")),
        "column 'n' is int in one stream and string in another",
        "one type",
    ),
    "merge with bytes": (lambda: clicks.merge(raw), "those of stream 1 of the arguments are bytes", "json="),
    "merge with what is not declared": (
        lambda: clicks.map(lambda row: row).merge(clicks),
        "those of this stream are not declared",
        "schema=",
    ),
    "branch of nothing": (lambda: clicks.branch(), "there is no condition", "the rest"),
    "branch with a misspelled column": (
        lambda: clicks.branch("usr = 'ann'"),
        "did you mean 'user'?",
        "rows have",
    ),
    "branch with a number": (lambda: clicks.branch(3), "3 cannot be called", "a row"),
    # names and topics
    "an empty topic": (lambda: source(""), "cannot be empty", "as the server has it"),
    "an odd topic": (lambda: clicks.to("a b"), "characters other than ASCII", "as the server has it"),
    "no topic": (lambda: clicks.to(None), "None is no topic's name", "as text"),
    "a reserved topic": (lambda: clicks.to("__semel_sinks"), "__semel_sinks is reserved", "another topic"),
    "a source that is reserved": (lambda: source("__consumer_offsets"), "is reserved", "another topic"),
    "a stream with an odd name": (lambda: clicks.named("a.b"), "'a.b' cannot be part of", "ASCII letters"),
    "a flow with an odd name": (
        lambda: clicks.to("t").named("a/b"),
        "'a/b' cannot be part of",
        "ASCII letters",
    ),
    "a flow without outputs": (lambda: flow("x"), "it has no output", '.to("topic")'),
    "a flow of a stream": (lambda: flow("x", clicks), "a Stream is no output", '.to("topic")'),
    "a key without columns": (lambda: source("t", key="user"), "a key needs columns", "json="),
    "a key that is no column": (
        lambda: source("t", json=CLICKS, key="usr"),
        "did you mean 'user'?",
        "rows have",
    ),
    "another way to dedupe": (
        lambda: source("t", json=CLICKS, dedupe="linage"),
        "dedupe='linage' is not known (did you mean 'lineage'?)",
        "'lineage'",
    ),
    "dedupe of a compacted topic": (
        lambda: source("t", json=CLICKS, dedupe="lineage", copied=True),
        "rows that compaction has taken away",
        "not compacted",
    ),
    # the whole
    "two outputs to one topic": (
        lambda: flow("x", clicks.to("t"), raw.to("t")),
        'topic t is written by to("t") at',
        "Merge the streams",
    ),
    "a topic that is read and written": (
        lambda: clicks.filter(same).to("clicks"),
        "topic clicks is read by the same flow, at",
        "another topic",
    ),
    "two stages of one name": (
        lambda: clicks.filter(same).key_by("user").merge(clicks.key_by("user")).to("t"),
        'it would be called clicks-by-user, as is key_by("user") at',
        '.named("...")',
    ),
    "two folds of the same rows": (
        lambda: flow("x", keyed.fold(fold_rows).to("a"), keyed.fold(lambda s, r: (s, r)).to("b")),
        "it would be called clicks-by-user-fold, as is fold(fold_rows) at",
        '.named("...")',
    ),
    "one key in two numbers of partitions": (
        lambda: flow("x", clicks.key_by("user", partitions=2).count().to("a"), keyed.last().to("b")),
        "would be called x.clicks-by-user",
        '.named("...")',
    ),
    "inputs with other numbers of partitions": (
        lambda: (
            clicks.key_by("user", partitions=2)
            .merge(source("more", json=CLICKS).key_by("user", partitions=3))
            .count()
            .to("t")
        ),
        "other numbers of partitions are asked for",
        "Ask for one number",
    ),
    "a topic of the flow's own is read": (
        lambda: source("t.bad", json=CLICKS).to("t"),
        "topic t.bad is one that the flow t makes for itself",
        ".named(",
    ),
    "a topic of the flow's own is written": (
        lambda: flow("x", keyed.count().to("x.clicks-by-user")),
        "topic x.clicks-by-user is one that the flow x makes for itself",
        "another topic",
    ),
    "a name that the flow's own topics have": (
        lambda: keyed.count().named("bad"),
        "'bad' is what a flow calls topics that it makes for itself",
        "ASCII letters",
    ),
    # windows
    "a window without a key": (
        lambda: clicks.tumbling("1 h", on="at"),
        "no key that the flow knows",
        "key_by",
    ),
    "a window over text": (
        lambda: keyed.tumbling("1 h", on="url"),
        "column 'url' is string, and windows go by a timestamp",
        "Columns with a timestamp: at",
    ),
    "a window where there is no time": (
        lambda: source("t", json="a string").key_by("a").sessions(gap="1 h", on="a"),
        "windows go by a timestamp",
        "none; declare one as timestamp",
    ),
    "a window over a column that is not there": (
        lambda: keyed.sessions(gap="1 h", on="att"),
        "there is no column 'att' (did you mean 'at'?)",
        "The rows have",
    ),
    "a window of no length": (lambda: keyed.tumbling("0 s", on="at"), "the length is nothing", "millisecond"),
    "a window of another unit": (
        lambda: keyed.tumbling("3 miles", on="at"),
        "the length: 'miles' in '3 miles' is no unit of time",
        '"10 minutes"',
    ),
    "a gap without a unit": (
        lambda: keyed.sessions(gap=30, on="at"),
        "the gap: 30 has no unit",
        '"10 minutes"',
    ),
    "a lateness that is none": (
        lambda: keyed.tumbling("1 h", on="at", lateness="soon"),
        "the lateness: 'soon' is no length of time",
        '"10 minutes"',
    ),
    "a sum of text in a window": (
        lambda: keyed.tumbling("1 h", on="at").sum("url"),
        "column 'url' is string, and no number",
        "numbers",
    ),
    "a count that is called as the window is": (
        lambda: keyed.tumbling("1 h", on="at").count("window_end"),
        "two columns 'window_end'",
        "otherwise",
    ),
    "a fold in a window whose rows are not declared": (
        lambda: keyed.tumbling("1 h", on="at").fold(fold_rows),
        "what a window tells has columns, and they are not declared",
        "schema=",
    ),
    "a fold of sessions that cannot be merged": (
        lambda: keyed.sessions(gap="1 h", on="at").fold(fold_rows, schema="n int"),
        "nothing says what their states make",
        "merge=f",
    ),
    "a merge of windows of one length": (
        lambda: keyed.tumbling("1 h", on="at").fold(fold_rows, schema="n int", merge=fold_rows),
        "windows of one length are never merged",
        "Leave merge= out",
    ),
    "one topic twice in one stage": (
        lambda: _both(source("k", json=CLICKS, key="user")).to("t"),
        "it would read topic k twice",
        "a topic of its own",
    ),
    "a name that is too long": (
        lambda: source("k" * 235, json=CLICKS).key_by("user").count().to("t"),
        "cannot be longer than 249 characters",
        '.named("...")',
    ),
}


def _both(stream: Stream) -> Stream:
    return stream.merge(source("k", json=CLICKS, key="user"))


@pytest.mark.parametrize("case", ERRORS)
def test_what_makes_no_sense_names_the_step_its_place_and_the_way_out(case: str) -> None:
    make, why, advice = ERRORS[case]
    with pytest.raises(FlowError) as caught:
        make()
    error = caught.value
    assert why in error.why
    assert advice in error.advice
    assert str(error) == f"{error.step} at {error.where}: {error.why}. {error.advice}"
    file, _, line = error.where.rpartition(":")
    assert file == __file__
    assert 0 < int(line) <= len(inspect.getsource(inspect.getmodule(make)).splitlines())  # type: ignore[arg-type]
    verb = error.step.partition("(")[0]
    assert f"{verb}(" in inspect.getsource(make) or verb in ("to", "key_by", "merge", "filter", "fold")


def test_an_error_is_told_where_the_line_is_not_where_the_flow_ends() -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(FlowError) as caught:
        clicks.where("n > 1").key_by(
            "usr",
        )
    assert caught.value.where == f"{__file__}:{line}"
    assert caught.value.step == 'key_by("usr")'
    assert isinstance(caught.value, SemelError)


def test_a_step_is_shown_as_it_was_written_and_short() -> None:
    def name_of(make: Callable[[], Any]) -> str:
        with pytest.raises(FlowError) as caught:
            make()
        return caught.value.step

    assert name_of(lambda: clicks.fold(lambda s, r: None)) == "fold(lambda)"
    assert name_of(lambda: clicks.fold(fold_rows, init=0, schema=CLICKS)).startswith(
        "fold(fold_rows, init=0, schema="
    )
    assert len(name_of(lambda: clicks.where("x" * 500 + " usr"))) <= 80
    assert name_of(lambda: clicks.merge(users)) == "merge(table)"


# --- what is known of rows -------------------------------------------------------------------------------


WINDOW = "user string, window_start timestamp, window_end timestamp"


def one(row: Any) -> Word:
    return Word(row)


def several(row: Any) -> list[Word]:
    return [Word(row)]


def many(row: Any) -> Iterator[Word]:
    yield Word(row)


def perhaps(row: Any) -> Word | None:
    return None


def folded(state: int, row: Any) -> tuple[int, list[Word]]:
    return state, []


def folded_one(state: int, row: Any) -> tuple[int | None, Word | None]:
    return state, None


def odd(row: Any) -> dict[str, int]:
    return {}


@pytest.mark.parametrize(
    ("stream", "ddl"),
    [
        (raw.map(one), "word string"),
        (raw.flat_map(several), "word string"),
        (raw.flat_map(many), "word string"),
        (raw.flat_map(perhaps), "word string"),
        (raw.map(one, schema="other int"), "other int"),
        (raw.map(odd), None),
        (raw.map(lambda row: row), None),
        (keyed.fold(folded), "word string"),
        (keyed.fold(folded_one), "word string"),
        (keyed.fold(fold_rows), None),
        (keyed.fold(folded_tables, schema="n int", state="total int"), "n int"),
        (source("t", json=CLICKS, dedupe="lineage"), CLICKS),
        (clicks.map(tables), clicks.schema.ddl),
        (clicks.filter(same), clicks.schema.ddl),
        (clicks.select("url AS page", "n"), "page string, n int"),
        (
            clicks.select("length(url) AS size", "user", schema="size int, user string"),
            "size int, user string",
        ),
        (clicks.apply(same), clicks.schema.ddl),
        (clicks.apply(same, schema=Word), "word string"),
        (keyed.count(), "user string, count bigint"),
        (keyed.count("clicks"), "user string, clicks bigint"),
        (keyed.sum("n"), "user string, sum_n bigint"),
        (keyed.min("at"), "user string, min_at timestamp"),
        (keyed.max("url", "page"), "user string, page string"),
        (keyed.tumbling("1 h", on="at").count(), f"{WINDOW}, count bigint"),
        (keyed.sessions(gap="1 h", on="at").sum("n", "ns"), f"{WINDOW}, ns bigint"),
        (keyed.sessions(gap="1 h", on="at").max("n"), f"{WINDOW}, max_n int"),
        (keyed.tumbling("1 h", on="at").min("url"), f"{WINDOW}, min_url string"),
        (keyed.tumbling("1 h", on="at").last(), f"{WINDOW}, url string, at timestamp, n int"),
        (keyed.tumbling("1 h", on="at").fold(folded), f"{WINDOW}, word string"),
        (keyed.sessions(gap="1 h", on="at").fold(folded, merge=max), f"{WINDOW}, word string"),
        (keyed.last(), "user string, url string, at timestamp, n int"),
        (clicks.key_by("n", "user").count(), "n int, user string, count bigint"),
        (
            clicks.merge(source("t", json="user string, extra date")),
            "user string, url string, at timestamp, n int, extra date",
        ),
        (raw.merge(source("t")), None),
        (source("t", json=Word), "word string"),
        (users, "user string, country string"),
    ],
)
def test_columns_are_known_before_anything_runs(stream: Any, ddl: str | None) -> None:
    assert (stream.schema and stream.schema.ddl) == ddl


def test_a_key_is_kept_by_all_but_apply() -> None:
    kept = keyed.map(one).filter(same).flat_map(several).named("x")
    assert isinstance(kept, Keyed)
    assert [field.name for field in kept.node.shape.key or ()] == ["user"]
    assert kept.count().schema.ddl == "user string, count bigint"  # type: ignore[union-attr]
    assert not isinstance(keyed.apply(same), Keyed)
    assert isinstance(keyed.merge(source("t", json=CLICKS).key_by("user")), Keyed)
    assert not isinstance(keyed.merge(source("t", json=CLICKS).key_by("url")), Keyed)
    assert isinstance(source("t", json=CLICKS, key=("user", "url")), Keyed)
    assert isinstance(clicks.as_table("user"), Table)


def test_a_value_is_not_changed_by_what_is_made_of_it() -> None:
    before = clicks.to("t").plan()
    clicks.filter(same).named("x").key_by("user").count().to("other")
    assert clicks.to("t").plan() == before
    with pytest.raises(AttributeError):
        clicks.node = raw.node  # type: ignore[misc]


def test_a_flow_is_named_after_its_topic() -> None:
    assert clicks.to("shop.visits").name == "shop-visits-8bf5c4f7"
    assert clicks.to("visits").named("other").name == "other"
    assert clicks.to("visits").named("other").plan().flow == "other"


def test_flows_of_two_topics_have_two_names() -> None:
    long = "x" * 249
    topics = ["shop.visits", "shop-visits", "shop..visits", "shop--visits", long, long[:-1], f"{long[:-1]}y"]
    names = [clicks.to(topic).name for topic in topics]
    assert len(set(names)) == len(topics)
    assert all(checks.name_error(name) is None for name in names)


def test_partial_functions_and_objects_that_can_be_called_are_functions() -> None:
    class Adder:
        def __call__(self, row: Any) -> Word:
            return Word(row)

    assert raw.map(Adder()).schema is not None
    assert raw.map(functools.partial(fold_rows, 1)).schema is None
    assert raw.map(str).schema is None


def test_durations() -> None:
    from semel.flow.durations import parse_duration_ms, short_duration

    assert parse_duration_ms("10 minutes") == 600_000
    assert parse_duration_ms("1 hour 30 minutes") == 5_400_000
    assert parse_duration_ms("1h, 5s") == 3_605_000
    assert parse_duration_ms(timedelta(seconds=1.5)) == 1500
    assert parse_duration_ms("0 s") == 0
    for text in ("", "10", "minutes", "10 miles", "10 minutes x", "400 days", "-1 s"):
        with pytest.raises(ValueError):
            parse_duration_ms(text)
    for wrong in (10, timedelta(microseconds=1), timedelta(seconds=-1)):
        with pytest.raises(ValueError):
            parse_duration_ms(wrong)  # type: ignore[arg-type]
    assert [short_duration(parse_duration_ms(text)) for text in ("90 min", "1 week", "250 ms", "0 s")] == [
        "1h30m",
        "7d",
        "250ms",
        "0s",
    ]


def test_the_page_of_flows_has_every_step() -> None:
    page = (Path(__file__).parents[2] / "docs" / "flows.md").read_text()
    table = page.partition("## Sources and steps")[2].partition("\n## ")[0]
    steps = {name for of in (Stream, Windowed) for name in vars(of) if not name.startswith("_")}
    steps -= {"node", "call", "shape", "schema"}
    assert len(steps) > 15
    assert [name for name in sorted(steps) if f"`.{name}(" not in table] == []
    assert all(f"`{kind.value}`" in table for kind in Kind)
