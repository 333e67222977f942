"""One audit from end to end: read the topics, compare them, name what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from semel.audit.checks import EXAMPLES_MAX_DEFAULT, Uniqueness, compare, unique
from semel.audit.identity import IdentityRule, KeyFrom
from semel.audit.read import InputRows, Progress, TopicReading, name_places, read_rows, read_topic
from semel.audit.report import AuditReport, TopicAudit
from semel.audit.rows import ROWS_MAX_DEFAULT, RowIndex
from semel.audit.sequences import PRODUCERS_MAX_DEFAULT
from semel.client.blocking import Cluster
from semel.errors import ConfigError

_BY_RECORD_KEY: Final = IdentityRule(KeyFrom.KEY)
_WHOLE_ROW: Final = IdentityRule(KeyFrom.ROW)

Reading = tuple[TopicAudit, RowIndex]  # what read_topic gives


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What to prove. Without an input: that the output repeats nothing and its sequences are whole."""

    output_topic: str
    input_topic: str | None = None
    input_rows: InputRows | None = None  # in place of an input topic
    where: str | None = None  # the input's rows that the output has to hold; None: all of them
    subset: bool = False  # the output may lack rows of the input
    named: bool | None = None  # no two output rows may have one identity; None: unless that is the whole row
    output_identity: IdentityRule = _WHOLE_ROW
    input_identity: IdentityRule = _WHOLE_ROW
    order: IdentityRule | None = _BY_RECORD_KEY  # read from the input; None: order does not matter
    rows_max: int = ROWS_MAX_DEFAULT
    examples_max: int = EXAMPLES_MAX_DEFAULT
    producers_max: int = PRODUCERS_MAX_DEFAULT

    def __post_init__(self) -> None:
        if self.input_topic == self.output_topic:
            raise ConfigError(f"input and output are both {self.output_topic!r}: nothing would be proven")
        if self.input_topic is not None and self.input_rows is not None:
            raise ConfigError("--input names a topic and --input-file a file: one of them is the input")
        if self.source is None and (self.where is not None or self.subset):
            raise ConfigError(
                "--where and --subset say what of the input is wanted: name it with --input TOPIC"
            )
        if len(self.input_identity.fields) != len(self.output_identity.fields) and (
            self.input_identity.fields and self.output_identity.fields
        ):
            raise ConfigError("input and output must name a row by the same number of fields")

    @property
    def source(self) -> str | InputRows | None:
        """The input, where there is one."""
        return self.input_rows if self.input_topic is None else self.input_topic

    @property
    def is_named(self) -> bool:
        """Whether identities are names: then equal ones are rows twice, whatever their sequences say."""
        return self.output_identity != _WHOLE_ROW if self.named is None else self.named

    def input_reading(self) -> TopicReading:
        """What to read of the input, which gives the order too."""
        assert self.source is not None
        name = self.source if isinstance(self.source, str) else self.source.name
        return self._reading(name, self.input_identity, self.order or _BY_RECORD_KEY, self.where)

    def output_reading(self) -> TopicReading:
        """What to read of the output."""
        return self._reading(self.output_topic, self.output_identity, _BY_RECORD_KEY)

    def _reading(
        self, topic: str, identity: IdentityRule, order: IdentityRule, where: str | None = None
    ) -> TopicReading:
        return TopicReading(
            topic, identity, order, where, self.rows_max, self.examples_max, self.producers_max
        )


def audit(cluster: Cluster, plan: AuditPlan, progress: Progress | None = None) -> AuditReport:
    """Read and judge. Reads each topic once; the first findings once more, to name them."""
    began = time.monotonic()
    source: Reading | None = None
    if isinstance(plan.source, InputRows):
        source = read_rows(plan.source, plan.input_reading(), progress)
    elif plan.source is not None:
        source = read_topic(cluster, plan.input_reading(), progress)
    report = judge(cluster, plan, source, read_topic(cluster, plan.output_reading(), progress))
    return replace(report, elapsed_ms=int((time.monotonic() - began) * 1000))


def judge(cluster: Cluster, plan: AuditPlan, source: Reading | None, output: Reading) -> AuditReport:
    """Hold what was read of the output against what was read of the input."""
    output_audit, output_rows = output
    result = (
        unique(output_rows, examples_max=plan.examples_max, named=plan.is_named)
        if source is None
        else compare(
            source[1],
            output_rows,
            examples_max=plan.examples_max,
            order=plan.order is not None,
            subset=plan.subset,
        )
    )
    doubts = result.doubts if isinstance(result, Uniqueness) else ()
    places = [place for finding in (*result.findings, *doubts) for place in finding.examples]
    rules = {True: plan.input_identity, False: plan.output_identity}
    return AuditReport(
        output=output_audit,
        result=result,
        input=None if source is None else source[0],
        identity=str(plan.output_identity),
        subset=plan.subset,
        names=name_places(cluster, places, plan.source, plan.output_topic, rules),
    )
