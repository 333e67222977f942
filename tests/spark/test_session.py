"""Defaults of the session that depend on the machine."""

from __future__ import annotations

from semel.spark.session import _unix_sockets

ENABLED = "spark.python.unix.domain.socket.enabled"


def test_unix_sockets_are_used_where_their_names_fit() -> None:
    assert _unix_sockets("/tmp") == {ENABLED: "true", "spark.python.unix.domain.socket.dir": "/tmp"}
    assert _unix_sockets("/" + 59 * "x")[ENABLED] == "true"
    assert _unix_sockets("/" + 60 * "x") == {ENABLED: "false"}
