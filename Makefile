# Everything is set up by the first verb that needs it; a machine needs only Python >= 3.11 (with venv) and make.

SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
STAMP := .venv/.installed
DEV := .venv/.dev-installed

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
RELEASE ?=
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
# One more than cores: a third of the time of the rules is waiting for processes and connections.
WORKERS := $(shell expr $(CORES) + 1)
# A test of real processes that fails runs once more, but for a start that came twice.
RERUNS := --reruns 1 --rerun-except doubled
# All tests but those of real grids, clusters and browsers.
RULES := $(addprefix --ignore=tests/,e2e real clusters web smoke) tests

.PHONY: help setup dev demo test smoke soak test-netns test-compose image check docs bench bench-peers torture proto lock release clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|' 2>/dev/null \
		|| grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST)

# A lock is complete: no package is asked what it wants. Two of pip side by side, each with every second package, then all
# processors compile; a package's own tests, and templates that are no Python, stay as they are.
PIP = $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps
install = two=(); for half in 0 1; do \
	$(PIP) --no-compile --require-hashes --requirement <(awk -v half=$$half '/^[a-z]/ { n++ } n % 2 == half' $(1)) & two+=($$!); done; \
	wait $${two[0]}; first=$$?; wait $${two[1]} && test $$first -eq 0 && \
	{ $(BIN)/python -m compileall -qq -j 0 -x /tests/ .venv/lib diana; true; }

setup: $(STAMP) ## make .venv with what diana runs on, hash-pinned; .venv/bin/diana is the CLI

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "diana: no Python >= 3.11 with venv found; install one, or say make PYTHON=/path/to/python" >&2; exit 2; }
	@$(PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || \
		{ echo "diana: $(PYTHON) is no Python >= 3.11 with venv; say make PYTHON=/path/to/one" >&2; exit 2; }
	@echo "diana: setting up .venv (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(call install,requirements.lock)
	@$(PIP) --no-build-isolation --editable .
	@touch $(STAMP)

dev: $(DEV) ## add to .venv what tests, checks and pages need; each verb does so by itself

$(DEV): requirements-dev.lock | $(STAMP)
	@echo "diana: adding to .venv what tests, checks and pages need (once)"
	@$(call install,requirements-dev.lock)
	@touch $(DEV)

# In two halves side by side; a file that cannot be read is told by the tests themselves.
collect = $(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider $(1) >/dev/null 2>&1

$(COMPILED): $(DEV) $(shell find tests -name '*.py')
	@$(call collect,tests/engine tests/policy tests/sim tests/protocol) & \
	$(call collect,tests --ignore tests/engine --ignore tests/policy --ignore tests/sim --ignore tests/protocol); wait; touch $@

demo: setup ## the main job: five sites on this machine, 200 jobs, one histogram in demo-out/
	$(BIN)/diana demo $(DEMO)

test: $(DEV) $(COMPILED) ## the rules: the same tests, seeds and examples each time; seven minutes on two cores
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not wide" $(RULES) $(PYTEST)

smoke: $(DEV) ## each real thing once: the demo, small grids, namespaces, Slurm, a browser, faults by seed (root; gets packages from apt)
	$(BIN)/python -m tests.packages processes slurm browser
	$(BIN)/diana demo
	$(BIN)/python -m pytest -n $(CORES) --dist loadfile $(RERUNS) tests/e2e $(PYTEST)
	$(BIN)/python -m pytest $(RERUNS) --timeout 240 tests/smoke $(PYTEST)
	$(BIN)/diana simulate scenarios/chaos.toml --seeds 20 --first-seed 1 --report faults
	for each in gangs checkpoints making-way; do \
		$(BIN)/diana simulate scenarios/$$each.toml --seeds 4 --first-seed 1 --report faults || exit; done

soak: $(DEV) $(COMPILED) ## long runs under fresh seeds, past failures, as a table (root): PARTS="real torture" MINUTES=30 SEED=17
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

check: $(DEV) ## lint, format, types (of tests too), layers, proto compatibility
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Its processes have three seconds to start, which a busy machine may not give them (exit code 2); then one checks all.
	$(BIN)/mypy -n $(CORES) || { test $$? -eq 2 && $(BIN)/mypy; }
	$(BIN)/lint-imports
	$(BIN)/python -m diana.wire.generate --check
	$(BIN)/python -m diana.client.generate --check
	$(BIN)/python -m diana.wire.compat

docs: $(DEV) ## the documentation as a site in build/docs, every link checked (to read it: python3 -m http.server -d build/docs)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/web/mkdocs.yml
	$(BIN)/python docs/web/check.py build/docs

bench: $(DEV) ## the figures of benchmarks/, beside a calibration of the same run
	$(BIN)/python -m benchmarks.run $(BENCH)

bench-peers: $(DEV) ## diana beside xargs, GNU parallel, HyperQueue, Ray, Dask, Parsl, Slurm, AccaSim and SimPy, in turns (root for some; PEERS='xargs ray --quick')
	$(BIN)/python -m benchmarks.bench_peers $(PEERS)

torture: $(DEV) ## faults by seed in the simulator, then kills, stops, cuts and a full disk among real processes (root)
	$(BIN)/diana simulate scenarios/chaos.toml --seeds $(SEEDS) --first-seed $(FIRST_SEED) --report faults,coverage
	$(BIN)/diana simulate scenarios/gangs.toml --seeds $$((($(SEEDS) + 2) / 3)) --first-seed $(FIRST_SEED) --report faults
	$(BIN)/diana simulate scenarios/checkpoints.toml --seeds $$((($(SEEDS) + 9) / 10)) --first-seed $(FIRST_SEED) --report faults
	$(BIN)/diana simulate scenarios/making-way.toml --seeds $$((($(SEEDS) + 9) / 10)) --first-seed $(FIRST_SEED) --report faults
	@test $(KILLS) -eq 0 || DIANA_SEED=$${DIANA_SEED:-$(FIRST_SEED)} DIANA_KILLS=$(KILLS) DIANA_JOBS=$(JOBS) $(BIN)/python -m pytest -q -s tests/real/grid/test_chaos.py $(PYTEST)

proto: $(DEV) ## write diana/wire/pb from proto/
	$(BIN)/python -m diana.wire.generate

# Locks hold for the oldest Python promised and for each since, with every version's files by hash and no index's name. The index
# is the one pip uses here. make lock UPGRADE= keeps the versions that are there.
UPGRADE ?= --upgrade
PIN = UV_DEFAULT_INDEX="$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}" $(BIN)/uv pip compile --quiet \
	$(UPGRADE) --universal --python-version 3.11.0 --fork-strategy fewest --generate-hashes --no-annotate --no-header
NEEDED_TO_RUN := calls charts top traces urls

lock: $(DEV) ## pin the dependencies anew, with hashes: to run diana, and on top of that to work on it
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(PIN) $(NEEDED_TO_RUN:%=--extra %) --output-file requirements.lock pyproject.toml -
	$(PIN) --all-extras --constraint requirements.lock $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock) \
		--output-file requirements-dev.lock pyproject.toml

release: $(DEV) ## build what users install, twice, and try it on each Python here; dist/ has it then, nothing is uploaded
	$(BIN)/python -m tests.distribution $(RELEASE)

clean: ## remove .venv and what tools leave behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build demo-out
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
