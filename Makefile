# Everything is set up by the first verb that needs it; a machine needs only Python >= 3.11 (with venv) and make.

SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
STAMP := .venv/.installed

# The first interpreter that is new enough and can make a virtual environment; PYTHON=... overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

# Added to the verb's own: make test PYTEST='-k levels', make demo DEMO='--jobs 20',
# make torture SEEDS=1000 KILLS=20 JOBS=1000 (KILLS=0: the simulator alone).
PYTEST ?=
DEMO ?=
BENCH ?=
PEERS ?=
PARTS ?=
MINUTES ?=
SEED ?=
SEEDS ?= 10000
FIRST_SEED ?= 0
KILLS ?= 200
JOBS ?= 10000

# Pytest compiles tests in a way of its own: once, and not in each of its processes, also where nothing compiled is to be kept.
COMPILED := .venv/.tests-compiled
unexport PYTHONDONTWRITEBYTECODE

# Scenarios for real nodes; make test-compose ROUGH=my.toml runs another.
ROUGH ?= scenarios/compose-rough.toml scenarios/compose-standby.toml

CORES := $(shell nproc)
# All tests but those of real grids, clusters and browsers.
RULES := $(addprefix --ignore=tests/,e2e real clusters web smoke) tests

.PHONY: help setup demo test smoke soak test-netns test-compose image check docs bench bench-peers torture proto lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|' 2>/dev/null \
		|| grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with hash-pinned dependencies; .venv/bin/diana is the CLI

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "diana: no Python >= 3.11 with venv found; install one, or say make PYTHON=/path/to/python" >&2; exit 2; }
	@echo "diana: setting up .venv (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q diana
	@touch $(STAMP)

# In two halves side by side; a file that cannot be read is told by the tests themselves.
collect = $(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider $(1) >/dev/null 2>&1

$(COMPILED): $(STAMP) $(shell find tests -name '*.py')
	@$(call collect,tests/engine tests/policy tests/sim tests/protocol) & \
	$(call collect,tests --ignore tests/engine --ignore tests/policy --ignore tests/sim --ignore tests/protocol); wait; touch $@

demo: setup ## the main job: five sites on this machine, 200 jobs, one histogram in demo-out/
	$(BIN)/diana demo $(DEMO)

test: setup $(COMPILED) ## the rules: the same tests, seeds and examples each time; six minutes on two cores
	$(BIN)/python -m pytest -n $(CORES) --dist loadfile -m "not wide" $(RULES) $(PYTEST)

smoke: setup ## each real thing once: the demo, small grids, namespaces, Slurm, a browser, faults by seed (root; gets packages from apt)
	$(BIN)/python -m tests.packages processes slurm browser
	$(BIN)/diana demo
	$(BIN)/python -m pytest --reruns 1 --timeout 240 tests/e2e tests/smoke $(PYTEST)
	$(BIN)/diana simulate scenarios/chaos.toml --seeds 20 --first-seed 1 --report faults

soak: setup $(COMPILED) ## all the rest under fresh seeds, past failures, as a table (root): PARTS="real torture" MINUTES=30 SEED=17
	$(BIN)/python -m tests.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(PARTS)

test-netns: setup
	@for file in $(ROUGH); do $(BIN)/diana scenario run $$file --on netns --within 5m || exit; done

test-compose: setup
	@$(with-docker); for file in $(ROUGH); do $(BIN)/diana scenario run $$file --on compose --within 5m || exit; done

image: setup ## the container image of docker-compose.yml, diana:latest; its base is made here where none can be pulled
	@$(BIN)/python -m tests.packages docker
	@$(with-docker); $(BIN)/python -m diana.trial.image

# A dockerd for this recipe's shell, ended with it, unless one answers already.
with-docker = docker version >/dev/null 2>&1 || { \
	dockerd >/tmp/diana-dockerd.log 2>&1 </dev/null & daemon=$$!; trap 'kill $$daemon; wait $$daemon' EXIT; \
	for try in $$(seq 100); do docker version >/dev/null 2>&1 && break; sleep 0.3; done; }

check: setup ## lint, format, types (of tests too), layers, proto compatibility
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m diana.wire.generate --check
	$(BIN)/python -m diana.client.generate --check
	$(BIN)/python -m diana.wire.compat

docs: setup ## the documentation as a site in build/docs, every link checked (to read it: python3 -m http.server -d build/docs)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/web/mkdocs.yml
	$(BIN)/python docs/web/check.py build/docs

bench: setup ## the figures of benchmarks/, beside a calibration of the same run
	$(BIN)/python -m benchmarks.run $(BENCH)

bench-peers: setup ## diana beside xargs, GNU parallel, HyperQueue, Ray, Dask, Parsl, Slurm, AccaSim and SimPy, in turns (root for some; PEERS='xargs ray --quick')
	$(BIN)/python -m benchmarks.bench_peers $(PEERS)

torture: setup ## faults by seed in the simulator, then kills, stops, cuts and a full disk among real processes (root)
	$(BIN)/diana simulate scenarios/chaos.toml --seeds $(SEEDS) --first-seed $(FIRST_SEED) --report faults,coverage
	$(BIN)/diana simulate scenarios/gangs.toml --seeds $$((($(SEEDS) + 2) / 3)) --first-seed $(FIRST_SEED) --report faults
	$(BIN)/diana simulate scenarios/checkpoints.toml --seeds $$((($(SEEDS) + 9) / 10)) --first-seed $(FIRST_SEED) --report faults
	$(BIN)/diana simulate scenarios/making-way.toml --seeds $$((($(SEEDS) + 9) / 10)) --first-seed $(FIRST_SEED) --report faults
	@test $(KILLS) -eq 0 || DIANA_KILLS=$(KILLS) DIANA_JOBS=$(JOBS) $(BIN)/python -m pytest -q -s tests/real/grid/test_chaos.py $(PYTEST)

proto: setup ## write diana/wire/pb from proto/
	$(BIN)/python -m diana.wire.generate

# All that `make` installs, and of it, in the same versions, what a node's image has: no tests, pages or workflow engines.
PIN = $(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: setup ## pin the dependencies anew, with hashes
	$(PIN) --extra calls --extra charts --extra dev --extra docs --extra snakemake --extra top --extra traces --extra urls --output-file requirements.lock pyproject.toml
	sed -i '/^#/d' requirements.lock
	$(PIN) --extra traces --extra urls --build-deps-for wheel --constraint requirements.lock --output-file requirements-node.lock pyproject.toml
	sed -i '/^#/d' requirements-node.lock

clean: ## remove .venv and what tools leave behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build demo-out
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
