"""Is every input row in the output exactly once, and in order? Decided in SQL, over the rows of a store.

The k-th row of an identity in the output stands for its k-th row in the input, so an input that itself holds
a row twice is proven to arrive twice. Findings are values: how many, and the first few by partition and
offset, which is where a person looks next.

Checks (one name, one meaning):
``missing``     in the input more often than in the output
``duplicated``  in the output more often than in the input, which has it
``extra``       in the output, but not in the input at all
``differs``     the output has the row, and it holds something else
``ahead``       the output has the row, and the group has not committed that it was read
``skipped``     of an input row the output has number n, and not n - 1
``out_of_order``  a row stands before one of its order key that came earlier in the same input partition
``scattered``   rows of one order key stand in several output partitions, so that no order can be promised

Without an input, and without a name that a row must be the only one to have, equal rows prove nothing: whoever
sends "hello" twice finds it there twice. Sequences tell them apart: a log that stores each sequence once (which
is another check's, :mod:`~semel.audit.sequences`) has stored each of these sends once. Equal rows without a
sequence may be one send that was stored twice, or two:
``undecided``   rows without a sequence that equal an earlier one without a sequence

A row that came of a record below its log's start is neither missing nor extra: what it would be held against is gone.
Of several of one such record all but the first are what they are elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.audit.store import PARTITION_SQL, Rows, RowStore

EXAMPLES_MAX_DEFAULT: Final = 10
COPIES_MAX: Final = 5  # of one row, that a finding names
CHECKS: Final = ("missing", "duplicated", "extra", "out_of_order", "scattered")  # those of two topics


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands; ``in_input`` tells which of the two topics."""

    in_input: bool
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated check: on how many rows, and the first of them."""

    check: str
    row_count: int
    examples: tuple[Place, ...]
    # Of an example that stands more than once: where, the first ``COPIES_MAX``, itself among them or behind them.
    copies: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the two topics hold, and every check that failed."""

    input_rows: int
    output_rows: int
    matched_rows: int
    input_repeated_rows: int  # rows beyond the first of their identity: legitimate, but worth knowing
    order_keys: int
    findings: tuple[Finding, ...]
    unordered_rows: int = 0  # input rows that no order was promised for


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """What one topic alone can prove: that no identity occurs twice, or that each send is there once."""

    rows: int
    findings: tuple[Finding, ...]
    repeated_rows: int = 0  # rows that equal an earlier one, and are told apart by their sequences
    doubts: tuple[Finding, ...] = ()  # what cannot be decided from this topic alone


def compare(
    source: Rows,
    output: Rows,
    *,
    examples_max: int = EXAMPLES_MAX_DEFAULT,
    order: bool = True,
    subset: bool = False,
    positions: Mapping[int, int] | None = None,
) -> Comparison:
    """Hold the output against the input; both in one store.

    ``subset``: the output may lack rows of the input; it may hold none of them more often than the input does.
    ``positions``: by the input's partition, up to where it has to be in the output, and not a row further.
    """
    store = _ready(source, output)
    repeats = _Repeats(store, source, output)
    pairs = _pair(store, source, output, repeats.table)
    finding = _Findings(store, {True: source, False: output}, examples_max)
    found = [
        None
        if subset
        else finding.of(
            "missing",
            f"SELECT source FROM {pairs} WHERE output IS NULL AND NOT below_start AND {_before(source, positions)}",
            True,
        ),
        finding.of("duplicated", f"SELECT output FROM {pairs} WHERE source IS NULL AND known", copies=True),
        finding.of(
            "extra", f"SELECT output FROM {pairs} WHERE source IS NULL AND NOT known AND NOT below_start"
        ),
        finding.of("differs", f"SELECT output FROM {pairs} WHERE differs"),
    ]
    if positions is not None:
        beyond = f"source IS NOT NULL AND output IS NOT NULL AND NOT ({_before(source, positions)})"
        found.append(finding.of("ahead", f"SELECT output FROM {pairs} WHERE {beyond}"))
    order_keys = unordered_rows = 0
    if order:
        broken = _out_of_order(store, pairs)
        found += [
            finding.of(check, f"SELECT output FROM {broken} WHERE scattered = {check == 'scattered'}")
            for check in ("out_of_order", "scattered")
        ]
        order_keys = store.one(
            f"SELECT count(*) FROM (SELECT order_key FROM {source.table} WHERE order_key IS NOT NULL GROUP BY 1)"
        )
        unordered_rows = store.one(f"SELECT count(*) FROM {source.table} WHERE order_key IS NULL")
        store.run(f"DROP TABLE {broken}")
    matched = store.one(f"SELECT count(*) FROM {pairs} WHERE source IS NOT NULL AND output IS NOT NULL")
    store.run(f"DROP TABLE {pairs}")
    repeats.drop()
    return Comparison(
        input_rows=len(source),
        output_rows=len(output),
        matched_rows=matched,
        input_repeated_rows=repeats.of_source,
        order_keys=order_keys,
        findings=tuple(each for each in found if each is not None),
        unordered_rows=unordered_rows,
    )


def unique(rows: Rows, *, examples_max: int = EXAMPLES_MAX_DEFAULT, named: bool = True) -> Uniqueness:
    """Without an input to hold it against: rows whose identity occurred before.

    ``named``: identities are names that no two rows may share. Otherwise equal rows are two sends wherever their
    sequences say so.
    """
    store = _ready(rows)
    again = store.new_table("again")
    store.run(
        f"CREATE TABLE {again} AS WITH repeated AS (SELECT identity FROM {rows.table} GROUP BY 1 HAVING count(*) > 1) "
        "SELECT place, sequenced, "
        "row_number() OVER (PARTITION BY identity ORDER BY place) > 1 AS again, "
        "NOT sequenced AND row_number() OVER (PARTITION BY identity, sequenced ORDER BY place) > 1 AS undecided "
        f"FROM {rows.table} SEMI JOIN repeated USING (identity)"
    )
    finding = _Findings(store, {False: rows}, examples_max)
    if named:
        found = finding.of("duplicated", f"SELECT place FROM {again} WHERE again", copies=True)
        result = Uniqueness(len(rows), () if found is None else (found,))
    else:
        doubt = finding.of("undecided", f"SELECT place FROM {again} WHERE undecided", copies=True)
        repeated = store.one(f"SELECT count(*) FROM {again} WHERE again AND NOT undecided")
        result = Uniqueness(len(rows), (), repeated, () if doubt is None else (doubt,))
    store.run(f"DROP TABLE {again}")
    return result


_DIFFERS: Final = "coalesce(s.content <> o.content, false)"
_BELOW_START: Final = "coalesce(s.below_start, o.below_start)"


def _before(source: Rows, positions: Mapping[int, int] | None) -> str:
    """Whether an input row lies before the group's position: a condition over ``source``."""
    if positions is None:
        return "true"
    partition = PARTITION_SQL.format("source")
    limits = " ".join(
        f"WHEN {int(number)} THEN source < {source.place(number, offset)}"
        for number, offset in positions.items()
    )
    return f"CASE {partition} {limits} ELSE false END" if limits else "false"


def compare_lineage(
    source: Rows, output: Rows, *, examples_max: int = EXAMPLES_MAX_DEFAULT, subset: bool = False
) -> Comparison:
    """Rows of the output by the input row that each came of, and its number among those.

    Each input row has come (as number 0), none of another input, each number once, and no number is left out.
    ``subset``: of an input row nothing has to have come.
    """
    store = _ready(source, output)
    finding = _Findings(store, {True: source, False: output}, examples_max)
    again = store.new_table("again")
    store.run(
        f"CREATE TABLE {again} AS SELECT identity, number, min(place) AS place, count(*) AS copies "
        f"FROM {output.table} GROUP BY ALL HAVING count(*) > 1"
    )
    found = [
        None
        if subset
        else finding.of(
            "missing",
            f"SELECT place FROM {source.table} ANTI JOIN (FROM {output.table} WHERE number = 0) USING (identity)",
            True,
        ),
        finding.of(
            "duplicated",
            f"SELECT o.place FROM {output.table} o JOIN {again} a USING (identity, number) WHERE o.place <> a.place",
        ),
        finding.of(
            "extra",
            f"SELECT place FROM (FROM {output.table} WHERE NOT below_start) ANTI JOIN {source.table} USING (identity)",
        ),
        finding.of(
            "skipped",
            f"SELECT o.place FROM (FROM {output.table} WHERE number > 0) o ANTI JOIN {output.table} p "
            "ON o.identity = p.identity AND o.number - 1 = p.number",
        ),
    ]
    store.run(f"DROP TABLE {again}")
    matched = store.one(f"SELECT count(*) FROM {source.table} SEMI JOIN {output.table} USING (identity)")
    return Comparison(
        input_rows=len(source),
        output_rows=len(output),
        matched_rows=matched,
        input_repeated_rows=0,
        order_keys=0,
        findings=tuple(each for each in found if each is not None),
    )


def count_repeats(rows: Rows, others: Rows) -> int:
    """How many of ``others`` equal one of ``rows``."""
    store = _ready(rows, others)
    return store.one(f"SELECT count(*) FROM {others.table} SEMI JOIN {rows.table} USING (identity)")


def _ready(*sides: Rows) -> RowStore:
    for side in sides:
        side.flush()
    sides[0].store.settle()
    return sides[0].store


class _Repeats:
    """Identities that a side has more than once: few, as a rule, and only these have to be numbered."""

    def __init__(self, store: RowStore, source: Rows, output: Rows) -> None:
        self._store, self.table = store, store.new_table("repeated")
        store.run(f"CREATE TABLE {self.table} (identity UHUGEINT, again BIGINT)")
        self._add(source)
        self.of_source = store.one(f"SELECT coalesce(sum(again), 0) FROM {self.table}")
        self._add(output)

    def _add(self, side: Rows) -> None:
        self._store.run(
            f"INSERT INTO {self.table} SELECT identity, count(*) - 1 FROM {side.table} GROUP BY 1 HAVING count(*) > 1"
        )

    def drop(self) -> None:
        self._store.run(f"DROP TABLE {self.table}")


def _pair(store: RowStore, source: Rows, output: Rows, repeated: str) -> str:
    """A table of the rows that stand for each other, and of those that stand for none.

    ``source`` and ``output`` are places, null where there is none; ``known``: the input has the identity, or had it
    below its log's start and the output has it more than once. ``below_start``: what the row came of is gone, and it is
    the first of its identity.
    """
    pairs = store.new_table("pairs")
    store.run(
        f"CREATE TABLE {pairs} AS SELECT s.place AS source, o.place AS output, s.order_key, "
        f"s.place IS NOT NULL AS known, {_DIFFERS} AS differs, {_BELOW_START} AS below_start "
        f"FROM (FROM {source.table} ANTI JOIN {repeated} USING (identity)) s "
        f"FULL JOIN (FROM {output.table} ANTI JOIN {repeated} USING (identity)) o USING (identity)"
    )
    if store.one(f"SELECT count(*) FROM {repeated}"):
        numbered = (
            "SELECT *, row_number() OVER (PARTITION BY identity ORDER BY place) AS nth FROM {} "
            f"SEMI JOIN {repeated} USING (identity)"
        )
        store.run(
            f"INSERT INTO {pairs} WITH s AS ({numbered.format(source.table)}), o AS ({numbered.format(output.table)}) "
            "SELECT s.place, o.place, s.order_key, "
            f"known.identity IS NOT NULL OR (nth > 1 AND {_BELOW_START}), {_DIFFERS}, nth = 1 AND {_BELOW_START} "
            "FROM s FULL JOIN o USING (identity, nth) "
            "LEFT JOIN (SELECT DISTINCT identity FROM s) known ON known.identity = coalesce(s.identity, o.identity)"
        )
    return pairs


def _out_of_order(store: RowStore, pairs: str) -> str:
    """Per order key and input partition: output partitions must be one, input offsets must rise.

    Rows without an order key were promised no order.
    """
    broken = store.new_table("broken")
    source, output = PARTITION_SQL.format("source"), PARTITION_SQL.format("output")
    before = PARTITION_SQL.format("output_before")
    store.run(
        f"CREATE TABLE {broken} AS SELECT output, {output} <> {before} AS scattered FROM ("
        "SELECT source, output, lag(source) OVER beside AS source_before, lag(output) OVER beside AS output_before "
        f"FROM {pairs} WHERE order_key IS NOT NULL AND source IS NOT NULL AND output IS NOT NULL "
        f"WINDOW beside AS (PARTITION BY order_key, {source} ORDER BY output)) "
        f"WHERE {output} <> {before} OR source < source_before"
    )
    return broken


@dataclass(frozen=True, slots=True)
class _Findings:
    """Makes findings of places that a query gives."""

    store: RowStore
    sides: Mapping[bool, Rows]  # True: the input
    examples_max: int

    def of(self, check: str, places: str, in_input: bool = False, *, copies: bool = False) -> Finding | None:
        """``copies``: where those of an example are to be named."""
        count = self.store.one(f"SELECT count(*) FROM ({places})")
        if not count:
            return None
        side = self.sides[in_input]
        shown = [
            place for (place,) in self.store.run(f"{places} ORDER BY ALL LIMIT {int(self.examples_max)}")
        ]
        named = self._copies(side, shown) if copies else {}
        return Finding(check, count, tuple(Place(in_input, *side.at(place)) for place in shown), named)

    def _copies(self, side: Rows, shown: list[int]) -> dict[Place, tuple[Place, ...]]:
        """For each of these rows, where the first rows of its identity stand."""
        if not shown:
            return {}
        places: dict[int, list[int]] = {}
        found = self.store.run(
            f"WITH shown AS (FROM {side.table} WHERE place IN (SELECT unnest(?::BIGINT[]))), "
            f"copies AS (SELECT identity, place FROM {side.table} SEMI JOIN shown USING (identity)), "
            "first AS (SELECT identity, min(place, ?) AS places FROM copies GROUP BY identity) "
            "SELECT shown.place, unnest(first.places) FROM shown JOIN first USING (identity) ORDER BY ALL",
            [shown, COPIES_MAX],
        )
        for place, copy in found:
            places.setdefault(place, []).append(copy)
        return {
            Place(False, *side.at(place)): tuple(Place(False, *side.at(copy)) for copy in places[place])
            for place in shown
        }
