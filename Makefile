# Two commands do everything on a fresh machine (Python 3.11, pip, make): `make run`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test studies lint bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

run: $(STAMP)  ## the paper's experiments, small and short: ends with report/report.html
	$(BIN)/mostfw reproduce --quick --out report

test: $(STAMP)  ## all tests
	MOSTFW_QUICK_COMPILE=1 $(BIN)/pytest -n 2 --dist worksteal -m 'not study and not exact'
	$(BIN)/pytest -n 2 -m exact

studies: $(STAMP)  ## the tests that repeat published figures at their full length
	$(BIN)/pytest -n 2 --dist worksteal -m study

lint: $(STAMP)  ## style, types, and that rooms import one way only
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/basedpyright
	$(BIN)/lint-imports

bench: $(STAMP)  ## speed against peers and limits, side by side in one run: bench/
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache
