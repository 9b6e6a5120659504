# Every target sets itself up in .venv on a fresh machine, and again when the dependencies change.
# Needs: make, bash, Python 3.11 or newer (another one than python3: make PYTHON=/path/to/python).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Whatever is started here keeps what it has compiled: hundreds of processes of the tests would compile it all again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check bench vectors constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## route tasks and a swarm through a stand-in server, then show the receipts and reports
	@$(BIN)/router demo

test: $(READY) ## run the tests, on all cores
	$(BIN)/pytest -q --numprocesses auto --dist worksteal

check: $(READY) ## lint, format, types, import contracts, documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/house/test_docs.py

bench: $(READY) ## run the benchmarks; each checks its answer before it states a time
	@for name in $(basename $(notdir $(wildcard benchmarks/*.py))); do echo "== $$name"; $(BIN)/python -m "benchmarks.$$name"; done

vectors: $(READY) ## price the cases of a file: make vectors FILE=path/to/pricing_vectors.json
	@$(BIN)/python -m pricing.vectors "$(FILE)"

constraints: $(READY) ## write the versions in .venv to constraints.txt
	@$(BIN)/pip freeze --exclude-editable --exclude farebox --disable-pip-version-check | grep -E '^[A-Za-z0-9._-]+==' > constraints.txt

clean: ## remove .venv, caches and built files
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info

$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("farebox needs Python 3.11 or newer; " + sys.executable + " is %d.%d. Try: make PYTHON=python3.11" % v[:2])'
	@echo "setting up .venv: the packages of constraints.txt, about 900 MB on disk, once" >&2
	@"$(PYTHON)" -m venv .venv
	@# Not compiled: most of the packages' modules are never imported, and the others compile when they first are.
	@$(BIN)/pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
