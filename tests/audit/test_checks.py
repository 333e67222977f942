"""The comparison of two topics: every violation by example, and all against a slow model by property."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.checks import Comparison, Place, compare, unique
from semel.audit.store import Rows, RowStore, TooManyRows


class Row(NamedTuple):
    identity: str
    order_key: str | None = "k"
    partition: int = 0


STORE = RowStore()  # of all tests: each makes tables of its own


def index(rows: list[Row], rows_max: int = 1000) -> Rows:
    """Rows get offsets in the order in which they are given, partition by partition; capitals came of what is gone."""
    kept = STORE.rows("t", rows_max)
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_partition[row.partition].append(row)
    for partition, members in by_partition.items():
        kept.add(
            partition,
            np.arange(len(members), dtype=np.int64),
            pa.array([row.identity.encode() for row in members], pa.binary()),
            pa.array(
                [None if row.order_key is None else row.order_key.encode() for row in members], pa.binary()
            ),
            below_start=pa.array([row.identity.isupper() for row in members], pa.bool_()),
        )
    return kept


def found(result: Comparison) -> dict[str, int]:
    return {finding.check: finding.row_count for finding in result.findings}


def rows(names: str, **columns: object) -> list[Row]:
    return [Row(name, **columns) for name in names]  # type: ignore[arg-type]


def test_a_faithful_copy_has_no_findings() -> None:
    result = compare(index(rows("abcd")), index(rows("abcd")))
    assert result.findings == ()
    assert (result.input_rows, result.output_rows, result.matched_rows, result.order_keys) == (4, 4, 4, 1)


def test_a_lost_row_is_named_where_it_stands_in_the_input() -> None:
    (finding,) = compare(index(rows("abcd")), index(rows("abd"))).findings
    assert (finding.check, finding.row_count) == ("missing", 1)
    assert finding.examples == (Place(in_input=True, partition=0, offset=2),)


def test_a_doubled_row_is_named_where_it_stands_again() -> None:
    (finding,) = compare(index(rows("abcd")), index(rows("abcbd"))).findings
    assert (finding.check, finding.examples) == ("duplicated", (Place(False, 0, 3),))


def test_a_row_from_nowhere_is_extra() -> None:
    assert found(compare(index(rows("ab")), index(rows("axxb")))) == {"extra": 2}


def test_an_input_that_repeats_a_row_must_arrive_as_often() -> None:
    result = compare(index(rows("aab")), index(rows("aab")))
    assert (result.findings, result.input_repeated_rows) == ((), 1)
    assert found(compare(index(rows("aab")), index(rows("ab")))) == {"missing": 1}


def test_order_is_held_within_a_key_only() -> None:
    source = [Row("a", "x"), Row("b", "y"), Row("c", "x")]
    assert found(compare(index(source), index([source[1], source[0], source[2]]))) == {}
    assert found(compare(index(source), index([source[2], source[1], source[0]]))) == {"out_of_order": 1}
    assert found(compare(index(source), index(source[::-1]), order=False)) == {}


def test_rows_without_an_order_key_may_come_in_any_order() -> None:
    assert found(compare(index(rows("abc", order_key=None)), index(rows("cba", order_key=None)))) == {}


def test_a_key_in_two_output_partitions_has_no_order() -> None:
    source = rows("ab")
    assert found(compare(index(source), index([Row("a", "k", 0), Row("b", "k", 1)]))) == {"scattered": 1}


def test_examples_are_bounded_and_counts_are_not() -> None:
    (finding,) = compare(index(rows("abcdef")), index([]), examples_max=2).findings
    assert (finding.row_count, len(finding.examples)) == (6, 2)


def test_two_empty_topics_agree() -> None:
    assert compare(index([]), index([])).findings == ()


def test_one_topic_alone_can_be_asked_for_repeats() -> None:
    assert unique(index(rows("abc"))).findings == ()
    (finding,) = unique(index(rows("abab"))).findings
    assert finding.examples == (Place(False, 0, 2), Place(False, 0, 3))


def test_the_index_is_bounded() -> None:
    with pytest.raises(TooManyRows, match="--rows-max"):
        index(rows("abc"), rows_max=2)


some_rows = st.lists(
    st.builds(Row, st.sampled_from("abcdefgh"), st.none() | st.sampled_from("xy"), st.integers(0, 1)),
    max_size=14,
)


@pytest.mark.thorough
@given(some_rows, some_rows)
def test_counts_agree_with_a_slow_model(source: list[Row], output: list[Row]) -> None:
    result = compare(index(source), index(output), order=False)
    want, have = Counter(row.identity for row in source), Counter(row.identity for row in output)
    model = {
        "missing": (want - have).total(),
        "duplicated": sum(n for name, n in (have - want).items() if name in want),
        "extra": sum(n for name, n in have.items() if name not in want),
    }
    assert found(result) == {check: count for check, count in model.items() if count}
    assert result.matched_rows == (want & have).total()


@pytest.mark.slow
@given(st.text("abAB", max_size=9), st.text("ab", max_size=5), st.booleans())
def test_of_what_came_of_gone_records_only_doubles_are_told(table: str, log: str, is_input: bool) -> None:
    sides = (table, log) if is_input else (log, table)
    result = compare(*(index(rows(names, order_key=None)) for names in sides))
    gone = Counter(name for name in table if name.isupper())
    source, output = (rows("".join(filter(str.islower, names)), order_key=None) for names in sides)
    model = Counter(model_of(source, output))
    model["missing" if is_input else "duplicated"] += sum(gone.values()) - len(gone)
    assert found(result) == {check: count for check, count in model.items() if count}


@pytest.mark.thorough
@given(st.lists(st.sampled_from("xyz"), max_size=12), st.randoms(use_true_random=False))
def test_order_agrees_with_a_slow_model(keys: list[str], random: object) -> None:
    source = [Row(str(number), key) for number, key in enumerate(keys)]
    output = list(source)
    random.shuffle(output)  # type: ignore[attr-defined]
    last: dict[str | None, int] = {}
    model = 0
    for row in output:
        model += int(row.identity) < last.get(row.order_key, -1)
        last[row.order_key] = int(row.identity)
    assert found(compare(index(source), index(output))).get("out_of_order", 0) == model


def model_of(source: list[Row], output: list[Row]) -> dict[str, int]:
    """Each check as it reads in words, row by row."""

    def placed(rows: list[Row]) -> list[tuple[Row, int, int]]:
        """Each row with its offset and which one of its identity it is, in the order of partition and offset."""
        seen: Counter[str] = Counter()
        offsets: Counter[int] = Counter()
        found = []
        for row in sorted(rows, key=lambda row: row.partition):
            found.append((row, offsets[row.partition], seen[row.identity]))
            offsets[row.partition] += 1
            seen[row.identity] += 1
        return found

    inputs = {(row.identity, nth): (row, offset) for row, offset, nth in placed(source)}
    outputs = placed(output)
    there = {(row.identity, nth) for row, _, nth in outputs}
    counts: Counter[str] = Counter(missing=sum(each not in there for each in inputs))
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for row, _, nth in outputs:
        twin = inputs.get((row.identity, nth))
        if twin is None:
            counts["duplicated" if (row.identity, 0) in inputs else "extra"] += 1
        elif twin[0].order_key is not None:
            group = (twin[0].order_key, twin[0].partition)
            if group in last:
                partition, offset = last[group]
                counts["scattered"] += partition != row.partition
                counts["out_of_order"] += partition == row.partition and twin[1] < offset
            last[group] = (row.partition, twin[1])
    return {check: count for check, count in counts.items() if count}


@pytest.mark.slow
@given(some_rows, some_rows, st.randoms(use_true_random=False))
def test_all_checks_agree_with_a_slow_model(source: list[Row], more: list[Row], random: Random) -> None:
    """The output is the input with rows lost, doubled, invented and moved."""
    output = [row for row in source if random.random() < 0.9] + more[:3]
    if random.random() < 0.5:
        random.shuffle(output)
    assert found(compare(index(source), index(output))) == model_of(source, output)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=9), st.booleans())
def test_one_topic_alone_agrees_with_a_slow_model(sent: list[tuple[str, bool]], named: bool) -> None:
    kept = STORE.rows("t")
    for offset, (name, sequenced) in enumerate(sent):
        kept.add(0, np.array([offset]), pa.array([name.encode()]), sequenced=sequenced)
    result = unique(kept, named=named)
    again = [number for number, (name, _) in enumerate(sent) if name in [each for each, _ in sent[:number]]]
    if named:
        assert sum(each.row_count for each in result.findings) == len(again)
        return
    undecided = [n for n, each in enumerate(sent) if not each[1] and each in sent[:n]]
    assert sum(each.row_count for each in result.doubts) == len(undecided)
    assert result.repeated_rows == len(set(again) - set(undecided))
    assert [place.offset for each in result.doubts for place in each.examples] == undecided[:10]
