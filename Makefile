# `make test` and `make conformance` are what CI runs; each target installs what it needs into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start hundreds of processes, each of which would compile Roost again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long types readable conformance interop format bench bench-placement keep-release release-notes clean
.DEFAULT_GOAL := test

# A newer pip than Python's own installs the rest with less than half the CPU.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Roost needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Making a virtual environment in $(VENV): some 10 s, this once."
	@$(PYTHON) -m venv --upgrade-deps $(VENV)

$(VENV)/.run: pyproject.toml $(BIN)/python
	@echo "Installing Roost there, with a private PostgreSQL and what both need: some 220 MB, about a minute, this once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[standalone]'
	@touch $@

# Packages are compiled as far as tests import them, which pip would not wait for.
$(VENV)/.dev: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $(VENV)/.run $@

$(VENV)/.postgresql: tests/postgres_servers.py $(VENV)/.dev
	@mkdir -p $(VENV)/postgresql
	$(BIN)/python -m tests.postgres_servers $(VENV)/postgresql
	@touch $@

demo: $(VENV)/.run  ## Boot servers over three racks until the addresses run out, and tell the story.
	@$(BIN)/roost demo examples/three-racks.yaml
	@echo "Before that: . $(BIN)/activate"

$(VENV)/.policies: tests/upstream_rules.py $(VENV)/.dev
	$(BIN)/python -m tests.upstream_rules $(VENV)/upstream-policies
	@touch $@

test: $(VENV)/.dev  ## Format, lint, strict types and every test, of long series an eighth, which the commit chooses.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 3 types readable $(VENV)/.postgresql $(VENV)/.policies
	@export SERIES_EACH=8; $(BIN)/python -m pytest -q -n 4 --dist worksteal -m "not long" || { code=$$?; [ $$code = 1 ] || exit $$code; \
		echo "Once more, alone: a test that passes now was disturbed by its neighbours; look into it all the same."; \
		$(BIN)/python -m pytest -n 0 -v --last-failed --last-failed-no-failures none; }

test-long: $(VENV)/.dev $(VENV)/.postgresql $(VENV)/.policies  ## Every test, series whole and the long ones too, with all stories: an hour or two.
	SIMULATION_SEEDS=500 ROOST_SCHEMATHESIS_EXAMPLES=20 ROOST_FUZZ_SEEDS=10 \
		$(BIN)/python -m pytest -q -n 4 --dist worksteal

types: $(VENV)/.dev  ## Strict types.
	$(BIN)/mypy

# Workers of pytest go on past a test file that cannot be read, and say so at the end only.
readable: $(VENV)/.dev  ## Every test file can be read.
	@$(BIN)/python -m pytest -qq --collect-only > $(VENV)/.collected || { cat $(VENV)/.collected; exit 1; }

conformance: $(VENV)/.dev  ## Upstream Placement's own tests against `roost serve placement`.
	$(BIN)/python -m tests.conformance.run -j 2

interop: $(VENV)/.dev  ## A real Nova and Neutron on Roost's Placement; INTEROP_DIR and INTEROP_SRC name them.
	$(BIN)/python -m tests.interop.run

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev  ## Every workload of benchmarks/, as a table.
	$(BIN)/python -m benchmarks

bench-placement: $(VENV)/.dev  ## Roost beside upstream Placement, which UPSTREAM_VENV=DIR has, and by itself.
	@test -n "$(UPSTREAM_VENV)" || { echo "name upstream's virtual environment: UPSTREAM_VENV=DIR" >&2; exit 1; }
	$(BIN)/python -m benchmarks.placement side-by-side --upstream-venv $(UPSTREAM_VENV)
	$(BIN)/python -m benchmarks.placement alone

keep-release: $(VENV)/.dev  ## Keep a release (RELEASE=commit) as what every later commit is an upgrade of.
	$(BIN)/python -m tests.upgrade.kept "$(or $(RELEASE),HEAD)"

release-notes: $(VENV)/.dev  ## What changes/ says of the next release, VERSION=x.y.z; with WRITE=1 into NEWS.md, and changes/ is emptied.
	$(BIN)/towncrier build --version "$(or $(VERSION),next)" $(if $(WRITE),--yes,--draft)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
