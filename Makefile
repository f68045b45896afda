# cross-backend: everything a developer types. `make` alone runs the main job; `make help` explains.
.DEFAULT_GOAL := demo
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Further arguments for pip. On Linux, to get PyTorch's small CPU build from its own index:
#   make PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_ARGS ?=
TEST_ARGS ?= -n 2 --dist loadgroup
READY := $(VENV)/.ready
KERNELS := src/atalla/libatalla.so

.PHONY: help setup demo kernels test check format bench runner docs clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Create the environment in .venv (2 to 10 minutes, 2 GB; seconds when it is there)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cross-backend needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try make PYTHON=python3.12"; exit 1; }
	@echo "[1/3] creating $(VENV) with $$($(PYTHON) --version) (seconds)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] installing PyTorch (half a minute to some minutes, by your network)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) "$$(grep '^torch==' constraints.txt)"
	@echo "[3/3] installing the runtimes and tools (one to some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[all,dev]'
	@touch $@
	@echo "ready: $(BIN)/cross-backend"

demo: $(READY) ## Set up and run the main job: two models on five runtimes, verified and ranked (the default)
	@$(BIN)/cross-backend compare linear_regression mobilenet_v3_small

$(KERNELS): $(READY) src/atalla/build.py $(wildcard src/atalla/csrc/*.[ch] src/atalla/csrc/kernels/*.h)
	$(BIN)/python -m atalla.build

kernels: $(KERNELS) ## Build Atalla's C kernels again after a change (seconds; setup builds them, too)

test: $(READY) $(KERNELS) ## Run all tests (three quarters of an hour on two cores)
	$(BIN)/python -m pytest $(TEST_ARGS)

check: $(READY) ## Lint, types, layers, formats, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@files=$$(git ls-files '*.c' '*.h' '*.cpp' '*.hpp'); if [ -n "$$files" ]; then $(BIN)/clang-format --dry-run --Werror $$files; else echo "clang-format: no C or C++ files yet"; fi
	$(BIN)/python docs/generate.py --check

format: $(READY) ## Put all files into the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@files=$$(git ls-files '*.c' '*.h' '*.cpp' '*.hpp'); if [ -n "$$files" ]; then $(BIN)/clang-format -i $$files; fi

bench: $(READY) runner ## Print the tables behind our claims about speed (some minutes; keep the machine quiet)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

runner: $(READY) ## Build the C++ runner, runner/build/cross_backend_runner (CMake, a C++17 compiler, libssl-dev; seconds)
	PYTHON=$(BIN)/python runner/build.sh

docs: $(READY) ## Write the generated pages of docs/
	$(BIN)/python docs/generate.py

clean: ## Delete the environment and build output; the cache stays
	rm -f src/atalla/libatalla.*
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
