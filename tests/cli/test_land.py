"""``semel land`` as its users run it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.cli.conftest import Command

from semel.land import read_manifest
from semel.local import LocalLog


def landed(table: Path) -> list[tuple[object, ...]]:
    rows = DeltaTable(table).to_pyarrow_table(columns=["user", "_key", "_error"])
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


def test_json_is_landed_in_columns(semel: Command, tmp_path: Path) -> None:
    semel("produce", "clicks", "-K", ":", stdin=b'k:{"user":"ann"}\nk:no json\n')
    table = tmp_path / "clicks"
    arguments = (
        "land",
        "clicks",
        "--to",
        str(table),
        "--value",
        "json",
        "--schema",
        "user string",
        "--until-end",
    )
    done = semel(*arguments)
    assert done.code == 0, done.err
    assert done.out == ""
    assert done.err.splitlines()[-1] == f"semel: 2 rows in 2 commits; {table} has all that was read"
    assert landed(table) == [("ann", b"k", None), (None, b"k", "it is no JSON")]
    assert semel(*arguments).code == 0
    assert len(landed(table)) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--value", "json"], "--value json needs a --schema"),
        (["--schema", "n long"], "--value raw takes no --schema"),
        (["--value", "json", "--schema", "n lng"], "'lng' is no type"),
        (["--value", "avro", "--schema", "nosuch.avsc"], "Avro schema nosuch.avsc: No such file"),
        (["--writer-schema", "1=x"], "--writer-schema is for --value avro"),
        (["--value", "avro", "--schema", "x", "--writer-schema", "a=x"], "an id is a whole number"),
        (["--partition-by", "nosuch"], "--partition-by nosuch: there is no such column"),
        (["--commit-every", "soon"], "--commit-every: 'soon' is no length of time"),
        (["--job", "a/b"], "job 'a/b': a name is"),
        (["--start", "now"], "--start 'now': earliest or latest"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(
    semel: Command, tmp_path: Path, options: list[str], says: str
) -> None:
    semel("topic", "create", "clicks")
    done = semel("land", "clicks", "--to", str(tmp_path / "t"), "--until-end", *options)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert not (tmp_path / "t").exists()


def test_a_folder_elsewhere_is_refused(semel: Command) -> None:
    done = semel("land", "clicks", "--to", "s3://bucket/t", "--until-end")
    assert done.code == 2 and "a folder of this machine" in done.err


def test_losses_stop_it_unless_they_are_accepted(semel: Command, tmp_path: Path) -> None:
    semel("produce", "clicks", stdin=b"a\nb\nc\n")
    arguments = ("land", "clicks", "--to", str(tmp_path / "t"), "--format", "parquet", "--until-end")
    assert semel(*arguments).code == 0
    semel("produce", "clicks", stdin=b"d\ne\n")
    semel("topic", "trim-prefix", "clicks", "-o", "4", "--yes")
    done = semel(*arguments)
    assert done.code == 1
    assert "offsets 3 to 3 of topic 'clicks', partition 0 are gone" in done.err
    done = semel(*arguments, "--accept-loss")
    assert done.code == 0
    assert "lost, and accepted: offsets 3 to 3 of clicks-0" in done.err
    assert read_manifest(tmp_path / "t").rows == 4


@pytest.mark.slow
def test_it_follows_until_it_is_told_to_stop_and_serves_its_progress(
    semel_server: LocalLog, semel: Command, tmp_path: Path
) -> None:
    semel("produce", "clicks", stdin=b"a\nb\n")
    table = tmp_path / "t"
    arguments = ["land", "clicks", "--to", str(table), "--format", "parquet", "--commit-every", "100 ms"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    child = subprocess.Popen(
        [sys.executable, "-m", "semel.cli", *arguments, "--metrics", address, "-b", semel_server.bootstrap],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline_s = time.monotonic() + 60
        while not any(table.glob("_semel/*.json")) or read_manifest(table).rows < 2:
            assert time.monotonic() < deadline_s and child.poll() is None
            time.sleep(0.05)
        page = urllib.request.urlopen(f"http://{address}/metrics").read().decode()
        labels = json.dumps(str(table))
        assert f'semel_land_rows_total{{job="land",table={labels}}} 2.0' in page
        semel("produce", "clicks", stdin=b"c\n")
        time.sleep(0.5)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 0, said
    assert "3 rows in" in said.splitlines()[-1]
    assert read_manifest(table).rows == 3


@pytest.mark.thorough
def test_a_server_that_is_away_at_the_start_is_waited_for(
    semel: Command, semel_server: LocalLog, tmp_path: Path
) -> None:
    semel("produce", "rows", stdin=b"a\n")
    command = [
        sys.executable,
        "-m",
        "semel.cli",
        "land",
        "rows",
        "--to",
        str(tmp_path / "rows"),
        "--until-end",
    ]
    semel_server.stop()
    child = subprocess.Popen(
        [*command, "-b", semel_server.bootstrap], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stderr is not None
        assert "waiting for it, for 60 s at most" in child.stderr.readline()
        semel_server.restart()
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0 and "1 row in" in said


def test_one_that_stays_away_ends_it(
    semel: Command, semel_server: LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.land.run.AWAY_MS_MAX", 0)
    semel_server.stop()
    failed = semel("land", "rows", "--to", str(tmp_path / "rows"))
    assert failed.code == 1 and "is it running?" in failed.err
    assert not (tmp_path / "rows").exists()
