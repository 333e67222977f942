"""What a server's ``/metrics`` says now."""

from __future__ import annotations

import urllib.request


def metrics_of(address: str) -> dict[str, float]:
    """Every series, by its name with its labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    series = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in series}
