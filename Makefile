# One word per thing a developer does; CI runs the same words.

PYTHON ?= python3
PORT ?= 5005
WORKERS ?= 2
ASSISTANT ?= examples/bank
AGENT ?=
JOBS ?= 2
SECONDS ?= 60

BIN := .venv/bin
# Touched after each install, so that the next one costs nothing until a version or a dependency changes.
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help install run test chaos bench costs check format clean

help: ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

install: $(READY) ## Make .venv with everything in it

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

run: $(READY) ## Start the example assistant with an embedded Valkey (PORT, WORKERS, ASSISTANT or AGENT)
	$(BIN)/nonstick run $(if $(AGENT),--agent $(AGENT),--assistant $(ASSISTANT)) --workers $(WORKERS) --port $(PORT)

test: $(READY) ## Run all tests (ARGS="-k word" for some)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

chaos: $(READY) ## Break a fleet while it works, and see whether every promise holds (SECONDS, ARGS="--seed 7")
	$(BIN)/nonstick chaos --seconds $(SECONDS) $(ARGS)

bench: $(READY) ## Measure what a turn costs, beside peers and the bare limit (ARGS="--quick --only turns")
	$(BIN)/python -m bench $(ARGS)

costs: $(READY) ## Record what each kind of turn costs in Redis; the tests fail when one costs more
	NONSTICK_RECORD_COSTS=1 $(BIN)/python -m pytest -q tests/costs
	git diff --stat -- tests/costs

check: $(READY) ## Lint, formatting, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what was made, except the data in .nonstick
	rm -rf .venv .venvs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
