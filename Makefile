# Every target sets itself up: the first run makes a virtual environment in .venv.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types bench picture clean

demo: $(READY)
	@$(BIN)/harness prompt examples/repository/harness.yaml
	@$(BIN)/python examples/agent/demo.py

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile

picture: $(READY)
	$(BIN)/harness prompt examples/repository/harness.yaml --svg docs/demo.svg

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy
	$(BIN)/basedpyright

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "needs $(PYTHON); or set PYTHON=..."; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
