"""The verdict of an audit, as a value, as text for people and as a document for programs.

The audit holds when nothing was found. ``Finding`` counts are exact; examples are the first few, and each is
named by topic, partition, offset and, where the log still has it, by its identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from semel.audit.checks import Comparison, Finding, Place, Uniqueness
from semel.audit.sequences import SequenceVerdict
from semel.wording import counted

_MEANING: Final = {
    "missing": "input rows that are not in the output",
    "duplicated": "rows that stand more than once",
    "extra": "output rows that are not in the input",
    "out_of_order": "rows that stand before an earlier row of their key",
    "scattered": "rows whose key stands in several output partitions",
}


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """One topic as it was read: how much, and whether its producers' sequences are whole."""

    topic: str
    partition_rows: Mapping[int, int]
    log_start_offsets: Mapping[int, int]
    end_offsets: Mapping[int, int]
    sequences: SequenceVerdict

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
    names: Mapping[Place, str] = field(default_factory=dict)
    elapsed_ms: int = 0

    @property
    def topics(self) -> tuple[TopicAudit, ...]:
        return (self.output,) if self.input is None else (self.input, self.output)

    @property
    def holds(self) -> bool:
        """Whether the proof stands: no finding of any check, on either side."""
        return not self.result.findings and not any(topic.sequences.finding_count for topic in self.topics)

    def as_document(self) -> dict[str, Any]:
        """JSON's view; stable names."""
        return {
            "holds": self.holds,
            "identity": self.identity,
            "elapsed_ms": self.elapsed_ms,
            "topics": [_topic_document(topic) for topic in self.topics],
            "rows": {name: value for name, value in asdict(self.result).items() if name != "findings"},
            "findings": [self._finding_document(finding) for finding in self.result.findings],
        }

    def as_lines(self) -> list[str]:
        """One screen for a person; the last line is the verdict."""
        lines = [_topic_line(topic) for topic in self.topics]
        if isinstance(self.result, Comparison):
            line = f"{self.result.matched_rows:,} of {self.result.input_rows:,} input rows are in the output"
            if _in_order(self.result):
                line += f", order held over {self.result.order_keys:,} keys"
            lines.append(line)
            if self.result.input_repeated_rows:
                lines.append(f"note: the input itself repeats {self.result.input_repeated_rows:,} rows")
        for finding in self.result.findings:
            lines.append(f"VIOLATED {finding.check}: {finding.row_count:,} {_MEANING[finding.check]}")
            lines += [f"  {self._place_text(place)}" for place in finding.examples]
            if finding.row_count > len(finding.examples):
                lines.append(f"  … and {finding.row_count - len(finding.examples):,} more")
        for topic in self.topics:
            if topic.sequences.finding_count:
                lines.append(
                    f"VIOLATED sequences of {topic.topic}: {counted(topic.sequences.finding_count, 'batch', 'batches')}"
                )
                lines += [f"  {finding}" for finding in topic.sequences.findings]
        lines.append(self.conclusion())
        return lines

    def conclusion(self) -> str:
        """The verdict in one line."""
        if not self.holds and self.input is None:
            return f"NOT PROVEN: {self.output.topic} holds rows twice, or its sequences are not whole"
        if not self.holds:
            return "NOT PROVEN: the output does not hold the input exactly once"
        if self.input is None:
            return f"PROVEN: {self.output.topic} holds no row twice, and its sequences are whole"
        ordered = ", in order" if isinstance(self.result, Comparison) and _in_order(self.result) else ""
        return f"PROVEN: {self.output.topic} holds every row of {self.input.topic} exactly once{ordered}"

    def _place_text(self, place: Place) -> str:
        topic = self.input if place.in_input else self.output
        where = f"{topic.topic if topic else '?'}-{place.partition} offset {place.offset}"
        return f"{where}: {self.names[place]}" if place in self.names else where

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
                }
                for place in finding.examples
            ],
        }


def _in_order(result: Comparison) -> bool:
    """Whether order was looked at, and held."""
    broken = any(finding.check in ("out_of_order", "scattered") for finding in result.findings)
    return result.order_keys > 0 and not broken


def _topic_line(topic: TopicAudit) -> str:
    sequences = topic.sequences
    text = (
        f"{topic.topic}: {_count(topic.rows, 'row')} in {_count(len(topic.partition_rows), 'partition')}, "
        f"{_count(sequences.batches, 'batch', 'batches')} of {_count(sequences.producers, 'producer')} "
        f"in {_count(sequences.epochs, 'epoch')}"
    )
    if sequences.unsequenced_records:
        text += f"; {sequences.unsequenced_records:,} rows carry no sequence"
    return text


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _topic_document(topic: TopicAudit) -> dict[str, Any]:
    document = asdict(topic.sequences)
    findings = [str(finding) for finding in topic.sequences.findings]
    return {
        "topic": topic.topic,
        "rows": topic.rows,
        "partitions": {
            str(number): {
                "rows": rows,
                "log_start_offset": topic.log_start_offsets[number],
                "end_offset": topic.end_offsets[number],
            }
            for number, rows in sorted(topic.partition_rows.items())
        },
        "sequences": {**document, "findings": findings},
    }
