# One-word verbs; each makes the environment it needs.
VENV   ?= .venv
PYTHON ?= python3
BIN     = $(VENV)/bin
.PHONY: setup demo test lint types floors check documents bench soak clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup          ## every kind of job there is, in under a minute
	$(BIN)/python examples/demo.py

test: setup          ## the whole suite, against real servers
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples

types: setup
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

floors: setup        ## imports go down the stairs only
	$(BIN)/lint-imports --no-cache

check: lint types floors

documents: setup     ## writes the tables in the documents anew from the code
	PYTHONPATH=tests $(BIN)/python -m house.generated

bench: setup         ## every figure we claim, beside its limit
	$(BIN)/python -m bench

soak: setup          ## ten minutes of kill -9 under load
	$(BIN)/python -m pytest -q -m soak tests/soak

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
