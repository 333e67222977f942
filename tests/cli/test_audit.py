"""``semel audit`` as its users run it: over what ``semel produce`` and other writers left on a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from semel.client.blocking import Cluster
from semel.errors import ErrorCode
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

TP = TopicPartition("t", 0)


@pytest.fixture
def cluster(semel_server: LocalLog) -> Iterator[Cluster]:
    """Of a log with an empty topic ``t``."""
    with Cluster(semel_server.bootstrap) as cluster:
        cluster.create_topics({"t": 1})
        yield cluster


def write_plainly(cluster: Cluster, *values: bytes) -> None:
    """As a producer does that is not idempotent."""
    batch = encode_batch([Record(0, 0, None, value) for value in values])
    assert cluster.produce({TP: batch})[TP].error_code is ErrorCode.NONE


def test_what_was_sent_twice_is_there_twice(semel: Command) -> None:
    for _ in range(2):
        semel("produce", "greetings", stdin=b"hello\n")
    done = semel("audit", "--output", "greetings")
    assert done.code == 0, done.out
    assert done.out.splitlines()[-2:] == [
        "note: 1 row equals an earlier one under a sequence of its own: sent more than once, each stored once. "
        "If no two rows may be equal, name them with --key or --key-from",
        "PROVEN: greetings holds nothing twice that was sent once (1 row equals an earlier one), and its sequences are "
        "whole",
    ]
    assert json.loads(semel("audit", "--output", "greetings", "--format", "json").out)["verdict"] == "proven"


def test_rows_that_are_named_may_not_have_one_name(semel: Command) -> None:
    semel("produce", "greetings", "-K", ":", stdin=b"a:hello\nb:world\na:again\n")
    semel("produce", "greetings", "-Z", "-K", ":", stdin=b":hello\n")
    by_value = semel("audit", "--output", "greetings", "--key-from", "value")
    assert by_value.code == 1
    assert (
        "VIOLATED duplicated: 1 rows that stand more than once\n  greetings-0@0, greetings-0@3: value hello\n"
        in (by_value.out)
    )
    assert semel("audit", "--output", "greetings").code == 0
    semel("produce", "greetings", "-Z", stdin=b"hello\n")
    by_row = semel("audit", "--output", "greetings", "--key-from", "row", "--format", "json")
    (finding,) = json.loads(by_row.out)["findings"]
    assert finding["examples"] == [
        {
            "topic": "greetings",
            "partition": 0,
            "offset": 4,
            "identity": "key null, value hello",
            "copies": [{"partition": 0, "offset": 3}, {"partition": 0, "offset": 4}],
        }
    ]
    assert by_row.code == 1


def test_a_send_that_is_stored_twice_is_found(
    semel: Command, semel_server_factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has forgotten a producer takes its first batch once more, as Apache Kafka does."""
    server = semel_server_factory(producer_id_expiration_ms=1, log_retention_check_interval_ms=50)
    monkeypatch.setenv("SEMEL_BOOTSTRAP", server.bootstrap)
    with Cluster(server.bootstrap) as cluster:
        cluster.create_topics({"t": 1})
        producer_id = cluster.init_producer_id().producer_id
        batch = encode_batch(
            [Record(0, time.time_ns() // 1_000_000, None, b"hello")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        offsets = {cluster.produce({TP: batch})[TP].base_offset}
        until_s = time.monotonic() + 30
        while offsets == {0}:
            assert time.monotonic() < until_s, "it is never forgotten"
            time.sleep(0.05)
            offsets.add(cluster.produce({TP: batch})[TP].base_offset)
    done = semel("audit", "--output", "t")
    assert done.code == 1
    assert (
        f"  t-0 offset 1: producer {producer_id} epoch 0: sequence 0 once more, where 1 was to come"
        in done.out
    )
    assert "under a sequence of its own" not in done.out
    assert done.out.splitlines()[-1].startswith("NOT PROVEN: t holds rows twice")


def test_equal_rows_of_a_producer_without_an_id_are_not_judged(semel: Command, cluster: Cluster) -> None:
    write_plainly(cluster, b"hello", b"world")
    done = semel("audit", "--output", "t")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "PROVEN: t holds no row twice; whether one is missing cannot be said of 2 rows without a sequence",
    )
    write_plainly(cluster, b"hello")
    done = semel("audit", "--output", "t")
    assert done.code == 1
    assert "VIOLATED" not in done.out
    assert "\n  t-0@0, t-0@2: key null, value hello\n" in done.out
    assert done.out.splitlines()[-1].startswith("NOT PROVEN: t holds equal rows without a sequence")
    document = json.loads(semel("audit", "--output", "t", "--format", "json").out)
    assert (document["verdict"], document["holds"], document["findings"]) == ("not proven", False, [])
    assert [doubt["row_count"] for doubt in document["doubts"]] == [1]


def test_what_is_hard_to_read_is_quoted(semel: Command, cluster: Cluster) -> None:
    write_plainly(cluster, b"", b"", b"two\nlines", b"two\nlines", b"null", b"null", b"\xff", b"\xff")
    shown = [
        line.split(": ", 1)[1]
        for line in semel("audit", "--output", "t").out.splitlines()
        if line[:2] == "  "
    ]
    assert shown == [
        'key null, value ""',
        'key null, value "two\\nlines"',
        'key null, value "null"',
        "key null, value \\xff",
    ]


FLIGHTS = b"UA1545\ton time\nAA1141\tlate\nB6725\ton time\nUA1\tlate\n"


@pytest.fixture
def filtered(semel: Command) -> Command:
    """``flights``, and those of them that are late as ``delays``."""
    semel("produce", "flights", "-K", r"\t", stdin=FLIGHTS)
    semel("produce", "delays", "-K", r"\t", stdin=b"AA1141\tlate\nUA1\tlate\n")
    return semel


def test_an_output_of_what_a_filter_chose_is_proven(filtered: Command) -> None:
    done = filtered("audit", "--input", "flights", "--output", "delays", "--where", "value = 'late'")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "PROVEN: delays holds every row of flights where value = 'late' exactly once, in order",
    )
    assert "; 2 of them where value = 'late'\n" in done.out
    less = filtered("audit", "--input", "flights", "--output", "delays", "--where", "key LIKE 'AA%'")
    assert less.code == 1
    assert (
        "VIOLATED extra: 1 output rows that are not in the input\n  delays-0@1: key UA1, value late"
        in less.out
    )
    more = filtered("audit", "--input", "flights", "--output", "delays", "--where", "key <> 'B6725'")
    assert more.code == 1
    assert (
        "VIOLATED missing: 1 input rows that are not in the output\n  flights-0@0: key UA1545, value on time"
        in (more.out)
    )


def test_an_output_may_be_any_part_of_its_input(filtered: Command) -> None:
    done = filtered("audit", "--input", "flights", "--output", "delays", "--subset")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "PROVEN: every row of delays is in flights, none more often than there, in order",
    )
    filtered("produce", "delays", "-K", r"\t", stdin=b"AA1141\tlate\nXX1\tlate\n")
    done = filtered("audit", "--input", "flights", "--output", "delays", "--subset")
    assert done.code == 1
    assert (
        "VIOLATED duplicated: 1 rows that stand more than once\n  delays-0@0, delays-0@2: key AA1141"
        in done.out
    )
    assert "VIOLATED extra: 1 output rows that are not in the input\n  delays-0@3: key XX1" in done.out
    assert done.out.splitlines()[-1] == "NOT PROVEN: the output is not a part of the input with each row once"


def test_the_lines_of_a_file_are_an_input(filtered: Command, tmp_path: Path) -> None:
    lines = tmp_path / "flights.tsv"
    lines.write_bytes(FLIGHTS)
    done = filtered("audit", "--input-file", str(lines), "-K", r"\t", "--output", "flights")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        f"PROVEN: flights holds every row of {lines} exactly once, in order",
    )
    assert f"\n{lines}: 4 lines\n" in done.out
    lines.write_bytes(FLIGHTS + b"DL1\tlate\n")
    done = filtered("audit", "--input-file", str(lines), "-K", r"\t", "--output", "flights")
    assert done.code == 1
    assert (
        f"VIOLATED missing: 1 input rows that are not in the output\n  {lines} line 5: key DL1, value late"
        in (done.out)
    )
    late = ["--where", "value = 'late'", "--subset"]
    assert filtered("audit", "--input-file", str(lines), "-K", r"\t", "--output", "delays", *late).code == 0


def test_json_values_are_chosen_by_their_fields(semel: Command) -> None:
    rows = [{"id": n, "delay": delay, "to": {"code": "SFO"}} for n, delay in enumerate((10, 90, None, 61))]
    semel("produce", "in", stdin="".join(json.dumps(row) + "\n" for row in rows).encode())
    semel("produce", "out", stdin=b'{"id":1}\n{"id":3}\n')
    for where in (
        "value ->> 'delay' > 60",
        "value ->> '$.to.code' = 'SFO' AND value ->> 'delay' BETWEEN 60 AND 100",
    ):
        done = semel("audit", "--input", "in", "--output", "out", "--key", "id", "--where", where)
        assert done.code == 0, done.out
    semel("produce", "in", stdin=b"no json\n")
    done = semel(
        "audit", "--input", "in", "--output", "out", "--key", "id", "--where", "value ->> 'delay' > 60"
    )
    assert (done.code, done.err) == (1, "semel: in-0 offset 4: --where: malformed JSON\n")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("value = ", "--where 'value = '"),
        ("valu = 'late'", "no such column: valu. It is an SQL condition over key, value"),
        (
            "CAST(value AS STRING) = 'late'",
            "CAST(… AS STRING) would be taken for a number. Key and value are text",
        ),
        ("value = 'late'); DROP TABLE x; --", "--where"),
        ("load_extension('x')", "--where"),
        ("count(*) > 0", "misuse of aggregate"),
    ],
)
def test_what_is_no_condition_is_refused_before_anything_is_read(
    semel: Command, where: str, said: str
) -> None:
    done = semel("audit", "--input", "a", "--output", "b", "--where", where)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_what_of_the_input_wants_an_input(semel: Command) -> None:
    for option in (["--subset"], ["--where", "true"]):
        done = semel("audit", "--output", "t", *option)
        assert (done.code, "name it with --input TOPIC" in done.err) == (2, True)


def test_a_log_without_its_head_says_so(semel: Command) -> None:
    semel("produce", "t", stdin=b"a\nb\nc\n")
    semel("topic", "trim-prefix", "t", "-o", "2")
    done = semel("audit", "--output", "t")
    assert done.code == 0
    assert "before the start of t, which begins at 0@2 (partition@offset): it is gone\n" in done.out


@pytest.mark.thorough
def test_a_bound_names_the_option_that_raises_it(semel: Command) -> None:
    for _ in range(2):
        semel("produce", "t", stdin=b"a\nb\n")
    for option, value in (("--rows-max", "3"), ("--producers-max", "1")):
        done = semel("audit", "--output", "t", option, value)
        assert (done.code, done.out) == (1, "")
        assert f"raise {option}" in done.err
        assert semel("audit", "--output", "t", option, "4").code == 0


@pytest.mark.thorough
@pytest.mark.parametrize("option", [[], ["--subset"], ["--where", "value ->> 'x' = 1"]])
def test_an_input_without_rows_proves_nothing(semel: Command, tmp_path: Path, option: list[str]) -> None:
    semel("topic", "create", "in")
    semel("topic", "create", "out")
    lines = tmp_path / "none.txt"
    lines.write_bytes(b"")
    for name, source in (("in", ["--input", "in"]), (str(lines), ["--input-file", str(lines)])):
        done = semel("audit", *source, "--output", "out", *option)
        assert (done.code, done.out.splitlines()[-1]) == (1, f"NOT PROVEN: the input {name} is empty")
    semel("produce", "in", stdin=b"a\nb\n")
    semel("topic", "trim-prefix", "in", "-o", "end")
    done = semel("audit", "--input", "in", "--output", "out")
    assert (done.code, done.out.splitlines()[-1]) == (1, "NOT PROVEN: the input in is empty")
    assert "before the start of in, which begins at 0@2" in done.out


@pytest.mark.thorough
def test_a_condition_that_holds_for_no_row_proves_nothing(semel: Command) -> None:
    semel("produce", "in", stdin=b'{"delay":90}\n{"delay":10}\n')
    semel("topic", "create", "out")
    asked = ("audit", "--input", "in", "--output", "out", "--where", "value ->> 'dely' <= 40")
    done = semel(*asked)
    assert (done.code, done.out.splitlines()[-1]) == (
        1,
        "NOT PROVEN: the condition holds for no row of the input in: value ->> 'dely' <= 40",
    )
    document = json.loads(semel(*asked, "--format", "json").out)
    assert (document["verdict"], document["holds"]) == ("not proven", False)
    assert document["unproven"] == "the condition holds for no row of the input in: value ->> 'dely' <= 40"
    semel("produce", "out", stdin=b"a\n")
    done = semel(*asked)
    assert done.code == 1
    assert "VIOLATED extra: 1 output rows that are not in the input" in done.out
    assert json.loads(semel(*asked, "--format", "json").out)["verdict"] == "violated"


def test_an_output_without_rows_proves_nothing_by_itself(semel: Command) -> None:
    semel("topic", "create", "out")
    done = semel("audit", "--output", "out")
    assert (done.code, done.out.splitlines()[-1]) == (1, "NOT PROVEN: the output out is empty")
    semel("produce", "in", stdin=b"a\n")
    done = semel("audit", "--input", "in", "--output", "out", "--subset")
    assert (done.code, done.out.splitlines()[-1]) == (1, "NOT PROVEN: the output out is empty")
    done = semel("audit", "--input", "in", "--output", "out")
    assert "VIOLATED missing: 1 input rows" in done.out


def test_a_file_that_is_not_there_is_told_in_words(semel: Command, tmp_path: Path) -> None:
    for path, why in ((tmp_path / "no.txt", "no such file"), (tmp_path, "it is a directory")):
        done = semel("audit", "--input-file", str(path), "--output", "t")
        assert (done.code, done.err) == (2, f"semel: --input-file {path}: {why}\n")


def test_what_a_program_makes_of_a_value_is_proven(semel: Command, tmp_path: Path) -> None:
    """As the README's transaction does, which sends ``value.upper()``."""
    semel("produce", "clicks", "-K", ":", stdin=b"a:hello\nb:world\n")
    semel("produce", "shouted", "-K", ":", stdin=b"a:HELLO\nb:WORLD\n")
    sides = ("--input", "clicks", "--output", "shouted", "--input-value", "upper(value)")
    done = semel("audit", *sides)
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "PROVEN: shouted holds every row of clicks exactly once, in order",
    ), done.out
    assert (
        "NOT COMPARED: the input's values as they are: --input-value makes upper(value) of each\n" in done.out
    )
    assert semel("audit", *sides, "--where", "value = 'hello'").code == 1  # which is judged of what was sent
    lines = tmp_path / "lines"
    lines.write_bytes(b"a:hello\nb:world\nc:more\n")
    of_file = ("--input-file", str(lines), "-K", ":", *sides[2:])
    assert f"  {lines} line 3: key c, value MORE\n" in semel("audit", *of_file).out
    semel("produce", "clicks", "-K", ":", stdin=b"c:more\n")
    done = semel("audit", *sides)
    assert (done.code, "\n  clicks-0@2: key c, value MORE\n" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--input", "in", "--input-value", "upper("], "--input-value 'upper(': "),
        (["--input-value", "upper(value)"], "--input-value maps the values of a topic"),
        (["--input", "in", "--by", "lineage", "--input-value", "upper(value)"], "by lineage no value is"),
        (["--input", "in", "--columns", "a"], "--value and --columns are of a table"),
        (["--input", "in", "--value", "json"], "--value is of a table"),
        (["--input", "in", "--schema", "a long"], "say that, too"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    semel: Command, options: list[str], said: str
) -> None:
    done = semel("audit", "--output", "out", *options)
    assert (done.code, done.out, said in done.err) == (2, "", True), done.err


@pytest.mark.parametrize(
    ("options", "gaps"),
    [
        (
            [],
            [
                "headers and timestamps of rows, and the partitions",
                "the order of rows of different keys, and of 2 row",
            ],
        ),
        (["--key-from", "value"], ["what rows hold beside what names them (value)"]),
        (
            ["--subset", "--order-by", "none"],
            ["the order of rows", "whether a row of the input is missing, as --subset"],
        ),
    ],
)
def test_each_verdict_begins_with_what_it_does_not_cover(
    semel: Command, options: list[str], gaps: list[str]
) -> None:
    for topic in ("in", "out"):
        semel("produce", topic, stdin=b"a\nb\n")
    sides = ("--input", "in", "--output", "out")
    done = semel("audit", *sides, *options)
    document = json.loads(semel("audit", *sides, *options, "--format", "json").out)
    lines = done.out.splitlines()
    told = document["not_compared"]
    assert (done.code, lines[: len(told)]) == (0, [f"NOT COMPARED: {each}" for each in told])
    assert list(document)[:4] == ["holds", "verdict", "unproven", "not_compared"]
    for gap in gaps:
        assert any(each.startswith(gap) for each in told), told
