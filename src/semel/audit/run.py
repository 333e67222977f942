"""One audit from end to end: read the topics, compare them, name what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from semel.audit.adding import TopicReading
from semel.audit.checks import EXAMPLES_MAX_DEFAULT, Comparison, Uniqueness, compare, compare_lineage, unique
from semel.audit.contents import Contents, ValueReader, of_table, of_two_tables, own_columns
from semel.audit.gaps import not_compared
from semel.audit.groups import GroupAudit, read_group
from semel.audit.identity import By, IdentityRule, KeyFrom
from semel.audit.naming import Side, name_differences, name_places
from semel.audit.read import InputRows, Progress, partitions_of, read_rows, read_topic, row_count
from semel.audit.report import AuditReport, TopicAudit
from semel.audit.sequences import PRODUCERS_MAX_DEFAULT
from semel.audit.store import ROWS_MAX_DEFAULT, Room, Rows, RowStore
from semel.audit.tables import TableFiles, read_table
from semel.client.blocking import Cluster
from semel.errors import ConfigError

_BY_RECORD_KEY: Final = IdentityRule(KeyFrom.KEY)
_WHOLE_ROW: Final = IdentityRule(KeyFrom.ROW)
_ALONE: Final = {By.LINEAGE: "lineage", By.PLACE: "place"}  # for the verdict, where no content was compared

Reading = tuple[TopicAudit, Rows]  # what read_topic gives
Watch = Callable[[str, int | None], Progress]  # is told what is done next, and of how many rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What to prove. Without an input: that the output repeats nothing and its sequences are whole."""

    output_topic: str = ""
    output_table: TableFiles | None = None  # in place of an output topic
    input_topic: str | None = None
    input_rows: InputRows | None = None  # in place of an input topic
    input_table: TableFiles | None = None  # the same
    # Where the topics are in two clusters: a server of each, by which the report tells them apart.
    input_bootstrap: str = ""
    output_bootstrap: str = ""
    by: By | None = None  # None: by place where a table has columns for it and nothing else names a row
    where: str | None = None  # the input's rows that the output has to hold; None: all of them
    input_value: str | None = None  # SQL over an input row: its value as the output has to hold it
    values: ValueReader | None = (
        None  # by place, what a table's columns were read by; None: JSON, where they can be
    )
    columns: tuple[str, ...] | None = (
        None  # by place, those of a table that are compared; None: all that can be
    )
    subset: bool = False  # the output may lack rows of the input
    group: str | None = None  # what it has committed is how far the input has to be in the output
    named: bool | None = None  # no two output rows may have one identity; None: unless that is the whole row
    output_identity: IdentityRule = _WHOLE_ROW
    input_identity: IdentityRule = _WHOLE_ROW
    order: IdentityRule | None = _BY_RECORD_KEY  # read from the input; None: order does not matter
    rows_max: int = ROWS_MAX_DEFAULT
    examples_max: int = EXAMPLES_MAX_DEFAULT
    producers_max: int = PRODUCERS_MAX_DEFAULT
    room: Room = field(default_factory=Room)
    dead_letter_topic: str | None = (
        None  # in the output's cluster: batches that nobody can read, to be left out
    )

    def __post_init__(self) -> None:
        if self.source is not None and self.source == self.output and not self.is_of_two_clusters:
            name = self.output_topic or str(self.output)
            raise ConfigError(f"input and output are both {name!r}: nothing would be proven")
        if self.output_bootstrap and self.output_table is not None:
            raise ConfigError(
                "--output-bootstrap is where the output's topic is, and the output is a table: leave one out"
            )
        if sum(each is not None for each in (self.input_topic, self.input_rows, self.input_table)) > 1:
            raise ConfigError("--input names a topic and --input-file a file: one of them is the input")
        if self.source is None and (self.where is not None or self.subset):
            raise ConfigError(
                "--where and --subset say what of the input is wanted: name it with --input TOPIC"
            )
        self._held_against(self.input_identity, self.output_identity)  # refused before anything is read
        if self.where is not None and self.input_table is not None:
            raise ConfigError(
                "--where chooses among the rows of a topic or the lines of a file, not of a table"
            )
        if self.input_value is not None and self.input_topic is None and self.input_rows is None:
            raise ConfigError(
                "--input-value maps the values of a topic or of a file's lines: name it with --input TOPIC"
            )
        if self.input_value is not None and self.by is By.LINEAGE:
            raise ConfigError("--input-value maps what is compared, and by lineage no value is")
        if self.group is not None and self.input_topic is None and (self.source or self.output_table):
            raise ConfigError("--group says how far a topic was read: name that topic with --input, or alone")
        if self.by is By.LINEAGE and (self.input_topic is None or self.output_table is not None):
            raise ConfigError(
                "--by lineage reads headers: it takes a topic as --input and another as --output"
            )
        if self.by is By.PLACE and self.output_table is None and self.input_table is None:
            raise ConfigError("--by place reads columns of a table: name one with --output delta:PATH")
        self._check_columns()

    def _check_columns(self) -> None:
        if self.values is None and self.columns is None:
            return
        if self.source is None or self.known_by is not By.PLACE:
            raise ConfigError(
                "--value and --columns are of a table that is held against what it was made of, by place"
            )
        if self.values is not None and None not in (self.input_table, self.output_table):
            raise ConfigError("--value reads a topic's values, and both sides are tables: leave it out")

    @property
    def source(self) -> Side | None:
        """The input, where there is one."""
        return self.input_topic if self.input_topic is not None else self.input_rows or self.input_table

    @property
    def output(self) -> Side:
        """What is to be proven."""
        return self.output_table or self.output_topic

    @property
    def is_of_two_clusters(self) -> bool:
        """Whether they are said to be in two; :func:`audit` asks these."""
        topics = self.input_topic is not None and bool(self.output_topic)
        return topics and self.input_bootstrap != self.output_bootstrap

    @property
    def known_by(self) -> By:
        """What rows are known by."""
        if self.by is not None:
            return self.by
        tables = [each for each in (self.input_table, self.output_table) if each is not None]
        by_place = tables and not self.is_named_otherwise and self.input_rows is None
        return By.PLACE if by_place and all(each.has_places for each in tables) else By.CONTENT

    @property
    def is_named_otherwise(self) -> bool:
        return bool(self.named) or _WHOLE_ROW not in (self.output_identity, self.input_identity)

    @property
    def is_named(self) -> bool:
        """Whether identities are names: then equal ones are rows twice, whatever their sequences say."""
        if self.known_by is not By.CONTENT:
            return True
        return self.output_identity != _WHOLE_ROW if self.named is None else self.named

    @property
    def identity(self) -> str:
        """What names a row, for the report."""
        return str(self.output_identity) if self.known_by is By.CONTENT else str(self.known_by)

    @property
    def is_ordered(self) -> bool:
        """Whether order is looked at: a table has none."""
        no_order = self.order is None or self.input_table or self.output_table
        return not no_order and self.known_by is By.CONTENT

    def input_reading(self, contents: Contents | None = None) -> TopicReading:
        """What to read of the input, which gives the order too."""
        assert self.source is not None
        order = self.order if self.is_ordered else None
        identity = self._held_against(self.input_identity, self.output_identity)
        reading = self._reading(self.source, identity, order, self.where, contents)
        return replace(reading, value=self.input_value)

    def output_reading(self, contents: Contents | None = None) -> TopicReading:
        """What to read of the output."""
        identity = self._held_against(self.output_identity, self.input_identity)
        return self._reading(self.output, identity, None, contents=contents)

    def _held_against(self, identity: IdentityRule, other: IdentityRule) -> IdentityRule:
        is_compared = self.source is not None and self.known_by is By.CONTENT
        return identity.held_against(other) if is_compared else identity

    def contents(self) -> Contents | None:
        """What rows of a table have to hold beside their place; ``None``: nothing is held against them."""
        if self.source is None or self.known_by is not By.PLACE or self.input_rows is not None:
            return None
        tables = [each for each in (self.input_table, self.output_table) if each is not None]
        if len(tables) > 1:
            return of_two_tables(tables[0].schema, tables[1].schema, self.columns)
        (table,) = tables
        found = of_table(table.shape, self.values, self.columns)
        grown = [] if found.reader is None else own_columns(found.columns)
        if grown:
            found.growth = table.growth(grown, self.input_topic or self.output_topic)
        return found

    def _reading(
        self,
        side: Side,
        identity: IdentityRule,
        order: IdentityRule | None,
        where: str | None = None,
        contents: Contents | None = None,
    ) -> TopicReading:
        by = self.known_by
        sides = [each for each in (self.source, self.output) if each is not None]
        names_topic = by is By.PLACE and all(
            isinstance(each, TableFiles) and each.has_topic for each in sides
        )
        return TopicReading(
            side if isinstance(side, str) else side.name,
            identity,
            order,
            where,
            self.rows_max,
            self.examples_max,
            self.producers_max,
            by,
            None if contents is None or not contents.columns.names else contents,
            names_topic=names_topic,
            dead_letter_topic=self.dead_letter_topic,
            dead_letter_bootstrap=self.output_bootstrap,
        )


def audit(
    cluster: Cluster | None,
    plan: AuditPlan,
    progress: Progress | None = None,
    watch: Watch | None = None,
    *,
    output_cluster: Cluster | None = None,
) -> AuditReport:
    """Read and judge. Reads each side once; the first findings once more, to name them.

    Without a ``cluster`` where no side is a topic. ``watch`` is asked for each part's ``progress``. The output's topic
    may be in another one, its ``output_cluster``.
    """
    began = time.monotonic()
    clusters = {True: cluster, False: cluster if output_cluster is None else output_cluster}
    _check_clusters(plan, clusters)
    group = None
    group_cluster = clusters[plan.input_topic is not None]
    if plan.group is not None and group_cluster is not None:
        topic = plan.input_topic or plan.output_topic
        group = read_group(group_cluster, plan.group, topic, partitions_of(group_cluster, topic))
    contents = plan.contents()
    with RowStore(plan.room) as store:

        def read(in_input: bool, side: Side, reading: TopicReading, of_topic: str | None) -> Reading:
            return _read(store, clusters[in_input], side, reading, of_topic, progress, watch)

        reading = plan.output_reading(contents)
        if plan.known_by is By.LINEAGE and cluster is not None and plan.input_topic is not None:
            topic_id = cluster.topic(plan.input_topic).topic_id
            reading = replace(reading, lineage_of=f"{plan.input_topic}@{topic_id}")
        source = None
        if plan.input_table is None:
            if plan.source is not None:
                source = read(True, plan.source, plan.input_reading(contents), None)
                if contents is not None and contents.is_refuted:
                    contents = contents.without_values()
                    source = read(True, plan.source, plan.input_reading(contents), None)
                    reading = plan.output_reading(contents)
                reading = _beside(reading, source[0])
            output = read(False, plan.output, reading, plan.input_topic)
        else:  # the topic first: where its log begins says which rows of the table can be held against it
            output = read(False, plan.output, reading, None)
            if contents is not None and contents.is_refuted:
                contents = contents.without_values()
                output = read(False, plan.output, plan.output_reading(contents), None)
            reading = plan.input_reading(contents)
            reading = reading if plan.subset else _beside(reading, output[0])
            source = read(True, plan.input_table, reading, plan.output_topic or None)
        if watch is not None:
            watch("compare", None)(0)
        report = judge(clusters, plan, source, output, group, contents)
    return replace(report, elapsed_ms=int((time.monotonic() - began) * 1000))


def _topic_and_table(plan: AuditPlan) -> tuple[str, str]:
    table = plan.output_table or plan.input_table
    return plan.input_topic or plan.output_topic, "" if table is None else table.name


def _check_clusters(plan: AuditPlan, clusters: Mapping[bool, Cluster | None]) -> None:
    """``ConfigError`` where input and output are one topic, whatever the addresses of its cluster."""
    if plan.source != plan.output or not plan.is_of_two_clusters:
        return
    ids = {each.metadata([]).cluster_id for each in clusters.values() if each is not None}
    if len(ids) < 2:
        raise ConfigError(
            f"{plan.input_bootstrap} and {plan.output_bootstrap} are one cluster, so input and output are both "
            f"{plan.output_topic!r}: nothing would be proven"
        )


def _beside(reading: TopicReading, other: TopicAudit) -> TopicReading:
    """The same for rows that are held against what was read of the other side."""
    return replace(reading, log_start_offsets=other.log_start_offsets)


def _read(
    store: RowStore,
    cluster: Cluster | None,
    side: Side,
    reading: TopicReading,
    of_topic: str | None,
    progress: Progress | None,
    watch: Watch | None,
) -> Reading:
    if isinstance(side, InputRows):
        return read_rows(store, side, reading, watch(side.name, None) if watch else progress)
    if isinstance(side, TableFiles):
        told = watch(side.name, side.row_count()) if watch else progress
        return read_table(store, side, reading, of_topic, told)
    assert cluster is not None
    return read_topic(store, cluster, reading, watch(side, row_count(cluster, side)) if watch else progress)


def judge(
    clusters: Mapping[bool, Cluster | None],
    plan: AuditPlan,
    source: Reading | None,
    output: Reading,
    group: GroupAudit | None = None,
    contents: Contents | None = None,
) -> AuditReport:
    """Hold what was read of the output against what was read of the input. ``clusters``: True for the input's."""
    output_audit, output_rows = output
    result: Comparison | Uniqueness
    if source is None:
        result = unique(output_rows, examples_max=plan.examples_max, named=plan.is_named)
    elif plan.known_by is By.LINEAGE:
        result = compare_lineage(source[1], output_rows, examples_max=plan.examples_max, subset=plan.subset)
    else:
        result = compare(
            source[1],
            output_rows,
            examples_max=plan.examples_max,
            order=plan.is_ordered,
            subset=plan.subset,
            positions=None if group is None else group.positions,
        )
    doubts = result.doubts if isinstance(result, Uniqueness) else ()
    places = [place for finding in (*result.findings, *doubts) for place in finding.examples]
    sides = {False: (plan.output, plan.output_reading(contents))}
    if plan.source is not None:
        sides[True] = (plan.source, plan.input_reading(contents))
    names = name_places(clusters, places, sides)
    if contents is not None:
        differing = [place for each in result.findings if each.check == "differs" for place in each.examples]
        for place, text in name_differences(clusters, differing, sides, contents).items():
            names[place] = f"{names[place]}: {text}" if place in names else text
    output_audit = replace(output_audit, bootstrap=plan.output_bootstrap)
    input_audit = None if source is None else replace(source[0], bootstrap=plan.input_bootstrap)
    return AuditReport(
        output=output_audit,
        result=result,
        input=input_audit,
        identity=plan.identity,
        subset=plan.subset,
        group=group,
        names=names,
        not_compared=not_compared(plan, input_audit, output_audit, result, contents),
        by="" if contents is not None and contents.columns.names else _ALONE.get(plan.known_by, ""),
        unprovable_columns=None if contents is None else contents.unprovable(*_topic_and_table(plan)),
    )
