"""``produce`` and ``consume``, there and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semel import Producer
from semel.local import LocalLog

LINES = b"UA1:late\nAA2:on time\nUA1:gone\n"


def test_lines_come_back_in_order(semel) -> None:
    semel("topic", "create", "t")
    done = semel("produce", "t", "-K", ":", stdin=LINES)
    assert (done.code, done.err) == (0, "delivered 3 records to topic t\n")
    assert semel("consume", "t", "-e").out == "late\non time\ngone\n"
    assert semel("consume", "t", "-o", "1:", "-f", r"%p:%o %k=%v\n").out == "0:1 AA2=on time\n0:2 UA1=gone\n"
    assert semel("consume", "t", "-o", "-1:").out == "gone\n"
    assert semel("consume", "t", "-o", "@-1h:end", "-n", "1").out == "late\n"
    assert semel("consume", "t", "-o", "@2999-01-01:end").out == ""


def test_headers_keys_and_nulls_as_json(semel) -> None:
    semel("topic", "create", "t", "-p", "3")
    semel("produce", "t", "-k", "K", "-H", "a=1", "-p", "2", "-Z", stdin=b"x\n\n")
    lines = [json.loads(line) for line in semel("consume", "t", "-e", "--format", "json").out.splitlines()]
    assert [(line["partition"], line["key"], line["value"]) for line in lines] == [
        (2, "K", "x"),
        (2, "K", None),
    ]
    assert lines[0]["headers"] == [{"name": "a", "value": "1"}]


def test_bytes_that_are_no_text_survive(semel) -> None:
    semel("topic", "create", "t")
    semel("produce", "t", stdin=b"\xff\n")
    assert json.loads(semel("consume", "t", "-e", "--format", "json").out)["value"] == {"base64": "/w=="}


def test_an_identity_makes_a_second_run_send_only_what_is_new(semel, tmp_path: Path) -> None:
    semel("topic", "create", "t")
    identity = str(tmp_path / "id")
    semel("produce", "t", "--identity", identity, stdin=b"a\nb\n")
    done = semel("produce", "t", "--identity", identity, stdin=b"a\nb\nc\n")
    assert done.err == "delivered 1 record to topic t; skipped 2 that are stored\n"
    assert semel("consume", "t", "-e").out == "a\nb\nc\n"


def test_an_identity_refuses_other_lines_and_another_topic(semel, tmp_path: Path) -> None:
    semel("topic", "create", "days")
    identity = str(tmp_path / "day.id")
    semel("produce", "days", "--identity", identity, stdin=b"mon-1\nmon-2\nmon-3\n")
    other = semel("produce", "days", "--identity", identity, stdin=b"tue-1\ntue-2\ntue-3\ntue-4\n")
    assert other.code == 1
    assert (
        "want an --identity file of their own" in other.err and "nothing of this input was sent" in other.err
    )
    elsewhere = semel("produce", "nights", "--identity", identity, stdin=b"mon-1\nmon-2\nmon-3\n")
    assert elsewhere.code == 1
    assert "went to topic 'days', and comes for topic 'nights'" in elsewhere.err
    assert "nights" not in semel("topic", "list").out
    assert semel("consume", "days", "-e").out == "mon-1\nmon-2\nmon-3\n"


def test_lines_that_a_killed_run_stored_are_announced_and_skipped(
    semel, semel_server: LocalLog, tmp_path: Path
) -> None:
    semel("topic", "create", "t")
    identity = tmp_path / "id"
    with Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("t", "a", position=0).result(10)
        kept = identity.read_bytes()
        producer.send("t", "b", position=1).result(10)
    identity.write_bytes(kept)  # as if it had been killed before it saved
    done = semel("produce", "t", "--identity", str(identity), stdin=b"a\nb\nc\n")
    assert done.err == (
        "2 records behind the beginning are stored by an earlier run; skipped when sent again\n"
        "delivered 1 record to topic t; skipped 2 that are stored\n"
    )
    assert semel("consume", "t", "-e").out == "a\nb\nc\n"


def test_a_line_without_its_separator_is_named(semel) -> None:
    semel("topic", "create", "t")
    done = semel("produce", "t", "-K", ":", stdin=b"a:1\nb\n")
    assert done.code == 2
    assert done.err == (
        "semel: line 2 has no key separator ':'; the 1 record before it is stored in topic t: mend that line, "
        "and send what begins with it\n"
    )
    assert semel("consume", "t", "-e").out == "1\n"


def test_behind_a_bad_line_an_identity_goes_on_by_itself(semel, tmp_path: Path) -> None:
    semel("topic", "create", "t")
    identity = str(tmp_path / "id")
    done = semel("produce", "t", "-K", r"\t", "--identity", identity, stdin=b"a\t1\nb\t2\nbad\n")
    assert done.code == 2
    assert "the 2 records before it are stored in topic t: mend that line, and run the same again" in done.err
    again = semel("produce", "t", "-K", r"\t", "--identity", identity, stdin=b"a\t1\nb\t2\nc\t3\n")
    assert again.err == "delivered 1 record to topic t; skipped 2 that are stored\n"
    assert semel("consume", "t", "-e").out == "1\n2\n3\n"


def test_an_unknown_partition_or_setting_is_refused(semel) -> None:
    semel("topic", "create", "t")
    assert "has no partition 7: they are 0 to 0" in semel("consume", "t", "-p", "7", "-e").err
    done = semel("produce", "t", "-X", "lingerms=3", stdin=b"a\n")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "did you mean 'linger.ms'?" in done.err


def test_what_cannot_be_produced_is_refused_at_once(semel: Callable[..., Any]) -> None:
    bad_name = semel("produce", "bad name", stdin=b"a\n")
    assert (bad_name.code, bad_name.err) == (1, "semel: topic 'bad name': INVALID_TOPIC (17)\n")
    bad_value = semel("produce", "t", "-X", "linger.ms=soon", stdin=b"a\n")
    assert (bad_value.code, bad_value.err) == (2, "semel: -X: linger.ms=soon is not a whole number\n")
    no_boolean = semel("produce", "t", "-X", "lease=no", stdin=b"a\n")
    assert (no_boolean.code, no_boolean.err) == (2, "semel: lease='no': True or False\n")
    own_option = semel("produce", "t", "-X", "identity.store=me.id", stdin=b"a\n")
    assert (own_option.code, own_option.err) == (2, "semel: -X identity.store: say it with --identity\n")
