# Everything a newcomer needs, from a bare Python 3.11 with pip: `make` lists the targets.

PYTHON ?= python3
UV_VERSION := 0.13.7

VENV := .venv
BIN := $(VENV)/bin
CHECKED := $(wildcard src systems tests benchmarks examples)
# One test process more than there are cores, because some wait for processes that they have killed; PYTEST_FLAGS= runs the
# tests one after the other.
PYTEST_FLAGS ?= -n $(shell expr $$(nproc) + 1) --dist worksteal
# The tests of a tutorial share one walk through its page, so that they stay in one process.
DOCS_FLAGS = $(PYTEST_FLAGS:worksteal=loadfile)

# Tests and demos start hundreds of processes: where bytecode is not kept, each of them compiles everything once more.
unexport PYTHONDONTWRITEBYTECODE

# Wheels only, and only those whose hash is in the lock: it is complete, so nothing else is looked for.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SITE_PACKAGES := $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

.PHONY: help setup setup-dev demo test up bench soak lock clean
.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime-ready ## make .venv with everything pinned, so that .venv/bin/holdfast works

setup-dev: $(VENV)/.dev-ready ## add the tools that check the code

demo: setup ## run the story end to end on the embedded engines
	@$(BIN)/holdfast demo

up: setup ## start what is served, print the addresses
	@$(BIN)/holdfast up

bench: setup ## measure, each figure beside its raw floor
	@$(BIN)/holdfast bench

# One part of `make test`: $(call part,name,command). Says what runs, how long it took, and stops at a failure.
part = @printf -- '-- %s\n' '$(1)'; start=$$(date +%s%N); \
	{ $(2) ; } || { printf -- '-- %s: FAILED\n' '$(1)' >&2; exit 1; }; \
	printf -- '-- %s: passed in %s ms\n' '$(1)' $$(( ($$(date +%s%N) - start) / 1000000 ))

test: setup-dev ## check formatting, lint, types, layers, tests and docs
	$(call part,formatting,$(BIN)/ruff format --quiet --check $(CHECKED) || { $(BIN)/ruff format --diff $(CHECKED); false; })
	$(call part,lint,$(BIN)/ruff check --quiet $(CHECKED))
	$(call part,types,$(BIN)/mypy $(CHECKED))
	$(call part,layers and house,$(BIN)/pytest -q tests/house)
	$(call part,tests,$(BIN)/pytest -q $(PYTEST_FLAGS) --ignore=tests/house --ignore=tests/docs tests)
	$(call part,docs,$(BIN)/pytest -q $(DOCS_FLAGS) tests/docs)

soak: setup-dev ## run the fault tests for long: hundreds of kills instead of twenty
	@if [ -d tests/faults ]; then HOLDFAST_SOAK=1 $(BIN)/pytest -q --timeout=7200 tests/faults tests/model && \
	HOLDFAST_SOAK=1 $(BIN)/pytest -q --timeout=7200 -m soak tests/unit tests/contract; \
	else echo 'Nothing to soak yet: tests/faults comes with the engine.'; fi

lock: build/uv-$(UV_VERSION)/bin/uv ## renew locks/ from pyproject.toml
	@mkdir -p locks
	$(UV_COMPILE) --upgrade --override locks/left-out-of-runtime.txt --output-file locks/runtime.txt
	$(UV_COMPILE) --upgrade --group dev --constraint locks/runtime.txt --output-file locks/dev.txt

UV_COMPILE = build/uv-$(UV_VERSION)/bin/uv pip compile pyproject.toml --all-extras --group build --quiet --generate-hashes \
	--only-binary :all: --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	--custom-compile-command 'make lock' --override locks/left-out.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Holdfast needs Python 3.11 or newer, and $(PYTHON) is older or not there.' \
			'Name another one: make PYTHON=python3.12 setup' >&2; exit 1; }
	@[ -x $(BIN)/python ] || { echo 'Making $(VENV)'; $(PYTHON) -m venv $(VENV); }
	@touch $@

$(VENV)/.runtime-ready: $(VENV)/.python locks/runtime.txt pyproject.toml Makefile
	@echo 'Installing what locks/runtime.txt names'
	@$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locks/runtime.txt
	@$(INSTALL) --no-index --no-deps --no-build-isolation --editable .
	@# With two roots an editable install is a hook in the import system, which no type checker follows: name the roots.
	@printf '%s\n' '$(CURDIR)/src' '$(CURDIR)/systems' > "$$($(SITE_PACKAGES))/holdfast-source.pth"
	@touch $@

$(VENV)/.dev-ready: $(VENV)/.runtime-ready locks/dev.txt
	@echo 'Installing what locks/dev.txt names'
	@$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locks/dev.txt
	@touch $@

build/uv-$(UV_VERSION)/bin/uv:
	@$(PYTHON) -m venv build/uv-$(UV_VERSION)
	@build/uv-$(UV_VERSION)/bin/python -m pip install --quiet --only-binary :all: uv==$(UV_VERSION)
