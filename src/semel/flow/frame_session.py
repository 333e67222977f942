"""The Spark session of a flow's stages: a clone of the user's, with settings that the flow has, and nobody else.

What an expression gives depends on its session: ``date_format`` on the time zone, a cast that fails on ANSI mode, ``A``
on ``caseSensitive``. A flow may be started by ``semel flow run``, by ``spark-submit`` and in a notebook, on machines
of any zone, and has to give the same rows. So each setting that expressions can see has the value of
:data:`FRAME_SETTINGS`, or else Spark's default, whatever the session had. They are a part of the plan of each stage
with steps of Spark's. What is left as the session has it says how fast and how large, and where: :data:`_KEPT`.

A clone knows the session's temporary views, functions and catalogs, and gives its listeners the stages' news. The
user's session is not touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from semel.errors import ConfigError

# Spark's defaults, but for the zone, which is the machine's there, and for ${...}, which stands for anything.
FRAME_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",
}
_KEPT: Final = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",  # PySpark turns isolation off: else each query has Python workers, and files, of its own
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.catalog.",
    "spark.sql.codegen.",
    "spark.sql.defaultCatalog",
    "spark.sql.execution.arrow.",
    "spark.sql.execution.pyspark.udf.",
    "spark.sql.files.",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
)
_FRAME_STEPS: Final = frozenset({"where", "select", "apply"})
_UTC: Final = frozenset({"utc", "etc/utc", "gmt", "z", "+00:00"})


def frame_session(spark: Any) -> Any:
    """A session for a flow's stages, which shares all else with ``spark``."""
    clone = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name in clone.conf.getAll:
        if not name.startswith(_KEPT) and clone.conf.isModifiable(name):
            clone.conf.unset(name)
    for name, value in FRAME_SETTINGS.items():
        clone.conf.set(name, value)
    for listener in spark._jsparkSession.streams().listListeners():
        clone._jsparkSession.streams().addListener(listener)
    return clone


@contextmanager
def active(spark: Any) -> Iterator[None]:
    """Expressions that a step's function makes are made in ``spark``; behind it the thread's session is as it was."""
    kind = type(spark)
    of_jvm = kind._get_j_spark_session_class(spark._jvm)
    before, before_in_jvm = kind._activeSession, of_jvm.getActiveSession()
    kind._activeSession = spark
    of_jvm.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        kind._activeSession = before
        if before_in_jvm.isDefined():
            of_jvm.setActiveSession(before_in_jvm.get())
        else:
            of_jvm.clearActiveSession()


def refuse_unrecorded(flow: str, stage: str, written: str, spark: Any) -> None:
    """``ConfigError`` for a stage that ran before flows had settings, in a session of others than the flow's.

    ``written`` is the plan that it ran by last. Such a stage had those of its session, and nobody knows them.
    """
    parts = json.JSONDecoder().raw_decode(written)[0] if written else {}
    if "settings" in parts or not any(step.get("step") in _FRAME_STEPS for step in parts.get("steps", ())):
        return
    others = {
        name: spark.conf.get(name) for name in FRAME_SETTINGS if not _is_same(name, spark.conf.get(name))
    }
    if others:
        told = ", ".join(f"{name}={value}" for name, value in others.items())
        raise ConfigError(
            f"stage {stage!r} of flow {flow!r} was begun by a semel whose flows took Spark's settings from their "
            f"session. This one has {told}, and from now on the flow has settings of its own: the rest of its rows "
            f"might be made otherwise. Nothing was fenced or written. If its rows were made with Spark's defaults in "
            f"UTC, start it in a session that does not set these; else give the flow another name, and its outputs "
            f"other topics"
        )


def _is_same(name: str, value: str) -> bool:
    ours = FRAME_SETTINGS[name]
    if name == "spark.sql.variable.substitute":
        return True  # nobody sets it, and a condition with ${...} in it is refused
    is_zone = name == "spark.sql.session.timeZone"
    return value.lower() == ours.lower() or (is_zone and value.lower() in _UTC)
