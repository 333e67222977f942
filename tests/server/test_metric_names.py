"""One page has one family of a name: Prometheus refuses a page with two, and so loses all of it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import semel

ROOT = Path(semel.__file__).parent
PAGES = sorted(path for path in ROOT.rglob("*.py") if "MetricFamily(" in path.read_text())


def families(source: str) -> list[str]:
    """As they stand on the page: Prometheus' library takes a counter's ``_total`` off and puts it there again."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("MetricFamily"):
            continue
        name = node.args[0]
        said = str(name.value) if isinstance(name, ast.Constant) else ast.unparse(name)
        found.append(said.removesuffix("_total"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_name_is_there_twice(page: Path) -> None:
    twice = [name for name, count in Counter(families(page.read_text())).items() if count > 1]
    assert twice == []


def test_a_second_family_of_a_name_is_seen() -> None:
    source = 'yield GaugeMetricFamily("a", "b", 1)\nyield core.CounterMetricFamily("a_total", "c")\n'
    assert families(source) == ["a", "a"]
    assert {"server/metrics.py", "flow/metrics.py"} <= {str(page.relative_to(ROOT)) for page in PAGES}
