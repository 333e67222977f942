"""The record template, by example and by property."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.cli.template import compile_template
from semel.errors import ConfigError


@dataclass(frozen=True)
class Row:
    topic: str = "flights"
    partition: int = 3
    offset: int = 42
    timestamp_ms: int = 1_700_000_000_123
    key: bytes | None = b"UA1545"
    value: bytes | None = b"late"
    headers: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), ("b", None))


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        (r"%v\n", b"late\n"),
        (r"%t[%p]@%o", b"flights[3]@42"),
        (r"%k\t%s", b"UA1545\tlate"),
        ("%T %h", b"1700000000123 a=1,b="),
        ("%K %S", b"6 4"),
        (r"100%% \\ \x41\0", b"100% \\ A\0"),
        ("", b""),
    ],
)
def test_fields_and_escapes(template: str, rendered: bytes) -> None:
    assert compile_template(template)(Row()) == rendered


def test_a_null_is_nothing_and_its_length_is_minus_one() -> None:
    assert compile_template("%k|%v|%K|%S")(Row(key=None, value=None)) == b"||-1|-1"


def test_bytes_that_are_no_text_go_through_unchanged() -> None:
    assert compile_template("%v")(Row(value=b"\xff\x00")) == b"\xff\x00"


@pytest.mark.parametrize("template", ["%q", "%", r"\q", "\\", r"\x4"])
def test_an_unknown_letter_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match="of a record template"):
        compile_template(template)


@given(st.text(max_size=40))
def test_text_without_percent_or_backslash_is_itself(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("%", "%%")
    assert compile_template(escaped)(Row()) == text.encode("utf-8", "surrogatepass")
