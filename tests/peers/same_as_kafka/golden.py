"""What a live Apache Kafka showed each case when it was asked last, kept beside its version.

One line a case, as Python writes it: an observation is made of dicts, lists, tuples and what JSON has no form for.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.peers.parts import ROOT

PAGE: Final = Path(__file__).parents[1] / "golden" / "same_as_kafka.json"
_POM: Final = ROOT / "tools" / "java" / "kafka" / "pom.xml"


def kafka_version() -> str:
    """The version of Apache Kafka that tests run."""
    dependencies = ElementTree.parse(_POM).findall(".//{*}dependency")
    versions = {one.findtext("{*}artifactId", ""): one.findtext("{*}version", "") for one in dependencies}
    return next(version for name, version in versions.items() if name.startswith("kafka_"))


def read() -> tuple[str, dict[str, object]]:
    """The version of Apache Kafka that was asked, and what each case saw of it."""
    page = json.loads(PAGE.read_text())
    return page["apache_kafka"], {name: ast.literal_eval(seen) for name, seen in page["observations"].items()}


def write(observations: Mapping[str, object]) -> None:
    """Keep what Apache Kafka of today's version showed; one that could not be read back is a ``ValueError``."""
    written = {name: repr(seen) for name, seen in sorted(observations.items())}
    for name, seen in observations.items():
        if not _can_be_read_back(written[name], seen):
            raise ValueError(f"{name}: {written[name]} cannot be read back")
    page = {"apache_kafka": kafka_version(), "observations": written}
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(json.dumps(page, indent=0) + "\n")


def _can_be_read_back(written: str, seen: object) -> bool:
    try:
        return bool(ast.literal_eval(written) == seen)
    except (SyntaxError, ValueError):
        return False
