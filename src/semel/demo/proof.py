"""The proof of the demo, step by step: file -> input topic -> output topic -> its copy in a second log -> Delta table.

The file is read here by another reader than the loader's, so that a fault of that one would show.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from semel.audit.checks import Comparison, compare
from semel.audit.columns import with_lengths
from semel.audit.identity import IdentityRule
from semel.audit.read import Progress, read_topic
from semel.audit.report import AuditReport, TopicAudit
from semel.audit.run import AuditPlan, audit, judge
from semel.audit.store import Rows, RowStore
from semel.audit.tables import TableFiles
from semel.client.blocking import Cluster
from semel.demo.data import NUMBERS, UNIQUE_FIELDS, data_folder

IDENTITY: Final = IdentityRule.of(",".join(UNIQUE_FIELDS), None)
_KEY_FIELDS: Final = ("carrier", "flight")
_CHUNK_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Proof:
    """``loaded``: the file against the input topic; ``piped``: input against output, when there was Spark;
    ``copied``: the first log's last topic against the second log's; ``landed``: that one against the table."""

    loaded: Comparison
    stored: TopicAudit  # the input topic
    unique_flights: int
    piped: AuditReport | None
    copied: AuditReport | None = None
    landed: AuditReport | None = None

    @property
    def second_act(self) -> list[AuditReport]:
        """What was proven of the copy and of the table."""
        return [report for report in (self.copied, self.landed) if report is not None]

    @property
    def finding_count(self) -> int:
        """Checks that failed, of both steps."""
        failed = len(self.loaded.findings) + (self.stored.sequences.finding_count > 0)
        for report in (self.piped, *self.second_act):
            if report is not None:
                failed += len(report.result.findings) + (report.output.sequences.finding_count > 0)
        return failed

    @property
    def holds(self) -> bool:
        return self.flights_hold and all(report.holds for report in self.second_act)

    @property
    def flights_hold(self) -> bool:
        """The same of the flights up to the first log's last topic."""
        rows_hold = not self.loaded.findings and not self.stored.sequences.finding_count
        piped_holds = self.piped is None or self.piped.holds
        return rows_hold and piped_holds and self.unique_flights == self.loaded.input_rows

    def as_lines(self) -> list[str]:
        """What is wrong, for a person to look at next, and a line for each proof of the second act."""
        second = [line for report in self.second_act for line in _conclusion(report)]
        return self._lines_of_flights() + second

    def _lines_of_flights(self) -> list[str]:
        if self.flights_hold:
            return []
        lines = [
            f"VIOLATED {finding.check}: {finding.row_count:,} flights, the file against {self.stored.topic}"
            for finding in self.loaded.findings
        ]
        if self.piped is not None:
            return lines + self.piped.as_lines()
        return lines + [f"VIOLATED sequences: {finding}" for finding in self.stored.sequences.findings]


def prove(
    cluster: Cluster,
    input_topic: str,
    output_topic: str | None,
    row_count_max: int | None,
    progress: Progress | None = None,
) -> Proof:
    """Read the file and each topic once, and hold them against each other."""
    plan = AuditPlan(
        output_topic=output_topic or input_topic,
        input_topic=input_topic if output_topic else None,
        input_identity=IDENTITY,
        output_identity=IDENTITY,
    )
    with RowStore() as store:
        in_file = rows_of_file(store, row_count_max, progress)
        reading = plan.input_reading() if output_topic else plan.output_reading()
        source = read_topic(store, cluster, reading, progress)
        loaded = compare(in_file, source[1])
        piped = None
        if output_topic is not None:
            output = read_topic(store, cluster, plan.output_reading(), progress)
            piped = judge({True: cluster, False: cluster}, plan, source, output)
    return Proof(loaded, source[0], loaded.input_rows - loaded.input_repeated_rows, piped)


def prove_copy(
    first: Cluster, second: Cluster, topic: str, copy: str, progress: Progress | None = None
) -> AuditReport:
    """The topic of the one log against its copy in the other: keys and values, and the order of each key."""
    return audit(first, AuditPlan(output_topic=copy, input_topic=topic), progress, output_cluster=second)


def prove_table(cluster: Cluster, topic: str, table: Path, progress: Progress | None = None) -> AuditReport:
    """The topic against the table that it was landed in: each place once, with its key and value."""
    return audit(cluster, AuditPlan(output_table=TableFiles("delta", table), input_topic=topic), progress)


def _conclusion(report: AuditReport) -> list[str]:
    """The verdict of an audit that holds, else all that it says."""
    if not report.holds:
        return report.as_lines()
    # The folder goes with the demo: its path would be of no help.
    name = report.output.topic if report.output.is_log else "the Delta table"
    return [report.conclusion().replace(report.output.topic, name, 1)]


def rows_of_file(store: RowStore, row_count_max: int | None, progress: Progress | None = None) -> Rows:
    """The flights of the file as if they were one partition, in the order of the file."""
    columns = _columns_of_file().slice(0, row_count_max)
    rows = store.rows("nycflights13")
    first = 0
    for chunk in columns.to_batches(_CHUNK_ROWS):
        names = with_lengths([_field_texts(chunk, field) for field in UNIQUE_FIELDS])
        keys = pc.binary_join_element_wise(*(chunk.column(field) for field in _KEY_FIELDS), "")
        offsets = np.arange(first, first + len(chunk), dtype=np.int64)
        rows.add(0, offsets, names, keys.cast(pa.binary()))
        first += len(chunk)
        if progress is not None:
            progress(len(chunk))
    return rows


def _field_texts(chunk: pa.RecordBatch, field: str) -> pa.Array:
    """As an audit writes the field of the topic's JSON: a text has a quote before it."""
    column = chunk.column(field).cast(pa.binary())
    return column if field in NUMBERS else pc.binary_join_element_wise(b'"', column, b"")


def _columns_of_file() -> pa.Table:
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        raw = archive.read("flights.csv")
    wanted = sorted({*UNIQUE_FIELDS, *_KEY_FIELDS})
    as_text = csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()))
    return csv.read_csv(pa.py_buffer(raw), convert_options=as_text)
