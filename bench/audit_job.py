"""One audit in a process of its own, so that its memory is its own: ``python -m bench.audit_job WHO WHERE``.

``semel`` audits the topics ``in`` and ``out`` of a server; ``duckdb`` makes the same comparison, by key and value, over
the same rows in two Parquet files. Prints the seconds, and the most memory that the process had.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

MEMORY = "768MB"  # DuckDB's own where it is alone: with what Python takes about what an audit has

COMPARISON = """
CREATE TABLE repeated AS
    SELECT key, value FROM source GROUP BY ALL HAVING count(*) > 1
    UNION SELECT key, value FROM output GROUP BY ALL HAVING count(*) > 1;
CREATE TABLE pairs AS
    SELECT i.key, i.partition AS from_partition, i."offset" AS from_offset, o.partition, o."offset" AS at_offset
    FROM (FROM source ANTI JOIN repeated USING (key, value)) i
    FULL JOIN (FROM output ANTI JOIN repeated USING (key, value)) o USING (key, value);
"""
VERDICT = """
SELECT (SELECT count(*) FROM repeated), (SELECT count(*) FROM pairs WHERE at_offset IS NULL OR from_offset IS NULL),
    count(*) FILTER (partition <> before), count(*) FILTER (partition = before AND from_offset < from_before)
FROM (
    SELECT partition, from_offset, lag(partition) OVER beside AS before, lag(from_offset) OVER beside AS from_before
    FROM pairs WINDOW beside AS (PARTITION BY key, from_partition ORDER BY partition, at_offset)
)
"""


def by_semel(bootstrap: str) -> None:
    from semel.audit.run import AuditPlan, audit
    from semel.client.blocking import Cluster

    with Cluster(bootstrap) as cluster:
        report = audit(cluster, AuditPlan(input_topic="in", output_topic="out"))
    if not report.holds:
        raise SystemExit("\n".join(report.as_lines()))


def by_duckdb(folder: str) -> None:
    import duckdb

    own = Path(folder) / "duckdb"
    own.mkdir()
    settings = {
        "memory_limit": MEMORY,
        "temp_directory": str(own / "spilled"),
        "preserve_insertion_order": "false",
    }
    with duckdb.connect(str(own / "rows.duckdb"), config=settings) as database:
        for view, topic in (("source", "in"), ("output", "out")):
            database.execute(f"CREATE VIEW {view} AS FROM read_parquet('{Path(folder) / topic}.parquet')")
        database.execute(COMPARISON)
        if any(database.execute(VERDICT).fetchone() or (1,)):
            raise SystemExit("the comparison found what is not there")


def main() -> None:
    who, where = sys.argv[1:]
    began_s = time.monotonic()
    (by_semel if who == "semel" else by_duckdb)(where)
    took_s = time.monotonic() - began_s
    status = Path("/proc/self/status").read_text()  # rusage would have the process that began this one in it
    memory_mb = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"took_s": took_s, "memory_mb": memory_mb}))


if __name__ == "__main__":
    main()
