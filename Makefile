# Build, demo and test targets. Needs Python 3.11 or newer with pip; `make` lists the targets.

PYTHON ?= python3
UV_VERSION := 0.13.7

VENV := .venv
BIN := $(VENV)/bin
CHECKED := $(wildcard src systems demo tests benchmarks examples tools)
# One test process more than there are cores, because some tests wait for processes that they killed. PYTEST_FLAGS= runs
# the tests one after the other.
PYTEST_FLAGS ?= -n $(shell expr $$(nproc) + 1) --dist worksteal
# Tests of one file share an expensive fixture (a tutorial followed, a data folder filled), so they stay in one process.
BY_FILE_FLAGS = $(PYTEST_FLAGS:worksteal=loadfile)

# The projects of the workspace: the library, the demo and the systems.
PROJECTS := . demo $(patsubst %/,%,$(dir $(wildcard systems/*/pyproject.toml)))

# Tests and demos start hundreds of processes: without cached bytecode, each of them compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

# Wheels only, and only those whose hash is in the lock. The lock is complete, so pip resolves nothing.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup setup-dev demo test up bench soak lock release audit clean
.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime-ready ## create .venv with pinned packages, so that .venv/bin/holdfast works

setup-dev: $(VENV)/.dev-ready ## add the tools for checks and tests

demo: setup ## run every system end to end on the embedded engines
	@$(BIN)/holdfast demo

up: setup ## start the APIs, workers and the DynamoDB endpoint; print the addresses
	@$(BIN)/holdfast up

bench: setup ## run the benchmarks, each figure next to its raw floor
	@$(BIN)/holdfast bench

# One part of `make test`: $(call part,name,command). Prints its name and duration; stops at a failure.
part = @printf -- '-- %s\n' '$(1)'; start=$$(date +%s%N); \
	{ $(2) ; } || { printf -- '-- %s: FAILED\n' '$(1)' >&2; exit 1; }; \
	printf -- '-- %s: passed in %s ms\n' '$(1)' $$(( ($$(date +%s%N) - start) / 1000000 ))

test: setup-dev ## check formatting, lint, types, layers, tests and docs
	$(call part,formatting,$(BIN)/ruff format --quiet --check $(CHECKED) || { $(BIN)/ruff format --diff $(CHECKED); false; })
	$(call part,lint,$(BIN)/ruff check --quiet $(CHECKED))
	$(call part,types,$(BIN)/mypy $(CHECKED))
	$(call part,layers and repository,$(BIN)/pytest -q $(BY_FILE_FLAGS) tests/repo)
	$(call part,tests,$(BIN)/pytest -q $(PYTEST_FLAGS) --ignore=tests/repo --ignore=tests/docs tests)
	$(call part,docs,$(BIN)/pytest -q $(BY_FILE_FLAGS) tests/docs)

soak: setup-dev ## run the fault tests at full size: hundreds of kills instead of twenty
	@HOLDFAST_SOAK=1 $(BIN)/pytest -q --timeout=7200 tests/faults tests/stateful tests/systems/*/faults && \
	HOLDFAST_SOAK=1 $(BIN)/pytest -q --timeout=7200 -m soak tests/unit tests/contract tests/systems

lock: build/uv-$(UV_VERSION)/bin/uv ## update locks/ from pyproject.toml
	@mkdir -p locks
	$(UV_COMPILE) --upgrade --override locks/left-out-of-runtime.txt --output-file locks/runtime.txt
	$(UV_COMPILE) --upgrade --group dev --constraint locks/runtime.txt --output-file locks/dev.txt
	$(UV_COMPILE_GROUPS) --upgrade --group release --constraint locks/dev.txt --output-file locks/release.txt

UV_COMPILE = $(UV_COMPILE_GROUPS) pyproject.toml --all-extras
UV_COMPILE_GROUPS = build/uv-$(UV_VERSION)/bin/uv pip compile --group build --quiet --generate-hashes \
	--only-binary :all: --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	--custom-compile-command 'make lock' --override locks/left-out.txt

release: build/release-tools/.ready ## build the wheels, an SBOM and checksums into dist/, reproducibly
	@build/release-tools/bin/python -m tools.release.build

audit: build/release-tools/.ready ## look up the locked packages in a vulnerability database
	@build/release-tools/bin/python -m tools.release.audit

clean: ## remove everything the other targets created
	rm -rf $(VENV) build dist src/*.egg-info systems/*.egg-info demo/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Holdfast needs Python 3.11 or newer; $(PYTHON) is older or missing.' \
			'Choose another: make PYTHON=python3.12 setup' >&2; exit 1; }
	@[ -x $(BIN)/python ] || { echo 'Creating $(VENV)'; $(PYTHON) -m venv $(VENV); }
	@touch $@

$(VENV)/.runtime-ready: $(VENV)/.python locks/runtime.txt $(PROJECTS:%=%/pyproject.toml) Makefile
	@echo 'Installing the packages of locks/runtime.txt'
	@$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locks/runtime.txt
	@$(INSTALL) --no-index --no-deps --no-build-isolation $(PROJECTS:%=--editable ./%)
	@touch $@
	@echo 'Ready: $(BIN)/holdfast --help'

$(VENV)/.dev-ready: $(VENV)/.runtime-ready locks/dev.txt locks/release.txt
	@echo 'Installing the packages of locks/dev.txt and locks/release.txt'
	@$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locks/dev.txt
	@$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locks/release.txt
	@touch $@

build/release-tools/.ready: locks/release.txt
	@$(PYTHON) -m venv --clear build/release-tools
	@build/release-tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary :all: -r locks/release.txt
	@touch $@

build/uv-$(UV_VERSION)/bin/uv:
	@$(PYTHON) -m venv build/uv-$(UV_VERSION)
	@build/uv-$(UV_VERSION)/bin/python -m pip install --quiet --only-binary :all: uv==$(UV_VERSION)
