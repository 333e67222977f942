#!/usr/bin/env bash
# Install what the tests with real peers need: kcat, a Java runtime, Maven, through Maven the jars of Apache
# Kafka and of Spark's Kafka connector, and the older PySpark that semel runs on. Idempotent; a machine that has
# a part is left as it is.
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

older_pyspark=.cache/pyspark-4.2
if ! cmp -s locks/pyspark-4.2.txt "$older_pyspark/lock.txt"; then
  rm -rf "$older_pyspark"
  make --no-print-directory setup # its pip: the machine's Python may come without
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --target "$older_pyspark" -r locks/pyspark-4.2.txt
  cp locks/pyspark-4.2.txt "$older_pyspark/lock.txt"
fi
