"""The verdict of an audit, as a value, as text for people and as a document for programs.

The audit holds when there were rows to judge, nothing was found and nothing is in doubt: a doubt is what this log
cannot decide, as whether equal rows of a producer without an id were sent twice or stored twice. ``Finding`` counts
are exact; examples are the first few, and each is named by topic, partition, offset and, where the log still has it,
by its identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from semel.audit.checks import Comparison, Finding, Place, Uniqueness
from semel.audit.groups import GroupAudit
from semel.audit.sequences import SequenceVerdict
from semel.audit.transactions import TransactionVerdict
from semel.wording import counted

NOT_COMPARED: Final = "NOT COMPARED"  # how a line begins that says what the verdict does not cover
_MEANING: Final = {
    "missing": "input rows that are not in the output",
    "duplicated": "rows that stand more than once",
    "extra": "output rows that are not in the input",
    "differs": "output rows that hold something else than their input row",
    "ahead": "output rows whose input row lies at or behind the group's position",
    "skipped": "output rows that are not the first of their input row, and the one before is not there",
    "out_of_order": "rows that stand before an earlier row of their key",
    "scattered": "rows whose key stands in several output partitions",
    "undecided": "rows equal another one and carry no sequence, so that they may have been sent or stored twice",
}


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """One topic as it was read: how much, and whether its producers' sequences are whole."""

    topic: str
    partition_rows: Mapping[int, int]
    log_start_offsets: Mapping[int, int]
    end_offsets: Mapping[int, int]
    sequences: SequenceVerdict
    where: str | None = None
    selected_rows: int | None = None  # those that the condition holds for; None without one
    is_log: bool = True  # False: the lines of a file, or the rows of a table
    unit: str = "row"  # what its rows are called
    transactions: TransactionVerdict | None = None
    other_rows: int = 0  # those that came of another topic, and were not looked at
    unprovable_rows: int = 0  # those that came of records below their log's start, which are gone
    bootstrap: str = ""  # a server of its cluster, where there are two
    dead_letters: int = 0  # batches that nobody can read, and that a topic of those has
    is_compacted: bool = False

    @property
    def name(self) -> str:
        """The topic, and where it is if that has to be said."""
        return f"{self.topic} at {self.bootstrap}" if self.bootstrap else self.topic

    @property
    def rows(self) -> int:
        return sum(self.partition_rows.values())


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All that an audit found. ``names`` gives the identity of the rows that the findings show."""

    output: TopicAudit
    result: Comparison | Uniqueness
    input: TopicAudit | None = None
    identity: str = ""
    subset: bool = False
    group: GroupAudit | None = None
    names: Mapping[Place, str] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()  # what a reader could take for compared (gaps.py)
    unprovable_columns: str | None = None  # nulls of a table of which nobody can say whether they are right
    by: str = ""  # what rows were known by, where that was all that was compared
    elapsed_ms: int = 0

    @property
    def topics(self) -> tuple[TopicAudit, ...]:
        return (self.output,) if self.input is None else (self.input, self.output)

    @property
    def holds(self) -> bool:
        """Whether the proof stands: no finding of any check, on either side, no doubt, and rows to prove it of."""
        return not self.is_violated and not self.doubts and self.unproven is None

    @property
    def vacuous(self) -> str | None:
        """Why the audit proves nothing though nothing was found: a mistyped name or condition looks just so.

        An empty output is no reason where all of an input has to be in it: its rows are then missing.
        """
        if self.input is not None and not self.input.rows:
            return f"the input {self.input.name} is empty"
        if self.input is not None and self.input.selected_rows == 0:
            return f"the condition holds for no row of the input {self.input.name}: {self.input.where}"
        if self.group is not None and not self.group.positions:
            return f"the group {self.group.group} has committed no position in {self.group.topic}"
        if self.group is not None and isinstance(self.result, Comparison) and not self.result.matched_rows:
            return f"no row of {self.group.topic} lies before the positions of the group {self.group.group}"
        if not self.output.rows and (self.input is None or self.subset):
            return f"the output {self.output.name} is empty"
        return None

    @property
    def unprovable(self) -> str | None:
        """Rows that are neither right nor wrong, and keep the whole from being proven."""
        for topic, other in ((self.output, self.input), (self.input, self.output)):
            if topic is not None and other is not None and topic.unprovable_rows:
                return (
                    f"{counted(topic.unprovable_rows, 'row')} of {topic.name} came of records that stood before the "
                    f"start of {other.name}: they are gone, and what came of them is not provable"
                )
        return self.unprovable_columns

    @property
    def unproven(self) -> str | None:
        """Why nothing, or not all, is proven though nothing was found."""
        return self.vacuous or self.unprovable

    @property
    def is_violated(self) -> bool:
        """Whether something is surely wrong, and not only in doubt."""
        if self.group is not None and self.group.findings:
            return True
        if any(topic.transactions is not None and topic.transactions.findings for topic in self.topics):
            return True
        return bool(self.result.findings) or any(topic.sequences.finding_count for topic in self.topics)

    @property
    def doubts(self) -> tuple[Finding, ...]:
        return self.result.doubts if isinstance(self.result, Uniqueness) else ()

    @property
    def verdict(self) -> str:
        return "proven" if self.holds else "violated" if self.is_violated else "not proven"

    def as_document(self) -> dict[str, Any]:
        """JSON's view; stable names."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "unproven": self.unproven,
            "not_compared": list(self.not_compared),
            "identity": self.identity,
            "elapsed_ms": self.elapsed_ms,
            "topics": [_topic_document(topic) for topic in self.topics],
            "group": None if self.group is None else asdict(self.group),
            "rows": {
                item.name: getattr(self.result, item.name)
                for item in fields(self.result)
                if item.name not in ("findings", "doubts")
            },
            "findings": [self._finding_document(finding) for finding in self.result.findings],
            "doubts": [self._finding_document(finding) for finding in self.doubts],
        }

    def as_lines(self) -> list[str]:
        """One screen for a person: first what was not compared, last the verdict."""
        lines = [f"{NOT_COMPARED}: {each}" for each in self.not_compared]
        lines += [_topic_line(topic) for topic in self.topics]
        if self.group is not None:
            lines.append(self.group.as_line())
        if isinstance(self.result, Comparison):
            line = f"{self.result.matched_rows:,} of {self.result.input_rows:,} input rows are in the output"
            if _in_order(self.result):
                line += f", order held over {self.result.order_keys:,} keys"
            lines.append(line)
            if self.result.input_repeated_rows:
                lines.append(f"note: the input itself repeats {self.result.input_repeated_rows:,} rows")
        elif (
            self.result.repeated_rows and not self.output.sequences.finding_count
        ):  # else they may be the same send
            equal = "row equals" if self.result.repeated_rows == 1 else "rows equal"
            lines.append(
                f"note: {self.result.repeated_rows:,} {equal} an earlier one under a sequence of its own: sent more "
                f"than once, each stored once. If no two rows may be equal, name them with --key or --key-from"
            )
        lines += [
            f"note: {topic.name}: {counted(topic.transactions.aborted_rows, 'row')} of aborted transactions left out"
            for topic in self.topics
            if topic.transactions is not None and topic.transactions.aborted_rows
        ]
        if self.group is not None:
            lines += [f"VIOLATED positions: {text}" for text in self.group.findings]
        for word, finding in [("VIOLATED", f) for f in self.result.findings] + [
            ("OPEN", f) for f in self.doubts
        ]:
            lines.append(f"{word} {finding.check}: {finding.row_count:,} {_MEANING[finding.check]}")
            lines += [f"  {text}" for text in self._example_texts(finding)]
            if finding.row_count > len(finding.examples):
                lines.append(f"  … and {finding.row_count - len(finding.examples):,} more")
        if self.unprovable is not None:
            lines.append(f"NOT PROVABLE: {self.unprovable}")
        for topic in self.topics:
            if topic.sequences.finding_count:
                lines.append(
                    f"VIOLATED sequences of {topic.name}: {counted(topic.sequences.finding_count, 'batch', 'batches')}"
                )
                lines += [f"  {finding}" for finding in topic.sequences.findings]
            if topic.transactions is not None and topic.transactions.finding_count:
                lines.append(f"VIOLATED transactions of {topic.name}: {topic.transactions.finding_count:,}")
                lines += [f"  {finding}" for finding in topic.transactions.findings]
        lines.append(self.conclusion())
        return lines

    def conclusion(self) -> str:
        """The verdict in one line."""
        if self.vacuous is not None and not self.is_violated:
            return f"NOT PROVEN: {self.vacuous}"
        if self.unprovable is not None and not self.is_violated:
            return f"NOT PROVEN: what could be compared is right; {self.unprovable}"
        if not self.holds and self.input is None:
            if not self.is_violated:
                return (
                    f"NOT PROVEN: {self.output.name} holds equal rows without a sequence, and a log alone cannot "
                    f"say whether each was sent: hold it against its --input, or write with an idempotent producer"
                )
            return f"NOT PROVEN: {self.output.name} holds rows twice, or its sequences are not whole"
        if not self.holds and self.subset:
            return "NOT PROVEN: the output is not a part of the input with each row once"
        if not self.holds:
            return "NOT PROVEN: the output does not hold the input exactly once"
        if self.input is None and self.group is not None:
            return f"PROVEN: {self.output.name} {self._alone()}; the positions of group {self.group.group} lie in it"
        if self.input is None:
            return f"PROVEN: {self.output.name} {self._alone()}"
        ordered = ", in order" if isinstance(self.result, Comparison) and _in_order(self.result) else ""
        of = self.input.name + (f" where {self.input.where}" if self.input.where else "")
        if self.group is not None:
            return (
                f"PROVEN: {self.output.name} holds every row of {of} before the positions of group "
                f"{self.group.group} exactly once, and none behind them{ordered}"
            )
        if self.subset:
            alone = f", by {self.by} alone" if self.by else ""
            return f"PROVEN: every row of {self.output.name} is in {of}, none more often than there{ordered}{alone}"
        alone = f", by {self.by} alone" if self.by else ""
        return f"PROVEN: {self.output.name} holds every row of {of} exactly once{ordered}{alone}"

    def tables(self) -> list[tuple[str, Sequence[str], list[Sequence[Any]]]]:
        """The same as tables: heading, heads, rows."""
        read: list[Sequence[Any]] = [
            (topic.name, topic.rows, len(topic.partition_rows), topic.sequences.finding_count)
            for topic in self.topics
        ]
        counts: list[Sequence[Any]] = [
            (item.name.replace("_", " "), getattr(self.result, item.name))
            for item in fields(self.result)
            if item.name not in ("findings", "doubts")
        ]
        found: list[Sequence[Any]] = [
            (finding.check, finding.row_count, _MEANING[finding.check])
            for finding in (*self.result.findings, *self.doubts)
        ]
        found += [
            (
                "not provable",
                topic.unprovable_rows,
                f"rows of {topic.name} that came of records that are gone",
            )
            for topic in self.topics
            if topic.unprovable_rows
        ]
        if self.unprovable_columns is not None:
            found.append(("not provable", "", self.unprovable_columns))
        offenders: list[Sequence[Any]] = [
            (finding.check, text)
            for finding in (*self.result.findings, *self.doubts)
            for text in self._example_texts(finding)
        ]
        offenders += [("sequences", str(each)) for topic in self.topics for each in topic.sequences.findings]
        offenders += [
            ("transactions", str(each))
            for topic in self.topics
            if topic.transactions is not None
            for each in topic.transactions.findings
        ]
        if self.group is not None:
            offenders += [("positions", text) for text in self.group.findings]
        return [
            ("What was read", ("", "rows", "partitions", "broken sequences"), read),
            ("Counts", ("", ""), counts),
            ("Checks that failed", ("check", "rows", ""), found),
            ("The first offenders", ("check", "where, and what"), offenders),
        ]

    def _alone(self) -> str:
        """What a log proves without an input."""
        repeated = isinstance(self.result, Uniqueness) and self.result.repeated_rows
        text = "holds nothing twice that was sent once" if repeated else "holds no row twice"
        if repeated:
            text += f" ({counted(repeated, 'row equals', 'rows equal')} an earlier one)"
        if not self.output.is_log:
            return text
        unsequenced = self.output.sequences.unsequenced_records
        if not unsequenced:
            return f"{text}, and its sequences are whole"
        return f"{text}; whether one is missing cannot be said of {counted(unsequenced, 'row')} without a sequence"

    def _example_texts(self, finding: Finding) -> list[str]:
        """Each row once: where its copies stand, as partition@offset, and what it is."""
        texts: list[str] = []
        told: set[Place] = set()
        for place in finding.examples:
            copies = finding.copies.get(place, (place,))
            if place in told:
                continue
            told |= set(copies)
            where = ", ".join(self._where_text(copy) for copy in copies)
            if place not in copies:
                where += f" … {self._where_text(place)}"
            texts.append(f"{where}: {self.names[place]}" if place in self.names else where)
        return texts

    def _where_text(self, place: Place) -> str:
        topic = self.input if place.in_input and self.input is not None else self.output
        if not topic.is_log:
            return f"{topic.topic} {topic.unit} {place.offset + 1}"
        return f"{topic.topic}-{place.partition}@{place.offset}"

    def _finding_document(self, finding: Finding) -> dict[str, Any]:
        return {
            "check": finding.check,
            "row_count": finding.row_count,
            "examples": [
                {
                    "topic": (self.input if place.in_input and self.input else self.output).topic,
                    "partition": place.partition,
                    "offset": place.offset,
                    "identity": self.names.get(place),
                    "copies": [
                        {"partition": copy.partition, "offset": copy.offset}
                        for copy in finding.copies.get(place, ())
                    ],
                }
                for place in finding.examples
            ],
        }


def _in_order(result: Comparison) -> bool:
    """Whether order was looked at, and held."""
    broken = any(finding.check in ("out_of_order", "scattered") for finding in result.findings)
    return result.order_keys > 0 and not broken


def _topic_line(topic: TopicAudit) -> str:
    if not topic.is_log:
        return f"{topic.name}: {_count(topic.rows, topic.unit)}{_selected(topic)}"
    sequences = topic.sequences
    text = (
        f"{topic.name}: {_count(topic.rows, 'row')} in {_count(len(topic.partition_rows), 'partition')}, "
        f"{_count(sequences.batches, 'batch', 'batches')} of {_count(sequences.producers, 'producer')} "
        f"in {_count(sequences.epochs, 'epoch')}"
    )
    if sequences.unsequenced_records:
        text += f"; {_count(sequences.unsequenced_records, 'row')} without a sequence"
    return text + _selected(topic)


def _selected(topic: TopicAudit) -> str:
    text = "" if topic.selected_rows is None else f"; {topic.selected_rows:,} of them where {topic.where}"
    if topic.dead_letters:
        text += f"; {_count(topic.dead_letters, 'batch', 'batches')} that nobody can read left out, as dead letters"
    return text + (f"; {topic.other_rows:,} of other topics not looked at" if topic.other_rows else "")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _topic_document(topic: TopicAudit) -> dict[str, Any]:
    document = asdict(topic.sequences)
    findings = [str(finding) for finding in topic.sequences.findings]
    return {
        "topic": topic.topic,
        "bootstrap": topic.bootstrap or None,
        "rows": topic.rows,
        "selected_rows": topic.selected_rows,
        "unprovable_rows": topic.unprovable_rows,
        "dead_letters": topic.dead_letters,
        "partitions": {
            str(number): {
                "rows": rows,
                "log_start_offset": topic.log_start_offsets[number],
                "end_offset": topic.end_offsets[number],
            }
            for number, rows in sorted(topic.partition_rows.items())
        },
        "sequences": {**document, "findings": findings},
        "transactions": None
        if topic.transactions is None
        else {**asdict(topic.transactions), "findings": [str(each) for each in topic.transactions.findings]},
    }
