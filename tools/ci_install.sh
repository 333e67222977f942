#!/usr/bin/env bash
# Install what the tests with real peers need: kcat, a Java runtime, Maven, and through Maven the jars of
# Apache Kafka and of Spark's Kafka connector. Idempotent; a machine that has a part is left as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v kcat >/dev/null || missing+=(kcat)
command -v java >/dev/null || missing+=(default-jre-headless)
command -v mvn >/dev/null || missing+=(maven)
if ((${#missing[@]})); then
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" apt-get update -q
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

"${PYTHON:-python3}" tools/fetch_java.py
