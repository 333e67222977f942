# make setup | demo | check | test | thorough | bench. Everything lives in .venv/ and .cache/; nothing needs root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup check test thorough demo bench lint format types contracts unit lock clean

# Where it is set, each of a test run's hundreds of processes would compile every source it imports.
unexport PYTHONDONTWRITEBYTECODE

# Each with its output in one piece (make before 4.0 mixes it).
ALL_AT_ONCE := --no-print-directory --jobs --keep-going $(if $(filter output-sync,$(.FEATURES)),--output-sync)

setup: $(STAMP)

$(STAMP): locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "semel needs Python 3.11 or newer: make PYTHON=python3.12 setup")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

check: setup
	@$(MAKE) $(ALL_AT_ONCE) lint types contracts unit

lint:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format:
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types:
	$(BIN)/mypy

contracts:
	$(BIN)/lint-imports

unit: # on three processes: some wait for servers and for what gives up; each one more imports everything once more
	$(BIN)/python -m pytest -q -n 3 --dist worksteal --hypothesis-profile loop -m "not slow and not thorough and not jvm and not alone and not idle and not kcat"

test: setup
	@$(MAKE) $(ALL_AT_ONCE) lint types contracts
	$(BIN)/python tools/run_tests.py

thorough: setup ## every test, those too that `make test` leaves out of long rows of like ones
	$(BIN)/python tools/run_tests.py --thorough

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
