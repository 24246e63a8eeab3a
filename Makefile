# Two commands do everything on a fresh machine (Python 3.11, pip, make): `make run`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test studies lint audit bench torture clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

run: $(STAMP)  ## the paper's experiments, small and short: ends with report/report.html
	$(BIN)/mostfw reproduce --quick --out report

test: $(STAMP)  ## all tests
	MOSTFW_QUICK_COMPILE=1 $(BIN)/pytest -n 2 --dist worksteal -m 'not study and not exact and not joint'
	$(BIN)/pytest -n 2 -m 'exact and not study'
	MOSTFW_QUICK_COMPILE=1 $(BIN)/pytest -m 'joint and not study'

studies: $(STAMP)  ## the tests that repeat published figures at their full length
	$(BIN)/pytest -n 2 --dist worksteal -m study

lint: $(STAMP) audit  ## style, types, that rooms import one way only, and known weaknesses
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/basedpyright
	$(BIN)/lint-imports

audit: $(STAMP)  ## known weaknesses of what is installed; offline it says so and goes on
	$(BIN)/python -m benchmarks.audit

bench: $(STAMP)  ## speed against peers and limits, side by side in one run: bench/
	$(BIN)/python -m benchmarks

torture: $(STAMP)  ## runs killed, damaged, starved, interrupted: the table in docs/reliability.md
	$(BIN)/python -m benchmarks.torture

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache
