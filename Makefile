# make setup | demo | check | test | thorough | mutants | bench. Everything lives in .venv/ and .cache/; nothing needs root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
KAFKA := .cache/jars/kafka/.pom-sha256

.PHONY: setup check test thorough mutants demo bench format lock clean

# Where it is set, each of a test run's hundreds of processes would compile every source it imports.
unexport PYTHONDONTWRITEBYTECODE

setup: $(STAMP) $(if $(shell command -v mvn),$(KAFKA))

$(STAMP): locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "semel needs Python 3.11 or newer: make PYTHON=python3.12 setup")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python tools/quick_spark.py || echo "Spark starts as slowly as ever: what it starts faster with was not made"
	@touch $@

$(KAFKA): tools/java/kafka/pom.xml
	@$(PYTHON) tools/fetch_java.py kafka && touch $@ || echo "Tests with Apache Kafka are left out: its jars were not fetched"

check: setup ## the loop: lint, format, types, contracts, and the tests that start nothing
	@$(BIN)/python tools/run_tests.py check

test: setup ## check, and every behaviour once with the real parts that are here
	@$(BIN)/python tools/run_tests.py test

thorough: setup ## everything, a part at a time: PART=name for one, PART=report for what is green
	@$(BIN)/python tools/thorough.py $(PART)

mutants: setup ## the seeds at which `make test` looks for planted bugs, found anew
	$(BIN)/semel sim --prove --page docs/proof.md

format:
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

demo: setup
	$(BIN)/semel demo

bench: setup ## with Java and Maven on the machine: Apache Kafka and Spark's connector are the rivals
	$(BIN)/python tools/fetch_java.py
	$(BIN)/python -m bench

lock: setup ## after a change of pyproject.toml: resolve again, with hashes and without addresses
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --extra spark --extra land --group dev pyproject.toml locks/build.in -o locks/dev.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-deps locks/pyspark-4.2.in -o locks/pyspark-4.2.txt

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
