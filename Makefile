# `make demo` shows it, `make test` proves it; both set up what they need in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Each worker collects all tests, which takes a core 17 s; the third computes while others wait.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal
STORE := .toolcrib-demo
# Tests start hundreds of processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo wheel test test-qdrant slow coverage fuzz check format docs bench bench-quick clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "toolcrib needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The pip that comes with Python takes longer than a new one, and compiles on one core. Of the
# packages left out, tests load a part, which is compiled when it is loaded.
UNCOMPILED := /(torch|transformers|sympy|pandas|scipy|sklearn|networkx|nltk|mypy|pip|setuptools)/
$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[test]'
	$(BIN)/python -m compileall -qq -j 0 -x '$(UNCOMPILED)' $(VENV)/lib || true # some files are broken
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-site: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[service,site]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed ## Index the sample registry and answer a handful of queries
	@rm -rf $(STORE)
	@echo "\nIndexing data/registry: 25 servers, every format that toolcrib reads\n"
	@$(BIN)/toolcrib index data/registry data/registry/home_tools.py:TOOLS --store $(STORE)
	@echo "\nAnd now a handful of questions\n"
	@$(BIN)/toolcrib search --batch data/demo-queries.txt -k 3 --store $(STORE)
	@echo "\nTry next:"
	@echo "  $(BIN)/toolcrib search 'pay back a customer' --explain --store $(STORE)"
	@echo "  $(BIN)/toolcrib search 'is anybody on call tonight?' --as openai --store $(STORE)"
	@echo "  $(BIN)/toolcrib index your-tools.json   # MCP, OpenAPI, OpenAI, Anthropic, LangChain, ..."
	@echo "  $(BIN)/toolcrib doctor --store $(STORE)"

wheel: $(VENV)/.installed-test ## Build the wheel, install it into a clean environment, use it
	$(BIN)/python scripts/check_wheel.py

test: check ## Check everything, run all tests but the slow ones
	$(PYTEST) -m 'not slow and not e2e'

slow: $(VENV)/.installed-test ## Run the tests that `make test` leaves out
	$(PYTEST) -m 'slow or e2e' --ignore tests/integrations # loads every framework, has no slow test

test-qdrant: $(VENV)/.installed-test ## Run the tests of servers on URL=http://..., which they empty
	QDRANT_TEST_URL=$(URL) QDRANT_DOUBLE_URL=$(URL) $(BIN)/python -m pytest tests/store \
		tests/test_crib_server.py tests/test_tenants.py tests/router/test_decision_log_db.py

coverage: $(VENV)/.installed-test ## Run every test, and see that 95 % of the branches are
	$(PYTEST) --cov --cov-report=term

fuzz: $(VENV)/.installed-test ## Run the property tests and the loops of kills for longer
	$(BIN)/python -m pytest -m 'hypothesis or fuzz' --hypothesis-profile fuzz

check: $(VENV)/.installed-test ## Format, lint, types, layers, lengths
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --threads
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-test ## Rewrite files as the checks want them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed-site ## Write the reference and typescript/src/schema.ts, build site/
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/typescript_types.py
	$(BIN)/zensical build --clean --strict
	@echo "Look at it: python3 -m http.server --directory site"

bench: $(VENV)/.installed-test ## Measure speed against peers (about an hour)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	$(BIN)/python benchmarks/engines.py --sizes 1000 10000 100000

bench-quick: $(VENV)/.installed-test ## Show the main ratios of speed beside the committed ones
	$(BIN)/python benchmarks/quick.py

clean: ## Remove the environment, the demo's store and caches
	rm -rf $(VENV) $(STORE) site .cache .pytest_cache .ruff_cache .hypothesis .coverage
