# Build, demo and test targets. Needs Python 3.11 or newer with pip; `make` lists the targets.

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := build/uv-$(UV_VERSION)/bin/uv

VENV := .venv
BIN := $(VENV)/bin
CHECKED := $(wildcard src systems demo tests benchmarks examples tools docs/conf.py docs/_extensions)
# Three test processes more than there are cores, because tests wait for the disk, for leases and for processes that they
# killed. PYTEST_FLAGS= runs the tests one after the other.
PYTEST_FLAGS ?= -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3) --dist worksteal

# The projects of the workspace: the library, the demo and the systems.
PROJECTS := . demo $(patsubst %/,%,$(dir $(wildcard systems/*/pyproject.toml)))

# Tests and demos start hundreds of processes: without cached bytecode, each of them compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

# Wheels only, and only those whose hash is in the lock. The lock is complete, so pip resolves nothing.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup setup-dev demo test check-types check-tests up bench docs soak lock check-locks test-pythons release audit clean
.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime-ready ## create .venv with pinned packages, so that .venv/bin/holdfast works

setup-dev: $(VENV)/.dev-ready ## add the tools for checks and tests

demo: setup ## run every system end to end on the embedded engines
	@$(BIN)/holdfast demo

up: setup ## start the APIs, workers and the DynamoDB endpoint; print the addresses
	@$(BIN)/holdfast up

bench: setup ## run the benchmarks, each figure next to its raw floor
	@$(BIN)/holdfast bench

docs: $(VENV)/.docs-ready ## build the documentation as a site with a search, in build/site
	@rm -rf build/site
	@$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --jobs auto --conf-dir docs --doctree-dir build/doctrees . build/site
	@echo 'Open build/site/index.html'

# One part of `make test`: $(call part,name,command). Prints its name and duration; stops at a failure.
part = @printf -- '\n-- %s\n' '$(1)'; start=$$(date +%s); \
	{ $(2) ; } || { printf -- '\n-- %s: FAILED\n' '$(1)' >&2; exit 1; }; \
	printf -- '\n-- %s: passed in %s s\n' '$(1)' $$(( $$(date +%s) - start ))

test: setup-dev ## check formatting, lint, types, layers, tests and docs
	$(call part,formatting,$(BIN)/ruff format --quiet --check $(CHECKED) || { $(BIN)/ruff format --diff $(CHECKED); false; })
	$(call part,lint,$(BIN)/ruff check --quiet $(CHECKED))
	@$(MAKE) --no-print-directory --jobs 2 check-types check-tests

# The type checker uses one core, and the tests often wait.
check-types: setup-dev
	$(call part,types,$(BIN)/mypy $(CHECKED))

# One run for layers, tests and documentation: a folder of tests each, balanced over all processes. They find the
# compiled tests in the cache, which is filled while the type checker has the other core.
check-tests: setup-dev
	$(call part,compiling the tests,$(BIN)/pytest -qq --collect-only tests > $(VENV)/collected.txt || { cat $(VENV)/collected.txt; false; })
	$(call part,tests,$(BIN)/pytest -q $(PYTEST_FLAGS) tests)

soak: setup-dev ## run the fault tests at full size: hundreds of kills instead of twenty
	@HOLDFAST_SOAK=1 $(BIN)/pytest -q --timeout=7200 tests/faults tests/stateful tests/systems/*/faults && \
	HOLDFAST_SOAK=1 $(BIN)/pytest -q --timeout=7200 -m "soak or hypothesis" tests/unit tests/contract tests/corpus tests/systems

# One lock for every platform and Python below: a package that one of them lacks has a marker. Versions stay as they are
# unless a requirement changed; LOCK_FLAGS=--upgrade takes the newest.
LOCKS := runtime dev docs release
LOCKED_PLATFORMS := x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin
LOCKED_PYTHONS := 3.11 3.12 3.13 3.14

lock: $(UV) ## update locks/ from the projects' requirements
	$(UV_COMPILE) --excludes locks/left-out-of-runtime.txt --output-file locks/runtime.txt
	$(UV_COMPILE) --group dev --constraint locks/runtime.txt --output-file locks/dev.txt
	$(UV_COMPILE_GROUPS) --group docs --constraint locks/dev.txt --output-file locks/docs.txt
	$(UV_COMPILE_GROUPS) --group release --constraint locks/dev.txt --output-file locks/release.txt
	@$(MAKE) --no-print-directory check-locks

UV_COMPILE = $(UV_COMPILE_GROUPS) $(PROJECTS:%=%/pyproject.toml) --all-extras
UV_COMPILE_GROUPS = $(UV) pip compile --group build --quiet --generate-hashes --only-binary :all: \
	--universal --fork-strategy fewest --python-version $(firstword $(LOCKED_PYTHONS)) \
	--custom-compile-command 'make lock' --excludes locks/left-out.txt $(LOCK_FLAGS)

# Installs into a folder what `make setup` would install there: a package without a wheel, or with another hash, fails.
check-locks: $(UV) ## install the locks for every platform and Python into a folder, to prove that the wheels exist
	@for lock in $(LOCKS); do for platform in $(LOCKED_PLATFORMS); do for python in $(LOCKED_PYTHONS); do \
		rm -rf build/wheels; \
		found=$$($(UV) pip install --target build/wheels --python-platform $$platform --python-version $$python \
			--no-deps --require-hashes --only-binary :all: -r locks/$$lock.txt 2>&1) || { echo "$$found" >&2; exit 1; }; \
		echo "$$lock.txt on $$platform, Python $$python: $$(ls -d build/wheels/*.dist-info | wc -l) wheels"; \
	done; done; done; rm -rf build/wheels

test-pythons: ## run the unit tests with each Python of this machine, in an environment of its own
	@for python in $(LOCKED_PYTHONS); do \
		python$$python -c '' 2> /dev/null || { echo "Python $$python: skipped, because python$$python does not run here"; continue; }; \
		$(MAKE) --no-print-directory VENV=build/python$$python PYTHON=python$$python setup-dev && \
		build/python$$python/bin/pytest -q $(PYTEST_FLAGS) tests/unit || exit 1; \
	done

release: build/release-tools/.ready ## build the wheels, an SBOM and checksums into dist/, reproducibly
	@build/release-tools/bin/python -m tools.release.build

audit: build/release-tools/.ready ## look up the locked packages in a vulnerability database
	@build/release-tools/bin/python -m tools.release.audit

clean: ## remove everything the other targets created
	find src systems demo tests benchmarks examples tools docs -name __pycache__ -prune -exec rm -rf {} +
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

$(VENV)/.docs-ready: $(VENV)/.runtime-ready locks/docs.txt
	@echo 'Installing the packages of locks/docs.txt'
	@$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locks/docs.txt
	@touch $@

$(UV):
	@$(PYTHON) -m venv build/uv-$(UV_VERSION)
	@build/uv-$(UV_VERSION)/bin/python -m pip install --quiet --only-binary :all: uv==$(UV_VERSION)
