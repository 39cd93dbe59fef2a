# Every target makes the environment it needs by itself; only Python 3.11 to 3.13 must exist.
# Variables: VENV (.venv), PYTHON (found), SECONDS (30), MINUTES (10).

# Not from the environment: a shell counts its own SECONDS.
SECONDS := 30
MINUTES := 10
VENV    ?= .venv
# Modules are compiled once, and not again in each of the hundreds of processes that tests start.
export PYTHONDONTWRITEBYTECODE :=

BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
SAY   := @printf '== %s\n'

# Three processes share the tests: two cores are busy while one of them waits for Spark or a server.
# What shares something that is made once stays together; conftest.py says what, and what comes first.
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider
SHARED := -n 3 --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types browser-tests screenshots bench-epoch bench-filters bench-cql bench-joins bench-server soak fuzz torture clean env
.DELETE_ON_ERROR:

help:  ## show this list
	@printf 'make TARGET\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP)  ## a stream, a live view, a crash and its recovery; SECONDS=30
	@$(BIN)/python -m millrace.cli.main demo --seconds $(SECONDS)

check: MARKED := -m 'not spark and not slow'
check test: $(STAMP)
	$(SAY) 'tests, beside style, imports, spelling and types$(if $(MARKED),, (about a quarter of an hour))'
	@$(MAKE) --no-print-directory lint types > $(VENV)/lint.log 2>&1 & lint=$$!; \
	  $(PYTEST) $(SHARED) $(MARKED); tests=$$?; \
	  wait $$lint; linted=$$?; cat $(VENV)/lint.log; exit $$((tests | linted))
	$(SAY) '$@ passed'

check:  ## the quick half: style, types, imports, spelling, tests without Java
test:  ## everything: check, and the tests on Spark, in a browser, and slow ones

lint: $(STAMP)  ## ruff, import contracts, spelling
	$(SAY) 'style'
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo 'run: $(BIN)/ruff format .'; exit 1; }
	$(SAY) 'imports'
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }
	$(SAY) 'spelling'
	@$(BIN)/codespell $$(git ls-files --cached --others --exclude-standard 2>/dev/null || echo .)

types: $(STAMP)  ## mypy, strict
	$(SAY) 'types'
	@$(BIN)/mypy --no-error-summary

browser-tests: $(STAMP)  ## the console in Chromium, which is installed if it is missing
	$(SAY) 'tests in a browser'
	@$(PYTEST) tests/browser

screenshots: $(STAMP)  ## pictures of the console's pages, light and dark, into docs/images
	$(SAY) 'pictures of the console'
	@$(BIN)/python -m millrace.testing.console_pictures docs/images

bench-epoch: $(STAMP)  ## what an epoch costs, against an identity function on plain Spark
	$(SAY) 'epoch benchmark (some minutes)'
	@$(BIN)/python -m bench.epoch

bench-filters: $(STAMP)  ## many standing filters, against plain Spark and NumPy
	$(SAY) 'filter benchmark (about 25 minutes)'
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet \
	  --constraint constraints.txt matplotlib
	@$(BIN)/python -m bench.filters

bench-cql: $(STAMP)  ## windows, joins and aggregates, against Spark's own stateful operators
	$(SAY) 'CQL benchmark (about 30 minutes)'
	@$(BIN)/python -m bench.cql

bench-joins: $(STAMP)  ## many standing joins and aggregates, against one by one; the papers' figures
	$(SAY) 'join benchmark (some minutes)'
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet \
	  --constraint constraints.txt matplotlib
	@$(BIN)/python -m bench.joins

bench-server: $(STAMP)  ## answers, pushed rows, subscribers and lists over HTTP; PSoup's experiments
	$(SAY) 'server benchmark (about 5 minutes)'
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet \
	  --constraint constraints.txt matplotlib
	@$(BIN)/python -m bench.server

soak: $(STAMP)  ## a server under half load, queries that come and go, for MINUTES=10
	$(SAY) 'soak for $(MINUTES) minutes'
	@$(BIN)/python -m bench.soak --minutes $(MINUTES)

fuzz: $(STAMP)  ## property tests with many examples, for MINUTES=10
	$(SAY) 'property tests for $(MINUTES) minutes'
	@HYPOTHESIS_PROFILE=nightly FUZZ_MINUTES=$(MINUTES) \
	  $(BIN)/python -m pytest -q -m 'hypothesis and not spark' --timeout=0

torture: $(STAMP)  ## kill drivers and workers at random, compare results, for MINUTES=10
	$(SAY) 'torture for $(MINUTES) minutes'
	@$(BIN)/python -m millrace.testing.torture --minutes $(MINUTES)

clean:  ## remove caches and build products; the environment in VENV stays
	@rm -rf build dist artifacts spark-warehouse metastore_db derby.log
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

env: $(STAMP)  ## make the environment and nothing else

# A shim (pyenv's, say) may exist without a Python behind it, so each candidate is tried.
$(STAMP): pyproject.toml constraints.txt
	@python=; \
	for each in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
	  if $$each -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	    2>/dev/null; then python=$$each; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'millrace needs Python 3.11, 3.12 or 3.13, with its venv module; none was found on PATH.' >&2; \
	  echo 'Install one, or name it: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; \
	fi; \
	[ -x $(BIN)/python ] || { \
	  printf '== new environment in %s, with %s\n' '$(VENV)' "$$($$python --version)"; \
	  $$python -m venv $(VENV); } || exit 1
	$(SAY) 'installing packages into $(VENV) (minutes the first time: Spark is 400 MB)'
	@PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BUILD_CONSTRAINT=constraints.txt \
	  $(BIN)/python -m pip install --quiet --editable '.[spark,server,dev]' --constraint constraints.txt
	$(SAY) 'compiling kernels, archiving the classes of Spark (a minute, once)'
	@$(BIN)/python -m millrace.cli.main warm
	@touch $@
